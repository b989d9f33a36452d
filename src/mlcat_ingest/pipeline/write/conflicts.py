"""Write conflicts: optimistic locking by version, and lost updates restored where it is missing.

A write names the version that it was merged with. If a server does not check that version, the
entity is read after the write, and what it went over is taken from the version history.
"""

import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from http import HTTPStatus
from typing import Final

from mlcat_ingest.client.base import Catalog, StoredAspect, StoredEntity, each_type
from mlcat_ingest.errors import AspectChangedError, CatalogUnavailableError, NotAuthorizedError
from mlcat_ingest.metadata.aspects import (
    EDITABLE_ML_MODEL_GROUP_PROPERTIES,
    EDITABLE_ML_MODEL_PROPERTIES,
    STATUS,
    VERSION_PROPERTIES,
)
from mlcat_ingest.metadata.entries import same_json
from mlcat_ingest.metadata.proposal import (
    IF_VERSION_MATCH,
    NO_SUCH_VERSION,
    Aspect,
    Entity,
    Proposal,
)
from mlcat_ingest.metadata.registry import ASPECTS, KEY_ASPECTS, allows, key_aspect, key_aspect_name
from mlcat_ingest.net.session import TIMEOUTS
from mlcat_ingest.pipeline.context import RunContext
from mlcat_ingest.pipeline.merge.applied import NOTHING
from mlcat_ingest.pipeline.merge.aspects import rebase_aspect
from mlcat_ingest.pipeline.merge.entity import Merge, MergedEntity, with_applied_of
from mlcat_ingest.pipeline.merge.proposals import propose, propose_equal
from mlcat_ingest.pipeline.merge.rules import BORROWED, properties_aspect, without_computed
from mlcat_ingest.pipeline.outcome import Outcome, Refusal
from mlcat_ingest.pipeline.state.session import StateSession
from mlcat_ingest.pipeline.state.stamps import read_number

CURATED: Final[Mapping[str, str]] = {
    name: spec.curated for name, spec in ASPECTS.items() if spec.curated is not None
}
"""Aspects that people add entries to; the field that lists them."""

COPIED: Final = (*CURATED, EDITABLE_ML_MODEL_GROUP_PROPERTIES)
"""Aspects that a copy to a renamed group writes, beside its properties."""

OF_PEOPLE: Final = (*COPIED, EDITABLE_ML_MODEL_PROPERTIES)
"""Aspects of models and groups that people write, beside entries in the properties."""


def read_stored(
    sink: Catalog, state: StateSession, entities: Iterable[Entity]
) -> dict[str, StoredEntity]:
    """Return the stored aspects that the merge of `entities` needs.

    A base that `state` knows newer, since the catalog was rolled back, is the newer one.

    Cost: one request for a batch of entities of a type, and a statement for each 500.
    """
    by_urn = {entity.urn: entity for entity in entities}
    names: defaultdict[str, set[str]] = defaultdict(set)
    for entity in by_urn.values():
        names[entity.entity_type] |= aspects_to_read(entity)
    stored = each_type(sink.read_many, by_urn, names.__getitem__)
    return state.entities.with_newest_bases(stored, state.writer)


_DENIALS: Final = 16
"""Denied reads before the first granted one, after which the run ends."""


