"""Entries of the collections in aspects: merge keys, single values, and equality as JSON.

A merge key says which entries of two lists are the same entry. Lists of texts and URNs are keyed by
value and maps by their own keys; the registry names the lists of records. A list of records that is
not named there is keyed by each record's whole JSON value.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from mlcat_ingest.errors import CodecError
from mlcat_ingest.metadata.codec import canonical, canonical_bytes
from mlcat_ingest.metadata.declaration import ATTRIBUTION, RecordType
from mlcat_ingest.metadata.registry import ASPECTS, declared_fields
from mlcat_ingest.metadata.reserved import OWN_PREFIX, is_own


@cache
def single_fields(aspect_name: str) -> frozenset[str]:
    """Return the fields of an aspect whose list or object is one value, not a collection."""
    declared = (
        name
        for name, field in declared_fields(aspect_name).items()
        if isinstance(field.type, RecordType)
    )
    return one_value_fields(aspect_name).union(declared)


def one_value_fields(aspect_name: str) -> frozenset[str]:
    """Return the lists and maps of an aspect that its declaration takes for one value each."""
    spec = ASPECTS.get(aspect_name)
    return frozenset() if spec is None else spec.one_value


LISTS: Final = (list, tuple)
COLLECTIONS: Final = (dict, *LISTS)
"""The types that JSON writes with parts; asked several times a field."""


def same_json(left: object, right: object) -> bool:
    """Return whether two values are equal as JSON: 1 equals 1.0, and neither equals true."""
    if left != right:
        return False
    if isinstance(left, str):
        return True
    try:
        if canonical(left) == canonical(right):
            return True
    except CodecError:
        pass  # a number that has no JSON form here still compares
    return _same_kinds(left, right)


def _same_kinds(left: Any, right: Any) -> bool:
    """Return whether two values that are equal are so as JSON."""
    if isinstance(left, dict):
        return all(_same_kinds(value, right[key]) for key, value in left.items())
    if isinstance(left, LISTS):
        return all(map(_same_kinds, left, right))
    return isinstance(left, bool) == isinstance(right, bool)


Key: TypeAlias = str | tuple[str | None, ...] | bytes
"""A text, the texts of several fields, or the canonical JSON of what is neither."""

KeyOf: TypeAlias = Callable[[Any], Any]
"""Takes an entry of a list; one that is no record, or has no such key, raises."""


def _key_of(names: str) -> KeyOf:
    """Return the key that the fields `names`, separated by blanks, make of a record.

    The last may be the source of the attribution (`attribution.source`).
    """
    fields = names.split()
    if len(fields) == 1:
        return itemgetter(*fields)
    if fields[-1] != ATTRIBUTION:
        return lambda record: tuple(record.get(name) for name in fields)
    own = fields[:-1]

    def key(record: Mapping[str, object]) -> tuple[object, ...]:
        attribution = record.get("attribution")
        source = attribution.get("source") if isinstance(attribution, Mapping) else None
        return (*(record.get(name) for name in own), source)

    return key


RECORD_KEYS: Final[Mapping[str, Mapping[str, KeyOf]]] = MappingProxyType(
    {
        name: {field: _key_of(names) for field, names in spec.merge_keys.items()}
        for name, spec in ASPECTS.items()
    }
)
"""Aspect name, then field name, to the key of one record of that list."""

_NO_KEY: Final = (AttributeError, KeyError, TypeError)
_TEXT: Final = frozenset({str})
_FIELDS: Final = frozenset({tuple})
_TEXT_OR_NONE: Final = frozenset({str, type(None)})


def keys_of(aspect_name: str, field: str, entries: Sequence[object]) -> Sequence[Key]:
    """Return the merge key of each of `entries`, the items of list `field` of an aspect."""
    key_of = RECORD_KEYS.get(aspect_name, {}).get(field)
    if key_of is None:
        texts: Any = entries
        return texts if _TEXT.issuperset(map(type, entries)) else list(map(_by_value, entries))
    try:
        keys = list(map(key_of, entries))
    except _NO_KEY:
        # Somebody else's entry is no record, or has no such key: it is known by its value.
        return [_tolerant_key(key_of, entry) for entry in entries]
    if _are_plain(keys):
        return keys
    return [_tolerant_key(key_of, entry) for entry in entries]


def _are_plain(keys: Sequence[Key | tuple[object, ...]]) -> bool:
    return _TEXT.issuperset(map(type, keys)) or (
        _FIELDS.issuperset(map(type, keys))
        and _TEXT_OR_NONE.issuperset(type(part) for key in keys for part in key)
    )


def _tolerant_key(key_of: KeyOf, entry: object) -> Key:
    try:
        key: Key = key_of(entry)
    except _NO_KEY:
        return _by_value(entry)
    return key if _are_plain([key]) else _by_value(entry)


def _by_value(entry: object) -> Key:
    return entry if isinstance(entry, str) else canonical_bytes(entry)


def map_keys(entries: Iterable[object]) -> tuple[str, ...]:
    """Return the keys of a map that are entries: those that are not this package's own."""
    keys: Any = entries
    try:
        return tuple([key for key in keys if not key.startswith(OWN_PREFIX) or not is_own(key)])
    except AttributeError:
        # A key that is no text cannot be written either; the delivery refuses it.
        return tuple(key for key in entries if isinstance(key, str) and not is_own(key))
