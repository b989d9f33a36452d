"""The simulated catalog and source: each request is a step, and meets the faults of its seed."""

import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from mlcat_ingest.client.base import (
    Catalog,
    CatalogFacts,
    Evaluates,
    NoEvaluation,
    Searches,
    SourceEntities,
    StoredEntity,
)
from mlcat_ingest.core.findings import Finding
from mlcat_ingest.errors import (
    AspectRejectedError,
    CatalogUnavailableError,
    SourceUnavailableError,
)
from mlcat_ingest.metadata.proposal import Aspect, Proposal
from mlcat_ingest.metadata.registry import ENTITY_TYPES
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.sources.mlflow.read.reader import MlflowObject
from mlcat_ingest.testing.recording import NO_RUN
from simulation.scheduler import Process, Scheduler, current
from support.fake_mlflow import FakeReader, ItemT
from support.versioning import VersioningSink

ADDRESS = "fake://simulated"


@dataclass
class Faults:
    """How likely each fault is at a request, as a seed draws it; `refused` URNs are not taken."""

    unanswered: float = 0.0
    """The request is not heard, and the client has given up."""
    reply_lost: float = 0.0
    """The write takes effect, and is sent again since its reply is lost."""
    never_acknowledged: float = 0.0
    """The write takes effect, and the client gives up before it hears of that."""
    cut_short: float = 0.0
    """A part of the write takes effect before the request fails."""
    not_indexed: float = 0.0
    """Of a write whose reply is lost, the search index never learns: the service was killed."""
    queue_lost: float = 0.0
    """Of entities whose write is acknowledged, the search index never learns."""
    own: random.Random = field(default_factory=random.Random, repr=False)
    source_fails: float = 0.0
    refused: set[str] = field(default_factory=set)

    @classmethod
    def drawn(cls, chance: random.Random) -> Self:
        """Draw which faults there are at all, and how often."""

        def rate(*rates: float) -> float:
            return chance.choice((0.0, 0.0, *rates))

        # A draw of its own, so that each seed keeps what it drew before.
        own = random.Random(repr(chance.getstate()))
        return cls(
            own=own,
            queue_lost=own.choice((0.0, 0.0, 0.0, 0.05, 0.3)),
            unanswered=rate(0.01, 0.05),
            reply_lost=rate(0.1, 0.5),
            never_acknowledged=rate(0.03, 0.1),
            cut_short=rate(0.03, 0.1),
            source_fails=rate(0.01, 0.03),
            not_indexed=rate(0.5, 1.0),
        )

    def clear(self, *, but_replies: bool = False) -> None:
        """Let all go well from now on, but perhaps for replies that are lost."""
        self.unanswered = self.never_acknowledged = self.cut_short = self.source_fails = 0.0
        self.queue_lost = 0.0
        if not but_replies:
            self.reply_lost = 0.0
        self.refused.clear()


@dataclass
class Snapshot:
    """A catalog as it was."""

    stored: dict[str, dict[str, Aspect]]
    versions: dict[tuple[str, str], int]
    history: dict[tuple[str, str], list[Aspect]]
    written: dict[tuple[str, str], tuple[Aspect, Mapping[str, Any]]]


