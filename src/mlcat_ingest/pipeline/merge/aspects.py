"""The merge of one aspect: with what is stored, with lost updates of others, or before any merge.

A field of the source is merged; every other field stays as it is stored.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mlcat_ingest.metadata.entries import COLLECTIONS, Key, keys_of, same_json, single_fields
from mlcat_ingest.metadata.proposal import Aspect, Entity, custom_properties
from mlcat_ingest.metadata.reserved import DESCRIBED_BY
from mlcat_ingest.pipeline.merge.applied import NOTHING, AppliedFields
from mlcat_ingest.pipeline.merge.fields import AppliedField, absent_field, merge_field
from mlcat_ingest.pipeline.merge.provenance import with_all_sources
from mlcat_ingest.pipeline.merge.rules import (
    BORROWED,
    COMPUTED,
    UNION,
    UNOWNED,
    MergeRules,
    properties_aspect,
    required_values,
)


class MergedAspect(NamedTuple):
    """An aspect after the merge, and what of it is ours.

    `value` is the stored aspect itself where nothing changes, and None where the aspect is not, or
    no longer, there. `kept` says that something of ours had to stay, since the aspect would not be
    valid without it and others have entries in it.
    """

    value: Aspect | None
    applied: AppliedFields
    kept: bool = False


def merge_aspect(
    name: str,
    stored: Aspect | None,
    fresh: Aspect,
    rules: MergeRules,
    ours: AppliedFields = NOTHING,
    others: AppliedFields = NOTHING,
) -> MergedAspect:
    """Return aspect `name` with the entries of others and the values of the source.

    `ours` and `others` are what the stored bases applied. A field that `fresh` leaves out was not
    read: it stays as it is, and so does what we applied of it.
    """
    before: Aspect = NOTHING if stored is None else stored
    applied = {field: text for field, text in ours.items() if field not in fresh}
    changes: dict[str, object] = {}
    policies, default = rules.policies.get(name, NOTHING), rules.default
    unowned = UNOWNED.get(name, ())
    for field, value in fresh.items():
        known = before.get(field)
        if known is None and value is None:
            continue
        if field in unowned:
            is_open = known is None and field not in COMPUTED.get(name, ())
            merged, text = value if is_open else known, ""
        else:
            policy, text = policies.get(field, default), ours.get(field, "")
            if known is None:
                merged, text = absent_field(name, field, policy, value, text)
            else:
                applied_field = AppliedField(text, others.get(field, ""))
                merged, text = merge_field(name, field, policy, known, value, applied_field)
        if text:
            applied[field] = text
        if merged is not known:
            changes[field] = merged
    if stored is None:
        # An aspect of nothing but empty values is not worth writing where there is none.
        return MergedAspect(None if says_nothing(fresh) else changes, applied)
    return _with_changes(name, stored, changes, applied, ours)


def without_applied(
    name: str,
    stored: Aspect,
    rules: MergeRules,
    ours: AppliedFields,
    others: AppliedFields = NOTHING,
) -> MergedAspect:
    """Return aspect `name` without what we applied of it, as if the source had nothing there."""
    return merge_aspect(name, stored, dict.fromkeys(ours), rules, ours, others)


def says_nothing(fresh: Aspect) -> bool:
    """Return whether an aspect has fields, and all of them are empty."""
    for value in fresh.values():
        if has_content(value):
            return False
    return bool(fresh)


def has_content(value: object) -> bool:
    """Return whether a value is more than null or an empty collection."""
    return bool(value) or not (value is None or isinstance(value, COLLECTIONS))


def _with_changes(
    name: str,
    stored: Aspect,
    changes: dict[str, object],
    applied: dict[str, str],
    ours: AppliedFields,
) -> MergedAspect:
    changes = {
        field: value for field, value in changes.items() if field in stored or has_content(value)
    }
    cleared = [field for field, value in changes.items() if value is None]
    if not cleared:
        return MergedAspect({**stored, **changes} if changes else stored, applied)
    left = {field: value for field, value in {**stored, **changes}.items() if value is not None}
    missing = required_values(name).intersection(cleared)
    if not missing:
        return MergedAspect(left, applied)
    if not any(has_content(left[field]) for field in left.keys() - UNOWNED.get(name, ())):
        return MergedAspect(None, NOTHING)
    # Without these the aspect is not valid, and others have entries in it.
    applied.update((field, ours[field]) for field in missing if field in ours)
    after = {**stored, **changes, **{field: stored[field] for field in missing}}
    kept = {field: value for field, value in after.items() if value is not None}
    return MergedAspect(stored if same_json(kept, stored) else kept, applied, kept=True)


def rebase_aspect(name: str, ancestor: Aspect, theirs: Sequence[Aspect], current: Aspect) -> Aspect:
    """Restore lost updates: return `current` with what `theirs` changed of `ancestor`.

    It is `current` itself where nothing was lost. `theirs` are the versions that others wrote
    since, oldest first, at least one. An entry that any of them added is restored, for a version
    that lacks it may come from somebody who had not seen it; so is all that the last of them has.
    The last version says which entries were removed or changed. Entries of lists and maps are known
    apart by their keys, all else is one value.
    """
    changes: dict[str, object] = {}
    for field in dict.fromkeys((*ancestor, *(key for version in theirs for key in version))):
        before, now = ancestor.get(field), current.get(field)
        value = _rebase_field(name, field, before, [version.get(field) for version in theirs], now)
        if not same_json(value, now):
            changes[field] = value
    if not changes:
        return current
    return {field: value for field, value in {**current, **changes}.items() if value is not None}


def _rebase_field(
    name: str, field: str, before: object, theirs: Sequence[object], now: object
) -> object:
    versions = (before, *theirs, now)
    for kind in () if field in single_fields(name) else (dict, list):
        if all(value is None or isinstance(value, kind) for value in versions):
            first, *others, last = (_entries_by_key(name, field, value) for value in versions)
            rebased = _rebase_map(first, others, last)
            if not rebased and now is None:
                return None
            return rebased if kind is dict else list(rebased.values())
    return now if same_json(before, theirs[-1]) else theirs[-1]


def _entries_by_key(name: str, field: str, value: object) -> Mapping[Key, object]:
    if isinstance(value, dict):
        return value
    entries = value if isinstance(value, list) else []
    return dict(zip(keys_of(name, field, entries), entries, strict=True))


def _rebase_map(
    before: Mapping[Key, object], theirs: Sequence[Mapping[Key, object]], now: Mapping[Key, object]
) -> dict[Key, object]:
    last = theirs[-1]
    kept = {key: entry for key, entry in now.items() if key in last or key not in before}
    added = {
        key: entry
        for version in theirs
        for key, entry in version.items()
        if key not in before and key not in kept
    }
    # Entries of ours among these are removed again when the aspect is merged anew.
    restored = {
        key: entry
        for key, entry in last.items()
        if key not in kept or not same_json(before.get(key), entry)
    }
    return {**kept, **added, **restored}


def rank(entity_type: str, aspects: Mapping[str, Aspect]) -> tuple[bool, str]:
    """Return what is greatest for the best description: of `BORROWED` types, all else is equal."""
    custom = custom_properties(aspects.get(properties_aspect(entity_type), NOTHING))
    return BORROWED.get(entity_type) in aspects, str(custom.get(DESCRIBED_BY, ""))


def fold(earlier: Entity, later: Entity) -> Entity:
    """Return the entity that has the same effect as `earlier`, merged, and then `later`.

    The later value of a field is kept, of what is `BORROWED` that of the greater `rank`.

    Raises:
        RecipeError: the two come from different servers of one type.
    """
    if later.only_if_absent:
        return earlier
    if earlier.only_if_absent:
        return later
    if rank(earlier.entity_type, earlier.aspects) > rank(later.entity_type, later.aspects):
        earlier, later = later, earlier
    aspects = dict(earlier.aspects)
    for name, fresh in later.aspects.items():
        known = aspects.get(name, {})
        if known and name in later.adds_only:
            aspects[name] = merge_aspect(name, known, fresh, UNION).value or fresh
        else:
            united = with_all_sources(earlier.urn, fresh, custom_properties(known))
            aspects[name] = {**known, **united}
    read = (entity.aspects.keys() - entity.adds_only for entity in (earlier, later))
    return Entity(
        earlier.urn,
        aspects,
        notes=(*earlier.notes, *later.notes),
        adds_only=(earlier.adds_only | later.adds_only).difference(*read),
    )
