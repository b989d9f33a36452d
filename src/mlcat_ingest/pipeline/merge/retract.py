"""Retraction from one entity: what one writer applied is removed, and only that; pure.

It is a merge with a source that has nothing any more. Every entry in the writer's base is removed,
unless another base holds it too; a single value is removed if it is still the one we wrote.
"""

from dataclasses import replace
from typing import Final

from mlcat_ingest.client.base import StoredEntity
from mlcat_ingest.metadata.aspects import (
    BROWSE_PATHS,
    BROWSE_PATHS_V2,
    DATA_PLATFORM_INSTANCE,
    INCIDENTS_SUMMARY,
    STATUS,
    TEST_RESULTS,
)
from mlcat_ingest.metadata.entries import map_keys, same_json
from mlcat_ingest.metadata.identity import Writer, schema_hash
from mlcat_ingest.metadata.proposal import CUSTOM, Aspect, Entity, Proposal, custom_properties
from mlcat_ingest.metadata.registry import ASPECTS, ENTITY_TYPES, key_aspect_name
from mlcat_ingest.metadata.reserved import OWN_PREFIX
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.merge.applied import (
    NOTHING,
    Base,
    Bases,
    RememberedBase,
    applied_key,
    encode,
    read_bases,
    verdict_key,
)
from mlcat_ingest.pipeline.merge.aspects import has_content, rank, without_applied
from mlcat_ingest.pipeline.merge.entity import Change, MergedEntity, merge_entity
from mlcat_ingest.pipeline.merge.proposals import propose
from mlcat_ingest.pipeline.merge.provenance import custom_of, is_removed, marks_removed
from mlcat_ingest.pipeline.merge.rules import BORROWED, UNOWNED, MergeRules, properties_aspect

OF_THE_SERVICE: Final = frozenset(
    {
        *(STATUS, TEST_RESULTS, INCIDENTS_SUMMARY),
        *(BROWSE_PATHS, BROWSE_PATHS_V2, DATA_PLATFORM_INSTANCE),
    }
)
"""Aspects without content of a writer, or that the service makes by itself."""

_STAMPS: Final = frozenset({"lastModified", "created"})


def whole_entity(urn: str) -> Entity:
    """Return an entity that names every aspect of its type, for `retract_entity`."""
    entity_type = entity_type_of(urn)
    kind = ENTITY_TYPES.get(entity_type)
    names = () if kind is None else kind.aspects
    known = sorted(name for name in names if not ASPECTS[name].timeseries)
    return Entity(urn, dict.fromkeys(known, NOTHING))


def retract_entity(
    entity: Entity,
    stored: StoredEntity | None,
    *,
    writer: Writer,
    remembered: RememberedBase = NOTHING.get,
) -> MergedEntity:
    """Return what to write so that nothing of `writer` is left in the aspects `entity` names.

    With the last of them the writer's base is removed; and if no other writer is left, all keys of
    this package. If nothing of anybody else remains on a `whole_entity`, it is marked as removed.
    An aspect that would not be valid without what is ours is deleted if it was wholly ours, and
    otherwise kept, which is reported. An entity without a base of the writer is left as it is, if
    none is `remembered` either.
    """
    main_aspect = properties_aspect(entity.entity_type)
    if stored is None or not main_aspect:
        return MergedEntity(entity, stored or NOTHING, "unchanged")
    properties = custom_of(entity.urn, stored)
    if entity.entity_type in BORROWED:
        remembered = NOTHING.get  # whose it is shows in its aspects
    bases = read_bases(properties, writer, lambda: remembered(entity.urn))
    has_key = applied_key(writer.name) in properties and writer.is_own(bases.id)
    has_base = main_aspect in stored and (bases.ours is not None or has_key)
    if not has_base and not _drops_schema(entity.entity_type, stored, bases):
        return MergedEntity(entity, stored, "unchanged")
    return _Retraction(entity, stored, main_aspect, writer, bases).retract()


