"""The three-way merge of one entity: its aspects, the base beside them, and the proposals."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from mlcat_ingest.client.base import StoredAspect, StoredEntity
from mlcat_ingest.metadata.aliases import with_sightings
from mlcat_ingest.metadata.aspects import GLOBAL_TAGS, STATUS
from mlcat_ingest.metadata.entries import keys_of
from mlcat_ingest.metadata.identity import Writer, other_writer_note, same_store_note
from mlcat_ingest.metadata.proposal import CUSTOM, Aspect, Entity, Note, Proposal, custom_properties
from mlcat_ingest.metadata.reserved import ALIAS_LOG, COPIED_TO, RENAMED_TO, REUSED, SOURCE_KEY
from mlcat_ingest.pipeline.merge.applied import (
    NOTHING,
    AppliedFields,
    Base,
    Bases,
    RememberedBase,
    applied_key,
    bases_by_writer,
    decode,
    encode,
    fingerprints_in,
    key_fingerprint,
    read_bases,
    verdict_key,
    verdict_tags,
    with_applied,
    writer_id_of,
)
from mlcat_ingest.pipeline.merge.aspects import (
    MergedAspect,
    merge_aspect,
    says_nothing,
    without_applied,
)
from mlcat_ingest.pipeline.merge.limits import with_short_text, without_surplus
from mlcat_ingest.pipeline.merge.proposals import propose
from mlcat_ingest.pipeline.merge.provenance import (
    is_removed,
    is_reused,
    marks_removed,
    with_all_sources,
    wrote_another,
)
from mlcat_ingest.pipeline.merge.rules import BASE_IN_STATE, MergeRules, properties_aspect

Change = Literal["created", "updated", "removed", "unchanged", "left_out"]
"""What a merge changes of an entity."""


class MergedEntity(NamedTuple):
    """The merge result of one entity: proposals of the aspects that change, properties last.

    Attributes:
        stored: what `entity` was merged with; each proposal names the version of its aspect.
        without_base: the catalog has the entity without a base of ours: nothing could be removed.
        kept_aspects: aspects that had to stay although the source dropped them.
        notes: what was cut off.
        writer: whose base is written.
        read_first: for an entity that is merged again after a write, what the catalog had before
            the first write of this pass.
        overwritten: where lost updates are restored, what the catalog has in their place.
        is_rewrite: equal values are among the proposals, see `write_again`.
        base: the text of the base, where the catalog has no place for it.
    """

    entity: Entity
    stored: StoredEntity
    change: Change
    proposals: tuple[Proposal, ...] = ()
    without_base: bool = False
    kept_aspects: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()
    writer: Writer | None = None
    read_first: StoredEntity | None = None
    overwritten: StoredEntity | None = None
    is_rewrite: bool = False
    base: str = ""

    @property
    def urn(self) -> str:
        """The URN of the entity."""
        return self.entity.urn

    @property
    def entity_type(self) -> str:
        """The type of the entity."""
        return self.entity.entity_type

    @property
    def is_removed(self) -> bool:
        """True if the source marks the entity as removed."""
        return marks_removed(self.entity)


Merge = Callable[[Entity, StoredEntity | None], MergedEntity]
"""Merges an entity of a source with what the catalog holds of it now."""


def merge_entity(
    entity: Entity,
    stored: StoredEntity | None,
    rules: MergeRules,
    remembered: RememberedBase = NOTHING.get,
    *,
    can_read: bool = True,
) -> MergedEntity:
    """Return what to write so that the catalog holds `entity` beside what others put there.

    `stored` is None or empty for an entity that the catalog does not have. One that is removed is
    left out then, unless the sink is a file that nobody `can_read` from: who imports it may have
    the entity. An entity that is only referred to, or whose type has no properties aspect for a
    base, is created and never changed. Verdicts change none but stored entities.
    `remembered` is asked for the base of a stored entity that has none.

    Raises:
        RecipeError: the stored entity comes from another server of the same type.
    """
    is_gone = entity.verdicts is not None or (can_read and marks_removed(entity))
    if not stored and is_gone:
        return MergedEntity(entity, NOTHING, "left_out")
    main_aspect = properties_aspect(entity.entity_type)
    if entity.only_if_absent or not main_aspect:
        proposals = () if stored else tuple(_plain(entity, rules))
        change: Change = "created" if proposals else "unchanged"
        return MergedEntity(entity, stored or NOTHING, change, proposals)
    return _Merge(entity, stored or NOTHING, rules, main_aspect, remembered).merge()


def _plain(entity: Entity, rules: MergeRules) -> Iterator[Proposal]:
    for name, fresh in entity.aspects.items():
        value = merge_aspect(name, None, fresh, rules).value
        if value is not None:
            yield propose(entity.urn, name, None, value)


def _applied_by(aspects: Mapping[str, Aspect], rules: MergeRules) -> Base:
    """Return the base of a writer that wrote all of `aspects`."""
    return {name: merge_aspect(name, None, value, rules).applied for name, value in aspects.items()}


def _base_key(writer: Writer | None) -> str:
    return applied_key("" if writer is None else writer.name)


def with_applied_of(
    merged: MergedEntity, stored: StoredEntity, between: Iterable[Aspect] = ()
) -> StoredEntity:
    """Return `stored` with a base that has all that `merged` applied, even if overwritten.

    It has, too, what is in a base of the versions `between` alone.
    """
    main_aspect = properties_aspect(merged.entity_type)
    now = stored.get(main_aspect)
    if now is None or merged.writer is None or merged.entity_type in BASE_IN_STATE:
        return stored
    earlier = (
        *(proposal.aspect for proposal in merged.proposals),
        *(aspect.value for aspect in merged.stored.values()),
    )
    custom = with_applied(
        custom_properties(now.value),
        merged.writer,
        map(custom_properties, earlier),
        map(custom_properties, between),
    )
    return {**stored, main_aspect: StoredAspect({**now.value, CUSTOM: custom}, now.version)}


def bases_of(written: Iterable[MergedEntity]) -> dict[str, str]:
    """Return the base of its writer that each entity has once it is written, empty for none.

    Of one that carries the base of another state of that name, what is remembered stays.
    """
    bases: dict[str, str] = {}
    for merged in written:
        if merged.writer is None:
            continue
        if merged.entity_type in BASE_IN_STATE:
            bases[merged.urn] = merged.base
            continue
        name = properties_aspect(merged.entity_type)
        properties = [merged.stored[name].value] if name in merged.stored else []
        properties += [one.aspect for one in merged.proposals if one.aspect_name == name]
        custom = custom_properties(properties[-1]) if properties else NOTHING
        text = custom.get(_base_key(merged.writer), "") if properties else None
        if isinstance(text, str) and merged.writer.is_own(writer_id_of(text)):
            bases[merged.urn] = text
    return bases


class _Merge:
    """The merge of one entity; its base lives in the aspect `main_aspect`."""

    def __init__(
        self,
        entity: Entity,
        stored: StoredEntity,
        rules: MergeRules,
        main_aspect: str,
        remembered: RememberedBase,
    ) -> None:
        self._entity = entity
        self._stored = stored
        self._rules = rules
        self._main_aspect = main_aspect
        before = stored.get(main_aspect)
        self._properties = NOTHING if before is None else custom_properties(before.value)
        self._bases = read_bases(
            self._properties,
            rules.writer,
            lambda: remembered(entity.urn) if stored else None,
        )
        self._ours: Base = self._bases.ours or NOTHING
        writer = rules.writer
        self._given = () if writer is None else verdict_tags(self._properties, writer.name)
        self._verdicts = self._given if entity.verdicts is None else entity.verdicts
        if stored and entity.formerly and self._bases.ours is None:
            self._ours = Bases(self._ours, _applied_by(entity.formerly, rules)).joined
        self._is_reused = is_reused(entity, stored)
        if self._is_reused and rules.clears_reused:
            every = _applied_by({name: one.value for name, one in stored.items()}, rules)
            self._ours = {**self._ours, **{name: every.get(name, {}) for name in entity.aspects}}
        self._is_of_former = self._is_reused or wrote_another(entity, self._ours)
        self._applied: dict[str, AppliedFields] = {}
        self._proposals: list[Proposal] = []
        self._kept: list[str] = []
        self._notes: list[Note] = []

    def merge(self) -> MergedEntity:
        """Return the entity with the proposals that bring it to the catalog."""
        for name, fresh in {**self._entity.aspects, **self._of_former()}.items():
            if name == STATUS:
                self._put_status(fresh)
            elif name != self._main_aspect:
                self._put(name, fresh)
        if self._rules.writer is not None:
            self._note_others(self._rules.writer)
        if self._is_reused:
            left = "is cleared" if self._rules.clears_reused else "is kept"
            detail = f"another object has this name now; what others put on the former one {left}"
            self._notes.append(Note("name_reused", detail))
        # A status alone adds no entries, so it needs no base to tell them apart.
        has_content = any(name != STATUS for name in self._entity.aspects)
        if has_content:
            self._put_properties()
        writer, base = self._rules.writer, ""
        if writer is not None and self._entity.entity_type in BASE_IN_STATE:
            base = encode({**self._ours, **self._applied}, writer.id)
        return MergedEntity(
            self._entity,
            self._stored,
            self._change(),
            tuple(self._proposals),
            without_base=bool(self._stored)
            and has_content
            and writer is not None
            and self._bases.ours is None,
            kept_aspects=tuple(self._kept),
            notes=tuple(self._notes),
            writer=writer,
            base=base,
        )

    def _of_former(self) -> Mapping[str, Aspect]:
        """Return, as empty, the aspects that only the object had which had this name before."""
        if not self._is_of_former:
            return NOTHING
        names = self._ours.keys() & self._stored.keys() - self._entity.aspects.keys()
        return {name: dict.fromkeys(self._ours[name]) for name in sorted(names)}

    def _note_others(self, writer: Writer) -> None:
        """Note the other writers that leave it open whose the entity is."""
        if not writer.is_own(self._bases.id):
            self._notes.append(other_writer_note(writer, self._bases.id))
        fresh = custom_properties(self._entity.aspects.get(self._main_aspect, NOTHING))
        source = fresh.get(SOURCE_KEY)
        recipes = bases_by_writer(self._properties).keys() - {writer.name}
        is_new = recipes and self._bases.ours is None
        if is_new and source is not None and source == self._properties.get(SOURCE_KEY):
            self._notes.append(same_store_note(recipes, str(source)))

    def _change(self) -> Change:
        if not self._proposals:
            return "unchanged"
        if not self._stored:
            return "created"
        status = next(
            (proposal.aspect for proposal in self._proposals if proposal.aspect_name == STATUS), {}
        )
        return "removed" if status.get("removed") else "updated"

    def _put_status(self, fresh: Aspect) -> None:
        before = self._stored.get(STATUS)
        value = before.value if before is not None else NOTHING
        # Only an entity that was removed needs the status of one that is not.
        if (value.get("removed") is True) != (fresh.get("removed") is True):
            self._propose(STATUS, {**value, **fresh})

    def _put(self, name: str, fresh: Aspect) -> None:
        before = self._stored.get(name)
        if name == GLOBAL_TAGS:
            fresh = self._with_verdicts(fresh)
        if before is None and name not in self._ours and says_nothing(fresh):
            return  # most entities lack most aspects
        merged = self._aspect(name, fresh)
        if merged.value is None:
            if before is not None:
                self._propose(name, None)
        elif before is None or merged.value is not before.value:
            self._propose(name, merged.value)

    def _with_verdicts(self, fresh: Aspect) -> Aspect:
        """Return the source's tags with those of verdicts, which the source knows nothing of."""
        tags = fresh.get("tags") or []
        if self._entity.verdicts is not None:
            # What the source said is not at hand: it is what its base has, without the verdicts.
            before = self._stored.get(GLOBAL_TAGS)
            held = (NOTHING if before is None else before.value).get("tags") or ()
            ours = fingerprints_in(self._ours.get(GLOBAL_TAGS, NOTHING).get("tags", ""))
            tags = [
                entry
                for key, entry in zip(keys_of(GLOBAL_TAGS, "tags", held), held, strict=True)
                if key_fingerprint(key) in ours and entry.get("tag") not in self._given
            ]
        elif "tags" not in fresh:
            return fresh
        # Of a tag that both give, the last entry stays, which has what the source says of it.
        return {**fresh, "tags": [*({"tag": urn} for urn in self._verdicts), *tags]}

    def _aspect(self, name: str, fresh: Aspect) -> MergedAspect:
        before = None if name not in self._stored else self._stored[name].value
        ours = self._ours.get(name, NOTHING)
        others = self._bases.others.get(name, NOTHING)
        rules = self._rules.adding() if name in self._entity.adds_only else self._rules
        if self._is_of_former and before is not None:
            # What nobody read of this object now must not stay that of the former one.
            before, ours, _ = without_applied(name, before, self._rules, ours, others)
        merged = merge_aspect(name, before, fresh, rules, ours, others)
        if merged.applied:
            self._applied[name] = merged.applied
        if merged.kept:
            self._kept.append(name)
        return merged

    def _put_properties(self) -> None:
        """Put the properties aspect last, with the base of all that is ours on the entity now."""
        before = self._stored.get(self._main_aspect)
        fresh = self._entity.aspects.get(self._main_aspect, NOTHING)
        removed = is_removed(self._stored)
        fresh = with_all_sources(self._entity.urn, fresh, self._properties, removed=removed)
        if ALIAS_LOG in custom_properties(fresh):
            fresh = {**fresh, CUSTOM: with_sightings(fresh[CUSTOM], self._properties)}
        fresh = with_short_text(fresh, self._notes)
        merged = self._aspect(self._main_aspect, fresh)
        base_key = _base_key(self._rules.writer)
        fitting = without_surplus(fresh, merged.value or NOTHING, base_key, self._notes)
        if fitting is not fresh:
            self._applied.pop(self._main_aspect, None)
            merged = self._aspect(self._main_aspect, fitting)
        value: Aspect = NOTHING if merged.value is None else merged.value
        if self._rules.writer is not None and self._entity.entity_type not in BASE_IN_STATE:
            value = self._with_base(value, self._rules.writer)
        # An entity of the source is written even if it has no content.
        if before is None:
            changes = self._main_aspect in self._entity.aspects or bool(self._proposals)
        else:
            changes = value is not before.value
        if changes:
            self._propose(self._main_aspect, value)

    def _with_base(self, value: Aspect, writer: Writer) -> Aspect:
        for name, applied in self._ours.items():
            if name not in self._entity.aspects and not self._is_of_former:
                self._applied[name] = applied
        key, before = _base_key(writer), self._stored.get(self._main_aspect)
        came_back = RENAMED_TO in self._properties and self._main_aspect in self._entity.aspects
        is_stored = before is not None and value is before.value
        own_id = writer.id or self._bases.id
        # A base that is only remembered, not readable, or of an id that is taken over is written
        # again. One of another state stays where ours is remembered, or the two would take turns.
        held = self._bases.ours
        if writer.is_own(self._bases.id):
            held = decode(self._properties.get(key)) if self._bases.id == own_id else None
        same = held == self._applied and self._verdicts == self._given
        if is_stored and not came_back and same:
            return value
        custom = {**custom_properties(value), key: encode(self._applied, own_id)}
        custom.pop(verdict_key(writer.name), None)
        custom |= {verdict_key(writer.name): ",".join(given) for given in [self._verdicts] if given}
        if self._is_reused:
            custom[REUSED] = "true"
            if self._rules.clears_reused:
                del custom[REUSED]
        if came_back:
            # Or what people put on it from now on would stay behind with the next renaming.
            del custom[RENAMED_TO]
            custom.pop(COPIED_TO, None)
        return {**value, CUSTOM: custom}

    def _propose(self, name: str, value: Aspect | None) -> None:
        before = self._stored.get(name)
        self._proposals.append(propose(self._entity.urn, name, before, value))
