"""The merge of one field: entries of lists and maps by their keys, all else as one value."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from mlcat_ingest.pipeline.merge.base import (
    is_own,
    joined,
    mark,
    mark_of_key,
    marks_in,
    text_of_keys,
)
from mlcat_ingest.pipeline.merge.equality import COLLECTIONS, LISTS, same_json
from mlcat_ingest.pipeline.merge.keys import Key, keys_of, map_keys
from mlcat_ingest.pipeline.merge.shape import single_fields
from mlcat_ingest.recipe.merge import Policy

_NONE: Final[frozenset[str]] = frozenset()


class ClaimedField(NamedTuple):
    """The text of a field in our base, and joined those in the bases of all others."""

    ours: str = ""
    others: str = ""


class MergedField(NamedTuple):
    """A field after the merge, None where it is not there, and its text in our base."""

    value: Any
    claim: str


def merge_field(
    aspect_name: str, name: str, policy: Policy, stored: Any, fresh: Any, claimed: ClaimedField
) -> MergedField:
    """Return a field with what others wrote and what the source says.

    None and empty collections in `fresh` mean that the source has nothing there. The value is
    `stored` itself where nothing changes.
    """
    if stored is None:
        return _merge_absent(aspect_name, name, policy, fresh, claimed.ours)
    shape = stored if fresh is None else fresh
    if name not in single_fields(aspect_name):
        if isinstance(shape, dict):
            return _merge_map(policy, stored, {} if fresh is None else fresh, claimed)
        if isinstance(shape, LISTS):
            entries = [] if fresh is None else list(fresh)
            return _merge_list(aspect_name, name, policy, stored, entries, claimed)
    return _merge_value(policy, stored, fresh, claimed)


def first_field(aspect_name: str, name: str, fresh: Any) -> MergedField:
    """Return a field of which nothing is stored or claimed: all that the source says is ours."""
    if not isinstance(fresh, COLLECTIONS) or name in single_fields(aspect_name):
        return MergedField(fresh, mark(fresh))
    if isinstance(fresh, dict):
        return MergedField(fresh, text_of_keys(map_keys(fresh)))
    keys = keys_of(aspect_name, name, fresh)
    if len(set(keys)) == len(keys):
        return MergedField(fresh, text_of_keys(tuple(keys)))
    once = dict(zip(keys, fresh, strict=True))
    return MergedField(list(once.values()), text_of_keys(tuple(once)))


def _merge_absent(
    aspect_name: str, name: str, policy: Policy, fresh: Any, claimed: str
) -> MergedField:
    if fresh is None:
        return MergedField(None, "")
    value, claim = first_field(aspect_name, name, fresh)
    if claimed and policy == "union":
        claim = joined(marks_in(claim) | marks_in(claimed))
    return MergedField(value, claim)


def _merge_map(
    policy: Policy, stored: Any, fresh: Mapping[str, Any], claimed: ClaimedField
) -> MergedField:
    keys = map_keys(fresh)
    if not isinstance(stored, dict):
        # A stored value of another kind gives way, but not to nothing.
        return MergedField(fresh or stored, text_of_keys(keys))
    gone, claim = _shares(policy, keys, map_keys(stored), claimed)
    kept = stored
    if policy == "ours":
        kept = {key: entry for key, entry in stored.items() if key in fresh or is_own(key)}
    elif gone:
        kept = {
            key: entry
            for key, entry in stored.items()
            if key in fresh or is_own(key) or mark_of_key(key) not in gone
        }
    return _changed(stored, {**kept, **fresh}, claim)


def _merge_list(
    aspect_name: str,
    name: str,
    policy: Policy,
    stored: Any,
    fresh: Sequence[Any],
    claimed: ClaimedField,
) -> MergedField:
    ours = dict(zip(keys_of(aspect_name, name, fresh), fresh, strict=True))
    once = fresh if len(ours) == len(fresh) else list(ours.values())
    if not isinstance(stored, LISTS):
        return MergedField(once or stored, text_of_keys(tuple(ours)))
    if once is fresh and same_json(stored, fresh) and claimed.ours == text_of_keys(tuple(ours)):
        return MergedField(stored, claimed.ours)
    keys = keys_of(aspect_name, name, stored)
    gone, claim = _shares(policy, tuple(ours), keys, claimed)
    if policy == "ours":
        return _changed(stored, once, claim)
    return _changed(stored, _united(keys, stored, ours, gone), claim)


def _united(
    keys: Sequence[Key], stored: Sequence[Any], ours: Mapping[Key, Any], gone: frozenset[str]
) -> list[Any]:
    merged = []
    done: set[Key] = set()
    for key, entry in zip(keys, stored, strict=True):
        if key in ours:
            if key not in done:
                done.add(key)
                merged.append(_overlaid(entry, ours[key]))
        elif not gone or mark_of_key(key) not in gone:
            merged.append(entry)
    merged.extend(entry for key, entry in ours.items() if key not in done)
    return merged


class _Shares(NamedTuple):
    """Whose entries are whose: marks of ours that go, and the text of those that are now ours."""

    gone: frozenset[str]
    claim: str


def _shares(
    policy: Policy, fresh: tuple[Key, ...], stored: Sequence[Key], claimed: ClaimedField
) -> _Shares:
    said = text_of_keys(fresh)
    if claimed.ours == said or policy == "ours":
        return _Shares(_NONE, said)
    ours, others = marks_in(claimed.ours), marks_in(claimed.others)
    standing = set(stored)
    # What people put there before us is never ours to remove; what another writer put there is.
    claim = {
        own
        for key in fresh
        if (own := mark_of_key(key)) in ours or own in others or key not in standing
    }
    if policy == "union":
        return _Shares(_NONE, joined(claim | ours))
    return _Shares(ours - marks_in(said) - others, joined(claim))


def _merge_value(policy: Policy, stored: Any, fresh: Any, claimed: ClaimedField) -> MergedField:
    if fresh is None:
        return _cleared(policy, stored, claimed)
    own = mark(fresh)
    value = fresh if policy == "ours" else _overlaid(stored, fresh)
    if not same_json(stored, value):
        return MergedField(value, own)
    if policy == "ours" or _is_in(own, claimed.ours) or _is_in(mark(stored), claimed.others):
        return MergedField(stored, own)
    return MergedField(stored, "")


def _cleared(policy: Policy, stored: Any, claimed: ClaimedField) -> MergedField:
    """Return a value that the source has no more: it goes only if it is still the one we wrote."""
    if policy == "ours":
        return MergedField(None, "")
    own = mark(stored)
    if not _is_in(own, claimed.ours):
        return MergedField(stored, "")
    if policy == "union":
        return MergedField(stored, own)
    return MergedField(stored if _is_in(own, claimed.others) else None, "")


def _is_in(own: str, claims: str) -> bool:
    return own == claims or own in marks_in(claims)


def _overlaid(stored: Any, fresh: Any) -> Any:
    """Return `fresh` with the fields of a stored record that it does not know."""
    if isinstance(stored, dict) and isinstance(fresh, dict):
        return {**stored, **fresh}
    return fresh


def _changed(stored: Any, value: Any, claim: str) -> MergedField:
    return MergedField(stored if same_json(stored, value) else value, claim)
