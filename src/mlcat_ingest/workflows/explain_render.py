"""Forms of an explanation: a table for people, each aspect one; JSON for programs, whole."""

from collections.abc import Iterator, Mapping
from shlex import quote
from typing import Any, Final, NamedTuple

from mlcat_ingest.client.base import AspectWrite
from mlcat_ingest.core.text import plural, printable
from mlcat_ingest.metadata.reserved import SOURCE_KEY
from mlcat_ingest.pipeline.report.labels import with_label
from mlcat_ingest.workflows.explain import (
    EntryKey,
    ExplainedAspect,
    ExplainedEntry,
    ExplainedField,
    Explanation,
    NextRun,
)
from mlcat_ingest.workflows.plan_diff import ABSENT, Change
from mlcat_ingest.workflows.plan_render import Line, Style, cut, date_of, value_text

ENTRIES_SHOWN: Final = 50
"""Entries of one field that are shown."""

_WIDTHS: Final = (44, 32, 72, 40, 40)
_HEADS: Final = ("value", "written by", "when", "next run")
_PERSON: Final = "urn:li:corpuser:"
_SOMEBODY: Final = "a person or tool"
_NOBODY: Final = frozenset({"urn:li:corpuser:UNKNOWN", "urn:li:corpuser:unknown"})


class _Row(NamedTuple):
    """A line of the table: the entry, its value, its writer, the time, the next run."""

    cells: tuple[str, ...]
    style: Style = "plain"


def explanation_lines(one: Explanation) -> Iterator[Line]:
    """Yield the entity, the recipes that wrote to it, and a table for each aspect."""
    yield Line(printable(with_label(one.urn, one.label)))
    for text in _facts(one):
        yield Line(f"  {printable(text)}")
    tables = [(aspect, list(_rows(one, aspect))) for aspect in _aspects(one)]
    cells = [row.cells for _, rows in tables for row in rows]
    widths = [
        min(longest, max((len(row[at]) for row in cells if at < len(row)), default=0))
        for at, longest in enumerate(_WIDTHS)
    ]
    shown = _HEADS if one.next_run else _HEADS[:-1]
    for aspect, rows in tables:
        version = f", version {aspect.version}" if aspect.version else ""
        yield Line("")
        head = (f"{aspect.name}{version}", *shown)
        for row in (_Row(head), *rows):
            padded = [
                cut(printable(cell), longest).ljust(width)
                for cell, longest, width in zip(row.cells, _WIDTHS, widths, strict=False)
            ]
            yield Line("  ".join(padded).rstrip(), row.style)


def _facts(one: Explanation) -> Iterator[str]:
    for source in one.sources:
        yield f"record       {source} ({SOURCE_KEY})"
    if one.url:
        yield f"             {one.url}"
    if one.removed:
        yield "status       soft-deleted"
    ours = one.next_run and one.next_run.recipe
    for name, count in one.recipes.items():
        claims = "its base is unreadable" if count is None else plural(count, "entry", "entries")
        hint = f"; if it no longer exists: mlcat-ingest retract --recipe-name {quote(name)}"
        yield f"recipe       {name}: {claims}{', this recipe' if name == ours else hint}"
    if not one.recipes:
        yield "recipe       none: no recipe has a base here"
    if one.next_run is not None:
        action = one.next_run.action or "nothing changes here"
        yield f"next run     of {one.next_run.recipe}: {action}"
        for text in one.next_run.reads:
            yield f"             {text}"


def _aspects(one: Explanation) -> Iterator[ExplainedAspect]:
    """Yield the stored aspects, and those that only the next run would write."""
    yield from one.aspects
    stored = {aspect.name for aspect in one.aspects}
    for name in one.next_run.changes if one.next_run else ():
        if name not in stored:
            yield ExplainedAspect(name, None, ())


def _fields(
    aspect: ExplainedAspect, changes: Mapping[EntryKey, Change]
) -> Iterator[tuple[ExplainedField, Mapping[str, Change]]]:
    """Yield each field with its changes by label, those that only the next run writes too."""
    by_field: dict[str, dict[str, Change]] = {}
    for key, change in changes.items():
        by_field.setdefault(key.field, {})[key.label] = change
    for one in aspect.fields:
        yield one, by_field.pop(one.name, {})
    for name, rest in by_field.items():
        yield ExplainedField(name, any(rest), (), {}), rest


def _changes_of(next_run: NextRun | None, aspect: str) -> Mapping[EntryKey, Change]:
    return {} if next_run is None else next_run.changes.get(aspect, {})