class PermittedReads:
    """Reads of stored entities, apart from those that the token may not read.

    DataHub denies all of a read in which one entity may not be read, and does not name it. After a
    read that found nothing of an entity type, the next one asks for the key alone, and for other
    aspects only of entities that are there: a first ingest has to know no more.
    Safe for several threads.
    """

    def __init__(self, sink: Catalog, state: StateSession) -> None:
        """Read from `sink`, for the writer of `state`."""
        self._sink = sink
        self._state = state
        self._denials = 0
        self._granted = False
        self._absent: set[str] = set()

    def read(
        self, entities: Sequence[Entity], aspects: Collection[str] = ()
    ) -> tuple[dict[str, StoredEntity], list[Outcome]]:
        """Return what the catalog holds of `entities` of a type, and refusals of those it denies.

        That is all that a merge of them needs, or only the `aspects` that are named.

        Raises:
            NotAuthorizedError: none of many reads was granted.

        Cost: one request for a batch of entities of a type, two where the one before found nothing
        and this one does; two for each halving of a denied one.
        """
        try:
            stored = self._named(entities, aspects) if aspects else self._read(entities)
        except NotAuthorizedError as error:
            self._denials += not self._granted
            if self._denials > _DENIALS:
                raise
            if len(entities) == 1:
                return {}, [_denied_read(entities[0], str(error.context.get("reason", error)))]
        else:
            self._granted = True
            return stored, []
        middle = len(entities) // 2
        first, first_denied = self.read(entities[:middle], aspects)
        second, second_denied = self.read(entities[middle:], aspects)
        return first | second, first_denied + second_denied

    def _read(self, entities: Sequence[Entity]) -> dict[str, StoredEntity]:
        entity_type = entities[0].entity_type
        if entity_type in self._absent:
            there = self._named(entities, [key_aspect_name(entity_type)])
            entities = [entity for entity in entities if entity.urn in there]
        stored = read_stored(self._sink, self._state, entities)
        (self._absent.discard if stored else self._absent.add)(entity_type)
        return stored

    def _named(
        self, entities: Sequence[Entity], aspects: Collection[str]
    ) -> dict[str, StoredEntity]:
        return {**self._sink.read_many([entity.urn for entity in entities], aspects)}


def _denied_read(entity: Entity, reason: str) -> Outcome:
    refusals = [
        Refusal(Proposal(entity.urn, name, aspect), reason, 1, HTTPStatus.FORBIDDEN)
        for name, aspect in entity.aspects.items()
    ]
    return Outcome(MergedEntity(entity, {}, "updated"), tuple(refusals))


def aspects_to_read(entity: Entity) -> frozenset[str]:
    """Return the names of the aspects that the merge of an entity reads."""
    return _names_to_read(
        entity.entity_type, frozenset(entity.aspects), only_if_absent=entity.only_if_absent
    )


@lru_cache(maxsize=256)
def _names_to_read(
    entity_type: str, aspects: frozenset[str], *, only_if_absent: bool
) -> frozenset[str]:
    names = set(aspects)
    main = properties_aspect(entity_type)
    if main:
        names.add(main)
    if entity_type in BORROWED and not only_if_absent:
        names |= {BORROWED[entity_type], STATUS}
    if STATUS in names and allows(entity_type, VERSION_PROPERTIES):
        names.add(VERSION_PROPERTIES)  # a version that is removed or revived may be the latest
    if not main or only_if_absent:
        # Whether an entity is there at all shows in the aspect that every entity has.
        names.add(key_aspect_name(entity_type))
    return frozenset(names)


def write_again(merged: MergedEntity) -> MergedEntity:
    """Return `merged` with proposals for all that was read of it, equal values too.

    A service that was killed between its database and its search index finds an entity only once
    each aspect was written again, the key aspect included (EntityServiceImpl.java).
    """
    if not merged.stored or merged.change == "left_out":
        return merged
    proposed = {proposal.aspect_name for proposal in merged.proposals} | KEY_ASPECTS
    key = Proposal(merged.urn, *key_aspect(merged.urn))
    equal = (
        propose_equal(merged.urn, name, before)
        for name, before in merged.stored.items()
        if name not in proposed
    )
    return merged._replace(proposals=(key, *equal, *merged.proposals), is_rewrite=True)


MAX_VERSIONS: Final = 20
"""Most versions of one aspect that are read to find out what a write of ours went over: as many as
a DataHub server keeps."""


