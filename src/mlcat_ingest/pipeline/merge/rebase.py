"""Putting back what somebody wrote and somebody else wrote over."""

from collections.abc import Mapping
from typing import Any

from mlcat_ingest.metadata.proposal import Aspect
from mlcat_ingest.pipeline.merge.equality import same_json
from mlcat_ingest.pipeline.merge.keys import keys_of
from mlcat_ingest.pipeline.merge.shape import single_fields


def rebase_aspect(name: str, ancestor: Aspect, theirs: Aspect, current: Aspect) -> Aspect:
    """Return `current` with what `theirs` changed of `ancestor`; `current` where that is there.

    Entries of lists and maps are told by their keys, all else is one value.
    """
    changes: dict[str, Any] = {}
    for field in dict.fromkeys((*ancestor, *theirs)):
        before, after, now = ancestor.get(field), theirs.get(field), current.get(field)
        if same_json(before, after) or same_json(after, now):
            continue
        changes[field] = _rebased(name, field, before, after, now)
    if not changes:
        return current
    return {field: value for field, value in {**current, **changes}.items() if value is not None}


def _rebased(name: str, field: str, before: Any, after: Any, now: Any) -> Any:
    present = [value for value in (before, after, now) if value is not None]
    if field not in single_fields(name):
        if all(isinstance(value, dict) for value in present):
            return _rebased_map(before or {}, after or {}, now or {})
        if all(isinstance(value, list) for value in present):
            maps = (_by_key(name, field, value or []) for value in (before, after, now))
            return list(_rebased_map(*maps).values())
    return after


def _by_key(name: str, field: str, entries: list[Any]) -> dict[Any, Any]:
    return dict(zip(keys_of(name, field, entries), entries, strict=True))


def _rebased_map(
    before: Mapping[Any, Any], after: Mapping[Any, Any], now: Mapping[Any, Any]
) -> dict[Any, Any]:
    kept = {key: entry for key, entry in now.items() if key in after or key not in before}
    theirs = {
        key: entry
        for key, entry in after.items()
        if key not in before or not same_json(before[key], entry)
    }
    return {**kept, **theirs}
