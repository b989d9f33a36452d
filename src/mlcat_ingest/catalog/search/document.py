"""The document of an entity in the search index, made of its aspects without I/O."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple

from mlcat_ingest.catalog.search.fields import (
    BODY_ENDINGS,
    COLUMNS,
    DURATION,
    URN,
    SearchableText,
    find_all,
    is_indexed,
)
from mlcat_ingest.catalog.search.tokens import fold, tokenize
from mlcat_ingest.metadata.codec import floats
from mlcat_ingest.metadata.mlflow_keys import RUN_DURATION

INDEX_VERSION: Final = 9
"""One more whenever documents or their tokens come out differently: stores then index anew."""

BOUNDS: Final = tuple(f"={column[0]}" for column in COLUMNS)
"""The token before, between and after the texts of each column."""

_MAX_NAME_CHARS: Final = 200
_CACHED_CHARS: Final = 100
_NUMERIC_SOURCES: Final = (
    ("hyperParameters", "hyperParams"),
    ("hyperParams", "hyperParams"),
    ("trainingMetrics", "metrics"),
    ("onlineMetrics", "onlineMetrics"),
)


@dataclass(slots=True)
class IndexedEntity:
    """The source of a document: an entity, its times, and the aspects given to `add`."""

    urn: str
    entity_type: str
    created_ms: int
    modified_ms: int = 0
    aspects: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def add(self, aspect: str, value: Mapping[str, Any], modified_ms: int) -> None:
        """Take in an aspect, if anything in it can be searched, and when it last changed."""
        if is_indexed(aspect):
            self.aspects[aspect] = value
            self.modified_ms = max(self.modified_ms, modified_ms)


class _NumericFields(NamedTuple):
    """The metrics or parameters of one entity: `names[i]` has `values[i]`, numbers if they can.

    So is the duration of a run, under an empty name.
    """

    field: str
    names: tuple[str, ...]
    values: tuple[float | str, ...]


class IndexDocument(NamedTuple):
    """One entity as the index holds it.

    Attributes:
        name: the name people know it by, folded.
        columns: the tokens of each of `COLUMNS`, parted by spaces.
        keywords: values to filter on and to count, as (field, value), each once, in order.
        numeric_fields: metrics and parameters, those of each field together, and the duration.
        created_ms: when the thing was made, by its source or else by the catalog.
        modified_ms: when it last changed, likewise.
    """

    name: str
    columns: tuple[str, ...]
    keywords: tuple[tuple[str, str], ...]
    numeric_fields: tuple[_NumericFields, ...]
    created_ms: int
    modified_ms: int


def make_document(source: IndexedEntity) -> IndexDocument:
    """Return the document of an entity."""
    aspects = dict(sorted(source.aspects.items()))
    texts = find_all(source.urn, source.entity_type, aspects)
    described = [value for name, value in aspects.items() if name.endswith(BODY_ENDINGS)]
    return IndexDocument(
        name=fold(texts[0][1])[:_MAX_NAME_CHARS],
        columns=_columns(texts),
        keywords=tuple(dict.fromkeys([text[:2] for text in texts if text[3]])),
        numeric_fields=_numeric_fields(described),
        created_ms=_time(described, ("created", "createdAt", "date"), source.created_ms),
        modified_ms=_time(described, ("lastModified",), source.modified_ms or source.created_ms),
    )


def _columns(texts: Iterable[SearchableText]) -> tuple[str, ...]:
    streams: list[list[str]] = [[] for _ in COLUMNS]
    wholes: list[dict[str, None]] = [{} for _ in COLUMNS]
    for _, value, column, _ in texts:
        if column is not None:
            once = column == URN or len(value) > _CACHED_CHARS
            parts, whole = _split(value) if once else _tokens(value)
            streams[column].append(parts)
            if whole:
                wholes[column].update(dict.fromkeys(whole))
    # The wholes come after the last bound, so that the parts remain neighbours.
    return tuple(
        [
            " ".join([bound, f" {bound} ".join(stream), bound, *whole]) if stream else ""
            for bound, stream, whole in zip(BOUNDS, streams, wholes, strict=True)
        ]
    )


def _split(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the parts of the words in a text, parted by spaces, and their wholes."""
    parts, wholes = tokenize(text)
    return " ".join(parts), tuple(wholes)


# Names, people, tags and properties come again and again.
_tokens = lru_cache(maxsize=20_000)(_split)


def _numeric_fields(described: Iterable[Mapping[str, Any]]) -> tuple[_NumericFields, ...]:
    by_field: dict[str, dict[str, object]] = {}
    for body in described:
        for key, field_name in _NUMERIC_SOURCES:
            if content := body.get(key):
                by_field.setdefault(field_name, {}).update(_by_name(content))
        custom = body.get("customProperties")
        if isinstance(custom, dict) and RUN_DURATION in custom:
            by_field[DURATION] = {"": custom[RUN_DURATION]}
    found = []
    for field_name, values in by_field.items():
        # Most are JSON numbers, and read at once as such.
        numbers = floats(values.values()) or map(to_number, values.values())
        found.append(_NumericFields(field_name, tuple(values), tuple(numbers)))
    return tuple(found)


def _by_name(content: Any) -> dict[str, object]:
    """Return metrics or parameters by name; unchecked content of another shape has none."""
    try:
        if isinstance(content, dict):
            # The older form: by name, each wrapped by the name of its type.
            by_name = {
                name: value for name, kind in content.items() for (value,) in [kind.values()]
            }
        else:
            by_name = {item["name"]: item["value"] for item in content if "value" in item}
        "".join(by_name)  # a name that is no text is a TypeError
    except (AttributeError, KeyError, TypeError, ValueError):
        return {}
    return by_name


def to_number(value: object) -> float | str:
    """Return a value as a number where it reads as a finite one, and as text elsewhere."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = value if isinstance(value, str) else str(value)
    try:
        number = float(text)
    except ValueError:
        return text
    # Python also reads digits that underscores part; and only a finite number minus itself is 0.
    return number if number - number == 0 and "_" not in text else text


def _time(described: Iterable[Mapping[str, Any]], fields: tuple[str, ...], default: int) -> int:
    for name in fields:
        for body in described:
            stamp = body.get(name)
            time = stamp.get("time") if isinstance(stamp, dict) else stamp
            if isinstance(time, int) and not isinstance(time, bool) and 0 < time < 2**63:
                return time
    return default
