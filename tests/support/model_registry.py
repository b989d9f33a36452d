"""A small system in memory, and sources of it that declare every capability."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from mlcat_ingest.core.findings import Finding, RequestSide
from mlcat_ingest.errors import RecordError, SourceUnavailableError
from mlcat_ingest.links.index import FeatureIndex
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.metadata.reserved import SOURCE_KEY
from mlcat_ingest.sources.base import (
    Capability,
    Changes,
    ComingTable,
    FeaturesOnly,
    Finished,
    Missing,
    Page,
    Partition,
    ReadRequest,
    RecordVersion,
    Remainder,
    Runs,
    Shard,
    Shards,
    Source,
    SourceRecord,
    Unlisted,
)
from support.fakes import group_urn, model_urn

KEY = "registry:here:default"
PARTITION = Partition(KEY, "", {"model": model_urn("0")}, "")


@dataclass(frozen=True)
class ModelRecord(SourceRecord):
    group: str
    name: str
    text: str
    changed_at: int = 0
    listed_only: bool = False

    @property
    def record_version(self) -> RecordVersion | None:
        return RecordVersion("model", self.name, self.text)


@dataclass(frozen=True)
class GroupRecord(SourceRecord):
    name: str


@dataclass
class Registry:
    """Models by name, each in a group; a change is later than all before it."""

    models: dict[str, ModelRecord] = field(default_factory=dict)
    now: int = 0
    answers: bool = True

    def put(self, group: str, name: str, text: str) -> None:
        self.now += 1
        self.models[name] = ModelRecord(group, name, text, self.now)


def filled() -> Registry:
    registry = Registry()
    for group, name in (("churn", "a"), ("churn", "b"), ("fraud", "c"), ("fraud", "d")):
        registry.put(group, name, f"about {name}")
    return registry


class RegistrySource(Source[ModelRecord | GroupRecord], RequestSide):
    capabilities: ClassVar = frozenset({Capability.MISSING, Capability.SHARDS, Capability.RUNS})
    partition: ClassVar = PARTITION

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.requests = 0
        self.traffic = self

    def _models(self) -> list[ModelRecord]:
        self.requests += 1
        if not self.registry.answers:
            raise SourceUnavailableError("the registry does not answer")
        return list(self.registry.models.values())

    def _groups(self) -> list[str]:
        return sorted({one.group for one in self._models()})

    def read(self, request: ReadRequest) -> Iterator[Page[ModelRecord | GroupRecord] | Finished]:
        scope = request.scope
        if isinstance(scope, Shards):
            yield Page([one for one in self._models() if one.group in scope.keys])
            return
        partition = request.state.partition(self.partition)
        if isinstance(scope, Runs):
            named = [one for one in self._models() if one.name in scope.ids]
            yield Page(named)
            yield Finished(partition, found_ids={one.name for one in named})
            return
        checkpoint, since = {"at": self.registry.now}, -1
        if isinstance(scope, Changes) and partition.checkpoint is not None:
            since = int(str(partition.checkpoint["at"]))
        groups = self._groups()
        yield Page([GroupRecord(name) for name in groups], partition)
        for group in groups:
            models = [one for one in self._models() if one.group == group]
            yield Page(
                [self._listed(one, scope) for one in models if one.changed_at > since], partition
            )
        yield Finished(partition, checkpoint, complete=since < 0)

    def _listed(self, model: ModelRecord, scope: object) -> ModelRecord:
        if not isinstance(scope, Remainder):
            return model
        return ModelRecord(model.group, model.name, model.text, model.changed_at, listed_only=True)

    def map(self, record: ModelRecord | GroupRecord) -> Iterable[Entity]:
        own = {SOURCE_KEY: self.partition.key}
        if isinstance(record, GroupRecord):
            urn = group_urn(record.name)
            return [Entity(urn, {"mlModelGroupProperties": {"customProperties": own}})]
        urn = model_urn(record.name)
        if record.listed_only:
            return [Entity(urn, {})]
        if not record.text:
            raise RecordError("it has no text", record_ref=record.name)
        groups = [group_urn(record.group)]
        properties = {"description": record.text, "groups": groups, "customProperties": own}
        tag = Entity(
            f"urn:li:tag:{record.name}",
            {"tagProperties": {"name": record.name}},
            only_if_absent=True,
        )
        return [tag, Entity(urn, {"mlModelProperties": properties})]

    def missing(self, partition: str, unlisted: Sequence[Unlisted]) -> Iterable[Missing]:
        del partition
        there = {model_urn(one.name) for one in self._models()}
        there |= {group_urn(name) for name in self._groups()}
        for one in unlisted:
            if one.urn not in there:
                yield Missing(one.urn, lambda: True)

    def shards(self) -> Iterator[Shard]:
        models = self._models()
        for name in self._groups():
            yield Shard(name, name, sum(one.group == name for one in models))

    def check(self) -> Iterator[Finding]:
        yield Finding("the registry", "ok", f"{len(self._models())} models")

    def requests_made(self) -> int:
        return self.requests

    def close(self) -> None:
        """Nothing is open."""


@dataclass(frozen=True)
class TableRecord(SourceRecord):
    name: str


class TableSource(Source[TableRecord]):
    capabilities: ClassVar = frozenset({Capability.FEATURES})
    tables: ClassVar[Sequence[str]] = ("users", "orders")

    def read(self, request: ReadRequest) -> Iterator[Page[TableRecord] | Finished]:
        if isinstance(request.scope, FeaturesOnly):
            yield Finished(index=FeatureIndex())
            return
        partition = request.state.partition(PARTITION)
        yield Page([TableRecord(name) for name in self.tables], partition)
        yield Finished(partition, {}, complete=True, index=FeatureIndex())

    def map(self, record: TableRecord) -> Iterable[Entity]:
        properties = {"customProperties": {SOURCE_KEY: KEY}}
        return [Entity(table_urn(record.name), {"mlFeatureTableProperties": properties})]

    def coming_tables(self) -> Iterator[ComingTable]:
        for name in self.tables:
            yield ComingTable(table_urn(name), name, KEY)

    def close(self) -> None:
        """Nothing is open."""


def table_urn(name: str) -> str:
    return f"urn:li:mlFeatureTable:(urn:li:dataPlatform:registry,{name})"
