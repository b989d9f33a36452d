"""Records of MLflow with everything known that belongs to them: what is read, and what is mapped.

The source joins listings; the mapping only reads, so that each rule can be tested without I/O.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mlcat_ingest.core.text import whole_characters
from mlcat_ingest.links.evidence import FEAST_MODEL_NAME, FEAST_OPERATION, LinkOptions
from mlcat_ingest.metadata.naming import Name, Naming
from mlcat_ingest.sources.base import RecordVersion
from mlcat_ingest.sources.datasets import Datasets
from mlcat_ingest.sources.mlflow.values.fingerprints import (
    EXPERIMENT,
    OPEN,
    REGISTERED,
    RUN,
    TRASH,
    VERSION,
    experiment_fingerprint,
    names_fingerprint,
    storable,
    version_fingerprint,
    version_id,
)
from mlcat_ingest.sources.mlflow.values.names import HISTORY_TAG
from mlcat_ingest.sources.mlflow.values.records import (
    UNENDED,
    Experiment,
    LoggedModel,
    ModelVersion,
    RegisteredModel,
    Run,
)
from mlcat_ingest.sources.mlflow.values.ui_links import UiLinks
from mlcat_ingest.sources.owners import Owners


@dataclass(frozen=True, slots=True)
class SizeLimits:
    """Sizes beyond which a record is truncated, with a note in place and one in the report.

    MLflow's SQL stores keep less than most of these; file stores and other servers keep anything.
    """

    name_chars: int = 250
    """Characters of the name of a parameter, metric or custom property."""
    value_chars: int = 8_000
    """Characters of one value, such as a parameter's or a name: 32,000 bytes of UTF-8 at most, so
    that the search index of a DataHub server takes it."""
    description_chars: int = 32_000
    """Characters of a description."""
    params: int = 2_000
    """Parameters of one run."""
    metrics: int = 5_000
    """Metrics of one run."""
    tags: int = 900
    """Tags of one record: with what we add, a DataHub server searches 1,000 custom properties."""
    aspect_bytes: int = 4 * 1024 * 1024
    """Bytes of one aspect as JSON; a service takes 16 MB a request, JSON inside JSON."""


LIMITS: Final = SizeLimits()


@dataclass(frozen=True, slots=True)
class MappingOptions:
    """What a recipe may say about the mapping."""

    system_metrics: bool = False
    alias_tags: bool = False
    links: LinkOptions | None = None
    """How models are linked to features; None where they are not."""


@dataclass(frozen=True, slots=True)
class WorkspaceScope:
    """One workspace of one server: how its things are named and linked.

    The cache holds what is computed from names alone.
    """

    naming: Naming
    links: UiLinks
    source_key: str
    options: MappingOptions = MappingOptions()
    owners: Owners = field(default_factory=Owners, compare=False, repr=False)
    datasets: Datasets = field(default_factory=Datasets, compare=False, repr=False)
    limits: SizeLimits = LIMITS
    _groups: dict[tuple[str, bool], Name] = field(default_factory=dict, compare=False, repr=False)

    def experiment_group(self, experiment: Experiment) -> Name:
        """Return the name of an experiment's group.

        Raises:
            InvalidUrnError: experiment has neither name nor id.
        """
        return self._group(experiment.name or experiment.experiment_id, registered=False)

    def registered_group(self, name: str) -> Name:
        """Return the name of a registered model's group.

        Raises:
            InvalidUrnError: the name is empty.
        """
        return self._group(name, registered=True)

    def _group(self, name: str, *, registered: bool) -> Name:
        key = (name, registered)
        found = self._groups.get(key)
        if found is None:
            build = self.naming.registered_group if registered else self.naming.group
            found = self._groups[key] = build(whole_characters(name))
        return found

    def platform_instance(self) -> dict[str, str] | None:
        """Return the `dataPlatformInstance` aspect, or None where no instance is set."""
        instance = self.naming.instance_urn
        if instance is None:
            return None
        return {"platform": self.naming.platform_urn, "instance": instance}


@dataclass(frozen=True, slots=True)
class JoinedExperiment:
    """An experiment."""

    scope: WorkspaceScope
    experiment: Experiment

    @property
    def record_version(self) -> RecordVersion | None:
        """What to remember of the experiment, None where nothing tells it from others."""
        found = self.experiment
        if not found.experiment_id:
            return None
        fingerprint = experiment_fingerprint(found)
        return RecordVersion(EXPERIMENT, found.experiment_id, fingerprint=fingerprint)


@dataclass(frozen=True, slots=True)
class JoinedRegisteredModel:
    """A registered model and the numbers of all its versions."""

    scope: WorkspaceScope
    model: RegisteredModel
    versions: tuple[str, ...] = ()

    @property
    def record_version(self) -> RecordVersion | None:
        """What to remember of the registered model."""
        return RecordVersion(REGISTERED, storable(self.model.name))


@dataclass(frozen=True, slots=True)
class FeatureFiles:
    """What files that were logged with a run say about its features.

    `columns` are the inputs of its models, None where one has none. `unread` says why files that
    there may be could not be read.
    """

    features_file: str | None = None
    feature_specs: tuple[str, ...] = ()
    columns: frozenset[str] | None = None
    unread: str = ""


NO_FILES: Final = FeatureFiles()


@dataclass(frozen=True, slots=True)
class JoinedRun:
    """A run, its experiment, every registered version made from it, and the logged models it names.

    `children` counts the child runs that a recipe collapses into this one; None where it does not.
    A run is `abandoned` if it has not ended for longer than the recipe gives it. Of one that is
    `listed_only` no more is mapped than that it is there, or is removed.
    """

    scope: WorkspaceScope
    run: Run
    experiment: Experiment | None
    versions: tuple[ModelVersion, ...] = ()
    models: Mapping[str, LoggedModel] = field(default_factory=dict)
    children: int | None = None
    abandoned: bool = False
    files: FeatureFiles = NO_FILES
    listed_only: bool = False

    @property
    def run_id(self) -> str:
        """The id of the run, which names it in messages."""
        return self.run.run_id

    @property
    def record_version(self) -> RecordVersion | None:
        """What to remember of the run, None where nothing tells it from others."""
        run, fingerprint = self.run, ""
        if not run.run_id:
            return None
        if self.is_removed:
            fingerprint = TRASH
        elif run.status in UNENDED and not self.abandoned:
            fingerprint = f"{OPEN}{run.start_time_ms or 0:020d}"
        # Versions that name no run are found by their logged models only where these are read.
        named = [one for one in self.versions if one.run_id]
        joined = names_fingerprint(named) if named else ""
        return RecordVersion(RUN, run.run_id, None, fingerprint, joined)

    @property
    def is_removed(self) -> bool:
        """Whether MLflow holds the run, or its experiment, in the trash."""
        return self.run.lifecycle_stage == "deleted" or (
            self.experiment is not None and self.experiment.lifecycle_stage == "deleted"
        )

    @property
    def trains_nothing(self) -> bool:
        """Whether the run is one of Feast's operations, or only used a model of another run."""
        tags = self.run.tags
        made = self.run.model_outputs or self.versions or HISTORY_TAG in tags
        return FEAST_OPERATION in tags or (FEAST_MODEL_NAME in tags and not made)


@dataclass(frozen=True, slots=True)
class JoinedVersion:
    """A version of a registered model, with the logged model and the run that it was made from.

    Each of the two is None where the version has none, or where it was not read.
    """

    scope: WorkspaceScope
    version: ModelVersion
    registered: RegisteredModel | None = None
    model: LoggedModel | None = None
    run: JoinedRun | None = None

    @property
    def record_version(self) -> RecordVersion | None:
        """What to remember of the version."""
        joined = version_fingerprint(self.version, self.registered)
        return RecordVersion(VERSION, version_id(self.version), joined_fingerprint=joined)


JoinedRecord = JoinedExperiment | JoinedRegisteredModel | JoinedRun | JoinedVersion
"""What `MlflowSource.read` yields."""
