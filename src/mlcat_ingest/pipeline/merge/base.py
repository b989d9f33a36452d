"""The base: which entries of an entity are ours, written beside them on the entity itself.

It is the custom property `mlcat.applied.<writer>` of the entity's properties aspect. Its value is
`1 ` and canonical JSON `{aspect: {field: text}}`. The text of a collection joins, in sorted order,
a mark of 8 characters an entry; the text of a single value is that value's own mark.
"""

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from mlcat_ingest.errors import CodecError
from mlcat_ingest.metadata.codec import canonical, loads
from mlcat_ingest.metadata.reserved import APPLIED_PREFIX, ENTRY_PREFIXES, OWN_PREFIX

Claims = Mapping[str, str]
"""Field name to the text of the marks of its entries."""

Base = Mapping[str, Claims]
"""Aspect name to claims."""

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})

_FORMAT: Final = "1 "
_MARK_BYTES: Final = 6
_MARK_CHARS: Final = 8
_CACHED_MARKS: Final = 8192
_CACHED_TEXTS: Final = 1024
_LONGEST_CACHED: Final = 64


def mark(value: Any) -> str:
    """Return the mark of a value: 8 base64url characters of SHA-256 over its canonical JSON."""
    return _mark_of(canonical_bytes(value))


def canonical_bytes(value: Any) -> bytes:
    """Return the canonical JSON of `value`, or some bytes of its own where it has no JSON form."""
    try:
        return canonical(value)
    except CodecError:
        return repr(value).encode("utf-8", "backslashreplace")


def _mark_of(data: bytes) -> str:
    return urlsafe_b64encode(hashlib.sha256(data).digest()[:_MARK_BYTES]).decode()


@lru_cache(_CACHED_MARKS)
def mark_of_key(key: Hashable) -> str:
    """Return the mark of a merge key; one that is bytes is canonical JSON already."""
    return _mark_of(key) if isinstance(key, bytes) else mark(key)


def text_of_keys(keys: tuple[Hashable, ...]) -> str:
    """Return the text of the entries with these merge keys."""
    # Runs of one experiment have the same keys over and over; a run with thousands is not kept.
    return _cached_text(keys) if len(keys) <= _LONGEST_CACHED else _text(keys)


def _text(keys: Iterable[Hashable]) -> str:
    return joined(map(mark_of_key, keys))


_cached_text = lru_cache(_CACHED_TEXTS)(_text)


def joined(marks: Iterable[str]) -> str:
    """Return the text of `marks`."""
    return "".join(sorted(marks))


def marks_in(text: str) -> frozenset[str]:
    """Return the marks that a text joins."""
    return frozenset(text[at : at + _MARK_CHARS] for at in range(0, len(text), _MARK_CHARS))


@dataclass(frozen=True, slots=True)
class Bases:
    """What an entity's custom properties say: our base, None where there is none, and others'.

    `others` has the texts of all other writers, joined field by field.
    """

    ours: Base | None = None
    others: Base = field(default_factory=lambda: NOTHING)


def read_bases(properties: Mapping[str, Any], writer: str | None) -> Bases:
    """Return the bases in the custom properties of an entity as `writer` sees them."""
    ours: Base | None = None
    others: dict[str, dict[str, str]] = {}
    own_key = applied_key(writer) if writer is not None else None
    for key, value in properties.items():
        if not key.startswith(APPLIED_PREFIX):
            continue
        base = decode(value)
        if key == own_key:
            ours = base
        else:
            for aspect, claims in (base or NOTHING).items():
                known = others.setdefault(aspect, {})
                for name, text in claims.items():
                    known[name] = known.get(name, "") + text
    return Bases(ours, others)


def with_claims(
    properties: Mapping[str, Any], writer: str, claimed: Iterable[Mapping[str, Any]]
) -> Mapping[str, Any]:
    """Return custom `properties` whose base of `writer` also has its claims in those of `claimed`.

    Where several write at once, what one of them has claimed may be written over, and is still its
    own to take away.
    """
    key = applied_key(writer)
    joint: dict[str, dict[str, str]] = {}
    for base in (decode(some.get(key)) for some in (properties, *claimed)):
        for aspect, claims in (base or NOTHING).items():
            known = joint.setdefault(aspect, {})
            for name, text in claims.items():
                known[name] = joined(marks_in(text) | marks_in(known.get(name, "")))
    return {**properties, key: encode(joint)} if joint else properties


def is_own(key: str) -> bool:
    """Return whether a custom property is this package's own."""
    return key.startswith(OWN_PREFIX) and not key.startswith(ENTRY_PREFIXES)


def applied_key(writer: str) -> str:
    """Return the custom property that holds the base of `writer`."""
    return APPLIED_PREFIX + writer


def encode(base: Base) -> str:
    """Return a base as the text of its custom property."""
    return _FORMAT + canonical(base).decode()


def decode(text: object) -> Base | None:
    """Return the base that a text says; None for anything but a whole base of this format."""
    if not isinstance(text, str) or not text.startswith(_FORMAT):
        return None
    try:
        base = loads(text[len(_FORMAT) :])
    except CodecError:
        return None
    return base if _is_base(base) else None


def _is_base(base: object) -> bool:
    return isinstance(base, dict) and all(map(_are_claims, base.values()))


def _are_claims(claims: object) -> bool:
    if not isinstance(claims, dict):
        return False
    texts = claims.values()
    return set(map(type, texts)) <= {str} and not any(len(text) % _MARK_CHARS for text in texts)
