"""The latest version of each version set: the live version with the greatest sort id.

The service compares a version with the latest one that it has stored when the request comes in. One
that is greater becomes the latest: of two in one request, both do. One that is not stays without
`isLatest`, and searches take it for a latest one, unless it says `isLatest: false` itself, which a
proposal may if it creates the entity. So the greatest version of a set goes first, alone of its
set, and all below it any number a request, once that is acknowledged.

The service moves `latest` with a new version only: it stays on a version that is soft-deleted, and
does not return to one that comes back. An upsert of another tool may drop `isLatest` of a version.
When `latest` moves, the service computes `isLatest` of two versions: true for the one that it
enters, false for the one that it leaves.

Source: `VersionPropertiesSideEffect`, `VersionPropertiesValidator`,
`VersionSetPropertiesSideEffect` and `ESUtils` of DataHub.
"""

import logging
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final, NamedTuple

from mlcat_ingest.client.base import CANNOT_ANSWER, StoredEntity
from mlcat_ingest.core.paging import chunks
from mlcat_ingest.errors import NotAuthorizedError
from mlcat_ingest.metadata.aspects import (
    IS_LATEST,
    STATUS,
    VERSION_PROPERTIES,
    VERSION_SET_PROPERTIES,
)
from mlcat_ingest.metadata.proposal import Aspect, Entity, Proposal
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS
from mlcat_ingest.pipeline.context import RunContext
from mlcat_ingest.pipeline.merge.applied import NOTHING
from mlcat_ingest.pipeline.merge.entity import MergedEntity
from mlcat_ingest.pipeline.merge.limits import HEAVIEST, weight_of
from mlcat_ingest.pipeline.merge.proposals import condition, propose
from mlcat_ingest.pipeline.merge.provenance import is_removed, stored_properties
from mlcat_ingest.pipeline.merge.rules import version_set_of
from mlcat_ingest.pipeline.outcome import Outcome
from mlcat_ingest.pipeline.write.delivery import MakeDelivery, must_be_new

log = logging.getLogger(__name__)

MOST_WAITING: Final = MAX_REQUEST_ITEMS
"""Versions that wait for another one of their set, before all are written at once."""

_LATEST = "latest"


class _Version(NamedTuple):
    """A live version, in the order of its set; `is_latest` is what the service computed of it."""

    sort_id: str
    urn: str
    is_latest: object = None


_NO_VERSION = _Version("", "")


@dataclass(slots=True)
class _VersionSet:
    """A version set as a pass saw it.

    Attributes:
        best: its live version with the greatest sort id.
        marked: stored versions whose `isLatest` is not false.
        new: versions that the catalog did not have, and that do not say themselves that they are
            not the latest.
        groups: the groups of versions that were added, left, or changed their order.
        moved: a version was added, left, or changed its order.
        latest: the sort id of the version that the catalog takes for the latest one, empty if it
            has none, None if nobody has asked.
        first: the version that is being written, and may become the latest one.
    """

    best: _Version = _NO_VERSION
    marked: set[str] = field(default_factory=set)
    new: set[str] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    moved: bool = False
    latest: str | None = None
    first: str | None = None

    def to_read(self, latest: str) -> set[str]:
        """Return the versions that decide about the set, whose stored latest is `latest`."""
        if latest in self.new and not self.marked:
            return {self.best.urn, latest} if latest != self.best.urn else set()
        return {self.best.urn, latest, *self.marked, *self.new} - {""}