class Storage(VersioningSink):
    """What the simulated catalog holds, for whoever asks.

    The search index never learnt of the aspects in `lost_changes`.
    """

    def __init__(self, *, checks_versions: bool = True) -> None:
        super().__init__(place=ADDRESS, checks_versions=checks_versions)
        self.lost_changes: set[tuple[str, str]] = set()
        self.unqueued: set[str] = set()
        """Entities that were acknowledged, and perhaps in no search since."""

    def put(self, urn: str, aspect: str, value: Aspect) -> None:
        """Store an aspect as a person does, with the time that runs go by, too."""
        metadata = {"runId": NO_RUN, "lastObserved": int(current().now_s * 1000)}
        self._put(urn, aspect, value, metadata)

    def _store(self, urn: str, entity: Sequence[Proposal]) -> None:
        super()._store(urn, entity)
        self.lost_changes.difference_update((urn, one.aspect_name) for one in entity)

    def entities_of_source(
        self, entity_type: str, source: str | None, *, removed: bool = False
    ) -> SourceEntities:
        """Find the entities of a source whose properties the index knows."""
        name = ENTITY_TYPES[entity_type].properties or ""
        self.not_indexed = {urn for urn, aspect in self.lost_changes if aspect == name}
        return super().entities_of_source(entity_type, source, removed=removed)

    def snapshot(self) -> Snapshot:
        return Snapshot(
            {urn: dict(aspects) for urn, aspects in self.stored.items()},
            dict(self.versions),
            {key: list(values) for key, values in (self.history or {}).items()},
            dict(self._written),
        )

    def restore(self, snapshot: Snapshot) -> None:
        self.stored = {urn: dict(aspects) for urn, aspects in snapshot.stored.items()}
        self.versions = dict(snapshot.versions)
        self.history = {key: list(values) for key, values in snapshot.history.items()}
        self._written = dict(snapshot.written)

    def delete(self, urn: str) -> None:
        """Delete an entity for good, with its versions and from the index, as a person can."""
        self.lost_changes = {place for place in self.lost_changes if place[0] != urn}
        for name in self.stored.pop(urn, {}):
            self.versions.pop((urn, name), None)
            (self.history or {}).pop((urn, name), None)


