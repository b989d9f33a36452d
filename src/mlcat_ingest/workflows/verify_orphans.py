"""Orphans: entities of a source that are live in the catalog, and MLflow has no more."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Final

from mlcat_ingest.client.base import Catalog, StoredEntity
from mlcat_ingest.core.text import whole_characters
from mlcat_ingest.metadata.aspects.common import STATUS
from mlcat_ingest.metadata.aspects.ml import ML_MODEL_GROUP_PROPERTIES, ML_MODEL_PROPERTIES
from mlcat_ingest.metadata.naming import Naming
from mlcat_ingest.metadata.reserved import APPLIED_PREFIX, MAX_REQUEST_ITEMS, SOURCE_KEY
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.sources.mlflow.read.listing import chunks
from mlcat_ingest.sources.mlflow.read.reader import IDS_A_LISTING, ModelFilter, Reader, RunFilter
from mlcat_ingest.sources.mlflow.values.records import Experiment, ModelVersion, PropertyKey
from mlcat_ingest.workflows.verify_result import Discrepancy, Kind, VerifyResult

_PROPERTIES: Final[Mapping[str, str]] = {
    "mlModel": ML_MODEL_PROPERTIES,
    "mlModelGroup": ML_MODEL_GROUP_PROPERTIES,
}
"""The types of entities that an MLflow source owns, and their properties aspect."""


class Listing:
    """The URNs of all that MLflow lists in one workspace, as hashes.

    Cost: some 70 bytes a URN.
    """

    def __init__(self, reader: Reader, naming: Naming) -> None:
        """Start empty; `reader` lists the workspace."""
        self.workspace = reader.workspace
        self.experiment_ids: list[str] = []
        self._naming = naming
        self._hashes: set[int] = set()

    def add(self, urn: str) -> None:
        """Add what MLflow lists."""
        self._hashes.add(hash(urn))

    def __contains__(self, urn: str) -> bool:
        """Return whether MLflow lists what has this URN."""
        return hash(urn) in self._hashes

    def add_groups(self, experiments: Iterable[Experiment], models: Iterable[str]) -> None:
        """Add experiments, and registered models by name."""
        for one in experiments:
            self.experiment_ids.append(one.experiment_id)
            self.add(self.group_urn(one))
        for name in models:
            self.add(self._naming.registered_group(whole_characters(name)).urn)

    def add_versions(self, versions: Iterable[ModelVersion]) -> None:
        """Add the versions of registered models."""
        for one in versions:
            self.add(self.version_urn(one))

    def group_urn(self, experiment: Experiment) -> str:
        """Return the URN of an experiment's group."""
        named = experiment.name or experiment.experiment_id
        return self._naming.group(whole_characters(named)).urn

    def model_urn(self, identity: str) -> str:
        """Return the URN of the model of a run, or of an external model, by its id."""
        return self._naming.model(identity).urn

    def version_urn(self, version: ModelVersion) -> str:
        """Return the URN of a version's model."""
        name, number = whole_characters(version.name), whole_characters(version.version)
        return self._naming.version(name, number).urn

    def id_of_model(self, urn: str, custom: Mapping[str, Any], key: PropertyKey) -> str | None:
        """Return the id in a custom property if the URN is made of it, None for another thing."""
        identity = custom.get(key.value)
        is_named_so = bool(identity) and self._naming.model(str(identity)).urn == urn
        return str(identity) if is_named_so else None

    def list_again(self, reader: Reader) -> None:
        """Add the groups and versions that are listed by now: somebody may have made them since."""
        self.experiment_ids.clear()
        self.add_groups(
            (one for page in reader.experiments() for one in page),
            (one.name for page in reader.registered_models() for one in page),
        )
        self.add_versions(one for page in reader.model_versions() for one in page)

    def ask_for(self, reader: Reader, run_ids: Sequence[str], model_ids: Sequence[str]) -> None:
        """Add those of some runs and logged models that MLflow has.

        Cost: a request for each 100.
        """
        for some in chunks(run_ids, IDS_A_LISTING):
            only = RunFilter(run_ids=tuple(some))
            for runs in reader.runs(self.experiment_ids, only=only):
                for run in runs:
                    self.add(self._naming.model(run.run_id).urn)
        for some in chunks(model_ids, IDS_A_LISTING):
            named = ModelFilter(model_ids=tuple(some))
            for models in reader.logged_models(self.experiment_ids, only=named):
                for model in models:
                    self.add(self._naming.model(model.model_id).urn)