class LatestVersions:
    """Orders the writes of versions, and moves `latest` at the end where it is not the best.

    Safe to use from several threads, but for `settle`.
    """

    def __init__(self, context: RunContext, make_delivery: MakeDelivery) -> None:
        """Read from the catalog, and write with a delivery of its own."""
        self._context = context
        self._delivery = make_delivery(context, self._merge)
        self._lock = threading.Lock()
        self._sets: defaultdict[str, _VersionSet] = defaultdict(_VersionSet)
        self._expected: dict[str, str] = {}
        self._waiting: dict[str, dict[str, MergedEntity]] = {}
        self._sent: dict[str, MergedEntity] = {}
        # What the report says of versions that may be corrected.
        self._counted: dict[str, str] = {}
        self._takes_is_latest = True

    @property
    def is_crowded(self) -> bool:
        """True if too many versions wait for another one of their set."""
        with self._lock:
            waiting = [one for members in self._waiting.values() for one in members.values()]
        weight = sum(weight_of(version.entity) for version in waiting)
        return len(waiting) > MOST_WAITING or weight > HEAVIEST

    def learn(self, versions: Iterable[MergedEntity]) -> None:
        """Ask for the latest versions of those sets of `versions` of which nothing is known yet.

        Cost: two reads where there is such a set.
        """
        with self._lock:
            unknown = [urn for urn in set(map(_set_of, versions)) if self._sets[urn].latest is None]
        sort_ids: dict[str, str] = {}
        with suppress(NotAuthorizedError):  # `settle` needs to read them, too, and says so
            latest = _latest_in(self._read(unknown, VERSION_SET_PROPERTIES))
            stored = self._read(latest.values(), VERSION_PROPERTIES)
            for urn, version in latest.items():
                if VERSION_PROPERTIES in stored.get(version, NOTHING):
                    sort_ids[urn] = str(stored[version][VERSION_PROPERTIES].value["sortId"])
        with self._lock:
            for urn in unknown:
                version_set = self._sets[urn]
                version_set.latest = max(version_set.latest or "", sort_ids.get(urn, ""))

    def hold(self, versions: Iterable[MergedEntity]) -> None:
        """Take versions that are to be written; `ready` returns each in its turn."""
        with self._lock:
            for version in versions:
                self._waiting.setdefault(_set_of(version), {})[version.urn] = version

    def ready(self) -> list[MergedEntity]:
        """Return the versions that may be written now, in the form in which they are sent."""
        found = []
        with self._lock:
            for urn, waiting in list(self._waiting.items()):
                version_set = self._sets[urn]
                free = [name for name in waiting if self._is_below(version_set, waiting[name])]
                others = waiting.keys() - free
                found += [_below_latest(waiting.pop(name)) for name in free]
                if others and version_set.first is None:
                    # Without `isLatest: false` a version below the latest would be found as one.
                    choose = max if self._takes_is_latest else min
                    version_set.first = choose(others, key=lambda name: _sort_id(waiting[name]))
                    found.append(waiting.pop(version_set.first))
                if not waiting:
                    del self._waiting[urn]
            self._sent.update((version.urn, version) for version in found)
        return found

    def _is_below(self, version_set: _VersionSet, version: MergedEntity) -> bool:
        """Return whether a version is below the latest, and was so before if it is stored."""
        before = version.stored.get(VERSION_PROPERTIES)
        after = _value_after(version, VERSION_PROPERTIES, None) or NOTHING
        stays = self._takes_is_latest if before is None else _place(before.value) == _place(after)
        return stays and _sort_id(version) < (version_set.latest or "")

    def take(self, outcomes: Iterable[Outcome]) -> None:
        """Take note of what became of versions that `ready` returned, among others."""
        with self._lock:
            for outcome in outcomes:
                if outcome.urn in self._counted:
                    self._counted[outcome.urn] = outcome.kind
                sent = self._sent.pop(outcome.urn, None)
                if sent is not None:
                    self._note_sent(self._sets[_set_of(sent)], sent, outcome)

    def _note_sent(self, version_set: _VersionSet, sent: MergedEntity, outcome: Outcome) -> None:
        sort_id = _sort_id(sent)
        if version_set.first == sent.urn:
            version_set.first = None
        if sort_id > (version_set.latest or ""):
            if not outcome.refusals:
                version_set.latest = sort_id
        elif must_be_new(outcome.merged) and not outcome.refusals:
            version_set.new.discard(sent.urn)
        elif sent.urn in version_set.new:
            version_set.marked.add(sent.urn)
            if must_be_new(sent) and outcome.kind == "created":
                self._takes_is_latest = False

    def watch(self, merged: Iterable[MergedEntity]) -> None:
        """Take note of the versions among `merged`, which are about to be written."""
        for entity in merged:
            stored = entity.stored.get(VERSION_PROPERTIES)
            before = None if stored is None else stored.value
            after = _value_after(entity, VERSION_PROPERTIES, before)
            if before or after:
                with self._lock:
                    self._note(entity, before, after)

    def _note(self, merged: MergedEntity, before: Aspect | None, after: Aspect | None) -> None:
        was_removed = is_removed(merged.stored)
        status = _value_after(merged, STATUS, {"removed": was_removed})
        removed = bool((status or NOTHING).get("removed"))
        if before is not None and (after is None or _place(before) != _place(after)):
            self._note_moved(merged, before)
        if after is None or "versionSet" not in after:
            return
        if before is None or removed != was_removed or _place(before) != _place(after):
            self._note_moved(merged, after)
        if removed:
            return
        version_set = self._sets[after["versionSet"]]
        version = _Version(str(after["sortId"]), merged.urn)
        version_set.best = max(version_set.best, version)
        if before is None:
            version_set.new.add(merged.urn)
        elif before.get(IS_LATEST) is not False:
            version_set.marked.add(merged.urn)
        else:
            return
        self._counted[merged.urn] = merged.change

    def _note_moved(self, merged: MergedEntity, version: Aspect) -> None:
        version_set = self._sets[version["versionSet"]]
        version_set.moved = True
        properties = stored_properties(merged.urn, merged.stored) or NOTHING
        version_set.groups.update(properties.get("groups") or ())

    def settle(self) -> None:
        """Correct `latest` and `isLatest` of the sets that need it; all that was noted is written.

        Cost: nothing where each set is as it was; else a read for a batch of sets, one for a batch
        of their versions, a search for each set whose latest version is removed, and a write.
        """
        sets = [
            (urn, version_set)
            for urn, version_set in self._sets.items()
            # Else the service takes the best version for the latest one, and no other.
            if version_set.moved or version_set.marked != {version_set.best.urn}
        ]
        self._sets.clear()
        for batch in chunks(sets, MAX_REQUEST_ITEMS):
            self._settle(dict(batch))
        self._counted = {}

    def _settle(self, sets: Mapping[str, _VersionSet]) -> None:
        stored = self._read(sets, VERSION_SET_PROPERTIES)
        self._expected = _latest_in(stored)
        names = {urn: sets[urn].to_read(now) for urn, now in self._expected.items()}
        stored.update(self._read(chain(*names.values()), VERSION_PROPERTIES, STATUS))
        entities: list[Entity] = []
        for urn, now in self._expected.items():
            live = {*_live(urn, names[urn], stored)}
            if all(version.urn != now for version in live) and now in names[urn]:
                live.update(self._members(urn, sets[urn].groups, stored))
            if live:
                former = stored.get(now, NOTHING).get(VERSION_PROPERTIES)
                sort_id = "" if former is None else str(former.value["sortId"])
                entities += _corrections(urn, now, sort_id, live, sets[urn].new)
        merged = [self._merge(entity, stored.get(entity.urn)) for entity in entities]
        changed = [entity for entity in merged if entity.proposals]
        if changed:
            self._context.ledger.report(self._delivery.deliver(changed), self._counted)

    def _read(self, urns: Iterable[str], *aspects: str) -> dict[str, StoredEntity]:
        wanted = list(dict.fromkeys(urns))
        return dict(self._context.sink.read_many(wanted, aspects))

    def _members(
        self, version_set: str, groups: Iterable[str], stored: dict[str, StoredEntity]
    ) -> Iterator[_Version]:
        """Yield the live versions of a set among the members of `groups`, those of others too.

        What is read of them is added to `stored`.
        """
        try:
            for group in sorted(groups):
                for page in self._context.sink.search.members(group):
                    found = self._read(page, VERSION_PROPERTIES, STATUS)
                    stored.update(found)
                    yield from _live(version_set, found, found)
        except CANNOT_ANSWER as error:
            log.info("other versions in %s cannot be listed: %s", version_set, error)

    def _merge(self, entity: Entity, stored: StoredEntity | None) -> MergedEntity:
        """Return a correction, or no change where it is made, or another writer moved `latest`."""
        [(name, fresh)] = entity.aspects.items()
        before = (stored or NOTHING).get(name)
        expected = self._expected.get(entity.urn)
        if (
            before is None
            or fresh.items() <= before.value.items()
            or (name == VERSION_SET_PROPERTIES and before.value[_LATEST] != expected)
        ):
            return MergedEntity(entity, stored or NOTHING, "unchanged")
        value = {**before.value, **fresh}
        if name == VERSION_PROPERTIES:
            # Only a patch may hold the computed field of an entity that is there.
            steps = [{"op": "add", "path": f"/{IS_LATEST}", "value": value[IS_LATEST]}]
            proposal = Proposal(entity.urn, name, value, "PATCH", condition(before), steps)
        else:
            proposal = propose(entity.urn, name, before, value)
        return MergedEntity(entity, stored or NOTHING, "updated", (proposal,))


