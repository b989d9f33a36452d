"""The passport of a model: what a catalog has on it, line by line, with source and writer; pure.

A line is one value of an aspect. It names the version in which the value came, and who wrote that.
What a reader expects and the catalog does not have is missing; nothing is guessed.
"""

import csv
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile, zip_longest
from pathlib import Path
from typing import Any, Final, NamedTuple

from mlcat_ingest.core.text import cut, in_words, json_or_none, plural
from mlcat_ingest.metadata.aspects import (
    BROWSE_PATHS,
    BROWSE_PATHS_V2,
    DATA_PLATFORM_INSTANCE,
    FORMS,
    ML_MODEL_PROPERTIES,
    STATUS,
    TEST_INFO,
    TEST_RESULTS,
    VERSION_PROPERTIES,
)
from mlcat_ingest.metadata.diff import AspectDiff, diff_aspect, entries_of, value_text, with_dates
from mlcat_ingest.metadata.entries import LISTS, same_json, single_fields
from mlcat_ingest.metadata.labels import name_in
from mlcat_ingest.metadata.mlflow_keys import (
    DATASETS,
    LOGGED_MODELS,
    RUN_MODEL,
    SIGNATURE,
    SIGNATURE_PARTS,
)
from mlcat_ingest.metadata.proposal import CUSTOM, Aspect, custom_properties
from mlcat_ingest.metadata.registry import ASPECTS, KEY_ASPECTS
from mlcat_ingest.metadata.reserved import SOURCE_KEY, is_own

MOST_VERSIONS: Final = 100
"""Versions of one aspect that are asked for one by one, and whose changes are shown."""

_PLACES: Final = {BROWSE_PATHS, BROWSE_PATHS_V2, DATA_PLATFORM_INSTANCE}
_NOT_SHOWN: Final = {*_PLACES, FORMS, *KEY_ASPECTS}
"""Aspects that say nothing of the model itself."""

_OF_THE_RUN: Final = frozenset({"training", "environment", "code", "data", "evaluation"})
"""Topics of a version that its run's model knows more of."""

_MLFLOW: Final = ("mlflow.", "tag.mlflow.", "signature.")
"""Beginnings of custom properties that are JSON where they are lists."""

_SYSTEM: Final = "urn:li:corpuser:__datahub_system"
_NAMELESS: Final = ("urn:li:corpuser:unknown", _SYSTEM, "")
_RECIPE: Final = "recipe "
_NO_RUN: Final = "no-run-id-provided"
_NOT_KEPT: Final = "not known: before the oldest version that is kept or read"
_DELETED: Final = "aspects that were deleted since"
_MOST_SIBLINGS: Final = 20
"""Other versions of a registered model that are listed, the newest."""

_MOST_READ: Final = 100
"""Those that are read to find the newest of an earlier day."""

_CHANGES: Final = 8
"""Most changes of one version that are shown."""

_CHANGE_CHARS: Final = 120


@dataclass(frozen=True, slots=True)
class _CardTopic:
    """A part of a card: where it belongs, empty if it may be missing, and who writes it."""

    topic: str
    title: str
    where: str
    by: str


def rows_in(name: str) -> Iterator[list[str]]:
    """Yield the rows of a table of this package, without its head."""
    yield from csv.reader(Path(__file__).with_name(name).read_text("utf-8").splitlines()[1:])


_TOPICS: Final = {row[0]: _CardTopic(*row) for row in rows_in("card_topics.csv")}
"""Topics by name, in the order of a card."""

_FIELDS: Final = {
    (row[0], row[1]): (at, *row[2:]) for at, row in enumerate(rows_in("card_fields.csv"))
}
"""Aspect and field to order, topic, label, and the field of its records that is the value."""


class KeptVersion(NamedTuple):
    """A version of an aspect. The first is 1; 0 and None stand for an unknown number and time."""

    number: int
    value: Aspect
    written_ms: int | None
    writer: str

    @property
    def is_by_recipe(self) -> bool:
        """Whether the writer is known as a recipe."""
        return self.writer.startswith(_RECIPE)


Kept = Mapping[str, Sequence[KeptVersion]]
"""Aspect name to the versions of it that the catalog keeps, the newest first, of one entity."""


ReadsKept = Callable[[str, Collection[str] | None], Kept]
"""Returns what is kept of an entity, of some of its aspects or of all."""

Claims = Mapping[tuple[str, str, str], str]
"""Aspect, field and entry, empty for the whole field, to the recipes that claim it."""