def _is_of_others(entity_type: str, stored: StoredEntity) -> bool:
    """Return whether another writer describes what is `BORROWED`, by properties or schema."""
    main_aspect = properties_aspect(entity_type)
    if BORROWED[entity_type] in stored and not _has_our_schema(entity_type, stored):
        return True
    if main_aspect not in stored:
        return False
    value = stored[main_aspect].value
    applied = read_bases(custom_properties(value), None).joined.get(main_aspect)
    if applied is None:
        return True
    of_nobody = MergeRules(Writer(""))
    left = without_applied(main_aspect, value, of_nobody, applied).value or NOTHING
    return _is_content(main_aspect, {**left, CUSTOM: map_keys(custom_properties(left))})


def _has_our_schema(entity_type: str, stored: StoredEntity) -> bool:
    held = stored.get(BORROWED.get(entity_type, ""))
    return held is not None and held.value.get("hash") == schema_hash(held.value.get("fields"))


def _drops_schema(kind: str, stored: StoredEntity, bases: Bases) -> bool:
    return _has_our_schema(kind, stored) and (not bases.is_shared or _is_of_others(kind, stored))


def _merge_borrowed(
    entity: Entity, stored: StoredEntity, rules: MergeRules, *, can_read: bool
) -> MergedEntity:
    """Return the merge of what is `BORROWED`: described by us while no other writer describes it.

    It is left out where one does, and what is ours there goes; so it is without a base, or a look
    at the catalog. A mark of removal alone is nobody's. The better description stays, unless its
    run is in the trash: its schema goes with it, even if no other run logged one.
    """
    if rules.writer is None or not can_read:
        return MergedEntity(entity, stored, "left_out")
    kind = entity.entity_type
    schema = BORROWED[kind]
    if _is_of_others(kind, stored):
        ours = replace(entity, aspects={schema: NOTHING, properties_aspect(kind): NOTHING})
        retracted = retract_entity(ours, stored, writer=rules.writer)
        return retracted._replace(entity=entity, change="left_out")
    if marks_removed(entity):
        return retract_entity(entity, stored, writer=rules.writer)
    merged = MergedEntity(entity, stored, "unchanged")
    held = rank(kind, {name: one.value for name, one in stored.items()})
    is_gone = bool(held[1]) and held[1] in rank(kind, entity.formerly or NOTHING)[1].split("\n")
    if is_gone or held <= rank(kind, entity.aspects):
        merged = merge_entity(entity, stored, rules)
    lapsed = {schema} - entity.aspects.keys() if is_gone else set[str]()
    lapsed |= {STATUS} if is_removed(stored) else set()
    if dropped := [propose(entity.urn, n, stored[n], None) for n in stored if n in lapsed]:
        merged = merged._replace(change="updated", proposals=(*dropped, *merged.proposals))
    return merged


def merge_or_leave(
    entity: Entity,
    stored: StoredEntity | None,
    rules: MergeRules,
    remembered: RememberedBase = NOTHING.get,
    *,
    can_read: bool = True,
) -> MergedEntity:
    """Return `merge_entity`; of one that is gone, and that others have, only ours is retracted."""
    if entity.entity_type in BORROWED and not entity.only_if_absent:
        return _merge_borrowed(entity, stored or NOTHING, rules, can_read=can_read)
    if stored and rules.writer is not None and marks_removed(entity):
        custom = custom_of(entity.urn, stored)
        if read_bases(custom, rules.writer).is_shared:
            return retract_entity(entity, stored, writer=rules.writer, remembered=remembered)
        # What was named to be looked through for what is ours is not read of the source.
        entity = replace(entity, aspects={n: fresh for n, fresh in entity.aspects.items() if fresh})
    return merge_entity(entity, stored, rules, remembered, can_read=can_read)