def _latest_in(sets: Mapping[str, StoredEntity]) -> dict[str, str]:
    return {urn: stored[VERSION_SET_PROPERTIES].value[_LATEST] for urn, stored in sets.items()}


def _set_of(merged: MergedEntity) -> str:
    return version_set_of(merged.entity) or ""


def _sort_id(merged: MergedEntity) -> str:
    version = _value_after(merged, VERSION_PROPERTIES, None) or NOTHING
    return str(version.get("sortId"))


def _below_latest(merged: MergedEntity) -> MergedEntity:
    """Return a version with proposals that say that it is not the latest one, if it is new."""
    if merged.stored:
        return merged
    return merged._replace(
        proposals=tuple(
            replace(
                proposal,
                change_type="CREATE_ENTITY",
                aspect={**proposal.aspect, IS_LATEST: False}
                if proposal.aspect_name == VERSION_PROPERTIES
                else proposal.aspect,
            )
            for proposal in merged.proposals
        )
    )


def _value_after(merged: MergedEntity, name: str, before: Aspect | None) -> Aspect | None:
    """Return an aspect as it is once `merged` is written."""
    for proposal in merged.proposals:
        if proposal.aspect_name == name:
            return None if proposal.change_type == "DELETE" else proposal.aspect
    return before


def _place(version: Aspect) -> tuple[object, object]:
    return version.get("versionSet"), version.get("sortId")


