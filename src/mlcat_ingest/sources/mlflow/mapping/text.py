"""Truncates texts and aspects to the sizes of the catalog, and replaces unusable characters."""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mlcat_ingest.core.redaction import redact_urls
from mlcat_ingest.core.text import plural, truncation
from mlcat_ingest.metadata.codec import dumps, text_of
from mlcat_ingest.metadata.proposal import Note
from mlcat_ingest.sources.mlflow.values.joined import LIMITS, SizeLimits

# Control characters but tab, newline and carriage return; and lone surrogates.
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_CUT = re.compile(r"… \[truncated, (\d+) characters\]$")

SQL_CLAMP: Final = 1.7976931348623157e308
"""The largest finite double: MLflow's SQL stores write it in place of infinity."""

MAX_INT64: Final = 2**63 - 1

_CAPS: Final = (2_000, 200, 40)
_BYTES_A_CHAR: Final = 4
_BYTES_AN_ENTRY: Final = 160
_LISTS: Final = ("trainingMetrics", "hyperParams", "customProperties")


@dataclass(slots=True)
class Truncator:
    """Truncates and cleans the values of one record; each change is a note for the report."""

    limits: SizeLimits = LIMITS
    notes: list[Note] = field(default_factory=list)

    def note(self, kind: str, detail: str) -> None:
        """Add a note."""
        self.notes.append(Note(kind, detail))

    def clean(self, text: str, where: str) -> str:
        """Return `text` as `clean` does, with a note where that changes it."""
        cleaned = clean(text)
        if cleaned != text:
            self.note("characters_replaced", where)
        return cleaned

    def text(self, text: str, where: str, limit: int | None = None, name: str | None = None) -> str:
        """Return `text` cleaned and cut to `limit` characters, those of a value by default.

        Notes name it by `where` and, of several, its `name`.
        """
        if limit is None:
            limit = self.limits.value_chars
        if len(text) <= limit and text.isprintable():
            return text
        if name is not None:
            where = f"{where} {name[: self.limits.name_chars]!r}"
        if len(text) > limit:
            self.note("truncated", f"{where}: {plural(len(text), 'character')}")
            return cut(self.clean(text, where), limit)
        return self.clean(text, where)

    def name(self, text: str, where: str) -> str:
        """Return the name of a parameter, metric, tag or custom property, likewise."""
        return self.text(text, where, self.limits.name_chars)

    def optional(self, text: str | None, where: str) -> str | None:
        """Return `text` likewise, None where there is none."""
        return self.text(text, where) if text else None

    def description(self, text: str | None, where: str = "description") -> str | None:
        """Return a description likewise, None where there is none."""
        return self.text(text, where, self.limits.description_chars) if text else None

    def time_ms(self, value: int | None, where: str) -> int | None:
        """Return epoch milliseconds if they fit the catalog's 64 bits, else None and a note."""
        if value is None or -MAX_INT64 <= value <= MAX_INT64:
            return value
        self.note("invalid_time", where)
        return None

    def time_stamp(
        self, time_ms: int | None, where: str, actor: str | None = None
    ) -> dict[str, Any] | None:
        """Return a `TimeStamp` record, or None where no time is known."""
        time_ms = self.time_ms(time_ms, where)
        if time_ms is None:
            return None
        return {"time": time_ms} if actor is None else {"time": time_ms, "actor": actor}

    def times(
        self,
        created_ms: int | None,
        updated_ms: int | None,
        actor: str | None = None,
        date: str = "date",
        names: tuple[str, str] = ("creation time", "last update"),
    ) -> dict[str, Any]:
        """Return the fields of two times, with their names in notes; the first is the default.

        Without an `actor` the first one says that there is none.
        """
        created = self.time_stamp(created_ms, names[0])
        updated_ms = created_ms if updated_ms is None else updated_ms
        return {
            date: None if created is None else created["time"],
            "created": None if created is None else {**created, "actor": actor},
            "lastModified": self.time_stamp(updated_ms, names[1]),
        }


def clean(text: str) -> str:
    """Return `text` with U+FFFD for every control character and lone surrogate."""
    return _UNFIT.sub("\ufffd", text)