@dataclass(frozen=True, slots=True)
class CardLine:
    """One value of a card.

    It is what `source`, a field of an aspect of `entity`, has held since its `version`. `writer`
    wrote that version at `written_ms`, None where the catalog does not know.
    """

    topic: str
    label: str
    value: str
    detail: str
    entity: str
    source: str
    version: int
    writer: str
    written_ms: int | None

    @property
    def text(self) -> str:
        """The value with its detail."""
        return f"{self.value} ({self.detail})" if self.detail else self.value

    @property
    def written_by(self) -> str:
        """The writer and the time in one text."""
        return f"{self.writer}, {date_of(self.written_ms)}"


@dataclass(frozen=True, slots=True)
class Passport:
    """All that a catalog has on a model, now or at `on_ms`.

    `unknown` says what the catalog cannot know of that time. `made_from` has the entities, aspects
    and versions by which the same passport is made again.
    """

    urn: str
    name: str
    on_ms: int | None
    lines: tuple[CardLine, ...]
    missing: tuple[_CardTopic, ...]
    unknown: tuple[str, ...]
    made_from: tuple[tuple[str, str, int], ...]

    @property
    def sections(self) -> Iterator[tuple[str, list[CardLine]]]:
        """The titles of the topics that there are lines of, with these."""
        found = ((topic.title, self.of(name)) for name, topic in _TOPICS.items())
        yield from ((title, lines) for title, lines in found if lines)

    def of(self, *topics: str) -> list[CardLine]:
        """Return the lines of `topics`, in the order of the card."""
        return [line for line in self.lines if line.topic in topics]


def title_and_label(aspect: str, field: str, part: str) -> tuple[str, str]:
    """Return the title of the topic that a field, or a part of it, is in, and its label there."""
    keys = (aspect, f"{field}.{part}"), (aspect, field)
    _, topic, label, _ = next(_FIELDS[key] for key in keys if key in _FIELDS)
    return _TOPICS[str(topic)].title, str(label)


def date_of(epoch_ms: int | None) -> str:
    """Return a time of a card as text."""
    text = "time not known" if epoch_ms is None else str(with_dates("time", epoch_ms))
    return f"{text[:10]} {text[11:19]} UTC" if text[10:11] == "T" else text


def writer_text(aspect: str, actor: str, system: Mapping[str, Any]) -> str:
    """Return who wrote a version: the recipe with its run, and the user, as far as named."""
    recipe, run = system.get("pipelineName"), system.get("runId")
    parts = [f"{_RECIPE}{recipe}"] if recipe else []
    parts += [f"run {run}"] if run and run != _NO_RUN else []
    parts += [f"user {name_in(actor)}"] if actor.lower() not in _NAMELESS else []
    by_catalog = aspect == TEST_RESULTS or actor == _SYSTEM
    nameless = "the catalog" if by_catalog else "a person or tool without a name"
    return ", ".join(parts) or nameless


def _related(kept: Kept) -> list[str]:
    """Return the entities beside the model that its passport is made from: run and tests."""
    properties = (custom_properties(version.value) for version in kept.get(ML_MODEL_PROPERTIES, ()))
    found = [_text(custom.get(RUN_MODEL)) for custom in properties]
    for version in kept.get(TEST_RESULTS, ()):
        sides = (version.value.get(side) or () for side in ("failing", "passing"))
        found += [entry.get("test") for entries in sides for entry in entries]
    return [urn for urn in dict.fromkeys(found) if urn]


