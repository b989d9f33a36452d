"""Merge keys: what makes two entries of a list the same entry.

Lists of texts and URNs are keyed by value and maps by their own keys; the registry names the lists
of records. A list of records that is not named there is keyed by each record's whole JSON value.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from mlcat_ingest.metadata.aspects.declaration import ATTRIBUTION
from mlcat_ingest.metadata.registry import ASPECTS
from mlcat_ingest.metadata.reserved import OWN_PREFIX
from mlcat_ingest.pipeline.merge.base import canonical_bytes, is_own

Key: TypeAlias = str | tuple[str | None, ...] | bytes
"""A text, the texts of several fields, or the canonical JSON of what is neither."""

KeyOf: TypeAlias = Callable[[Mapping[str, Any]], Any]


def _by_all(*names: str) -> KeyOf:
    def key(record: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(record.get(name) for name in names)

    return key


def _attributed(*names: str) -> KeyOf:
    """Key by fields and by who is said to have added the record (`attribution.source`)."""

    def key(record: Mapping[str, Any]) -> tuple[Any, ...]:
        attribution = record.get("attribution")
        source = attribution.get("source") if isinstance(attribution, Mapping) else None
        return (*(record.get(name) for name in names), source)

    return key


def _key_of(names: str) -> KeyOf:
    """Return the key that the fields `names`, separated by blanks, make of a record."""
    fields = names.split()
    if fields[-1] == ATTRIBUTION:
        return _attributed(*fields[:-1])
    return itemgetter(*fields) if len(fields) == 1 else _by_all(*fields)


RECORD_KEYS: Final[Mapping[str, Mapping[str, KeyOf]]] = MappingProxyType(
    {
        name: {field: _key_of(names) for field, names in spec.merge_keys.items()}
        for name, spec in ASPECTS.items()
        if spec.merge_keys
    }
)
"""Aspect name, then field name, to the key of one record of that list."""

_NO_KEY: Final = (AttributeError, KeyError, TypeError)
_TEXT: Final = frozenset({str})
_FIELDS: Final = frozenset({tuple})
_TEXT_OR_NONE: Final = frozenset({str, type(None)})


def keys_of(aspect_name: str, field: str, entries: Sequence[Any]) -> Sequence[Key]:
    """Return the merge key of each of `entries`, the items of list `field` of an aspect."""
    key_of = RECORD_KEYS.get(aspect_name, {}).get(field)
    if key_of is None:
        return entries if _TEXT.issuperset(map(type, entries)) else list(map(_by_value, entries))
    try:
        keys = list(map(key_of, entries))
    except _NO_KEY:
        # Somebody else's entry is no record, or has no such key: it is known by its value.
        return [_tolerant_key(key_of, entry) for entry in entries]
    if _are_plain(keys):
        return keys
    return [_tolerant_key(key_of, entry) for entry in entries]


def _are_plain(keys: Sequence[Any]) -> bool:
    kinds = set(map(type, keys))
    if kinds <= _TEXT:
        return True
    return kinds <= _FIELDS and _TEXT_OR_NONE.issuperset(type(part) for key in keys for part in key)


def _tolerant_key(key_of: KeyOf, entry: Any) -> Key:
    try:
        key: Key = key_of(entry)
    except _NO_KEY:
        return _by_value(entry)
    return key if _are_plain([key]) else _by_value(entry)


def _by_value(entry: Any) -> Key:
    return entry if isinstance(entry, str) else canonical_bytes(entry)


def map_keys(entries: Iterable[Any]) -> tuple[str, ...]:
    """Return the keys of a map that are entries: those that are not this package's own."""
    try:
        return tuple([key for key in entries if not key.startswith(OWN_PREFIX) or not is_own(key)])
    except AttributeError:
        # A key that is no text cannot be written either; whoever sends it says so.
        return tuple(key for key in entries if isinstance(key, str) and not is_own(key))
