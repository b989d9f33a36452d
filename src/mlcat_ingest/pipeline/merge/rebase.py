"""Putting back what others wrote and somebody wrote over."""

from collections.abc import Mapping, Sequence
from typing import Any

from mlcat_ingest.client.base import StoredAspect, StoredEntity
from mlcat_ingest.metadata.proposal import Aspect
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.merge.base import with_claims
from mlcat_ingest.pipeline.merge.entity import MergedEntity
from mlcat_ingest.pipeline.merge.equality import same_json
from mlcat_ingest.pipeline.merge.keys import keys_of
from mlcat_ingest.pipeline.merge.shape import properties_aspect, single_fields
from mlcat_ingest.pipeline.merge.sources import CUSTOM, custom_properties


def rebase_aspect(name: str, ancestor: Aspect, theirs: Sequence[Aspect], current: Aspect) -> Aspect:
    """Return `current` with what `theirs` changed of `ancestor`; `current` where that is there.

    `theirs` are the versions that others wrote since, oldest first, at least one. An entry that
    any of them added is put back, for one that lacks it may come from somebody who had not seen
    it; so is all that the last of them has. What was taken away or changed is so where the last of
    them says it. Entries of lists and maps are told by their keys, all else is one value.
    """
    changes: dict[str, Any] = {}
    for field in dict.fromkeys((*ancestor, *(key for one in theirs for key in one))):
        before, now = ancestor.get(field), current.get(field)
        value = _rebased(name, field, before, [one.get(field) for one in theirs], now)
        if not same_json(value, now):
            changes[field] = value
    if not changes:
        return current
    return {field: value for field, value in {**current, **changes}.items() if value is not None}


def with_claims_of(one: MergedEntity, stored: StoredEntity) -> StoredEntity:
    """Return `stored` with a base that has all that `one` claimed, whatever was written over it."""
    home = properties_aspect(entity_type_of(one.urn))
    now = None if home is None else stored.get(home)
    if home is None or now is None or one.writer is None:
        return stored
    said = [proposal.aspect for proposal in one.proposals if proposal.aspect_name == home]
    if home in one.stored:
        said.append(one.stored[home].value)
    claimed = [custom_properties(value) for value in said]
    custom = with_claims(custom_properties(now.value), one.writer, claimed)
    return {**stored, home: StoredAspect({**now.value, CUSTOM: custom}, now.version)}


def _rebased(name: str, field: str, before: Any, theirs: Sequence[Any], now: Any) -> Any:
    present = [value for value in (before, *theirs, now) if value is not None]
    if field not in single_fields(name):
        rebased: Any = None
        if all(isinstance(value, dict) for value in present):
            rebased = _rebased_map(before or {}, [one or {} for one in theirs], now or {})
        elif all(isinstance(value, list) for value in present):
            first, *maps, last = (_by_key(name, field, one or []) for one in (before, *theirs, now))
            rebased = list(_rebased_map(first, maps, last).values())
        if rebased is not None:
            return rebased if rebased or now is not None else None
    return now if same_json(before, theirs[-1]) else theirs[-1]


def _by_key(name: str, field: str, entries: list[Any]) -> dict[Any, Any]:
    return dict(zip(keys_of(name, field, entries), entries, strict=True))


def _rebased_map(
    before: Mapping[Any, Any], theirs: Sequence[Mapping[Any, Any]], now: Mapping[Any, Any]
) -> dict[Any, Any]:
    last = theirs[-1]
    kept = {key: entry for key, entry in now.items() if key in last or key not in before}
    added = {
        key: entry
        for one in theirs
        for key, entry in one.items()
        if key not in before and key not in kept
    }
    # What is ours to take away goes again when the aspect is merged anew.
    said = {
        key: entry
        for key, entry in last.items()
        if key not in kept or not same_json(before.get(key), entry)
    }
    return {**kept, **added, **said}