def passport(
    urn: str,
    read: ReadsKept,
    on_ms: int | None = None,
    claims: Claims | None = None,
    siblings: Mapping[str, str] | None = None,
    further: int = 0,
) -> Passport:
    """Return the passport of the model `urn`, made from none of its aspects if it was not there.

    What is kept of the model is `read`, and then of its run, of its tests, and of the newest of its
    `siblings`: the other versions of its registered model, each with what they are sorted by, of
    which there are `further` ones. By `claims` the writers of values are known whose first version
    is not kept.
    """
    kept_of_model = read(urn, None)
    entities = {urn: kept_of_model} | {one: read(one, None) for one in _related(kept_of_model)}
    unknown: list[str] = []
    listed: dict[str, Kept] = {}
    orders = siblings or {}
    left = iter(sorted(orders, key=lambda one: (orders[one], one), reverse=True))
    for one in islice(left, _MOST_READ):
        if _at(one, kept := read(one, [VERSION_PROPERTIES]), on_ms, unknown):
            listed[one] = kept
        if len(listed) == _MOST_SIBLINGS:
            break
    entities |= listed
    if more := further + sum(1 for _ in left):
        unknown.append(f"{plural(more, 'older version')} of the registered model")
    past = {one: _at(one, kept, on_ms, unknown) for one, kept in entities.items()}
    subject = past.get(urn, {})
    unknown += [_DELETED] if on_ms is not None and subject else []
    names = {one: _text(_newest(kept, TEST_INFO).get("name")) for one, kept in past.items()}
    properties = _newest(subject, ML_MODEL_PROPERTIES)
    own = [*_lines(urn, subject, names, claims or {})]
    known = {(line.topic, line.label) for line in own}
    run = _text(custom_properties(properties).get(RUN_MODEL))
    own += [
        line
        for line in _lines(run, past.get(run, {}), names, {})
        if line.topic in _OF_THE_RUN and (line.topic, line.label) not in known
    ]
    own += [line for one in listed for line in _of_sibling(one, past[one])]
    lines = sorted(own, key=lambda line: [*_TOPICS].index(line.topic))
    lines += sorted(_changes(urn, subject), key=lambda line: -(line.written_ms or 0))
    topics = {line.topic for line in lines}
    used = {(line.entity, line.source.partition(".")[0]) for line in lines}
    made_from = (
        (one, aspect, versions[0].number)
        for one, kept in past.items()
        for aspect, versions in sorted(kept.items())
        if one == urn or aspect == TEST_INFO or (one, aspect) in used
    )
    return Passport(
        urn,
        _text(properties.get("name")) or name_in(urn),
        on_ms,
        tuple(lines),
        tuple(one for one in _TOPICS.values() if one.where and one.topic not in topics),
        tuple(unknown),
        tuple(made_from),
    )


def _at(urn: str, kept: Kept, on_ms: int | None, unknown: list[str]) -> Kept:
    """Return the versions that there were at a time; what cannot be known is added to `unknown`."""
    past: dict[str, Sequence[KeptVersion]] = {}
    for aspect, versions in kept.items():
        if aspect in _NOT_SHOWN or not versions:
            continue
        times = [version.written_ms for version in versions]
        oldest = f"version {versions[-1].number} ({date_of(times[-1])})"
        if on_ms is None:
            past[aspect] = versions
        elif None in times:
            unknown.append(f"{aspect} of {urn}: a version has no time")
        elif there := [one for one in versions if (one.written_ms or 0) <= on_ms]:
            past[aspect] = there
        elif versions[-1].number != 1:
            unknown.append(f"{aspect} of {urn}: the oldest that the catalog keeps is {oldest}")
    return past


def _lines(urn: str, past: Kept, names: Mapping[str, str], claims: Claims) -> Iterator[CardLine]:
    """Yield the lines of an entity, in the order of the fields; `names` has those of tests."""
    found: list[tuple[int, CardLine]] = []
    for aspect, versions in past.items():
        values = [dict(_parts(aspect, version.value)) for version in versions]
        for key, part in values[0].items():
            at, topic, label, main = _place(aspect, *key)
            if topic not in _TOPICS:
                continue
            field, entry = key
            number, _, written_ms, writer = versions[_first(values, key)]
            if number != 1 and number == versions[-1].number:
                claim = claims.get((aspect, *key)) or claims.get((aspect, field, ""))
                writer = f"{_RECIPE}{claim}" if claim else _NOT_KEPT
            source = f"{aspect}.{field}.{entry}" if field == CUSTOM else f"{aspect}.{field}"
            found += [
                (at, CardLine(topic, *texts, urn, source, number, writer, written_ms))
                for texts in _texts(field, entry, part, label, main, names)
            ]
    yield from (line for _, line in sorted(found, key=lambda one: (one[0], one[1].label)))


def _of_sibling(urn: str, past: Kept) -> Iterator[CardLine]:
    """Yield the lines of another version of the registered model: its number and its aliases."""
    lines = [*_lines(urn, past, {}, {})]
    number = next((line.value for line in lines if line.label == "Version"), "")
    labels = {"Version": "Other version", "Alias": f"Alias of version {number}"}
    yield from (replace(one, label=labels[one.label]) for one in lines if one.label in labels)


def _place(aspect: str, field: str, entry: str) -> tuple[Any, ...]:
    family = f"{entry.rpartition('.')[0]}.*"
    keys = [(field, entry), (field, family)] if field == CUSTOM else [(aspect, field)]
    found = (_FIELDS[key] for key in keys if key in _FIELDS)
    return next(found, (len(_FIELDS), "other", "", ""))


def _first(values: Sequence[Mapping[Any, Any]], key: tuple[str, str]) -> int:
    """Return the index of the version in which the newest value of a part came."""
    same = (key in one and same_json(one[key], values[0][key]) for one in values)
    return sum(1 for _ in takewhile(bool, same)) - 1


