"""What people write about a model: from the sections of a model card to aspects. Pure.

A card is Markdown with front matter, as beside a logged model, or texts by heading, as in a recipe.
Sections under other headings are not read.

Sources: Mitchell et al., "Model Cards for Model Reporting" (2019), and Hugging Face's template, for
the headings; `com.linkedin.ml.metadata` of DataHub's metadata model, for the fields.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from mlcat_ingest.metadata.aspects import (
    INTENDED_USE,
    ML_MODEL_CAVEATS_AND_RECOMMENDATIONS,
    ML_MODEL_ETHICAL_CONSIDERATIONS,
    ML_MODEL_FACTOR_PROMPTS,
    ML_MODEL_METRICS,
)
from mlcat_ingest.metadata.declaration import choices
from mlcat_ingest.metadata.proposal import Aspect

Sections: TypeAlias = Mapping[str, Sequence[str]]
"""The entries of each section of a card, by its heading."""

EMPTY_CARD: Final[Mapping[str, Aspect]] = {
    INTENDED_USE: {"primaryUses": [], "primaryUsers": [], "outOfScopeUses": []},
    ML_MODEL_FACTOR_PROMPTS: {"relevantFactors": [], "evaluationFactors": []},
    ML_MODEL_ETHICAL_CONSIDERATIONS: {
        "data": [],
        "humanLife": [],
        "mitigations": [],
        "risksAndHarms": [],
        "useCases": [],
    },
    ML_MODEL_CAVEATS_AND_RECOMMENDATIONS: {
        "caveats": None,
        "recommendations": None,
        "idealDatasetCharacteristics": [],
    },
}
"""The aspects of a card that says nothing, with each field that a card can fill."""


class _CardField(NamedTuple):
    aspect: str
    field: str
    part: str = ""


_HEADINGS: Final[Mapping[_CardField, Sequence[str]]] = {
    _CardField(INTENDED_USE, "primaryUses"): (
        "intended use", "intended uses", "primary intended uses", "primary uses", "uses",
        "direct use", "downstream use", "intended uses limitations",
    ),
    _CardField(INTENDED_USE, "primaryUsers"): ("primary intended users", "primary users", "users"),
    _CardField(INTENDED_USE, "outOfScopeUses"): (
        "out of scope use", "out of scope uses", "out of scope use cases",
    ),
    _CardField(ML_MODEL_FACTOR_PROMPTS, "relevantFactors", "groups"): (
        "relevant factors", "factors",
    ),
    _CardField(ML_MODEL_FACTOR_PROMPTS, "evaluationFactors", "groups"): ("evaluation factors",),
    _CardField(ML_MODEL_ETHICAL_CONSIDERATIONS, "data"): ("sensitive data",),
    _CardField(ML_MODEL_ETHICAL_CONSIDERATIONS, "humanLife"): ("human life",),
    _CardField(ML_MODEL_ETHICAL_CONSIDERATIONS, "mitigations"): (
        "mitigations", "risk mitigations", "human oversight",
    ),
    _CardField(ML_MODEL_ETHICAL_CONSIDERATIONS, "risksAndHarms"): (
        "risks and harms", "risks", "bias risks and limitations", "bias", "ethical considerations",
    ),
    _CardField(ML_MODEL_ETHICAL_CONSIDERATIONS, "useCases"): ("fraught use cases", "use cases"),
    _CardField(ML_MODEL_CAVEATS_AND_RECOMMENDATIONS, "caveats", "caveatDescription"): (
        "caveats", "limitations", "known limitations",
    ),
    _CardField(ML_MODEL_CAVEATS_AND_RECOMMENDATIONS, "caveats", "groupsNotRepresented"): (
        "groups not represented",
    ),
    _CardField(ML_MODEL_CAVEATS_AND_RECOMMENDATIONS, "recommendations"): (
        "recommendations", "caveats and recommendations",
    ),
    _CardField(ML_MODEL_CAVEATS_AND_RECOMMENDATIONS, "idealDatasetCharacteristics"): (
        "ideal dataset characteristics", "ideal dataset",
    ),
}  # fmt: skip

CARD_FIELDS: Final[Mapping[str, Mapping[str, str]]] = {
    aspect: {
        field: next(place.part for place in _HEADINGS if place[:2] == (aspect, field))
        for field in fields
    }
    for aspect, fields in EMPTY_CARD.items()
} | {ML_MODEL_METRICS: {"performanceMeasures": ""}}
"""The fields that people write, by aspect, with the part of their records, empty for none.

No section of a card chooses metrics; people do in the catalog.
"""

_PLACES: Final = {heading: place for place, names in _HEADINGS.items() for heading in names}

HEADINGS: Final = tuple(_PLACES)
"""The headings whose sections are read, in lower case, without punctuation."""

_TEXTS: Final = frozenset({"caveatDescription", "recommendations"})
"""Fields and parts that are one text; all others are lists of entries."""

USERS: Final = choices("com.linkedin.ml.metadata.IntendedUse", "primaryUsers")
_USERS: Final = {name.casefold(): name for name in USERS}

_FRONT_MATTER: Final = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)\n---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_HEADING: Final = re.compile(r" {0,3}#{1,6}[ \t]+(.*)")
_FENCE: Final = re.compile(r" {0,3}(```|~~~)")
_ITEM: Final = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+(.*)")
_NOT_WORDS: Final = re.compile(r"[\W_]+")
_OPTIONAL: Final = re.compile(r"\[optional\]", re.IGNORECASE)
_UNFILLED: Final = re.compile(r"\[?more information needed\]?\.?", re.IGNORECASE)
"""What Hugging Face's template says where nobody has written anything."""


