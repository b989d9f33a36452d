"""Records of MLflow joined with all that belongs to them, and their fingerprints.

A fingerprint is kept in the state, so that the next pass can tell which records changed.

The source joins listings; the mapping only reads, so that each rule can be tested without I/O.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from operator import attrgetter
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from mlcat_ingest.core.text import whole_characters
from mlcat_ingest.errors import CodecError
from mlcat_ingest.links.index import IndexedTable
from mlcat_ingest.links.rules import FEAST_MODEL_NAME, FEAST_OPERATION, LinkOptions
from mlcat_ingest.metadata.aliases import Sighting
from mlcat_ingest.metadata.codec import canonical, record_hash
from mlcat_ingest.metadata.naming import Name, Naming
from mlcat_ingest.metadata.proposal import Aspect
from mlcat_ingest.metadata.reserved import FEATURES_TAG
from mlcat_ingest.sources.base import RecordVersion
from mlcat_ingest.sources.datasets import Datasets
from mlcat_ingest.sources.mlflow.values.assets import AGENT, ENTITY_TYPES, TOOL, Asset
from mlcat_ingest.sources.mlflow.values.records import (
    EVALUATED_TAG,
    EVALUATION_TYPE,
    HISTORY_TAG,
    RUN_TYPE_TAG,
    UNENDED,
    Column,
    DatasetInput,
    Experiment,
    LoggedModel,
    MeasuredModel,
    Metric,
    ModelDocument,
    ModelVersion,
    RegisteredModel,
    Run,
    aliases_of,
    parent_of,
)
from mlcat_ingest.sources.mlflow.values.uris import UiLinks
from mlcat_ingest.sources.options import Owners

RUN: Final = "run"
EXPERIMENT: Final = "experiment"
REGISTERED: Final = "registered"
VERSION: Final = "version"
PROCESS: Final = "process"
SIGNATURE: Final = "signature"
COLUMN: Final = "column"
LOGGED_MODEL: Final = "logged model"
DATASET: Final = "dataset"

_ID_CHARS: Final = 64
_ASSETS: Final[Mapping[str, str]] = {
    kind: name for name, kind in ENTITY_TYPES.items() if name != TOOL
}


class _RunTrace(NamedTuple):
    """What the next pass has to know of a run.

    The experiment in whose `trash` it is; when it started, if it is `open`, without an end; a
    digest of the `versions` made from it; the parent that it `lacks`, as that was not taken.
    """

    trash: str | None = None
    open_ms: int | None = None
    versions: str = ""
    lacks: str = ""
    has_children: bool = False


NO_TRACE: Final = _RunTrace()


def traces_in(fingerprints: Mapping[str, str]) -> dict[str, _RunTrace]:
    """Return the trace of each run that has one."""
    return {run_id: _RunTrace(*json.loads(text)) for run_id, text in fingerprints.items()}


def experiment_fingerprint(experiment: Experiment) -> str:
    """Return a fingerprint; if it changes, all runs of the experiment are read again."""
    return f"{experiment.lifecycle_stage} {storable(experiment.name)}"


def version_id(version: ModelVersion) -> str:
    """Return the id of a version in the state."""
    return f"{storable(version.name)}/{storable(version.version)}"


def names_fingerprint(versions: Iterable[ModelVersion]) -> str:
    """Return a digest of the versions made from a run, as its model names them."""
    return _digest(
        sorted([version_id(version), version.tags.get(FEATURES_TAG, "")] for version in versions)
    )


def version_fingerprint(version: ModelVersion, model: RegisteredModel | None) -> str:
    """Return a digest of all in a version and its registered model that its entity depends on."""
    return _digest(
        [
            *(version.name, version.version, version.run_id, version.source, version.model_id),
            *(version.stage, version.status, version.description, version.user_id),
            *(version.created_at_ms, version.last_updated_at_ms),
            *(aliases_of(version, model), dict(version.tags)),
            None if model is None else model.description,
            *([version_id(one), one.tags.get(FEATURES_TAG)] for one in [*version.origins()][1:]),
        ]
    )


def _digest(facts: object) -> str:
    try:
        text = canonical(facts)
    except CodecError:
        text = repr(facts).encode("utf-8", "backslashreplace")
    return hashlib.sha256(text).hexdigest()[:16]


def _record_digest(record: object) -> str | None:
    """Return a digest of every field of a record but its scope, None where there can be none.

    Of the registered model of a version it has nothing: `version_fingerprint` has what counts.
    """
    return record_hash(_fields_of(record), _parts_of)


_APART: Final = frozenset({"scope", "registered", "metrics", "sightings"})


def _fields_of(record: object) -> object:
    cls: Any = type(record)
    metrics = getattr(record, "metrics", None)
    return _getter_of(cls)(record), _plain(metrics) if metrics else ()


def _plain(metrics: Sequence[Metric]) -> Sequence[object]:
    """Return metrics by column; values that may not be finite, which JSON lacks, as texts."""
    columns = [*zip(*metrics, strict=True)]
    # One that is not finite makes the sum so.
    if math.isfinite(sum(columns[_VALUE])):
        return columns
    return [*columns, list(map(repr, columns[_VALUE]))]


_VALUE: Final = Metric._fields.index("value")


@cache
def _getter_of(cls: Any) -> Callable[[object], object]:
    return attrgetter(*(field.name for field in fields(cls) if field.name not in _APART))


def _parts_of(value: object) -> object:
    if isinstance(value, tuple):
        return value[:]  # a plain one
    if isinstance(value, ModelDocument):
        # A signature may have numbers that are not finite.
        signature = json.dumps(value.signature, default=dict)
        return value.flavors, value.frameworks, signature, value.size_bytes
    if is_dataclass(value):
        return _fields_of(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(type(value))


def storable(name: str) -> str:
    """Return a name as text that every database takes."""
    return quote(name, safe=" ", errors="surrogatepass")


def is_removed(run: Run, experiment: Experiment | None) -> bool:
    """Return whether MLflow holds a run, or its experiment, in the trash."""
    of_experiment = None if experiment is None else experiment.lifecycle_stage
    return "deleted" in {run.lifecycle_stage, of_experiment}


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
    columns: int = 2_000
    """Columns of one signature that become features."""
    aspect_bytes: int = 4 * 1024 * 1024
    """Bytes of one aspect as JSON in UTF-8; a service takes 16 MB a request, JSON inside JSON.
    Escaped to ASCII it is at most 3.5 times as long, as with accented letters."""


LIMITS: Final = SizeLimits()


@dataclass(frozen=True, slots=True)
class MappingOptions:
    """Options of the mapping that a recipe may set."""

    system_metrics: bool = False
    alias_tags: bool = False
    links: LinkOptions | None = None
    """How models are linked to features; None where they are not."""
    process_instances: bool = False
    datasets: str = "link"


@dataclass(frozen=True, slots=True)
class WorkspaceScope:
    """One workspace of one server: how its things are named and linked.

    The caches hold what is computed from names alone, such as one browse path an experiment.
    """

    naming: Naming
    links: UiLinks
    source_key: str
    options: MappingOptions = MappingOptions()
    owners: Owners = field(default_factory=Owners, compare=False, repr=False)
    datasets: Datasets = field(default_factory=Datasets, compare=False, repr=False)
    limits: SizeLimits = LIMITS
    browse_paths: dict[str | None, Aspect] = field(default_factory=dict, compare=False, repr=False)
    taken: dict[str, str] = field(default_factory=dict, compare=False, repr=False)
    """Whose each URN is that two workspaces can make, as far as those of the server are read."""
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

    def asset(self, kind: str, *names: str) -> Name:
        """Return the name of an asset; of two `names`, that of a tool of an MCP server.

        Raises:
            InvalidUrnError: a name is empty.
        """
        entity_type = TOOL if names[1:] else _ASSETS[kind]
        return self.naming.asset(entity_type, *map(whole_characters, names))

    def _group(self, name: str, *, registered: bool) -> Name:
        key = (name, registered)
        group = self._groups.get(key)
        if group is None:
            build = self.naming.registered_group if registered else self.naming.group
            group = self._groups[key] = build(whole_characters(name))
        return group

    def platform_instance(self) -> dict[str, str] | None:
        """Return the `dataPlatformInstance` aspect, or None where no instance is set."""
        instance = self.naming.instance_urn
        if instance is None:
            return None
        return {"platform": self.naming.platform_urn, "instance": instance}


@dataclass(frozen=True, slots=True)
class JoinedExperiment:
    """An experiment; `namesake` is another one of its name, whose group it shares."""

    scope: WorkspaceScope
    experiment: Experiment
    namesake: str | None = None

    @property
    def record_version(self) -> RecordVersion | None:
        """The fingerprint of the experiment, None where it has no id."""
        experiment = self.experiment
        if not experiment.experiment_id:
            return None
        fingerprint = experiment_fingerprint(experiment)
        digest, id_ = _record_digest(self), experiment.experiment_id
        return RecordVersion(EXPERIMENT, id_, digest, fingerprint, leads=True)


@dataclass(frozen=True, slots=True)
class JoinedRegisteredModel:
    """A registered model and the numbers of all its versions; `sightings` are of its aliases."""

    scope: WorkspaceScope
    model: RegisteredModel
    versions: tuple[str, ...] = ()
    sightings: tuple[Sighting, ...] = ()

    @property
    def record_version(self) -> RecordVersion | None:
        """The id of the registered model; the fingerprint is the same for all."""
        return RecordVersion(
            REGISTERED, storable(self.model.name), _record_digest(self), REGISTERED
        )


@dataclass(frozen=True, slots=True)
class RunFiles:
    """The files that were logged with a run: evidence of features, and `MLmodel` documents by id.

    `cards` are the model cards by model URI, None where none were looked for. `unread` is the
    reason why files could not be read; `skipped` is the id of the first model of a reading whose
    document the recipe does not ask for.
    """

    features_file: str | None = None
    feature_specs: tuple[str, ...] = ()
    documents: Mapping[str, ModelDocument] = field(default_factory=dict)
    cards: Mapping[str, str] | None = None
    unread: str = ""
    skipped: str = ""


NO_FILES: Final = RunFiles()


@dataclass(frozen=True, slots=True)
class JoinedRun:
    """A run, its experiment, every registered version made from it, and the logged models it names.

    `parent_name` is the name of the run that it is a child of, where that is known, and `parent_id`
    its id if the recipe takes it. That it
    `has_children` itself is None where not all runs were looked at. `children` counts those that
    a recipe collapses into this one; None where it does not. A run is `abandoned` if it has not
    ended for longer than the recipe gives it. Of one that is `listed_only` no more is mapped than
    that it is there, or is removed. One that only holds the metrics of external models `measures`
    these.
    """

    scope: WorkspaceScope
    run: Run
    experiment: Experiment | None
    versions: tuple[ModelVersion, ...] = ()
    models: Mapping[str, LoggedModel] = field(default_factory=dict)
    parent_id: str | None = None
    parent_name: str | None = None
    has_children: bool | None = False
    children: int | None = None
    abandoned: bool = False
    files: RunFiles = NO_FILES
    listed_only: bool = False
    measures: tuple[MeasuredModel, ...] = ()

    @property
    def run_id(self) -> str:
        """The id of the run, which names it in messages."""
        return self.run.run_id

    @property
    def record_version(self) -> RecordVersion | None:
        """The trace of the run, None where it has no id."""
        run = self.run
        if not run.run_id:
            return None
        is_open = run.status in UNENDED and not self.abandoned and not self.is_removed
        # Versions that name no run are found by their logged models only where these are read.
        named = [version for version in self.versions if version.run_id]
        trace = _RunTrace(
            trash=run.experiment_id if self.is_removed else None,
            open_ms=run.start_time_ms or 0 if is_open else None,
            versions=names_fingerprint(named) if named else "",
            lacks=(parent_of(run) or "")[:_ID_CHARS] if self.parent_id is None else "",
            has_children=bool(self.has_children),
        )
        fingerprint = json.dumps(trace) if trace != NO_TRACE else ""
        return RecordVersion(RUN, run.run_id, _record_digest(self), fingerprint)

    @property
    def is_removed(self) -> bool:
        """True if MLflow holds the run, or its experiment, in the trash."""
        return is_removed(self.run, self.experiment)

    @property
    def trains_nothing(self) -> bool:
        """True for one of Feast's operations, or a run that only used a model of another run."""
        tags = self.run.tags
        made = self.versions or self._made_models
        return FEAST_OPERATION in tags or (FEAST_MODEL_NAME in tags and not made)

    @property
    def is_evaluation(self) -> bool:
        """True for a run of MLflow's `genai.evaluate`, or one that only evaluated a model.

        MLflow's classic `evaluate` tags the run that it finds, which may be one that trains.
        """
        tags = self.run.tags
        if RUN_TYPE_TAG in tags:
            return tags[RUN_TYPE_TAG] == EVALUATION_TYPE
        return EVALUATED_TAG in tags and not self._made_models

    @property
    def trains_with_no_data(self) -> bool:
        """True if data that was logged without a context is no training data.

        MLflow names a model among the inputs of a run that logs a metric for it.
        """
        return self.is_evaluation or bool(self.run.model_inputs and not self._made_models)

    @property
    def measured_on(self) -> frozenset[tuple[str, str]]:
        """Name and digest of the datasets that the run's own metrics of its logged models name."""
        metrics = (metric for model in self.models.values() for metric in model.metrics)
        return frozenset(
            (metric.dataset_name, metric.dataset_digest or "")
            for metric in metrics
            if metric.dataset_name and metric.run_id in (None, self.run_id)
        )

    def model_of(self, version: ModelVersion) -> LoggedModel | None:
        """Return the listed model that a version was made from: by its id, or its run and name.

        Source: `RunsArtifactRepository` of MLflow 3.17, which takes any of several of one name.
        """
        if version.model_id:
            return self.models.get(version.model_id)
        models = [
            model
            for model in self.models.values()
            if f"runs:/{self.run_id}/{model.name}" == (version.source or "").rstrip("/")
        ]
        return models[0] if len(models) == 1 else None

    @property
    def made_several(self) -> bool:
        """True if the run made several models of MLflow 3."""
        return len({output.model_id for output in self.run.model_outputs}) > 1

    @property
    def _made_models(self) -> bool:
        return bool(self.run.model_outputs) or HISTORY_TAG in self.run.tags