def _texts(
    field: str, entry: str, part: Any, label: str, main: str, names: Mapping[str, str]
) -> list[tuple[str, str, str]]:
    """Return label, value and detail of a part; those of each dataset or column in a list."""
    label = label or (entry if field == CUSTOM else field)
    read = json_or_none(part) if entry.startswith(_MLFLOW) else None
    if listed := [*_listed(entry, read)]:
        return [
            (
                _text(one.get("context")) or one_label or label,
                _text(one.get("name")) or "(no name)",
                _detail(one, "context"),
            )
            for one_label, one in listed
        ]
    if isinstance(read, list | dict):
        return [(label, in_words(read), "")]
    if not isinstance(part, dict) or not main:
        return [(label, _joined(field, part), "")]
    value = _text(part.get(main))
    if main == "test":
        return [(names.get(value) or value, label, _detail(part, "type"))]
    named = _text(part.get("name")) or entry
    return [(named if main == "value" else label, value, _detail(part, main))]


def _parts(aspect: str, value: Aspect) -> Iterator[tuple[tuple[str, str], Any]]:
    """Yield field and entry, empty for a single value, with the value, of what is not empty."""
    spec = ASPECTS.get(aspect)
    computed = frozenset() if spec is None else spec.computed | spec.unowned
    for field, content in value.items():
        is_empty = content in (None, "", [], {}) or (aspect == STATUS and not content)
        if field in computed or is_empty:
            continue
        if isinstance(content, dict) and field in single_fields(aspect):
            yield from (((f"{field}.{key}", ""), part) for key, part in content.items())
        elif isinstance(content, dict):
            shown = (key for key in content if not is_own(key) or key == SOURCE_KEY)
            yield from (((field, key), content[key]) for key in shown)
        elif isinstance(content, LISTS):
            entries = entries_of(aspect, field, content).items()
            yield from (((field, entry), part) for entry, part in entries)
        else:
            yield (field, ""), content


def _changes(urn: str, past: Kept) -> Iterator[CardLine]:
    """Yield what each of the newest versions of an aspect changed."""
    for aspect, versions in past.items():
        newest = versions[:MOST_VERSIONS], versions[1 : MOST_VERSIONS + 1]
        for version, older in zip_longest(*newest):
            number, value, written_ms, writer = version
            text = "first version" if number == 1 else _NOT_KEPT
            if older is not None:
                text = _change_text(diff_aspect(aspect, older.value, value))
            when = date_of(written_ms)
            yield CardLine("changes", when, text, "", urn, aspect, number, writer, written_ms)


def _change_text(diff: AspectDiff | None) -> str:
    texts = []
    for field in diff.fields if diff else ():
        for change in field.changes:
            old, new = (value_text(change.label, field.field, one) for one in change[1:])
            name = f"{field.field} {change.label}".strip()
            texts.append(cut(f"{name} {change.sign}: {old} → {new}", _CHANGE_CHARS))
        texts += [f"{field.field} in another order"] if not field.changes else []
    if len(texts) > _CHANGES:
        texts[_CHANGES:] = [f"and {len(texts) - _CHANGES} more"]
    return "; ".join(texts) or "internal properties of mlcat-ingest"


def _newest(kept: Kept, aspect: str) -> Aspect:
    versions = kept.get(aspect)
    return versions[0].value if versions else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _joined(field: str, value: Any) -> str:
    """Return a value as text, a list of texts without its brackets, a time as a date."""
    if isinstance(value, LISTS) and all(isinstance(text, str) for text in value):
        return "; ".join(value)
    name = field.rpartition(".")[2]
    time = value.get("time") if isinstance(value, dict) else value if name == "time" else None
    return date_of(time) if isinstance(time, int) else in_words(with_dates(name, value))


def _detail(record: Mapping[str, Any], shown: str) -> str:
    rest = {key: value for key, value in record.items() if key not in (shown, "name")}
    return "; ".join(f"{key} {_joined(key, value)}" for key, value in rest.items())


def _listed(entry: str, read: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects that a property of MLflow lists, each with a label if it has its own.

    Signatures of several models are listed by their parts, each column with its model.
    """
    if entry == SIGNATURE and isinstance(read, dict):
        for uri, parts in read.items():
            for part, key in SIGNATURE_PARTS.items():
                columns = parts.get(part) if isinstance(parts, dict) else None
                yield from ((key, {**one, "model": uri}) for one in _objects(columns))
    elif entry in (DATASETS, LOGGED_MODELS, *SIGNATURE_PARTS.values()):
        yield from (("", one) for one in _objects(read))


def _objects(value: object) -> list[dict[str, Any]]:
    """Return the objects of a list, none if it is anything else."""
    objects = value if isinstance(value, list) else []
    return objects if all(isinstance(one, dict) for one in objects) else []
