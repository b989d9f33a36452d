"""A reader of MLflow without a server: what a test puts in is listed, and calls are counted."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Self, TypeVar

from mlcat_ingest.core.findings import Finding
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.sources.base import ReadRequest
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.decode import Refusals
from mlcat_ingest.sources.mlflow.read.reader import (
    ALL_MODELS,
    FileLocation,
    MlflowConnection,
    MlflowObject,
    ModelFilter,
    RunFilter,
)
from mlcat_ingest.sources.mlflow.source import MlflowSource
from mlcat_ingest.sources.mlflow.values.joined import (
    JoinedAgent,
    JoinedAsset,
    JoinedDataset,
    JoinedExperiment,
    JoinedLoggedModel,
    JoinedRecord,
    JoinedRegisteredModel,
    JoinedRun,
    JoinedSignature,
    JoinedVersion,
    RefusedRecord,
)
from mlcat_ingest.sources.mlflow.values.records import (
    Experiment,
    LoggedModel,
    ModelVersion,
    RegisteredModel,
    Run,
    parent_of,
)
from support.reading import ALL, records_of

ItemT = TypeVar("ItemT")
ALL_RUNS = RunFilter()


@dataclass
class FakeStore:
    """What one workspace of a server holds."""

    experiments: list[Experiment] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    registered: list[RegisteredModel] = field(default_factory=list)
    versions: list[ModelVersion] = field(default_factory=list)
    models: list[LoggedModel] = field(default_factory=list)
    unreadable: set[tuple[str, str]] = field(default_factory=set)


@dataclass
class FakeReader(MlflowConnection):
    """Lists a `FakeStore` in pages of `page`; `calls` are the listings asked for, in order."""

    stores: dict[str, FakeStore]
    workspace: str = "default"
    page: int = 2
    calls: list[tuple[str, ...]] = field(default_factory=list)
    filters: list[RunFilter] = field(default_factory=list)
    pages: Counter[str] = field(default_factory=Counter)
    closed: int = 0
    now_ms: int = 0
    id: str = "0123456789ab"
    refusals: Refusals = field(default_factory=Refusals)
    lists_parents: bool = False
    """Whether it reads parents and digests of ids at once, as the reader of a database does."""

    @property
    def store(self) -> FakeStore:
        return self.stores[self.workspace]

    def server_id(self) -> str:
        return self.id

    @property
    def connection(self) -> Self:
        return self

    def workspaces(self) -> Sequence[Self]:
        return [
            self if name == self.workspace else replace(self, workspace=name)
            for name in self.stores
        ]

    def _pages(self, name: str, items: Sequence[ItemT]) -> Iterator[list[ItemT]]:
        self.calls.append((self.workspace, name))
        for start in range(0, max(len(items), 1), self.page):
            self.pages[name] += 1
            yield list(items[start : start + self.page])

    def experiments(self) -> Iterator[list[Experiment]]:
        return self._pages("experiments", self.store.experiments)

    def registered_models(self) -> Iterator[list[RegisteredModel]]:
        return self._pages("registered_models", self.store.registered)

    def narrow_registry(self, names: Sequence[str]) -> None:
        """Do nothing: who asks takes what it asked for."""

    def model_versions(self) -> Iterator[list[ModelVersion]]:
        return self._pages("model_versions", self.store.versions)

    def logged_models(
        self, experiment_ids: Sequence[str], *, only: ModelFilter = ALL_MODELS
    ) -> Iterator[list[LoggedModel]]:
        models = self.store.models
        if only.newest_external is not None:
            models = sorted(models, key=lambda model: -(model.created_at_ms or 0))
        found = [
            model
            for model in models
            if model.experiment_id in experiment_ids and only.accepts(model)
        ]
        return self._pages(
            f"logged_models {','.join(experiment_ids)}", found[: only.newest_external]
        )

    def runs(
        self, experiment_ids: Sequence[str], *, only: RunFilter = ALL_RUNS
    ) -> Iterator[list[Run]]:
        self.filters.append(only)
        found = [
            run
            for run in self.store.runs
            if run.experiment_id in experiment_ids
            and (not only.statuses or run.status in only.statuses)
            and (only.since_ms is None or (run.start_time_ms or 0) >= only.since_ms)
            and (only.before_ms is None or (run.start_time_ms or 0) < only.before_ms)
            and (only.ended_since_ms is None or _ended_since(run, only.ended_since_ms))
            and (only.run_ids is None or run.run_id in only.run_ids)
            and (not only.deleted or run.lifecycle_stage == "deleted")
        ]
        return self._pages("runs", found[only.skip :][: only.limit])

    def parents(self, experiment_ids: Sequence[str], *, only: RunFilter) -> set[str] | None:
        if not self.lists_parents:
            return None
        found = FakeReader(self.stores, self.workspace, 10**9)
        pages = found.runs(experiment_ids, only=replace(only, limit=None))
        return {parent for page in pages for run in page if (parent := parent_of(run))}

    def run_digests(
        self, experiment_ids: Sequence[str], before_ms: Sequence[int]
    ) -> list[dict[str, str]] | None:
        if not self.lists_parents:
            return None
        return [
            {
                id_: " ".join(
                    sorted(
                        run.run_id
                        for run in self.store.runs
                        if run.experiment_id == id_ and (run.start_time_ms or 0) < moment
                    )
                )
                for id_ in experiment_ids
            }
            for moment in before_ms
        ]

    def assets(self, kind: str) -> None:
        del kind

    def is_gone(self, target: MlflowObject) -> bool:
        self.calls.append((self.workspace, f"{target.kind} {target.name}"))
        if target.kind == "workspace":
            return target.name not in self.stores
        store = self.store
        held = {
            "run": {(run.run_id, "") for run in store.runs},
            "experiment": {(one.experiment_id, "") for one in store.experiments},
            "registered": {(one.name, "") for one in store.registered},
            "version": {(one.name, one.version) for one in store.versions},
            "logged_model": {(one.model_id, "") for one in store.models},
        }
        return (target.name, target.version) not in held[target.kind] | store.unreadable

    def text_of(self, place: FileLocation, path: str) -> str | None:
        del place, path
        return None

    def clock_ms(self) -> int:
        return self.now_ms

    def requests_made(self) -> int:
        return len(self.calls)

    def check(self) -> Iterator[Finding]:
        yield Finding("the MLflow server", "ok")

    def close(self) -> None:
        self.closed += 1


def _ended_since(run: Run, moment_ms: int) -> bool:
    return run.end_time_ms is not None and run.end_time_ms >= moment_ms


def a_source(reader: FakeReader, **config: object) -> MlflowSource:
    settings = {"tracking_uri": "http://mlflow:5000", **config}
    return MlflowSource(MlflowConfig.model_validate(settings), reader=reader)


def shown(record: JoinedRecord) -> str:
    """Return what a record is, in a few words."""
    match record:
        case JoinedExperiment():
            return f"experiment {record.experiment.name}"
        case JoinedRegisteredModel():
            return f"registered {record.model.name}"
        case JoinedVersion():
            return f"version {record.version.name} {record.version.version}"
        case JoinedLoggedModel():
            return f"logged model {record.model.name}"
        case JoinedRun():
            return f"run {record.run.run_id}"
        case JoinedSignature():
            return f"signature of {record.owner}"
        case JoinedDataset():
            return f"dataset {record.urn}"
        case JoinedAgent():
            return f"agent {record.model.name}"
        case JoinedAsset():
            return f"{record.asset.kind} {record.asset.name}"
        case RefusedRecord():
            return f"refused {record.reference}"


def read_all(source: MlflowSource, request: ReadRequest = ALL) -> list[JoinedRecord]:
    return list(records_of(source, request))


def entities_of(source: MlflowSource, request: ReadRequest = ALL) -> dict[str, Entity]:
    """Return every entity the source says something about, by URN, in the order it says so."""
    return {e.urn: e for record in read_all(source, request) for e in source.map(record)}