class ConflictGuard:
    """Guards writes against conflicts: optimistic locking, or a look at the versions afterwards.

    The version of the server tells whether it checks conditions. If that is not known, the first
    write of a run finds out. Safe for several threads.
    """

    def __init__(self, context: RunContext, merge: Merge) -> None:
        """Ask the catalog with the first write, if it holds anything that has a version."""
        self._context = context
        self._merge = merge
        self._lock = threading.Lock()
        self.checks: bool | None = None
        """Whether the catalog checks conditions, None while that is not known."""

    def learn(self, batch: Sequence[MergedEntity]) -> None:
        """Find out whether the catalog checks versions, if that is not known yet.

        One entity is written under a condition that cannot hold. If it is refused, versions are
        checked, and the entity is written again with the others. If it is accepted, they are not
        checked. All of its aspects are in the request: a run that ended after one of them would
        leave entries without a base, which count as those of others.

        Cost: none if the server's version is known; else one request in a run, and a read if it
        is accepted; the other workers wait.
        """
        with self._lock:
            if self.checks is None:
                facts = self._context.sink.facts
                self.checks = facts.enforces_conditions if facts.keeps else False
            probe = _probe(batch) if self.checks is None else ()
            if not probe:
                return
            try:
                refused = self._context.sink.write(probe)
            except CatalogUnavailableError as error:
                if error.context.get("status") not in TIMEOUTS:
                    raise
                return  # the next batch is tried
            urn, names = probe[0].entity_urn, [proposal.aspect_name for proposal in probe]
            if not refused and self._context.sink.read_many([urn], names).get(urn):
                self.checks = False
            elif any(isinstance(error, AspectChangedError) for error in refused):
                self.checks = True
            # Refused for its content, or dropped by a server that does not know it: the next batch
            # is tried.

    def with_conditions(self, proposals: Sequence[Proposal]) -> Sequence[Proposal]:
        """Return `proposals`, without their conditions where these are known not to be checked.

        Some services make something else of a condition that they do not know.
        """
        if self.checks is not False:
            return proposals
        return [replace(proposal, headers=None) for proposal in proposals]

    def lost_updates(self, arrived: Sequence[MergedEntity]) -> list[MergedEntity]:
        """Return the entities of `arrived` that overwrote updates of others, merged anew.

        If versions are not checked, each write should have made the version after the one that was
        read. More versions show another writer; an overwritten update is restored from the version
        history. An entity that was hidden as unused is shown again if others wrote to it: a
        condition protects only the aspects that are in the write.

        Cost: if versions are not checked, one read an entity type, and one for each version of
        another writer; else one read an entity type with hidden entities.
        """
        context = self._context
        ignored = self.checks is False and context.sink.facts.keeps
        if not ignored:
            unconditional = (
                any(one.headers is None and one.aspect_name not in KEY_ASPECTS for one in proposals)
                for proposals in (written.proposals for written in arrived)
            )
            context.ledger.count(unverified=sum(unconditional))
        to_read = [written for written in arrived if ignored or _hidden_as_unused(written)]
        stored = read_stored(context.sink, context.state, map(_as_written, to_read))
        retries = []
        for written in to_read:
            now = stored.get(written.urn, {})
            between: list[Aspect] = []
            restored = self._restore(written, now, between) if ignored else None
            status = self._unhide(written, {**now, **(restored or {})})
            if restored is not None or status is not None:
                merged = self._merge_again(written, now, restored or {}, between)
                if status is not None:
                    proposals = (status, *merged.proposals)
                    merged = merged._replace(change="updated", proposals=proposals)
                retries.append(merged)
        context.ledger.count(conflicts=len(retries))
        return [written for written in retries if written.proposals]

    def _unhide(self, written: MergedEntity, now: StoredEntity) -> Proposal | None:
        """Return the status that unhides an entity; None if nothing of others is on it."""
        status = now.get(STATUS)
        if not _hidden_as_unused(written) or status is None:
            return None
        visible = {name: aspect for name, aspect in now.items() if name != STATUS}
        main_aspect = properties_aspect(written.entity_type)
        if main_aspect not in visible:
            visible[main_aspect] = written.stored[main_aspect]  # deleted, and with it the base
        if self._merge(written.entity, with_applied_of(written, visible)).change == "removed":
            return None
        # Without a condition: refused, it would be merged again, and has no base any more.
        return Proposal(written.urn, STATUS, {**status.value, "removed": False})

    def _restore(
        self, written: MergedEntity, now: StoredEntity, properties: list[Aspect]
    ) -> Mapping[str, StoredAspect] | None:
        """Return aspects with the lost updates of others; None where only we have written.

        Add the `properties` of the entity that were stored between to the list.
        """
        restored: dict[str, StoredAspect] = {}
        first = _read_first(written)
        alone = verified = True
        for proposal in written.proposals:
            name = proposal.aspect_name
            before, after = written.stored.get(name), now.get(name)
            read, current = read_number(before), read_number(after)
            if read is None or current is None:
                verified = False
            elif after is not None and current > read + 1:
                alone = False
                between = self._between(proposal, read + 1, current)
                properties += between if name == properties_aspect(written.entity_type) else ()
                verified &= len(between) == current - read - 1
                theirs = _of_others(proposal, [*between, after.value])
                if theirs:
                    ancestor = without_computed(name, first[name].value) if name in first else {}
                    value = rebase_aspect(name, ancestor, theirs, after.value)
                    restored[name] = StoredAspect(value, after.version)
        self._context.ledger.count(unverified=not verified)
        if properties_aspect(written.entity_type) in restored:
            # Whose an entry is follows from the bases there: what was dropped may be of others now.
            restored = {**_dropped(written, now), **restored}
        return None if alone else restored

    def _between(self, proposal: Proposal, first: int, last: int) -> list[Aspect]:
        """Return the versions from `first` to before `last`, as far back as they are kept."""
        values: list[Aspect] = []
        for number in reversed(range(max(first, last - MAX_VERSIONS), last)):
            value = self._context.sink.get_aspect(proposal.entity_urn, proposal.aspect_name, number)
            if value is None:
                break
            values.append(value)
        return values[::-1]

    def _merge_again(
        self,
        written: MergedEntity,
        now: StoredEntity,
        restored: Mapping[str, StoredAspect],
        between: Sequence[Aspect],
    ) -> MergedEntity:
        united = with_applied_of(written, {**now, **restored}, between)
        merged = self._merge(written.entity, united)
        merged_names = {proposal.aspect_name for proposal in merged.proposals}
        lost = [
            propose(written.urn, name, now.get(name), aspect.value)
            for name, aspect in united.items()
            if name not in merged_names
            and not (name in now and same_json(aspect.value, now[name].value))
        ]
        # A patch is one of what is stored, where nothing is restored yet.
        proposals = [
            propose(written.urn, again.aspect_name, now.get(again.aspect_name), again.aspect)
            if again.change_type == "PATCH"
            else again
            for again in merged.proposals
        ]
        return merged._replace(
            change=written.change,
            proposals=(*lost, *proposals),
            read_first=_read_first(written),
            overwritten=now,
        )


