"""The forms of a passport: Markdown, model card, bill of materials, Annex IV and JSON; pure.

Source: Hugging Face's model cards (YAML front matter); CycloneDX 1.6, `modelCard`; Annex IV of
Regulation (EU) 2024/1689.
"""

import html
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from itertools import groupby
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

from mlcat_ingest.core.text import printable
from mlcat_ingest.metadata.diff import with_dates
from mlcat_ingest.metadata.labels import name_in
from mlcat_ingest.metadata.passport import CardLine, Passport, date_of, rows_in

_MARKUP: Final = re.compile(r"([\\`*\[\]|~$#]|(?<!\w)_|_(?!\w))")
_ADDRESS: Final = re.compile(r"https?://[A-Za-z0-9.-]+(:\d{1,5})?(/[A-Za-z0-9._~/-]*)?\Z")
_MOST_VERSION_CHARS: Final = 1024


def _cell(text: object) -> str:
    """Return text as Markdown of one line that shows exactly it."""
    lines = (html.escape(printable(one), quote=False) for one in str(text).split("\n"))
    return "<br>".join(_MARKUP.sub(r"\\\1", line) for line in lines).strip()


def _table(head: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    cells = [head, ("---",) * len(head), *(tuple(map(_cell, row)) for row in rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def _lines(passport: Passport, lines: Iterable[CardLine]) -> str:
    rows = (
        (line.label, line.text, f"{line.source}{of}, version {line.version}", line.written_by)
        for line in lines
        for of in ["" if line.entity == passport.urn else f" of {line.entity}"]
    )
    return _table(("what", "value", "source", "written by"), rows)


def _framed(passport: Passport, *parts: str) -> str:
    """Return Markdown between the name of the model and the versions that it was made from."""
    on = "" if passport.on_ms is None else f", as of {date_of(passport.on_ms)}"
    unknown = "\n".join(f"- Not known: {_cell(text)}" for text in passport.unknown)
    head = [f"# {_cell(passport.name)}", f"{_cell(passport.urn)}{on}", unknown]
    made_from = _table(("entity", "aspect", "version"), passport.made_from)
    return "\n\n".join(filter(None, [*head, *parts, "## Made from", made_from])) + "\n"


def _markdown(passport: Passport) -> str:
    rows = [(one.title, one.where, one.by) for one in passport.missing]
    missing = ["## Missing", _table(("part", "where it belongs", "who writes it"), rows)]
    sections = (
        text
        for title, lines in passport.sections
        for text in (f"## {title}", _lines(passport, lines))
    )
    return _framed(passport, *(missing if rows else ()), *sections)


def _hugging_face(passport: Passport) -> str:
    """Return the Markdown behind the front matter that the catalog can fill without a guess."""
    import yaml

    flavors = [line.value for line in passport.of("environment") if line.label == "Flavors"]
    names = [name.strip() for text in flavors for name in text.split(",")]
    libraries = [name for name in names if name and name != "python_function"]
    library = libraries[0] if len(libraries) == 1 else ""
    tags = [name_in(line.value) for line in passport.of("governance") if line.label == "Tag"]
    head = {"model_name": passport.name, "library_name": library, "tags": tags}
    front = yaml.safe_dump(_filled(head, "model_name"), sort_keys=False)
    return f"---\n{front}---\n\n{_markdown(passport)}"


def _annex_iv(passport: Passport) -> str:
    parts = ["Technical documentation by Annex IV of Regulation (EU) 2024/1689"]
    gaps = {one.topic: one for one in passport.missing}
    for (number, title), points in groupby(rows_in("annex_iv.csv"), lambda row: (row[0], row[1])):
        parts.append(f"## {number}. {title}")
        for *_, point, requirement, topics, not_held in points:
            parts.append(f"### {f'({point}) ' if point else ''}{requirement}")
            lines = passport.of(*topics.split())
            missing = [gaps[topic] for topic in topics.split() if topic in gaps]
            texts = [f"{gap.title}, from {gap.by} ({_cell(gap.where)})" for gap in missing]
            texts += [not_held] if not_held else []
            texts += [] if lines or texts else ["the catalog has nothing on it"]
            parts += [_lines(passport, lines)] if lines else []
            parts += ["\n".join(f"- Missing: {text}" for text in texts)] if texts else []
    return _framed(passport, *parts)


def _cyclonedx(passport: Passport) -> str:
    """Return a bill of materials of the model with its card, and its data as components."""
    names = dict.fromkeys(one.value or one.label for one in passport.of("data", "evaluation"))
    refs = {name: f"data-{at}" for at, name in enumerate(names, 1)}
    newest_ms = max((one.written_ms or 0 for one in passport.lines), default=0)
    when = str(with_dates("time", passport.on_ms or newest_ms))
    metadata = {
        "timestamp": when if "T" in when else "",
        "tools": {"components": [{"type": "application", "name": "mlcat-ingest"}]},
        "component": _filled(_component(passport, [*refs.values()]), "name"),
    }
    bom = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": _filled(metadata),
        "components": [{"type": "data", "bom-ref": refs[name], "name": name} for name in refs],
        "dependencies": [{"ref": passport.urn, "dependsOn": [*refs.values()]}],
    }
    # The same versions make the same bill.
    return _json({**bom, "serialNumber": uuid5(NAMESPACE_URL, _json(bom)).urn})


def _component(passport: Passport, refs: list[str]) -> dict[str, Any]:
    """Return the model with its card; `refs` are those of its data."""

    def values(*topics: str) -> list[str]:
        return [line.value for line in passport.of(*topics)]

    def labelled(*topics: str) -> list[str]:
        return [f"{line.label}: {line.value}" for line in passport.of(*topics)]

    metrics = [{"type": line.label, "value": line.value} for line in passport.of("metrics")]
    risks = [{"name": text} for text in labelled("risks", "sensitive")]
    risks += [
        {"name": line.label, "mitigationStrategy": line.value} for line in passport.of("oversight")
    ]
    considerations = {
        "users": values("users"),
        "useCases": values("purpose"),
        "technicalLimitations": labelled("limits"),
        "ethicalConsiderations": risks,
    }
    versions = [line.value for line in passport.of("identity") if line.label == "Version"]
    links = [("website", url) for url in values("identity")]
    links += [("vcs", url) for url in values("code")]
    return {
        "type": "machine-learning-model",
        "bom-ref": passport.urn,
        "name": passport.name,
        "version": "".join(versions[:1])[:_MOST_VERSION_CHARS],
        "description": "\n".join(values("description")),
        "externalReferences": [
            {"type": kind, "url": url} for kind, url in dict.fromkeys(links) if _ADDRESS.match(url)
        ],
        "modelCard": {
            "modelParameters": _filled({"datasets": [{"ref": ref} for ref in refs]}),
            "quantitativeAnalysis": {"performanceMetrics": metrics},
            "considerations": _filled(considerations),
            "properties": [{"name": name, "value": text} for name, text in _properties(passport)],
        },
    }


def _properties(passport: Passport) -> Iterator[tuple[str, str]]:
    """Yield each line and its origin, what is missing, and the versions that made the card."""
    for line in passport.lines:
        name = f"mlcat:{line.topic}:{line.label}"
        yield name, line.text
        origin = f"{line.source} of {line.entity}, version {line.version}; {line.written_by}"
        yield f"{name}:origin", origin
    for one in passport.missing:
        yield f"mlcat:missing:{one.topic}", f"{one.title}: {one.where}, {one.by}"
    for text in passport.unknown:
        yield "mlcat:unknown", text
    for urn, aspect, version in passport.made_from:
        yield f"mlcat:made-from:{aspect}", f"{urn} version {version}"


def _filled(value: Mapping[str, Any], *kept: str) -> dict[str, Any]:
    """Return an object without its empty members, but for those `kept`."""
    return {key: one for key, one in value.items() if key in kept or one not in ("", [], {})}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


FORMS: Final[Mapping[str, Callable[[Passport], str]]] = {
    "md": _markdown,
    "hf": _hugging_face,
    "cyclonedx": _cyclonedx,
    "annex-iv": _annex_iv,
    "json": lambda passport: _json(asdict(passport)),
}
"""Name of a form to the function that returns its text."""
