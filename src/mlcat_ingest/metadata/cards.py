"""The forms of a passport: Markdown, model card, bill of materials, Annex IV and JSON; pure.

Source: Hugging Face's model cards (YAML front matter); CycloneDX 1.6, `modelCard`; Annex IV of
Regulation (EU) 2024/1689.
"""

import csv
import html
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import NAMESPACE_URL, uuid5

from mlcat_ingest.core.text import printable
from mlcat_ingest.metadata.passport import CardLine, Passport, date_of

_MARKUP: Final = re.compile(r"([\\`*\[\]|~$]|(?<!\w)_|_(?!\w))")
_ADDRESS: Final = re.compile(r"https?://[A-Za-z0-9.-]+(:\d{1,5})?(/[A-Za-z0-9._~/-]*)?\Z")
_HEAD: Final = "| | value | source | written by |\n| --- | --- | --- | --- |"


def _cell(text: str) -> str:
    """Return text as Markdown of one line that shows exactly it."""
    lines = [
        _MARKUP.sub(r"\\\1", html.escape(printable(one), quote=False)) for one in text.split("\n")
    ]
    return "<br>".join(lines).strip()


def _row(line: CardLine, urn: str) -> str:
    of = "" if line.entity == urn else f" of {line.entity}"
    texts = line.label, line.text, f"{line.source}{of}, version {line.version}", line.written_by
    return f"| {' | '.join(map(_cell, texts))} |"


def _table(lines: list[CardLine], urn: str) -> Iterator[str]:
    yield "\n".join([_HEAD, *(_row(line, urn) for line in lines)])


def _opening(passport: Passport) -> Iterator[str]:
    yield f"# {_cell(passport.name)}"
    on = "" if passport.on_ms is None else f", as of {date_of(passport.on_ms)}"
    yield f"{_cell(passport.urn)}{on}"
    if passport.unknown:
        yield "What the catalog cannot know of that time:"
        yield "\n".join(f"- {_cell(text)}" for text in passport.unknown)


def _missing(passport: Passport) -> Iterator[str]:
    yield "## Missing"
    rows = [f"| {one.title} | {_cell(one.where)} | {one.by} |" for one in passport.missing]
    yield "\n".join(["| part | where it belongs | who writes it |\n| --- | --- | --- |", *rows])


def _made_from(passport: Passport) -> Iterator[str]:
    yield "## Made from"
    rows = [
        f"| {_cell(urn)} | {aspect} | {version} |" for urn, aspect, version in passport.made_from
    ]
    yield "\n".join(["| entity | aspect | version |\n| --- | --- | --- |", *rows])


def _markdown(passport: Passport) -> str:
    parts = [*_opening(passport)]
    parts += _missing(passport) if passport.missing else []
    for title, lines in passport.sections:
        parts += [f"## {title}", *_table(lines, passport.urn)]
    return "\n\n".join([*parts, *_made_from(passport)]) + "\n"


def _hugging_face(passport: Passport) -> str:
    """Return the Markdown behind the front matter that the catalog can fill without a guess."""
    import yaml

    flavors = [line.value for line in passport.of("environment") if line.label == "Flavors"]
    names = [name for text in flavors for name in text.split(",") if name.strip(" ,")]
    libraries = [name.strip() for name in names if name.strip() != "python_function"]
    tags = [
        line.value.rpartition(":")[2] for line in passport.of("governance") if line.label == "Tag"
    ]
    head: dict[str, Any] = {"model_name": passport.name}
    head |= {"library_name": libraries[0]} if libraries else {}
    head |= {"tags": tags} if tags else {}
    front = yaml.safe_dump(head, sort_keys=False)
    return f"---\n{front}---\n\n{_markdown(passport)}"


class _Requirement(NamedTuple):
    """A point of Annex IV: the topics that answer it, and what no topic does."""

    part: str
    title: str
    point: str
    requirement: str
    topics: str
    missing: str


@cache
def _annex() -> tuple[_Requirement, ...]:
    text = Path(__file__).with_name("annex_iv.csv").read_text("utf-8")
    return tuple(_Requirement(*row) for row in csv.reader(text.splitlines()[1:]))


def _annex_iv(passport: Passport) -> str:
    parts = [
        *_opening(passport),
        "Technical documentation by Annex IV of Regulation (EU) 2024/1689",
    ]
    gaps = {one.topic: one for one in passport.missing}
    for (number, title), points in groupby(_annex(), lambda one: (one.part, one.title)):
        parts.append(f"## {number}. {title}")
        for one in points:
            point = f"({one.point}) " if one.point else ""
            parts.append(f"### {point}{one.requirement}")
            topics = one.topics.split()
            lines = passport.of(*topics)
            parts += _table(lines, passport.urn) if lines else ()
            missing = [gaps[topic] for topic in topics if topic in gaps]
            texts = [
                f"- Missing: {gap.title}, from {gap.by} ({_cell(gap.where)})" for gap in missing
            ]
            texts += [f"- Missing: {one.missing}"] if one.missing else []
            texts += ["- Missing: the catalog has nothing on it"] if not lines and not texts else []
            parts += ["\n".join(texts)] if texts else []
    return "\n\n".join([*parts, *_made_from(passport)]) + "\n"