@dataclass(frozen=True, slots=True)
class JoinedVersion:
    """A version of a registered model, with the logged model and the run that it was made from.

    Each of the two is None where the version has none, or where it was not read. `files` are those
    of the run, or of the logged model alone.
    """

    scope: WorkspaceScope
    version: ModelVersion
    registered: RegisteredModel | None = None
    model: LoggedModel | None = None
    run: JoinedRun | None = None
    files: RunFiles = NO_FILES

    @property
    def record_version(self) -> RecordVersion | None:
        """The fingerprints of the version."""
        joined = version_fingerprint(self.version, self.registered)
        name = version_id(self.version)
        digest = _record_digest(self)
        return RecordVersion(VERSION, name, digest, joined_fingerprint=joined, leads=True)


@dataclass(frozen=True, slots=True)
class JoinedSignature:
    """The inputs of models of one name that have one signature, and the table they become.

    `owner` names the models, `columns` are the inputs that have a name. Of one that is
    `listed_only` no more is mapped than that it is there.
    """

    scope: WorkspaceScope
    table: IndexedTable
    owner: str
    columns: Mapping[str, Column]
    listed_only: bool = False

    @property
    def record_version(self) -> RecordVersion | None:
        """The name of the table; what is made of it depends on the catalog, too."""
        return RecordVersion(SIGNATURE, storable(self.table.table))