class _Retraction:
    """The retraction from one entity; its base lives in the aspect `main_aspect`."""

    def __init__(
        self, entity: Entity, stored: StoredEntity, main_aspect: str, writer: Writer, bases: Bases
    ) -> None:
        self._entity = entity
        self._stored = stored
        self._main_aspect = main_aspect
        self._schema = BORROWED.get(entity.entity_type, "")
        self._rules = MergeRules(writer)
        self._key = applied_key(writer.name)
        self._keys = {self._key, verdict_key(writer.name)}
        self._own_id = writer.id or bases.id
        self._holds_key = writer.is_own(bases.id)
        self._ours: Base = bases.ours or NOTHING
        self._bases = bases
        self._alone = not bases.is_shared
        self._left: dict[str, Aspect | None] = {
            name: aspect.value for name, aspect in stored.items()
        }
        self._kept: list[str] = []

    def retract(self) -> MergedEntity:
        """Return the entity without what was ours."""
        apart = {self._main_aspect, self._schema}
        for name in self._entity.aspects:
            if name in self._ours and name in self._stored and name not in apart:
                self._left[name] = self._without_ours(name, self._stored[name].value)
        if _drops_schema(self._entity.entity_type, self._stored, self._bases):
            self._left[self._schema] = None
        if self._main_aspect in self._stored:
            self._left[self._main_aspect] = self._retract_properties()
        change: Change = "updated"
        is_whole = self._entity.aspects.keys() >= whole_entity(self._entity.urn).aspects.keys()
        if self._alone and is_whole and not self._has_content():
            status = self._left.get(STATUS) or NOTHING
            if status.get("removed") is not True:
                self._left[STATUS] = {**status, "removed": True}
                change = "removed"
        names = sorted(self._left, key=lambda name: name == self._main_aspect)
        proposals = tuple(
            proposal
            for name in names
            if (proposal := self._proposal(name, self._left[name])) is not None
        )
        return MergedEntity(
            self._entity,
            self._stored,
            change if proposals else "unchanged",
            proposals,
            kept_aspects=tuple(self._kept),
            writer=self._rules.writer,
        )

    def _without_ours(self, name: str, value: Aspect) -> Aspect | None:
        applied = self._ours.get(name, NOTHING)
        others = self._bases.others.get(name, NOTHING)
        merged = without_applied(name, value, self._rules, applied, others)
        if merged.kept:
            self._kept.append(name)
        return merged.value

    def _retract_properties(self) -> Aspect | None:
        """Return the properties without what is ours in them, the base as far as it is done."""
        named = self._entity.aspects
        left = {name: applied for name, applied in self._ours.items() if name not in named}
        custom = dict(custom_of(self._entity.urn, self._stored))
        if left and self._holds_key:
            custom[self._key] = encode(left, self._own_id)
        else:
            custom = {key: entry for key, entry in custom.items() if not self._is_retracted(key)}
        value: Aspect = self._stored[self._main_aspect].value
        if custom or CUSTOM in value:
            value = {**value, CUSTOM: custom}
        return self._without_ours(self._main_aspect, value) if self._main_aspect in named else value

    def _is_retracted(self, key: str) -> bool:
        is_base = key in self._keys and self._holds_key
        return is_base or (self._alone and key.startswith(OWN_PREFIX))

    def _has_content(self) -> bool:
        """Return whether anything remains that is not this package's or the service's own."""
        skipped = {*OF_THE_SERVICE, key_aspect_name(self._entity.entity_type)}
        if self._schema:
            skipped.remove(STATUS)  # we never write that one is live
        return any(
            _is_content(name, value)
            for name, value in self._left.items()
            if name not in skipped and value is not None
        )

    def _proposal(self, name: str, value: Aspect | None) -> Proposal | None:
        before = self._stored.get(name)
        if before is not None and value is not None and same_json(before.value, value):
            return None
        is_empty = value is not None and not _is_content(name, value)
        if self._schema and name == self._main_aspect and is_empty:
            value = None
        return propose(self._entity.urn, name, before, value)


def _is_content(name: str, value: Aspect) -> bool:
    unowned = UNOWNED.get(name, frozenset()) | _STAMPS
    return any(has_content(entry) for field, entry in value.items() if field not in unowned)