def _cyclonedx(passport: Passport) -> str:
    """Return a bill of materials of the model with its card, and its data as components."""
    data = passport.of("data", "evaluation")
    names = dict.fromkeys(line.value or line.label for line in data)
    refs = {name: f"data-{at}" for at, name in enumerate(names, 1)}
    versions = [line.value for line in passport.of("identity") if line.label == "Version"]
    texts = [line.value for line in passport.of("description")]
    pages = [line.value for line in passport.of("identity") if _ADDRESS.match(line.value)]
    pages_of_code = [line.value for line in passport.of("code") if _ADDRESS.match(line.value)]
    links = {("website", url) for url in pages} | {("vcs", url) for url in pages_of_code}
    model: dict[str, Any] = {
        "type": "machine-learning-model",
        "bom-ref": passport.urn,
        "name": passport.name,
        "version": versions[0][:1024] if versions else "",
        "description": "\n".join(texts),
        "externalReferences": [{"type": kind, "url": url} for kind, url in sorted(links)],
        "modelCard": {
            "modelParameters": {"datasets": [{"ref": ref} for ref in refs.values()]},
            "quantitativeAnalysis": {
                "performanceMetrics": [
                    {"type": line.label, "value": line.value} for line in passport.of("metrics")
                ]
            },
            "considerations": _considerations(passport),
            "properties": [*_properties(passport)],
        },
    }
    bom = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": _timestamp(passport.on_ms or passport.newest_ms),
            "tools": {"components": [{"type": "application", "name": "mlcat-ingest"}]},
            "component": _without_empty(model),
        },
        "components": [
            {"type": "data", "bom-ref": ref, "name": name} for name, ref in refs.items()
        ],
        "dependencies": [{"ref": passport.urn, "dependsOn": list(refs.values())}],
    }
    # The same versions make the same bill.
    serial = uuid5(NAMESPACE_URL, json.dumps(bom, sort_keys=True)).urn
    return _json({**bom, "serialNumber": serial})


def _considerations(passport: Passport) -> dict[str, Any]:
    def texts(*topics: str) -> list[str]:
        return [line.value for line in passport.of(*topics)]

    mitigations = "; ".join(texts("oversight"))
    risks = [
        {"name": risk, "mitigationStrategy": mitigations} for risk in texts("risks", "sensitive")
    ]
    return {
        "users": texts("users"),
        "useCases": texts("purpose"),
        "technicalLimitations": texts("limits"),
        "ethicalConsiderations": [_without_empty(risk) for risk in risks],
    }


def _properties(passport: Passport) -> Iterator[dict[str, str]]:
    """Yield each line and its origin, what is missing, and the versions that made the card."""
    for line in passport.lines:
        name = f"mlcat:{line.topic}:{line.label}"
        origin = f"{line.source} of {line.entity}, version {line.version}; {line.written_by}"
        yield {"name": name, "value": line.text}
        yield {"name": f"{name}:origin", "value": origin}
    for one in passport.missing:
        yield {"name": f"mlcat:missing:{one.topic}", "value": f"{one.title}: {one.where}, {one.by}"}
    for text in passport.unknown:
        yield {"name": "mlcat:unknown", "value": text}
    for urn, aspect, version in passport.made_from:
        yield {"name": f"mlcat:made-from:{aspect}", "value": f"{urn} version {version}"}


def _without_empty(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object without its empty members, at any depth of objects."""
    whole = {
        key: _without_empty(one) if isinstance(one, dict) else one for key, one in value.items()
    }
    return {key: one for key, one in whole.items() if one not in ("", [], {})}


def _timestamp(epoch_ms: int) -> str:
    try:
        return datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat()
    except (OverflowError, ValueError, OSError):
        return datetime.fromtimestamp(0, UTC).isoformat()


def card_data(passport: Passport) -> dict[str, Any]:
    """Return the passport as JSON data, whole."""
    made: dict[str, dict[str, int]] = {}
    for urn, aspect, version in passport.made_from:
        made.setdefault(urn, {})[aspect] = version
    return {**asdict(passport), "made_from": made}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


FORMS: Final[Mapping[str, Callable[[Passport], str]]] = {
    "md": _markdown,
    "hf": _hugging_face,
    "cyclonedx": _cyclonedx,
    "annex-iv": _annex_iv,
    "json": lambda passport: _json(card_data(passport)),
}
"""Name of a form to the function that returns its text."""