def _live(
    version_set: str, urns: Iterable[str], stored: Mapping[str, StoredEntity]
) -> Iterator[_Version]:
    for urn in urns:
        entity = stored.get(urn, NOTHING)
        version = entity[VERSION_PROPERTIES].value if VERSION_PROPERTIES in entity else NOTHING
        if version.get("versionSet") == version_set and not is_removed(entity):
            yield _Version(str(version["sortId"]), urn, version.get(IS_LATEST))


def _corrections(
    version_set: str, latest: str, former: str, live: Iterable[_Version], new: set[str]
) -> Iterator[Entity]:
    """Yield the aspects of a set, and of its `live` versions, that are not as they should be.

    `former` is the sort id of the latest version, live or not. A `new` version that is greater was
    compared with it, or in a plan will be, by the service.
    """
    best = max(live)
    compared = {version.urn for version in live if version.urn in new and version.sort_id > former}
    if best.urn not in {latest, *compared}:
        # The service marks this version, and unmarks the one that was the latest.
        yield Entity(version_set, {VERSION_SET_PROPERTIES: {_LATEST: best.urn}})
    elif best.urn == latest and best.is_latest is not True:
        yield Entity(best.urn, {VERSION_PROPERTIES: {IS_LATEST: True}})
    for version in sorted(live):
        is_other = version.urn not in {best.urn, latest, *compared}
        if is_other and version.is_latest is not False:
            yield Entity(version.urn, {VERSION_PROPERTIES: {IS_LATEST: False}})
