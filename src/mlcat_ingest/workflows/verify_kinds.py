"""Comparison of what an entity is, and where it lies: subtypes, browse paths, parents, processes.

The rules stand here a second time, apart from the mapping, as those of `verify_entities` do.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from mlcat_ingest.client.base import Catalog, StoredEntity
from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.aspects.common import BROWSE_PATHS_V2, STATUS, SUB_TYPES
from mlcat_ingest.metadata.aspects.processes import (
    DATA_PROCESS_INSTANCE_INPUT,
    DATA_PROCESS_INSTANCE_PROPERTIES,
)
from mlcat_ingest.metadata.naming import Naming
from mlcat_ingest.sources.mlflow.values.joined import LIMITS
from mlcat_ingest.sources.mlflow.values.records import (
    EVALUATED_TAG,
    EVALUATION_TYPE,
    HISTORY_TAG,
    PARENT_TAG,
    RUN_TYPE_TAG,
    PropertyKey,
    Run,
    SubType,
    json_or_none,
)
from mlcat_ingest.workflows.verify_entities import CUSTOM, EntityComparison, fit
from mlcat_ingest.workflows.verify_result import Discrepancy, Outcome, VerifyResult

KIND_ASPECTS: Final = (SUB_TYPES, BROWSE_PATHS_V2)

_PATH_SEPARATOR: Final = "␟"
"""DataHub joins the steps of a path with it."""
_KINDS: Final = frozenset(one.value for one in SubType) - {SubType.PARENT_RUN}


class ComparedRun(NamedTuple):
    """A run whose model was compared; one that is not `live` is in MLflow's trash."""

    run: Run
    entity: EntityComparison
    live: bool