@dataclass(frozen=True, slots=True)
class JoinedDataset:
    """A dataset of runs, as the newest of them logged it, if one did with a schema.

    `trashed` are the marks of the runs in the trash that logged it.
    """

    scope: WorkspaceScope
    urn: str
    item: DatasetInput
    run_id: str
    start_time_ms: int
    trashed: tuple[str, ...] = ()

    @property
    def described_by(self) -> str:
        """The mark of the run: its start, and its model."""
        return f"{self.start_time_ms:013d} {self.scope.naming.model(self.run_id).urn}"

    @property
    def record_version(self) -> RecordVersion | None:
        """The URN of the dataset."""
        return RecordVersion(DATASET, storable(self.urn), _record_digest(self))


@dataclass(frozen=True, slots=True)
class JoinedLoggedModel:
    """An external model, which no run names as its output, and its experiment."""

    scope: WorkspaceScope
    model: LoggedModel
    experiment: Experiment

    @property
    def record_version(self) -> RecordVersion | None:
        """The id of the model, None where it has none; the fingerprint is the same for all."""
        model_id, digest = self.model.model_id, _record_digest(self)
        return RecordVersion(LOGGED_MODEL, model_id, digest, "external") if model_id else None


@dataclass(frozen=True, slots=True)
class JoinedAsset:
    """An MCP server, a skill or a prompt; the models with the URNs `related` use it."""

    scope: WorkspaceScope
    asset: Asset
    related: tuple[str, ...] = ()

    @property
    def record_version(self) -> RecordVersion | None:
        """The name of the asset; the fingerprint has the models that use it."""
        name = storable(self.asset.name)
        return RecordVersion(self.asset.kind, name, _record_digest(self), "\n".join(self.related))


