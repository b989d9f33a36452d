"""The base of a three-way merge: the last-applied set of each recipe, stored on the entity itself.

It is the custom property `mlcat.applied.<recipe>` of the entity's properties aspect. It is short,
since pages show it: `2`, and by a colon apart the id of the writer and, for each field, a label of
4 characters and its text. The text of a collection joins, in sorted order, a fingerprint of 6
characters an entry; the text of a single value is that value's fingerprint. A field that is not
declared is spelled out in place of its label, as `=<aspect>=<field>=`.
"""

import hashlib
from binascii import b2a_base64
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote, unquote

from mlcat_ingest.metadata.codec import canonical_bytes
from mlcat_ingest.metadata.identity import Writer
from mlcat_ingest.metadata.registry import ASPECTS
from mlcat_ingest.metadata.reserved import APPLIED_PREFIX, VERDICTS_PREFIX

AppliedFields = Mapping[str, str]
"""Field name to the text of the fingerprints of its entries."""

Base = Mapping[str, AppliedFields]
"""Aspect name to the fields that a recipe applied."""

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})

_FORMAT: Final = "2"
FINGERPRINT_CHARS: Final = 6
_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")
_LABEL_CHARS: Final = 4
_BETWEEN: Final = ":"
_HEAD: Final = _FORMAT + _BETWEEN
_SPELLED: Final = "="
_SPELLED_PARTS: Final = 3
_CACHED_KEYS: Final = 8192
_CACHED_TEXTS: Final = 1024
_LONGEST_CACHED: Final = 64


def fingerprint(value: object) -> str:
    """Return 6 base64url characters of SHA-256 over the canonical JSON of a value."""
    return _digest(canonical_bytes(value))


def _digest(data: bytes) -> str:
    text = b2a_base64(hashlib.sha256(data).digest()[:FINGERPRINT_CHARS]).translate(_URL_SAFE)
    return text[:FINGERPRINT_CHARS].decode()


@lru_cache(_CACHED_KEYS)
def key_fingerprint(key: Hashable) -> str:
    """Return the fingerprint of a merge key; one that is bytes is canonical JSON already."""
    return _digest(key) if isinstance(key, bytes) else fingerprint(key)


def text_of_keys(keys: tuple[Hashable, ...]) -> str:
    """Return the text of the entries with these merge keys, each once."""
    # Runs of one experiment have the same keys over and over; a run with thousands is not kept.
    return _cached_text(keys) if len(keys) <= _LONGEST_CACHED else _text(keys)


def _text(keys: Iterable[Hashable]) -> str:
    return join_fingerprints(map(key_fingerprint, dict.fromkeys(keys)))


_cached_text = lru_cache(_CACHED_TEXTS)(_text)


def join_fingerprints(fingerprints: Iterable[str]) -> str:
    """Return the text of `fingerprints`."""
    return "".join(sorted(fingerprints))


def fingerprints_in(text: str) -> frozenset[str]:
    """Return the fingerprints that a text joins."""
    return frozenset(
        text[at : at + FINGERPRINT_CHARS] for at in range(0, len(text), FINGERPRINT_CHARS)
    )


@dataclass(frozen=True, slots=True)
class Bases:
    """The bases in an entity's custom properties: ours, None where there is none, and the others.

    Attributes:
        others: the texts of all other writers, joined field by field.
        id: the writer id of the base of our name, empty where that has none.
        is_shared: whether another writer's base stands there, of our name or another.
    """

    ours: Base | None = None
    others: Base = field(default_factory=lambda: NOTHING)
    id: str = ""
    is_shared: bool = False

    @property
    def joined(self) -> Base:
        """The texts of all writers, joined field by field."""
        return _concatenate((self.ours, self.others))


RememberedBase = Callable[[str], str | None]
"""Returns the base of an entity, by URN, as the state of its writer has it; None for no base."""


def read_bases(
    properties: Mapping[str, object],
    writer: Writer | None,
    remembered: Callable[[], str | None] = lambda: None,
) -> Bases:
    """Return the bases in the custom properties of an entity as `writer` sees them.

    Another tool may have dropped the one of `writer`, or another state of its name put its own
    there: then it is the `remembered` one.
    """
    bases = bases_by_writer(properties)
    name, ours = "" if writer is None else writer.name, None
    base_id = writer_id_of(properties.get(applied_key(name)))
    if writer is None or writer.is_own(base_id):
        ours = bases.pop(name, None)
    if ours is None:
        ours = decode(remembered())
    return Bases(ours, _concatenate(bases.values()), base_id, bool(bases))


def bases_by_writer(properties: Mapping[str, object]) -> dict[str, Base | None]:
    """Return each recipe's base in custom properties, None for one that is not readable."""
    return {
        key.removeprefix(APPLIED_PREFIX): decode(text)
        for key, text in properties.items()
        if key.startswith(APPLIED_PREFIX)
    }


