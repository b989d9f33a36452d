"""The passport of a model: what a catalog has on it, line by line, with source and writer; pure.

A line is one value of an aspect. It names the version in which the value came, and who wrote that.
What a reader expects and the catalog does not have is missing; nothing is guessed.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from mlcat_ingest.core.text import cut
from mlcat_ingest.errors import CodecError
from mlcat_ingest.metadata.aspects.assets import TEST_INFO, TEST_RESULTS
from mlcat_ingest.metadata.aspects.common import (
    BROWSE_PATHS,
    BROWSE_PATHS_V2,
    DATA_PLATFORM_INSTANCE,
    STATUS,
)
from mlcat_ingest.metadata.aspects.ml import ML_MODEL_PROPERTIES
from mlcat_ingest.metadata.aspects.untyped import FORMS
from mlcat_ingest.metadata.codec import loads
from mlcat_ingest.metadata.diff import AspectDiff, diff_aspect, entries_of, value_text, with_dates
from mlcat_ingest.metadata.entries import LISTS, same_json, single_fields
from mlcat_ingest.metadata.labels import name_in
from mlcat_ingest.metadata.mlflow_keys import DATASETS, RUN_MODEL
from mlcat_ingest.metadata.proposal import Aspect
from mlcat_ingest.metadata.registry import ASPECTS, KEY_ASPECTS
from mlcat_ingest.metadata.reserved import SOURCE_KEY, is_own

MOST_VERSIONS: Final = 100
"""Versions of one aspect that are looked at, the newest."""

_CUSTOM: Final = "customProperties"
_NOT_SHOWN: Final = {BROWSE_PATHS, BROWSE_PATHS_V2, DATA_PLATFORM_INSTANCE, FORMS, *KEY_ASPECTS}
"""Aspects that say nothing of the model itself."""

_OF_THE_RUN: Final = frozenset({"training", "environment", "code", "data", "evaluation"})
"""Topics of a version that its run's model knows more of."""

_NAMELESS: Final = ("urn:li:corpuser:unknown", "urn:li:corpuser:__datahub_system", "")
_NO_RUN: Final = "no-run-id-provided"
_NOT_KEPT: Final = "not known: the catalog does not keep the older versions"
_CHANGES: Final = 8
"""Most changes of one version that are shown."""

_CHANGE_CHARS: Final = 120


class _Topic(NamedTuple):
    """A part of a card: where its content belongs (empty: it may be missing), and who writes it."""

    topic: str
    title: str
    where: str
    by: str


class _Shown(NamedTuple):
    """How a field is shown: its topic, its label, and and what of its records is the value."""

    at: int
    topic: str
    label: str
    main: str


def _rows(name: str) -> Iterator[list[str]]:
    text = Path(__file__).with_name(name).read_text("utf-8")
    yield from csv.reader(text.splitlines()[1:])


_TOPICS: Final = {topic: _Topic(topic, *rest) for topic, *rest in _rows("card_topics.csv")}
"""Topics by name, in the order of a card."""

_ORDER: Final = {topic: at for at, topic in enumerate(_TOPICS)}


@cache
def _fields() -> Mapping[tuple[str, str], _Shown]:
    rows = enumerate(_rows("card_fields.csv"))
    return {(aspect, field): _Shown(at, *rest) for at, (aspect, field, *rest) in rows}


class KeptVersion(NamedTuple):
    """A version of an aspect, from 1 on; `written_ms` is None where the catalog has no time."""

    number: int
    value: Aspect
    written_ms: int | None
    writer: str


Kept = Mapping[str, Sequence[KeptVersion]]
"""Aspect name to the versions of it that the catalog keeps, the newest first, of one entity."""

Claims = Mapping[tuple[str, str, str], str]
"""Aspect, field and entry (empty: the whole field) to the recipes that claim it."""


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
class MissingPart:
    """A part of a card that the catalog does not have: where it belongs, and who can write it."""

    topic: str
    title: str
    where: str
    by: str


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
    missing: tuple[MissingPart, ...]
    unknown: tuple[str, ...]
    made_from: tuple[tuple[str, str, int], ...]

    @property
    def sections(self) -> Iterator[tuple[str, list[CardLine]]]:
        """The titles of the topics that there are lines of, with these."""
        found = ((topic.title, self.of(topic.topic)) for topic in _TOPICS.values())
        yield from ((title, lines) for title, lines in found if lines)

    def of(self, *topics: str) -> list[CardLine]:
        """Return the lines of `topics`, in the order of the card."""
        return [line for line in self.lines if line.topic in topics]

    @property
    def newest_ms(self) -> int:
        """When the newest of the versions was written that it was made from, 0 if unknown."""
        return max((line.written_ms or 0 for line in self.lines), default=0)


def date_of(epoch_ms: int | None) -> str:
    """Return a time of a card as text."""
    if epoch_ms is None:
        return "time not known"
    text = str(with_dates("time", epoch_ms))
    return f"{text[:10]} {text[11:19]} UTC" if "T" in text else text