class OrphanSearch:
    """Searches the catalog for entities of one source that are orphans.

    Entities that another source or another recipe alone wrote too are left out, as runs leave them.
    """

    def __init__(
        self, catalog: Catalog, result: VerifyResult, listing: Listing, source: str
    ) -> None:
        """Search for entities whose `mlcat.source` names `source`."""
        self._catalog = catalog
        self._result = result
        self._listing = listing
        self._source = source
        self._found = 0

    def look(self, open_again: Callable[[], Reader]) -> None:
        """Add the orphans to the result; each is asked for in MLflow once more before.

        Raises:
            ProtocolMismatchError: the catalog cannot be searched; and what either side raises.

        Cost: one request for each 1,000 entities; for each 200 that MLflow did not list one more,
        and two to MLflow.
        """
        unlisted = self._unlisted_urns()
        first = next(unlisted, None)
        if first is not None:
            self._ask_again(open_again, (first, *unlisted))
        self._result.found = self._found

    def _ask_again(
        self, open_again: Callable[[], Reader], unlisted: Iterable[Sequence[str]]
    ) -> None:
        reader = open_again()
        with closing(reader.connection):
            for here in reader.workspaces():
                if here.workspace == self._listing.workspace:
                    self._listing.list_again(here)
                    for urns in unlisted:
                        self._judge(here, urns)

    def _unlisted_urns(self) -> Iterator[list[str]]:
        """Yield the live entities of the source that MLflow did not list, by type and batch."""
        for entity_type in _PROPERTIES:
            batch: list[str] = []
            for page in self._catalog.search.entities_of_source(entity_type, self._source).pages:
                some = [urn for urn in page if urn not in self._listing]
                self._found += len(page) - len(some)
                batch += some
                while len(batch) >= MAX_REQUEST_ITEMS:
                    yield batch[:MAX_REQUEST_ITEMS]
                    batch = batch[MAX_REQUEST_ITEMS:]
            if batch:
                yield batch

    def _judge(self, reader: Reader, urns: Sequence[str]) -> None:
        """Add those of `urns` that are orphans; a search may show what was removed lately."""
        aspect = _PROPERTIES[entity_type_of(urns[0])]
        stored = self._catalog.read_many(urns, [aspect, STATUS])
        owned: dict[str, Mapping[str, Any]] = {}
        for urn, entity in stored.items():
            custom = _custom(entity, aspect)
            if not _is_removed(entity) and self._is_own(custom):
                owned[urn] = custom
        ids = {
            key: [
                identity
                for urn, custom in owned.items()
                if (identity := self._listing.id_of_model(urn, custom, key))
            ]
            for key in (PropertyKey.RUN_ID, PropertyKey.MODEL_ID)
        }
        self._listing.ask_for(reader, ids[PropertyKey.RUN_ID], ids[PropertyKey.MODEL_ID])
        for urn, custom in owned.items():
            if urn not in self._listing:
                self._report(urn, custom)

    def _is_own(self, custom: Mapping[str, Any]) -> bool:
        """Return whether an entity is of this source and recipe; count it where it is not."""
        writers = {key for key in custom if key.startswith(APPLIED_PREFIX)}
        if custom.get(SOURCE_KEY) != self._source:
            self._result.leave_out("entity", "of another source too")
            return False
        if writers and f"{APPLIED_PREFIX}{self._result.recipe}" not in writers:
            self._result.leave_out("entity", "of another recipe alone")
            return False
        return True

    def _report(self, urn: str, custom: Mapping[str, Any]) -> None:
        kind: Kind = "run"
        if PropertyKey.REGISTERED_MODEL in custom:
            kind = "version" if PropertyKey.VERSION in custom else "registered model"
        elif self._listing.id_of_model(urn, custom, PropertyKey.MODEL_ID):
            kind = "external model"
        elif PropertyKey.RUN_ID not in custom and PropertyKey.EXPERIMENT_ID in custom:
            kind = "experiment"
        is_group = kind in {"experiment", "registered model"}
        if is_group and has_models_of_others(self._catalog, urn, self._source):
            self._result.leave_out(kind, "kept: models of others are in it")
            return
        self._result.add(Discrepancy("orphaned", kind, urn, f"{STATUS}.removed", "true", "false"))


def has_models_of_others(catalog: Catalog, group: str, source: str) -> bool:
    """Return whether live models of others than `source` are in a group, which keep it.

    Cost: one request for each 1,000 models in it, and one for each 200.
    """
    for urns in catalog.search.members(group):
        for entity in catalog.read_many(urns, [ML_MODEL_PROPERTIES, STATUS]).values():
            if ML_MODEL_PROPERTIES not in entity or _is_removed(entity):
                continue
            sources = str(_custom(entity, ML_MODEL_PROPERTIES).get(SOURCE_KEY, "")).split(",")
            is_member = group in (entity[ML_MODEL_PROPERTIES].value.get("groups") or ())
            if source not in sources and is_member:
                return True
    return False


def _is_removed(entity: StoredEntity) -> bool:
    return STATUS in entity and entity[STATUS].value.get("removed") is True


def _custom(entity: StoredEntity, aspect: str) -> Mapping[str, Any]:
    return (entity[aspect].value.get("customProperties") or {}) if aspect in entity else {}
