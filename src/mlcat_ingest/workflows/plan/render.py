"""Forms of a plan: lines for people, bounded; JSON objects for programs, whole."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple

from mlcat_ingest.core.text import plural, printable
from mlcat_ingest.metadata.reserved import OWN_PREFIX
from mlcat_ingest.pipeline.report.labels import with_label
from mlcat_ingest.pipeline.report.render import findings
from mlcat_ingest.pipeline.report.report import Report
from mlcat_ingest.workflows.plan.diff import (
    ABSENT,
    Action,
    AspectDiff,
    Change,
    EntityDiff,
    FieldDiff,
    Sign,
)
from mlcat_ingest.workflows.plan.plan import ACTIONS, Totals

CHANGES_SHOWN: Final = 10
"""Entries of one field that are shown."""

VALUE_CHARS: Final = 80
"""Length at which a value is cut, or a line of one."""

LINES_SHOWN: Final = 10
"""Lines of one text that are shown."""

_TIMES: Final = frozenset(
    {"time", "date", "createdAt", "created", "lastModified", "lastModifiedAt", "removedTimestamp"}
)
"""Fields that hold epoch milliseconds."""

_FIRST_TIME_MS: Final = 10**11
"""Smaller numbers are no times of these decades."""

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
    yield Line(printable(f"{sign} {one.action} {with_label(one.urn, one.label)}"), style)
    if not one.aspects and one.action == "update":
        yield Line(f"    only its own bookkeeping, {OWN_PREFIX}*")
    for aspect in one.aspects:
        whole = " (new)" if aspect.created else " (goes)" if aspect.deleted else ""
        yield Line(printable(f"    {aspect.aspect}{whole}"))
        for field in aspect.fields:
            yield from _field_lines(field)


def _field_lines(field: FieldDiff) -> Iterator[Line]:
    if not field.collection:
        for change in field.changes:
            start = f"      {_SIGNS[change.sign]} {field.field}"
            yield from _change_lines(start, field.field, change)
        return
    order = " (in another order)" if field.reordered else ""
    yield Line(printable(f"      {field.field}{order}"))
    for change in field.changes[:CHANGES_SHOWN]:
        start = f"        {_SIGNS[change.sign]} {change.label}"
        yield from _change_lines(start, field.field, change)
    more = len(field.changes) - CHANGES_SHOWN
    if more > 0:
        yield Line(f"        … and {more:,} more")


def _change_lines(start: str, field: str, change: Change) -> Iterator[Line]:
    """Yield a change: on one line, or a text of several lines as they stand, old before new."""
    values = [_text(change.label, field, value) for value in (change.old, change.new)]
    if not any("\n" in value for value in values):
        said = " → ".join(_cut(value) for value in values if value)
        yield Line(printable(f"{start}{': ' if said else ''}{said}"), change.sign)
        return
    yield Line(printable(f"{start}:"), change.sign)
    signs: tuple[Sign, Sign] = ("removed", "added")
    for sign, value in zip(signs, values, strict=True):
        lines = value.split("\n") if value else []
        for line in lines[:LINES_SHOWN]:
            yield Line(printable(f"          {_SIGNS[sign]} {_cut(line)}".rstrip()), sign)
        if len(lines) > LINES_SHOWN:
            more = plural(len(lines) - LINES_SHOWN, "more line")
            yield Line(f"          {_SIGNS[sign]} … and {more}", sign)


def _cut(text: str) -> str:
    return text if len(text) <= VALUE_CHARS else f"{text[: VALUE_CHARS - 1]}…"


def _text(label: str, field: str, value: Any) -> str:
    """Return a value as text; of a record what its label does not say already."""
    if value is ABSENT or value == label:
        return ""
    if isinstance(value, dict) and label:
        rest = {key: one for key, one in value.items() if not _is_said(label, one)}
        value = next(iter(rest.values())) if len(rest) == 1 else rest
        if value == {}:
            return ""
    value = _with_dates(field, value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _with_dates(field: str, value: Any) -> Any:
    """Return a value with its times as dates; `field` is what holds it."""
    if isinstance(value, dict):
        return {key: _with_dates(key, one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_with_dates(field, one) for one in value]
    is_time = field in _TIMES and isinstance(value, int) and value >= _FIRST_TIME_MS
    return _date(value) if is_time else value


def _date(epoch_ms: int) -> str:
    try:
        return datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return str(epoch_ms)


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
        said.append(f"of these {own:,} only in {OWN_PREFIX}*")
    unchanged = report.entities[kind].unchanged if kind in report.entities else 0
    return [*said, f"{unchanged:,} unchanged"]


def entity_data(one: EntityDiff) -> dict[str, Any]:
    """Return what would happen to an entity as JSON data, whole."""
    return {
        "kind": "entity",
        "urn": one.urn,
        "name": one.label,
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