class KindComparison:
    """Compares the entities of one workspace.

    Cost: a hash for each run, and the ids of all parents.
    """

    def __init__(self, result: VerifyResult, catalog: Catalog, naming: Naming) -> None:
        """Report to `result`; names are those of `naming`."""
        self._result = result
        self._catalog = catalog
        self._naming = naming
        self._start = [naming.instance_urn] if naming.instance_urn else []
        self._workspace = [naming.workspace] if naming.workspace else []
        self._no_parents: set[int] = set()
        self._parents: set[str] = set()
        self._named: set[str] = set()

    def compare(
        self, urn: str, stored: StoredEntity, *kinds: SubType, folder: str | None = None
    ) -> None:
        """Compare subtypes but that of parents, and the path to the `folder` of an entity."""
        held = _value(stored, SUB_TYPES).get("typeNames") or []
        field = f"{SUB_TYPES}.typeNames"
        for kind in kinds:
            self._result.compared["subtype"] += 1
            if kind not in held:
                found = ", ".join(held) or None
                self._result.add(Discrepancy("missing", "subtype", urn, field, kind.value, found))
        for name in sorted({*held} & _KINDS - {*kinds}):
            self._result.add(Discrepancy("stale", "subtype", urn, field, None, name))
        self._compare_path(urn, stored, [] if folder is None else [folder])

    def _compare_path(self, urn: str, stored: StoredEntity, folder: list[str]) -> None:
        names = (one.replace(_PATH_SEPARATOR, "\ufffd") for one in [*self._workspace, *folder])
        expected = [(one, one) for one in self._start]
        expected += [(fit(one, LIMITS.name_chars), "") for one in names]
        if not expected:
            return  # the catalog chooses the path
        self._result.compared["browse path"] += 1
        steps = _value(stored, BROWSE_PATHS_V2).get("path") or []
        found = [(one.get("id"), one.get("urn") or "") for one in steps]
        if found != expected:
            outcome: Outcome = "stale" if found else "missing"
            field = f"{BROWSE_PATHS_V2}.path"
            paths = expected, found
            wanted, held = (" / ".join(str(step) for step, _ in path) for path in paths)
            self._result.add(Discrepancy(outcome, "browse path", urn, field, wanted, held or None))

    def compare_run(
        self, entity: EntityComparison, stored: StoredEntity, run: Run, folder: str
    ) -> None:
        """Compare the model of a run, and take note whether it is held for a parent."""
        kinds = (SubType.EVALUATION_RUN,) if _is_evaluation(run) else ()
        self.compare(entity.urn, stored, *kinds, folder=folder)
        self._compare_parent(entity, run.tags.get(PARENT_TAG))
        if SubType.PARENT_RUN in (_value(stored, SUB_TYPES).get("typeNames") or []):
            self._parents.add(run.run_id)
        else:
            self._no_parents.add(hash(run.run_id))

    def _compare_parent(self, entity: EntityComparison, parent: str | None) -> None:
        if parent:
            found = entity.custom.get(PropertyKey.PARENT_RUN_ID.value)
            field = f"{CUSTOM}[{PropertyKey.PARENT_RUN_ID}]"
            entity.text_in_list("parent", field, parent, found)
            entity.fact("parent", PropertyKey.PARENT_RUN, self._model_urn(parent))
            return
        for key in PropertyKey.PARENT_RUN_ID, PropertyKey.PARENT_RUN:
            if key.value in entity.custom:
                entity.report("stale", "parent", f"{CUSTOM}[{key}]", None, entity.custom[key.value])

    def add_children(self, runs: Iterable[Run]) -> None:
        """Take note of the parents that runs name, whether or not the recipe reads the runs."""
        self._named.update(parent for run in runs if (parent := run.tags.get(PARENT_TAG)))

    def compare_parents(self, *, complete: bool) -> None:
        """Compare the subtype of parents, after all runs.

        `complete` says that all children were added, so that a run which none names is no parent.
        """
        field, kind = f"{SUB_TYPES}.typeNames", SubType.PARENT_RUN.value
        self._result.compared["subtype"] += len(self._named & self._parents)
        for run_id in sorted(one for one in self._named if hash(one) in self._no_parents):
            self._result.compared["subtype"] += 1
            urn = self._naming.model(run_id).urn
            self._result.add(Discrepancy("missing", "subtype", urn, field, kind, None))
        for run_id in sorted(self._parents - self._named) if complete else ():
            urn = self._naming.model(run_id).urn
            self._result.add(Discrepancy("stale", "subtype", urn, field, None, kind))

    def compare_processes(self, runs: Sequence[ComparedRun]) -> None:
        """Compare the process instances of runs.

        Cost: one request to the catalog.
        """
        urns = [self._naming.process(one.run.run_id) for one in runs]
        aspects = (DATA_PROCESS_INSTANCE_PROPERTIES, DATA_PROCESS_INSTANCE_INPUT, SUB_TYPES, STATUS)
        held = self._catalog.read_many(urns, aspects)
        for urn, one in zip(urns, runs, strict=True):
            self._compare_process(urn, held.get(urn, {}), one)

    def _compare_process(self, urn: str, stored: StoredEntity, compared: ComparedRun) -> None:
        run, model = compared.run, compared.entity
        process = EntityComparison(self._result, urn, DATA_PROCESS_INSTANCE_PROPERTIES, stored)
        if not compared.live:
            if not process.is_hidden("process instance"):
                process.report("stale", "process instance", f"{STATUS}.removed", "true", "false")
            return
        if not process.is_live("process instance", run.run_id):
            return
        process.fact("process instance", PropertyKey.RUN_ID, run.run_id)
        process.fact("process instance", PropertyKey.STATUS, run.status)
        held, kind = _value(stored, SUB_TYPES).get("typeNames") or [], SubType.TRAINING_RUN.value
        if kind not in held:
            field, found = f"{SUB_TYPES}.typeNames", ", ".join(held) or None
            process.report("missing", "subtype", field, kind, found)
        inputs = _value(stored, DATA_PROCESS_INSTANCE_INPUT).get("inputs") or []
        for dataset in dict.fromkeys(_dataset_urns(model)):
            if dataset not in inputs:
                field = f"{DATA_PROCESS_INSTANCE_INPUT}.inputs"
                process.report("missing", "process instance", field, dataset, None)
        if urn not in (model.properties.get("trainingJobs") or []):
            model.report("missing", "process instance", "trainingJobs", urn, None)

    def _model_urn(self, run_id: str) -> str | None:
        try:
            return self._naming.model(run_id).urn
        except InvalidUrnError:
            return None


def _is_evaluation(run: Run) -> bool:
    if RUN_TYPE_TAG in run.tags:
        return run.tags[RUN_TYPE_TAG] == EVALUATION_TYPE
    trains = bool(run.model_outputs) or HISTORY_TAG in run.tags
    return EVALUATED_TAG in run.tags and not trains


def _value(stored: StoredEntity, aspect: str) -> dict[str, Any]:
    return dict(stored[aspect].value) if aspect in stored else {}


def _dataset_urns(model: EntityComparison) -> list[str]:
    """Return the URNs in the list of datasets that the model of a run has."""
    listed = json_or_none(model.custom.get(PropertyKey.DATASETS.value))
    return [one["urn"] for one in listed or () if isinstance(one, dict) and "urn" in one]