class Client(Catalog, Searches):
    """The simulated catalog as one process sees it."""

    def __init__(
        self,
        storage: Storage,
        faults: Faults,
        scheduler: Scheduler,
        process: Process,
        *,
        remembers: bool,
    ) -> None:
        self._storage = storage
        self._faults = faults
        self._scheduler = scheduler
        self._process = process
        self._remembers = remembers
        self.removed: set[str] = set()
        """The entities that this process has soft-deleted."""

    @property
    def address(self) -> str:
        return ADDRESS

    @property
    def search(self) -> Self:
        return self

    @property
    def evaluator(self) -> Evaluates:
        return NoEvaluation("not simulated")

    @property
    def facts(self) -> CatalogFacts:
        return CatalogFacts(batch_size=12, connections=3, index="current")

    def open(self, *, read_only: bool = False) -> str:
        del read_only
        return "the simulated catalog"

    def check(self, *, write: bool = False) -> Iterator[Finding]:
        del write
        return iter(())

    def close(self, *, complete: bool = True) -> None:
        del complete

    def _ask(self, what: str) -> None:
        self._scheduler.step(what)
        if self._chance(self._faults.unanswered):
            self._fail(f"no answer to {what}")

    def _chance(self, rate: float) -> bool:
        return bool(rate) and self._scheduler.chance.random() < rate

    def _fail(self, why: str) -> None:
        self._scheduler.log(f"FAULT {why}")
        raise CatalogUnavailableError(why)

    def read_many(
        self, urns: Sequence[str], aspects: Collection[str]
    ) -> Mapping[str, StoredEntity]:
        if not urns:
            return {}  # as a client, which sends nothing
        self._ask(f"read {len(urns)}")
        found = self._storage.read_many(urns, aspects)
        self._scheduler.step("read done")
        return found

    def get_aspect(self, urn: str, aspect: str, version: int = 0) -> Aspect | None:
        self._ask(f"read version {version} of {aspect}")
        return self._storage.get_aspect(urn, aspect, version)

    def entities_of_source(
        self, entity_type: str, source: str | None, *, removed: bool = False
    ) -> SourceEntities:
        self._ask(f"search {entity_type}{', removed' if removed else ''}")
        return self._storage.entities_of_source(entity_type, source, removed=removed)

    def members(self, group: str) -> Iterator[list[str]]:
        self._ask(f"members of {group}")
        return self._storage.members(group)

    def datasets_like(self, texts: Sequence[str]) -> Sequence[Sequence[str]]:
        self._ask("search datasets")
        return self._storage.datasets_like(texts)

    def write(self, proposals: Sequence[Proposal]) -> Sequence[AspectRejectedError]:
        names = " ".join(f"{one.entity_urn[11:]}:{one.aspect_name}" for one in proposals)
        self._ask(f"write {names}")
        faults = self._faults
        if self._chance(faults.cut_short):
            urns = list(dict.fromkeys(one.entity_urn for one in proposals))
            some = set(urns[: self._scheduler.chance.randrange(len(urns) + 1)])
            self._take_and_die([one for one in proposals if one.entity_urn in some])
            self._fail("the write was cut short")
        if self._chance(faults.never_acknowledged):
            self._take_and_die(proposals)
            self._fail("the write was not acknowledged")
        if self._chance(faults.reply_lost):
            self._take_and_die(proposals)
            self._scheduler.step("FAULT the reply is lost: sent again")
        refused = self._take(proposals)
        if self._remembers and not refused:
            self._lose_queue(proposals)
        why = f": {refused[0]}" if refused else ""
        self._scheduler.step(f"written, {len(refused)} refused{why}")
        return refused

    def _lose_queue(self, proposals: Sequence[Proposal]) -> None:
        """Let no search find some of the entities whose properties were written."""
        faults = self._faults
        for one in proposals if faults.queue_lost else ():
            is_main = one.aspect_name == ENTITY_TYPES[entity_type_of(one.entity_urn)].properties
            if is_main and faults.own.random() < faults.queue_lost:
                self._scheduler.log(f"FAULT acknowledged, and not indexed: {one.entity_urn}")
                self._storage.lost_changes.add((one.entity_urn, one.aspect_name))
                self._storage.unqueued.add(one.entity_urn)

    def _take_and_die(self, proposals: Sequence[Proposal]) -> None:
        """Store `proposals` as a service that is killed before its index learns of them."""
        before = dict(self._storage.versions)
        refused = {one.urn for one in self._take(proposals)}
        if not self._remembers or not self._chance(self._faults.not_indexed):
            return
        lost = {
            (one.entity_urn, one.aspect_name)
            for one in proposals
            if one.entity_urn not in refused and one.change_type != "DELETE"
        }
        changed = {
            place for place in lost if self._storage.versions.get(place) != before.get(place)
        }
        self._scheduler.log(f"FAULT not indexed: {sorted(changed)}")
        self._storage.lost_changes.update(changed)

    def _take(self, proposals: Sequence[Proposal]) -> Sequence[AspectRejectedError]:
        stored = self._storage.stored
        self._storage.refuse = self._faults.refused
        self._storage.system_metadata = self.system_metadata
        there = [
            one
            for one in proposals
            if one.change_type != "DELETE" or one.aspect_name in stored.get(one.entity_urn, ())
        ]
        live = {urn for urn in stored if not stored[urn].get("status", {}).get("removed")}
        refused = self._storage.write(there)
        if not refused:
            for one in there:
                is_removal = one.aspect_name == "status" and one.aspect.get("removed")
                if is_removal and one.entity_urn in live:
                    self.removed.add(one.entity_urn)
        return refused


@dataclass
class Reader(FakeReader):
    """The simulated server's reader; `process` reads it."""

    scheduler: Scheduler | None = None
    faults: Faults = field(default_factory=Faults)

    def _ask(self, what: str) -> None:
        assert self.scheduler is not None
        self.scheduler.step(f"source: {what}")
        if self.faults.source_fails and self.scheduler.chance.random() < self.faults.source_fails:
            self.scheduler.log(f"FAULT the source does not list {what}")
            raise SourceUnavailableError("the simulated source does not answer")

    def _pages(self, name: str, items: Sequence[ItemT]) -> Iterator[list[ItemT]]:
        for page in super()._pages(name, items):
            self._ask(name)
            yield page

    def assets(self, kind: str) -> None:
        del kind

    def is_gone(self, target: MlflowObject) -> bool:
        self._ask(f"is {target.kind} {target.name} gone")
        return super().is_gone(target)

    def clock_ms(self) -> int:
        assert self.scheduler is not None
        return int(self.scheduler.now_s * 1000)
