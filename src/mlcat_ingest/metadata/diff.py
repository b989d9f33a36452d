"""The difference between two values of an aspect, field by field; pure.

Entries of lists and maps are known by their merge keys, all else is one value. Keys `mlcat.*` are
this package's own bookkeeping and never shown.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final, Literal, NamedTuple

from mlcat_ingest.metadata.entries import LISTS, Key, keys_of, same_json, single_fields
from mlcat_ingest.metadata.reserved import is_own

_TIMES: Final = frozenset(
    {"time", "date", "createdAt", "created", "lastModified", "lastModifiedAt", "removedTimestamp"}
)
"""Fields that hold epoch milliseconds."""

_FIRST_TIME_MS: Final = 10**11
"""Smaller numbers are no times of these decades."""

Sign = Literal["added", "changed", "removed"]


class _Absent(Enum):
    """The one value that says that there is none; null is a value."""

    ABSENT = "absent"


ABSENT: Final = _Absent.ABSENT


class Change(NamedTuple):
    """One entry of a collection, or one whole value; ABSENT where it is not there."""

    label: str
    old: Any
    new: Any

    @property
    def sign(self) -> Sign:
        """The sign of the change: added, changed or removed."""
        if self.old is ABSENT:
            return "added"
        return "removed" if self.new is ABSENT else "changed"


@dataclass(frozen=True, slots=True)
class FieldDiff:
    """The difference in one field: entries of a `collection`, or its one whole value.

    `reordered` says that the entries would also stand in another order than what is there followed
    by what is new.
    """

    field: str
    changes: tuple[Change, ...]
    collection: bool = False
    reordered: bool = False


@dataclass(frozen=True, slots=True)
class AspectDiff:
    """The difference in one aspect; `created` and `deleted` speak of the aspect as a whole."""

    aspect: str
    fields: tuple[FieldDiff, ...]
    created: bool = False
    deleted: bool = False


def diff_aspect(
    name: str, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None
) -> AspectDiff | None:
    """Return what would change in an aspect; None where only this package's own keys do."""
    before, after = old or {}, new or {}
    fields = tuple(
        diff
        for field in dict.fromkeys((*before, *after))
        if (diff := _diff_field(name, field, before.get(field, ABSENT), after.get(field, ABSENT)))
    )
    created, deleted = old is None, new is None
    if not fields and not (created or deleted):
        return None
    return AspectDiff(name, fields, created=created, deleted=deleted)


def _diff_field(aspect: str, field: str, old: Any, new: Any) -> FieldDiff | None:
    present = [value for value in (old, new) if value is not ABSENT]
    is_collection = field not in single_fields(aspect) and any(
        all(isinstance(value, kind) for value in present) for kind in (dict, LISTS)
    )
    if not is_collection:
        same = (old is ABSENT) == (new is ABSENT) and same_json(old, new)
        return None if same else FieldDiff(field, (Change("", old, new),))
    before, after = (_named(aspect, field, value) for value in (old, new))
    changes = tuple(_changes(before, after))
    expected = [entry for entry in before if entry in after]
    expected += [entry for entry in after if entry not in before]
    # A map has no order that anybody could rely on.
    reordered = not isinstance(new, dict) and expected != list(after)
    if not changes and not reordered:
        return None
    return FieldDiff(field, changes, collection=True, reordered=reordered)


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    for label, old in before.items():
        new = after.get(label, ABSENT)
        if new is ABSENT or not same_json(old, new):
            yield Change(label, old, new)
    for label, new in after.items():
        if label not in before:
            yield Change(label, ABSENT, new)


def _named(aspect: str, field: str, value: Any) -> Mapping[str, Any]:
    """Return the entries of a collection by their names, none where it is not there."""
    if isinstance(value, dict):
        return {key: entry for key, entry in value.items() if not is_own(str(key))}
    return {} if value is ABSENT else entries_of(aspect, field, value)


def entries_of(aspect: str, field: str, entries: Sequence[Any]) -> dict[str, Any]:
    """Return the entries of a list by names that tell them apart, in their order."""
    named: dict[str, Any] = {}
    for key, entry in zip(keys_of(aspect, field, entries), entries, strict=True):
        label = text = _text_of(key)
        again = 1
        while label in named:
            again += 1
            label = f"{text} #{again}"
        named[label] = entry
    return named


def _text_of(key: Key) -> str:
    if isinstance(key, bytes):
        return key.decode("utf-8", "backslashreplace")
    return key if isinstance(key, str) else " ".join(part for part in key if part)


def value_text(label: str, field: str, value: Any) -> str:
    """Return a value as text; of a record what its label does not say already."""
    shown = value_beside(label, field, value)
    return shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False)


def value_beside(label: str, field: str, value: Any) -> Any:
    """Return a value with its times as dates; of a record what its label does not say already."""
    if value is ABSENT or value == label:
        return ""
    if isinstance(value, dict) and label:
        rest = {key: item for key, item in value.items() if not _is_in_label(label, item)}
        value = next(iter(rest.values())) if len(rest) == 1 else rest or ""
    return with_dates(field, value)


def with_dates(field: str, value: Any) -> Any:
    """Return a value with its times as dates; `field` is what holds it."""
    if isinstance(value, dict):
        return {key: with_dates(key, item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [with_dates(field, item) for item in value]
    is_time = field in _TIMES and isinstance(value, int) and value >= _FIRST_TIME_MS
    return _date_of(value) if is_time else value


def _date_of(epoch_ms: int) -> str:
    """Return a time as a date with its zone, or the number where no calendar has it."""
    try:
        return datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return str(epoch_ms)


def _is_in_label(label: str, value: Any) -> bool:
    return isinstance(value, str) and (value == label or value in label.split(" "))