def writer_text(aspect: str, actor: str, system: Mapping[str, Any]) -> str:
    """Return who wrote a version: the recipe with its run, and the user, as far as named."""
    recipe, run = system.get("pipelineName"), system.get("runId")
    parts = [f"recipe {recipe}"] if recipe else []
    parts += [f"run {run}"] if run and run != _NO_RUN else []
    if actor.lower() not in _NAMELESS:
        parts.append(f"user {actor.removeprefix('urn:li:corpuser:')}")
    if parts:
        return ", ".join(parts)
    by_catalog = aspect == TEST_RESULTS or actor == _NAMELESS[1]
    return "the catalog" if by_catalog else "a person or tool without a name"


def related(kept: Kept) -> list[str]:
    """Return the entities beside the model that its passport is made from: run and tests."""
    properties = kept.get(ML_MODEL_PROPERTIES, ())
    runs = [_text(_custom(version).get(RUN_MODEL)) for version in properties]
    tests = [
        _text(entry.get("test"))
        for version in kept.get(TEST_RESULTS, ())
        for side in ("failing", "passing")
        for entry in version.value.get(side) or ()
    ]
    return [urn for urn in dict.fromkeys(runs + tests) if urn]


def passport(
    urn: str, entities: Mapping[str, Kept], on_ms: int | None = None, claims: Claims | None = None
) -> Passport:
    """Return the passport of the model `urn`; None as its name where nothing was kept then.

    `entities` has the kept versions of the model and of those that `related` names. By `claims` the
    writers of values are known whose first version is not kept.
    """
    unknown: list[str] = []
    past = {one: _at(one, kept, on_ms, unknown) for one, kept in entities.items()}
    subject = past.get(urn, {})
    names = {one: _text(_newest(kept, TEST_INFO).get("name")) for one, kept in past.items()}
    own = [*_lines(urn, subject, names, claims or {})]
    known = {(line.topic, line.label) for line in own}
    run = _text((_newest(subject, ML_MODEL_PROPERTIES).get(_CUSTOM) or {}).get(RUN_MODEL))
    of_run = [
        line
        for line in _lines(run, past.get(run, {}), names, {})
        if line.topic in _OF_THE_RUN and (line.topic, line.label) not in known
    ]
    lines = sorted(own + of_run, key=lambda line: _ORDER[line.topic])
    lines += _changes(urn, subject)
    topics = {line.topic for line in lines}
    used = {(line.entity, line.source.partition(".")[0]) for line in lines}
    return Passport(
        urn,
        _text(_newest(subject, ML_MODEL_PROPERTIES).get("name")) or name_in(urn),
        on_ms,
        tuple(lines),
        tuple(
            MissingPart(*topic)
            for topic in _TOPICS.values()
            if topic.where and topic.topic not in topics
        ),
        tuple(unknown),
        tuple(
            (one, aspect, versions[0].number)
            for one, kept in past.items()
            for aspect, versions in sorted(kept.items())
            if one == urn or aspect == TEST_INFO or (one, aspect) in used
        ),
    )


def _at(
    urn: str, kept: Kept, on_ms: int | None, unknown: list[str]
) -> dict[str, list[KeptVersion]]:
    """Return the versions that there were at a time; what cannot be known is added to `unknown`."""
    past: dict[str, list[KeptVersion]] = {}
    for aspect, versions in kept.items():
        if aspect in _NOT_SHOWN or not versions:
            continue
        there = [
            version
            for version in versions
            if on_ms is None or (version.written_ms is not None and version.written_ms <= on_ms)
        ]
        oldest = versions[-1]
        if there:
            past[aspect] = there
        elif oldest.number > 1 or oldest.written_ms is None:
            since = f"from version {oldest.number} on ({date_of(oldest.written_ms)})"
            unknown.append(f"{aspect} of {urn}: the catalog keeps it only {since}")
    return past


def _lines(urn: str, past: Kept, names: Mapping[str, str], claims: Claims) -> Iterator[CardLine]:
    found: list[tuple[tuple[int, int], CardLine]] = []
    for aspect, versions in past.items():
        values = [dict(_parts(aspect, version.value)) for version in versions]
        for (field, entry), part in values[0].items():
            shown = _shown(aspect, field, entry)
            if shown.topic not in _TOPICS:
                continue
            first = _first(values, (field, entry))
            came, writer = versions[first], versions[first].writer
            if first == len(versions) - 1 and came.number > 1:
                claim = claims.get((aspect, field, entry)) or claims.get((aspect, field, ""))
                writer = f"recipe {claim}" if claim else _NOT_KEPT
            source = f"{aspect}.{field}.{entry}" if field == _CUSTOM else f"{aspect}.{field}"
            line = CardLine(
                shown.topic, "", "", "", urn, source, came.number, writer, came.written_ms
            )
            place = _ORDER[shown.topic], shown.at
            found += [(place, one) for one in _filled(line, shown, field, entry, part, names)]
    yield from (line for _, line in sorted(found, key=lambda one: (one[0], one[1].label)))


