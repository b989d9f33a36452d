"""Forms of a plan: lines for people, bounded; JSON objects for programs, whole."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple

from mlcat_ingest.pipeline.plan.diff import (
    ABSENT,
    Action,
    AspectDiff,
    Change,
    EntityDiff,
    FieldDiff,
    Sign,
)
from mlcat_ingest.pipeline.plan.plan import ACTIONS, Totals
from mlcat_ingest.pipeline.printable import printable
from mlcat_ingest.pipeline.render import findings
from mlcat_ingest.pipeline.report import Report

CHANGES_SHOWN: Final = 10
"""Entries of one field that are shown."""

VALUE_CHARS: Final = 80
"""Length at which a value is cut."""

Style = Literal["plain", "added", "changed", "removed"]

_SIGNS: Final[dict[Sign, str]] = {"added": "+", "changed": "~", "removed": "-"}
_ACTIONS: Final[dict[Action, tuple[str, Style]]] = {
    "create": ("+", "added"),
    "update": ("~", "changed"),
    "remove": ("-", "removed"),
    "revive": ("^", "added"),
}


class Line(NamedTuple):
    """A line for a terminal, safe to print, and in which colour."""

    text: str
    style: Style = "plain"


def entity_lines(one: EntityDiff) -> Iterator[Line]:
    """Yield an entity and what would change in it."""
    sign, style = _ACTIONS[one.action]
    yield Line(printable(f"{sign} {one.action} {one.urn}"), style)
    if not one.aspects and one.action == "update":
        yield Line("    only its own bookkeeping, mlcat.*")
    for aspect in one.aspects:
        whole = " (new)" if aspect.created else " (goes)" if aspect.deleted else ""
        yield Line(printable(f"    {aspect.aspect}{whole}"))
        for field in aspect.fields:
            yield from _field_lines(field)


def _field_lines(field: FieldDiff) -> Iterator[Line]:
    if not field.collection:
        for change in field.changes:
            yield _change_line(f"      {_SIGNS[change.sign]} {field.field}", change, ": ")
        return
    order = " (in another order)" if field.reordered else ""
    yield Line(printable(f"      {field.field}{order}"))
    for change in field.changes[:CHANGES_SHOWN]:
        yield _change_line(f"        {_SIGNS[change.sign]} {change.label}", change, ": ")
    more = len(field.changes) - CHANGES_SHOWN
    if more > 0:
        yield Line(f"        … and {more:,} more")


def _change_line(start: str, change: Change, colon: str) -> Line:
    values = [_shown(change.label, value) for value in (change.old, change.new)]
    said = " → ".join(value for value in values if value)
    return Line(printable(f"{start}{colon if said else ''}{said}"), change.sign)


def _shown(label: str, value: Any) -> str:
    """Return a value as short text; of a record what its label does not say already."""
    if value is ABSENT or value == label:
        return ""
    if isinstance(value, dict) and label:
        rest = {key: one for key, one in value.items() if not _is_said(label, one)}
        value = next(iter(rest.values())) if len(rest) == 1 else rest
        if value == {}:
            return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= VALUE_CHARS else f"{text[: VALUE_CHARS - 1]}…"


def _is_said(label: str, value: Any) -> bool:
    return isinstance(value, str) and (value == label or value in label.split(" "))


def head_lines(report: Report) -> Iterator[Line]:
    """Yield what comes first: whose plan it is, and how each place was read."""
    yield Line(f"{report.name}: plan, nothing was written")
    for one in report.passes:
        yield Line(f"  source       {one.source}: {one.why}")


def total_lines(report: Report, totals: Totals) -> Iterator[Line]:
    """Yield what comes last: what it all comes to."""
    where = f" → {report.catalog}" if report.catalog else ""
    yield Line(f"  records      {report.records:,} read{where}")
    yield from counts_lines(report, totals)


def counts_lines(report: Report, totals: Totals) -> Iterator[Line]:
    """Yield what would happen to how many entities, what was special, and the requests."""
    width = max(map(len, (*report.entities, *totals.actions)), default=0)
    for kind in sorted({*report.entities, *totals.actions}):
        yield Line(f"  {kind:<{max(width, 12)}} {', '.join(_counts(kind, report, totals))}")
    for line in findings(report):
        yield Line(line)
    yield Line(
        f"  requests     {report.source_requests:,} to the source, {report.catalog_requests:,} to "
        f"the catalog; writing takes {totals.write_requests:,} more for {totals.proposals:,} "
        f"proposal{'' if totals.proposals == 1 else 's'}"
    )


def _counts(kind: str, report: Report, totals: Totals) -> Sequence[str]:
    counts = totals.actions.get(kind) or Counter()
    said = [f"{counts[action]:,} to {action}" for action in ACTIONS if counts.get(action)]
    own = totals.bookkeeping[kind]
    if own:
        said.append(f"of these {own:,} only in mlcat.*")
    unchanged = report.entities[kind].unchanged if kind in report.entities else 0
    return [*said, f"{unchanged:,} unchanged"]


def entity_data(one: EntityDiff) -> dict[str, Any]:
    """Return what would happen to an entity as JSON data, whole."""
    return {
        "kind": "entity",
        "urn": one.urn,
        "entity_type": one.entity_type,
        "action": one.action,
        "proposals": one.proposals,
        "aspects": {aspect.aspect: _aspect_data(aspect) for aspect in one.aspects},
    }


def _aspect_data(aspect: AspectDiff) -> dict[str, Any]:
    action = "create" if aspect.created else "delete" if aspect.deleted else "update"
    return {"action": action, "fields": {one.field: _field_data(one) for one in aspect.fields}}


def _field_data(field: FieldDiff) -> dict[str, Any]:
    if not field.collection:
        return _values(field.changes[0])
    data: dict[str, Any] = {}
    for change in field.changes:
        value = _values(change) if change.sign == "changed" else _one(change)
        data.setdefault(change.sign, {})[change.label] = value
    if field.reordered:
        data["reordered"] = True
    return data


def _values(change: Change) -> dict[str, Any]:
    pair = {"old": change.old, "new": change.new}
    return {name: value for name, value in pair.items() if value is not ABSENT}


def _one(change: Change) -> Any:
    return change.new if change.old is ABSENT else change.old


def summary_data(report: Report, totals: Totals) -> dict[str, Any]:
    """Return what a plan comes to as JSON data."""
    kinds = sorted({*report.entities, *totals.actions})
    return {
        "kind": "summary",
        "name": report.name,
        "catalog": report.catalog,
        "pending": totals.entities > 0,
        "records": report.records,
        "entities": {kind: _kind_data(kind, report, totals) for kind in kinds},
        "proposals": totals.proposals,
        "write_requests": totals.write_requests,
        "source_requests": report.source_requests,
        "catalog_requests": report.catalog_requests,
        "without_base": report.without_base,
        "kept_aspects": report.kept_aspects,
        "failed_records": report.failed_records,
        "rejected": report.rejected,
        "notes": dict(report.notes),
        "failure": None if report.failure is None else str(report.failure),
        "interrupted": report.interrupted,
    }


def _kind_data(kind: str, report: Report, totals: Totals) -> dict[str, int]:
    counts = totals.actions.get(kind) or Counter()
    return {
        **{action: counts.get(action, 0) for action in ACTIONS},
        "bookkeeping": totals.bookkeeping[kind],
        "unchanged": report.entities[kind].unchanged if kind in report.entities else 0,
    }