def _probe(batch: Sequence[MergedEntity]) -> Sequence[Proposal]:
    """Return the proposals of an entity of `batch`, under conditions that cannot hold."""
    # A deletion is a request of its own, which may take no condition; a key aspect takes none. A
    # patch that is accepted could be refused later in its batch: what it removes is no more there.
    fitting = [
        [proposal for proposal in merged.proposals if proposal.headers is not None]
        for merged in batch
        if not {proposal.change_type for proposal in merged.proposals} & {"DELETE", "PATCH"}
    ]
    never = {IF_VERSION_MATCH: NO_SUCH_VERSION}
    smallest = min(filter(None, fitting), key=len, default=[])
    return [replace(proposal, headers=never) for proposal in smallest]


def _as_written(merged: MergedEntity) -> Entity:
    """Return the entity of a merge with the aspects that were written beside its own."""
    written = dict.fromkeys((proposal.aspect_name for proposal in merged.proposals), NOTHING)
    return replace(merged.entity, aspects={**written, **merged.entity.aspects})


def _hidden_as_unused(written: MergedEntity) -> bool:
    return written.change == "removed" and not written.is_removed


def _read_first(written: MergedEntity) -> StoredEntity:
    return written.stored if written.read_first is None else written.read_first


def _dropped(written: MergedEntity, now: StoredEntity) -> Mapping[str, StoredAspect]:
    """Return what stood in the aspects that we changed, as they were before our write."""
    dropped = {}
    for proposal in written.proposals:
        name = proposal.aspect_name
        before, after = written.stored.get(name), now.get(name)
        # An equal value dropped nothing and made no version: what is there now may be of others.
        is_changed = before is not None and not same_json(
            without_computed(name, before.value), without_computed(name, proposal.aspect)
        )
        # One that is not there was dropped by us, or by others: then it stays so.
        is_ours = after is not None or proposal.change_type == "DELETE"
        if before is not None and is_changed and is_ours:
            version = None if after is None else after.version
            dropped[name] = StoredAspect(before.value, version)
    return dropped


def _of_others(proposal: Proposal, versions: Sequence[Aspect]) -> list[Aspect]:
    """Return the `versions` of others, without computed fields.

    The service may store another text than it was sent; then the last version counts as ours.
    """
    name = proposal.aspect_name
    ours = without_computed(name, proposal.aspect)
    others = [
        version
        for version in (without_computed(name, value) for value in versions)
        if not same_json(version, ours)
    ]
    return others if len(others) < len(versions) else others[:-1]