def _concatenate(bases: Iterable[Base | None]) -> dict[str, dict[str, str]]:
    """Return the texts of all `bases`, joined field by field."""
    texts: dict[str, dict[str, str]] = {}
    for base in bases:
        for aspect, applied in (base or NOTHING).items():
            fields = texts.setdefault(aspect, {})
            for name, text in applied.items():
                fields[name] = fields.get(name, "") + text
    return texts


def with_applied(
    properties: Mapping[str, object],
    writer: Writer,
    earlier: Iterable[Mapping[str, object]],
    between: Iterable[Mapping[str, object]] = (),
) -> Mapping[str, object]:
    """Return custom `properties` whose base of `writer` also has what it applied in `earlier` ones.

    Several may write at once: the base of one of them may be written over, and its entries are
    still its own to take away. So are those that any writer had `between`, and none has now: they
    would be nobody's for good, and whoever still has them writes them again.
    """
    key = applied_key(writer.name)
    texts = [custom.get(key) for custom in (properties, *earlier)]
    own = [text for text in texts if writer.is_own(writer_id_of(text))]
    now = read_bases(properties, None).joined
    lost = {
        aspect: {
            name: join_fingerprints(
                fingerprints_in(text) - fingerprints_in(now.get(aspect, NOTHING).get(name, ""))
            )
            for name, text in fields.items()
        }
        for aspect, fields in _concatenate(
            read_bases(custom, None).joined for custom in between
        ).items()
    }
    joint = {
        aspect: {name: join_fingerprints(fingerprints_in(text)) for name, text in fields.items()}
        for aspect, fields in _concatenate((*map(decode, own), lost)).items()
    }
    base_id = writer.id or writer_id_of(texts[0])
    return {**properties, key: encode(joint, base_id)} if joint else properties


def applied_key(recipe: str) -> str:
    """Return the custom property that holds the base of a recipe."""
    return APPLIED_PREFIX + recipe


def verdict_key(recipe: str) -> str:
    """Return the custom property that holds the tags of a recipe's verdicts."""
    return VERDICTS_PREFIX + recipe


def verdict_tags(properties: Mapping[str, object], recipe: str) -> tuple[str, ...]:
    """Return the tags among an entity's that verdicts gave it for a recipe."""
    text = properties.get(verdict_key(recipe))
    return tuple(text.split(",")) if isinstance(text, str) else ()


def encode(base: Base, writer_id: str = "") -> str:
    """Return a base as the text of its custom property."""
    parts = [
        label + applied[name]
        for aspect, applied in sorted(base.items())
        for label, name in _labels(aspect, tuple(applied))
    ]
    return _BETWEEN.join((_FORMAT, writer_id, *parts))


@lru_cache(_CACHED_TEXTS)
def _labels(aspect: str, names: tuple[str, ...]) -> Sequence[tuple[str, str]]:
    """Return the label of each field of an aspect, and the field, in the order of their names."""
    known = {labelled: label for label, labelled in _names_by_label().items()}
    spelled = {name: known.get((aspect, name)) or _spelled_out(aspect, name) for name in names}
    return [(spelled[name], name) for name in sorted(names)]


def writer_id_of(text: object) -> str:
    """Return the writer id in the text of a base, empty where it has none or is no base."""
    return text.split(_BETWEEN)[1] if isinstance(text, str) and text.startswith(_HEAD) else ""


def decode(text: object) -> Base | None:
    """Return the base that a text says; None for anything but a whole base of the known format."""
    if not isinstance(text, str) or not text.startswith(_HEAD):
        return None
    base: dict[str, dict[str, str]] = {}
    for part in text.split(_BETWEEN)[2:]:
        applied_field = _field_of(part)
        if applied_field is None:
            return None
        aspect, name, applied = applied_field
        base.setdefault(aspect, {})[name] = applied
    return base


def _field_of(part: str) -> tuple[str, str, str] | None:
    """Return aspect, field and text of one part of a base, None for one that is not understood."""
    label, text = part[:_LABEL_CHARS], part[_LABEL_CHARS:]
    names = _names_by_label().get(label)
    if names is None and part.startswith(_SPELLED) and part.count(_SPELLED) == _SPELLED_PARTS:
        _, aspect, name, text = part.split(_SPELLED)
        names = unquote(aspect), unquote(name)
    return None if names is None or len(text) % FINGERPRINT_CHARS else (*names, text)


def _spelled_out(aspect: str, name: str) -> str:
    return _SPELLED.join(("", quote(aspect, safe=""), quote(name, safe=""), ""))


@cache
def _names_by_label() -> Mapping[str, tuple[str, str]]:
    return {
        _digest(f"{aspect}.{name}".encode())[:_LABEL_CHARS]: (aspect, name)
        for aspect, spec in ASPECTS.items()
        if spec.type is not None
        for name in spec.type.fields
    }