@dataclass(frozen=True, slots=True)
class JoinedAgent:
    """An agent, and the URNs of what it `uses`, by field of its dependencies, as far as listed.

    What it names beside these is `unknown` to MLflow, or to the recipe.
    """

    scope: WorkspaceScope
    model: LoggedModel
    experiment: Experiment
    uses: Mapping[str, tuple[str, ...]]
    unknown: tuple[str, ...] = ()

    @property
    def record_version(self) -> RecordVersion | None:
        """The id of the model."""
        return RecordVersion(AGENT, self.model.model_id, _record_digest(self))


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """A record of MLflow that cannot be read: its kind, what names it, and why.

    `ids` is empty where the record has no usable id, and name and number for a version.
    """

    kind: str
    ids: tuple[str, ...]
    reason: str

    @property
    def reference(self) -> str:
        """What names the record in messages."""
        kind = "registered model" if self.kind == REGISTERED else self.kind
        return f"{kind} {' '.join(self.ids) or 'without a usable id'}"

    @property
    def record_version(self) -> RecordVersion | None:
        """The id, so that the next pass asks for the record again; None for a logged model.

        A pass cannot ask for one by itself that a run made.
        """
        if not self.ids or self.kind == LOGGED_MODEL:
            return None
        return RecordVersion(self.kind, "/".join(map(storable, self.ids)))


JoinedRecord = (
    JoinedExperiment
    | JoinedRegisteredModel
    | JoinedRun
    | JoinedVersion
    | JoinedSignature
    | JoinedDataset
    | JoinedLoggedModel
    | JoinedAsset
    | JoinedAgent
    | RefusedRecord
)
"""A record that `MlflowSource.read` yields."""