def _rows(one: Explanation, aspect: ExplainedAspect) -> Iterator[_Row]:
    has_next = one.next_run is not None
    for field, changes in _fields(aspect, _changes_of(one.next_run, aspect.name)):
        start = "  "
        if not (field.entries or changes or field.missing):
            continue
        if field.collection:
            yield _Row((f"  {field.name}",))
            start = "    "
        for entry in field.entries[:ENTRIES_SHOWN]:
            name = start + (entry.label if field.collection else field.name)
            value = _one_line(value_text(entry.label, field.name, entry.value))
            cells = (name, value, _writer(entry), _when(entry))
            change = changes.get(entry.label)
            effect, style = _effect(field.name, change)
            yield _Row((*cells, effect), style) if has_next else _Row(cells)
        more = len(field.entries) - ENTRIES_SHOWN
        if more > 0:
            yield _Row((f"{start}… and {more:,} more, see --json",))
        for label, change in _only_next(field, changes):
            name = start + (label if field.collection else field.name)
            effect, style = _effect(field.name, change)
            yield _Row((name, "", "", "", effect), style)
        for name, count in field.missing.items():
            entries = plural(count, "entry", "entries")
            yield _Row((f"{start}removed: {entries} of recipe {name}",))


def _only_next(
    field: ExplainedField, changes: Mapping[str, Change]
) -> Iterator[tuple[str, Change]]:
    """Yield the changes of entries that are not stored now."""
    stored = {entry.label for entry in field.entries}
    yield from (item for item in changes.items() if item[0] not in stored)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _effect(field: str, change: Change | None) -> tuple[str, Style]:
    if change is None:
        return "keep", "plain"
    if change.sign == "removed":
        return "remove", "removed"
    text = _one_line(value_text(change.label, field, change.new))
    verb = "add" if change.sign == "added" else "change to"
    return f"{verb} {text}".rstrip(), change.sign


def _writer(entry: ExplainedEntry) -> str:
    person = _person(entry.write)
    if entry.kind == "recipe":
        recipes = f"recipe {', '.join(entry.recipes)}"
        return f"{recipes}; value by {person}" if _is_edited(entry) else recipes
    if entry.changed_since:
        return f"after recipe {', '.join(entry.changed_since)}: {person}"
    if entry.kind == "service":
        return "the catalog"
    return "no own writer" if entry.kind == "anyone" else person


def _is_edited(entry: ExplainedEntry) -> bool:
    """Return whether another tool brought the value of an entry that a recipe claims.

    A recipe's own writes name it as their pipeline, and no client.
    """
    write = entry.write
    if write is None or entry.or_earlier:
        return False
    ours = write.run_id is None or write.pipeline in entry.recipes
    return write.client is not None or not ours


def _person(write: AspectWrite | None) -> str:
    """Return who wrote, as far as the catalog noted it."""
    if write is None:
        return _SOMEBODY
    known = write.actor is not None and write.actor not in _NOBODY
    actor = (write.actor or "").removeprefix(_PERSON) if known else _SOMEBODY
    run = write.run_id and f"run {write.run_id}"
    return ", ".join(filter(None, (actor, run, write.client)))


def _when(entry: ExplainedEntry) -> str:
    if entry.write is None or entry.write.at_ms is None:
        return ""
    return f"{date_of(entry.write.at_ms)}{' or earlier' if entry.or_earlier else ''}"


def explanation_data(one: Explanation) -> dict[str, Any]:
    """Return the explanation as JSON data, whole."""
    run = one.next_run
    return {
        "urn": one.urn,
        "name": one.label,
        "removed": one.removed,
        "sources": list(one.sources),
        "url": one.url,
        "recipes": {name: {"entries": count} for name, count in one.recipes.items()},
        "next_run": run
        and {"recipe": run.recipe, "action": run.action or "keep", "reads": list(run.reads)},
        "aspects": {aspect.name: _aspect_data(one, aspect) for aspect in _aspects(one)},
    }


def _aspect_data(one: Explanation, aspect: ExplainedAspect) -> dict[str, Any]:
    fields = _fields(aspect, _changes_of(one.next_run, aspect.name))
    return {
        "version": aspect.version,
        "fields": {
            field.name: _field_data(field, changes, has_next=one.next_run is not None)
            for field, changes in fields
        },
    }


def _field_data(
    field: ExplainedField, changes: Mapping[str, Change], *, has_next: bool
) -> dict[str, Any]:
    entries: list[dict[str, Any]] = []
    for entry in field.entries:
        data = {"value": entry.value, "written_by": _writer_data(entry)}
        if has_next:
            data["next_run"] = _effect_data(changes.get(entry.label))
        entries.append({"entry": entry.label, **data} if field.collection else data)
    for label, change in _only_next(field, changes):
        data = {"next_run": _effect_data(change)}
        entries.append({"entry": label, **data} if field.collection else data)
    if not field.collection:
        return entries[0]
    return {"entries": entries, "missing": dict(field.missing)}


def _writer_data(entry: ExplainedEntry) -> dict[str, Any]:
    write = entry.write or AspectWrite({})
    return {
        "kind": entry.kind,
        "recipes": list(entry.recipes),
        "changed_since": list(entry.changed_since),
        "actor": write.actor,
        "at_ms": write.at_ms,
        "or_earlier": entry.or_earlier,
        "run_id": write.run_id,
        "client": write.client,
    }


def _effect_data(change: Change | None) -> dict[str, Any]:
    if change is None:
        return {"action": "keep"}
    action = {"added": "add", "changed": "change", "removed": "remove"}[change.sign]
    return {"action": action} | ({} if change.new is ABSENT else {"value": change.new})