def _filled(
    line: CardLine, shown: _Shown, field: str, entry: str, part: Any, names: Mapping[str, str]
) -> Iterator[CardLine]:
    """Yield a line with its label, value and detail; a list of datasets has one for each."""
    if entry == DATASETS and (datasets := _json_list(part, dict)):
        for one in datasets:
            rest = {key: value for key, value in one.items() if key not in ("name", "context")}
            context = _text(one.get("context")) or shown.label
            yield replace(line, label=context, value=_text(one.get("name")), detail=_detail(rest))
    elif isinstance(part, dict) and shown.main:
        rest = {key: value for key, value in part.items() if key not in (shown.main, "name")}
        label, value = shown.label or _text(part.get("name")), _text(part.get(shown.main))
        if line.source.startswith(f"{TEST_RESULTS}."):
            rest = {shown.main: value} | {key: rest[key] for key in rest if key != "type"}
            label, value = names.get(value) or value, shown.label
        yield replace(line, label=label or entry, value=value, detail=_detail(rest))
    else:
        label = shown.label or (entry if field == _CUSTOM else field)
        yield replace(line, label=label, value=_joined(field, part))


def _shown(aspect: str, field: str, entry: str) -> _Shown:
    fields = _fields()
    if field == _CUSTOM:
        family = f"{entry.rpartition('.')[0]}.*"
        found = fields.get((_CUSTOM, entry)) or fields.get((_CUSTOM, family))
    else:
        found = fields.get((aspect, field))
    return found or _Shown(len(fields), "other", "", "")


def _parts(aspect: str, value: Aspect) -> Iterator[tuple[tuple[str, str], Any]]:
    """Yield field and entry, empty for a single value, with the value, of what is not empty."""
    spec = ASPECTS.get(aspect)
    computed = frozenset() if spec is None else spec.computed | spec.unowned
    for field, content in value.items():
        if (
            field in computed
            or content in (None, "", [], {})
            or (aspect, content) == (STATUS, False)
        ):
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


def _first(values: Sequence[Mapping[tuple[str, str], Any]], key: tuple[str, str]) -> int:
    """Return the index of the version in which the newest value of a part came."""
    at = 0
    while at + 1 < len(values) and key in values[at + 1]:
        if not same_json(values[at + 1][key], values[0][key]):
            break
        at += 1
    return at


def _changes(urn: str, past: Kept) -> list[CardLine]:
    """Return what each version changed, the newest first."""
    lines: list[CardLine] = []
    for aspect, versions in past.items():
        for at, version in enumerate(versions):
            older = versions[at + 1].value if at + 1 < len(versions) else None
            text = _NOT_KEPT if version.number > 1 else "first version"
            if older is not None:
                diff = diff_aspect(aspect, older, version.value)
                text = _change_text(diff) if diff else "internal properties of mlcat-ingest"
            when = date_of(version.written_ms)
            number, writer, ms = version.number, version.writer, version.written_ms
            lines.append(CardLine("changes", when, text, "", urn, aspect, number, writer, ms))
    return sorted(lines, key=lambda line: (-(line.written_ms or 0), line.source, -line.version))


def _change_text(diff: AspectDiff) -> str:
    texts = []
    for field in diff.fields:
        for change in field.changes:
            name = f"{field.field} {change.label}".strip()
            old, new = (value_text(change.label, field.field, one) for one in change[1:])
            texts.append(cut(f"{name} {change.sign}: {old} → {new}", _CHANGE_CHARS))
        texts += [f"{field.field} in another order"] if not field.changes else []
    more = len(texts) - _CHANGES
    return "; ".join(texts[:_CHANGES] + ([f"and {more} more"] if more > 0 else []))


def _newest(kept: Kept, aspect: str) -> Aspect:
    versions = kept.get(aspect)
    return versions[0].value if versions else {}


def _custom(version: KeptVersion) -> Mapping[str, Any]:
    custom = version.value.get(_CUSTOM)
    return custom if isinstance(custom, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _joined(field: str, value: Any) -> str:
    """Return a value as text, a list of texts without its brackets."""
    texts = value if isinstance(value, LISTS) else _json_list(value, str)
    if texts and all(isinstance(text, str) for text in texts):
        return "; ".join(texts)
    name = field.rpartition(".")[2]
    time = value.get("time") if isinstance(value, dict) else value if name == "time" else None
    return date_of(time) if isinstance(time, int) else value_text("", name, value)


def _detail(record: Mapping[str, Any]) -> str:
    return "; ".join(f"{key} {_joined(key, value)}" for key, value in record.items())


def _json_list(text: object, kind: type) -> list[Any]:
    """Return the entries of a list that is JSON text, none unless all are of a kind."""
    if not isinstance(text, str) or not text.startswith("["):
        return []
    try:
        value = loads(text)
    except CodecError:
        return []
    return value if isinstance(value, list) and all(isinstance(one, kind) for one in value) else []