class _CardAspects(NamedTuple):
    """The aspects of a card, complete, and entries that no field takes, by their headings."""

    aspects: Mapping[str, Aspect]
    unfit: Sections


def is_read(heading: str) -> bool:
    """Return whether the section under a heading is read, however that is spelled."""
    return _normalized(heading) in _PLACES


def sections_of(text: str) -> Sections:
    """Return the sections of a card in Markdown, and of its front matter."""
    matter = _FRONT_MATTER.match(text)
    sections = {} if matter is None else _of_front_matter(matter[1])
    body, *comments = (text if matter is None else text[matter.end() :]).split("<!--")
    body += "".join(comment.partition("-->")[2] for comment in comments)
    for heading, lines in _split(body):
        sections[heading] = [*sections.get(heading, ()), *_entries(lines)]
    return sections


def card_aspects(sections: Sections) -> _CardAspects:
    """Return the aspects that the sections of a card fill, with every field of theirs."""
    filled: dict[_CardField, list[str]] = {}
    unfit: dict[str, Sequence[str]] = {}
    for heading, entries in sections.items():
        place = _PLACES.get(_normalized(heading))
        if place is None:
            continue
        written = [entry for entry in entries if entry and not _UNFILLED.fullmatch(entry)]
        if place.field == "primaryUsers":
            others = [entry for entry in written if entry.casefold() not in _USERS]
            written = [_USERS[entry.casefold()] for entry in written if entry not in others]
            if others:
                unfit[heading] = others
        filled.setdefault(place, []).extend(written)
    aspects = {name: dict(fields) for name, fields in EMPTY_CARD.items()}
    for (name, field, part), entries in filled.items():
        if entries:
            aspects[name][field] = _value(aspects[name][field], part or field, part, entries)
    return _CardAspects(aspects, unfit)


def card_texts(aspect: str, value: Aspect) -> dict[str, str]:
    """Return the text of each field that people write of an aspect, an entry a line."""
    return {field: _text(value.get(field), part) for field, part in CARD_FIELDS[aspect].items()}


def with_card_texts(aspect: str, value: Aspect, texts: Mapping[str, str]) -> Aspect:
    """Return the value of an aspect with other `texts` of some fields; what has none stays."""
    changed = {
        field: _rewritten(value.get(field), field, CARD_FIELDS[aspect][field], text)
        for field, text in texts.items()
    }
    united = {**value, **changed}
    return {field: content for field, content in united.items() if content is not None}


def _text(content: Any, part: str) -> str:
    if isinstance(content, Mapping):
        return content.get(part) or ""
    return content if isinstance(content, str) else "\n".join(_by_line(content or (), part))


def _by_line(entries: Sequence[Any], part: str) -> dict[str, str]:
    """Return the entries, or those in the part of the entries, by the lines that they are."""
    groups = (entry.get(part) or () if part else (entry,) for entry in entries)
    return {" ".join(text.split()): text for texts in groups for text in texts}


def _rewritten(content: Any, field: str, part: str, text: str) -> Any:
    if (part or field) in _TEXTS:
        whole = text.strip() or None
        record = {**(content or {}), part: whole}
        return {key: one for key, one in record.items() if one is not None} if part else whole
    known = _by_line(content or (), part)
    lines = filter(None, (" ".join(line.split()) for line in text.splitlines()))
    once = dict.fromkeys(lines)
    entries = [known.get(line, line) for line in once]
    if field == "primaryUsers":
        entries = [_USERS.get(line.casefold(), line) for line in entries]
    if not part:
        return entries
    # What the entries say beside their groups stays, and so does each group in its entry.
    added, records = once.keys() - known, list[dict[str, Any]]()
    for entry in content or [{}]:
        own = _by_line([entry], part)
        groups = [own.get(line, line) for line in once if line in own or line in added]
        records.append({**entry, part: groups})
        added.clear()
    return [entry for entry in records if any(entry.values())]


def _value(known: Any, key: str, part: str, entries: Sequence[str]) -> Any:
    once = list(dict.fromkeys(entries))
    value = "\n\n".join(once) if key in _TEXTS else once
    if not part:
        return value
    return [{part: value}] if isinstance(known, list) else {**(known or {}), part: value}


def _of_front_matter(text: str) -> dict[str, Sequence[str]]:
    import yaml

    try:
        content = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError):
        return {}
    if not isinstance(content, Mapping):
        return {}
    found: dict[str, Sequence[str]] = {}
    for key, value in content.items():
        values = value if isinstance(value, list) else [value]
        if isinstance(key, str) and is_read(key):
            found[key] = [entry.strip() for entry in values if isinstance(entry, str)]
    return found


def _split(body: str) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield each heading with the lines below it, up to the next heading of any level."""
    heading, lines, fence = "", list[str](), ""
    for line in body.splitlines():
        if opened := _FENCE.match(line):
            fence = "" if fence == opened[1] else fence or opened[1]
        found = None if fence else _HEADING.fullmatch(line)
        if found is None:
            lines.append(line)
        else:
            yield heading, lines
            heading, lines = found[1].rstrip(" \t#"), []
    yield heading, lines


def _entries(lines: Sequence[str]) -> Iterator[str]:
    """Yield the items of lists and the paragraphs between them, each as one line of text."""
    words: list[str] = []
    for line in (*lines, ""):
        item = _ITEM.fullmatch(line)
        if (item is not None or not line.strip()) and words:
            yield " ".join(words)
            words = []
        if text := (line if item is None else item[1]).strip():
            words.append(text)


def _normalized(heading: str) -> str:
    return _NOT_WORDS.sub(" ", _OPTIONAL.sub("", heading).casefold()).strip()
