"""The merge of one field: entries of lists and maps by their keys, all else as one value."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from mlcat_ingest.metadata.codec import JsonObject
from mlcat_ingest.metadata.entries import (
    COLLECTIONS,
    LISTS,
    Key,
    keys_of,
    map_keys,
    same_json,
    single_fields,
)
from mlcat_ingest.metadata.reserved import is_own
from mlcat_ingest.pipeline.merge.applied import (
    FINGERPRINT_CHARS,
    fingerprint,
    fingerprints_in,
    join_fingerprints,
    key_fingerprint,
    text_of_keys,
)
from mlcat_ingest.pipeline.merge.rules import YIELDING
from mlcat_ingest.recipe.model import Policy

_NONE: Final[frozenset[str]] = frozenset()


class AppliedField(NamedTuple):
    """The text of a field in our base, and joined those in the bases of all others."""

    ours: str = ""
    others: str = ""


MergedField: TypeAlias = tuple[object, str]
"""A field after the merge, None where it is not there, and its text in our base."""


def merge_field(
    aspect_name: str,
    name: str,
    policy: Policy,
    stored: object,
    fresh: object,
    applied: AppliedField,
) -> MergedField:
    """Return a stored field with the entries of others and the value of the source.

    None and empty collections in `fresh` mean that the source has nothing there, and None in a
    record that it has no such sub-field. The value is `stored` itself where nothing changes.
    """
    shape = stored if fresh is None else fresh
    if name not in single_fields(aspect_name):
        if isinstance(shape, dict):
            return _merge_map(policy, stored, fresh if isinstance(fresh, dict) else {}, applied)
        if isinstance(shape, LISTS):
            entries = list(fresh) if isinstance(fresh, LISTS) else []
            return _merge_list(aspect_name, name, policy, stored, entries, applied)
    yields = policy != "ours" and name in YIELDING.get(aspect_name, _NONE)
    # An equal value may be claimed: another recipe's, or of our own state before it was lost.
    is_equal = yields and same_json(stored, fresh)
    if yields and not is_equal and not _is_in(fingerprint(stored), applied.ours):
        return stored, ""
    return _merge_value(policy, stored, fresh, applied)


def absent_field(
    aspect_name: str, name: str, policy: Policy, fresh: object, applied: str
) -> MergedField:
    """Return a field that is not stored: all of it is ours."""
    value = fresh
    if not isinstance(fresh, COLLECTIONS) or name in single_fields(aspect_name):
        value = _without_empty(fresh)
        text = fingerprint(value)
    elif isinstance(fresh, dict):
        text = text_of_keys(map_keys(fresh))
    else:
        keys = keys_of(aspect_name, name, fresh)
        text = text_of_keys(tuple(keys))
        if len(text) != len(keys) * FINGERPRINT_CHARS:
            value = list(dict(zip(keys, fresh, strict=True)).values())
    if applied and policy == "union":
        text = join_fingerprints(fingerprints_in(text) | fingerprints_in(applied))
    return value, text


def _merge_map(
    policy: Policy, stored: object, fresh: Mapping[str, object], applied: AppliedField
) -> MergedField:
    keys = map_keys(fresh)
    if not isinstance(stored, dict):
        # A stored value of another kind gives way, but not to nothing.
        return fresh or stored, text_of_keys(keys)
    gone, text = _shares(policy, keys, map_keys(stored), applied)
    kept = stored
    if policy == "ours":
        kept = {key: entry for key, entry in stored.items() if key in fresh or is_own(key)}
    elif gone:
        kept = {
            key: entry
            for key, entry in stored.items()
            if key in fresh or is_own(key) or key_fingerprint(key) not in gone
        }
    return _field_of(stored, {**kept, **fresh}, text)


def _merge_list(
    aspect_name: str,
    name: str,
    policy: Policy,
    stored: object,
    fresh: Sequence[object],
    applied: AppliedField,
) -> MergedField:
    ours = dict(zip(keys_of(aspect_name, name, fresh), fresh, strict=True))
    once = fresh if len(ours) == len(fresh) else list(ours.values())
    if not isinstance(stored, LISTS):
        return once or stored, text_of_keys(tuple(ours))
    if once is fresh and same_json(stored, fresh) and applied.ours == text_of_keys(tuple(ours)):
        return stored, applied.ours
    keys = keys_of(aspect_name, name, stored)
    gone, text = _shares(policy, tuple(ours), keys, applied)
    if policy == "ours":
        return _field_of(stored, once, text)
    return _field_of(stored, _unite_entries(keys, stored, ours, gone), text)


def _unite_entries(
    keys: Sequence[Key], stored: Sequence[object], ours: Mapping[Key, object], gone: frozenset[str]
) -> list[object]:
    merged = []
    done: set[Key] = set()
    for key, entry in zip(keys, stored, strict=True):
        if key in ours:
            if key not in done:
                done.add(key)
                merged.append(_overlay(entry, ours[key]))
        elif not gone or key_fingerprint(key) not in gone:
            merged.append(entry)
    merged.extend(entry for key, entry in ours.items() if key not in done)
    return merged


class _Shares(NamedTuple):
    """Fingerprints of our entries to remove, and the text of the entries that are now ours."""

    gone: frozenset[str]
    text: str


def _shares(
    policy: Policy, fresh: tuple[Key, ...], stored: Sequence[Key], applied: AppliedField
) -> _Shares:
    fresh_text = text_of_keys(fresh)
    if applied.ours == fresh_text or policy == "ours":
        return _Shares(_NONE, fresh_text)
    ours, others = fingerprints_in(applied.ours), fingerprints_in(applied.others)
    stored_keys = set(stored)
    # What people put there before us is never ours to remove; what another writer put there is.
    applied_now = {
        own
        for key in fresh
        if (own := key_fingerprint(key)) in ours or own in others or key not in stored_keys
    }
    if policy == "union":
        return _Shares(_NONE, join_fingerprints(applied_now | ours))
    return _Shares(ours - fingerprints_in(fresh_text) - others, join_fingerprints(applied_now))


def _merge_value(
    policy: Policy, stored: object, fresh: object, applied: AppliedField
) -> MergedField:
    if fresh is None:
        return _clear_value(policy, stored, applied)
    given = _without_empty(fresh)
    if policy != "ours" and isinstance(stored, dict) and isinstance(given, dict):
        value, own = _over_record(policy, stored, given, applied, drops=given is not fresh)
    else:
        value, own = given, fingerprint(given)
    if not same_json(stored, value):
        return value, own
    if policy == "ours" or _is_in(own, applied.ours) or _is_in(fingerprint(stored), applied.others):
        return stored, own
    return stored, ""


def _over_record(
    policy: Policy, stored: JsonObject, given: JsonObject, applied: AppliedField, *, drops: bool
) -> MergedField:
    """Return a record with the sub-fields of the stored one that it does not have, and its text.

    The source `drops` them where all of the stored record is what we wrote.
    """
    value = {**stored, **given}
    if len(value) == len(given) or not _is_in(fingerprint(stored), applied.ours):
        return value, fingerprint(given)
    if drops and _clear_value(policy, stored, applied)[0] is None:
        value = given
    return value, fingerprint(value)


def _clear_value(policy: Policy, stored: object, applied: AppliedField) -> MergedField:
    """Return a value that the source dropped: it is removed only if it is still ours."""
    if policy == "ours":
        return None, ""
    own = fingerprint(stored)
    if not _is_in(own, applied.ours):
        return stored, ""
    if policy == "union":
        return stored, own
    return stored if _is_in(own, applied.others) else None, ""


def _is_in(own: str, applied: str) -> bool:
    return own in fingerprints_in(applied)


def _without_empty(fresh: object) -> object:
    """Return a value without the sub-fields that the source says are empty."""
    if isinstance(fresh, dict) and None in fresh.values():
        return {name: value for name, value in fresh.items() if value is not None}
    return fresh


def _overlay(stored: object, fresh: object) -> object:
    """Return `fresh` with the fields of a stored record that it does not know."""
    if isinstance(stored, dict) and isinstance(fresh, dict):
        return {**stored, **fresh}
    return fresh


def _field_of(stored: object, value: object, text: str) -> MergedField:
    return stored if same_json(stored, value) else value, text