def cut(text: str, limit: int) -> str:
    """Return at most `limit` characters of `text` and, if there were more, how many there were.

    A text that was cut before still tells how long it was at first.
    """
    if len(text) <= limit:
        return text
    before = _CUT.search(text)
    # Once an address is cut within its password, nothing shows that it has one.
    return redact_urls(text)[:limit] + truncation(before[1] if before else len(text))


def are_unchanged(texts: Collection[str], limit: int, *without: str) -> bool:
    """Return whether a `Truncator` would change none of `texts`, by one look at all of them.

    False is possible also for texts with line breaks, which it does not change. Texts with one of
    the parts `without` in them do not count as unchanged.
    """
    joined = "".join(texts)
    if not joined.isprintable() or any(part in joined for part in without):
        return False
    return len(joined) <= limit or max(map(len, texts)) <= limit


def number_texts(values: Sequence[float]) -> Sequence[str]:
    """Return the shortest texts that read back as `values`; NaN and infinities by name.

    The largest finite double is an infinity that a SQL store clamped. JSON has the same texts, made
    in a tenth of the time, which is 3 % of a first ingest: but for exponents, from 0.0001 down too.
    """
    data = text_of(values) or b""
    if values and b"0.0000" not in data and data.translate(None, b"0123456789.,-") == b"[]":
        return data[1:-1].decode().split(",")
    return [repr(one) if -SQL_CLAMP < one < SQL_CLAMP else _name_of(one) for one in values]


def _name_of(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def truncate_aspect(aspect: dict[str, Any], truncator: Truncator) -> dict[str, Any]:
    """Return a properties aspect that fits into one proposal, `aspect` itself where it does.

    Cost: nearly nothing for an ordinary aspect, whose size is only estimated, from above.
    """
    limits = truncator.limits
    custom: dict[str, str] = aspect["customProperties"]
    params: Sequence[Mapping[str, str]] = aspect.get("hyperParams", ())
    entries = len(custom) + len(params) + len(aspect.get("trainingMetrics", ()))
    chars = sum(map(len, custom.values())) + len(aspect.get("description") or "")
    chars += sum([len(entry["value"]) for entry in params])
    if (
        chars * _BYTES_A_CHAR + entries * (limits.name_chars + _BYTES_AN_ENTRY) * _BYTES_A_CHAR
        <= limits.aspect_bytes
    ):
        return aspect
    return _shrink(aspect, truncator)


def _shrink(aspect: dict[str, Any], truncator: Truncator) -> dict[str, Any]:
    """Return a properties aspect that fits: first the long values are cut, then lists are.

    Cost: serialises the aspect once a step, at most a dozen times.
    """
    most = truncator.limits.aspect_bytes
    size = len(dumps(aspect))
    if size <= most:
        return aspect
    truncator.note("truncated", f"properties of {plural(size, 'byte')}")
    for cap in _CAPS:
        aspect = _cut_values(aspect, cap)
        if len(dumps(aspect)) <= most:
            truncator.note("truncated", f"values cut to {plural(cap, 'character')}")
            return aspect
    while len(dumps(aspect)) > most:
        longest = max(_LISTS, key=lambda field: len(aspect.get(field) or ()))
        if len(aspect.get(longest) or ()) < 2:
            break
        aspect = {**aspect, longest: _first_half(aspect[longest])}
        truncator.note(
            "truncated", f"{longest} cut to {plural(len(aspect[longest]), 'entry', 'entries')}"
        )
    return aspect


def _first_half(entries: Any) -> Any:
    kept = len(entries) // 2
    if isinstance(entries, Mapping):
        return dict(list(entries.items())[:kept])
    return entries[:kept]


def _cut_values(aspect: dict[str, Any], cap: int) -> dict[str, Any]:
    result = dict(aspect)
    if result.get("description"):
        result["description"] = cut(result["description"], cap)
    properties = result.get("customProperties")
    if properties:
        result["customProperties"] = {key: cut(value, cap) for key, value in properties.items()}
    if result.get("hyperParams"):
        result["hyperParams"] = [
            {**entry, "value": cut(entry["value"], cap)} for entry in result["hyperParams"]
        ]
    return result
