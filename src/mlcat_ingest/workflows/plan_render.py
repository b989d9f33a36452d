"""Forms of a plan: lines for people, bounded; JSON objects for programs, whole."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple

from mlcat_ingest.core.text import plural, printable
from mlcat_ingest.metadata.reserved import OWN_PREFIX
from mlcat_ingest.metadata.urn import entity_type_of, parse
from mlcat_ingest.pipeline.report.labels import with_label
from mlcat_ingest.pipeline.report.render import findings, gate_data, gate_lines
from mlcat_ingest.pipeline.report.report import Report
from mlcat_ingest.workflows.impact import Impact
from mlcat_ingest.workflows.plan import ACTIONS, Totals
from mlcat_ingest.workflows.plan_diff import (
    ABSENT,
    Action,
    AspectDiff,
    Change,
    EntityDiff,
    FieldDiff,
    Sign,
)

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
        yield Line(f"    only internal properties, {OWN_PREFIX}*")
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
    values = [value_text(change.label, field, value) for value in (change.old, change.new)]
    if not any("\n" in value for value in values):
        shown = " → ".join(cut(value) for value in values if value)
        yield Line(printable(f"{start}{': ' if shown else ''}{shown}"), change.sign)
        return
    yield Line(printable(f"{start}:"), change.sign)
    signs: tuple[Sign, Sign] = ("removed", "added")
    for sign, value in zip(signs, values, strict=True):
        lines = value.split("\n") if value else []
        for line in lines[:LINES_SHOWN]:
            yield Line(printable(f"          {_SIGNS[sign]} {cut(line)}".rstrip()), sign)
        if len(lines) > LINES_SHOWN:
            more = plural(len(lines) - LINES_SHOWN, "more line")
            yield Line(f"          {_SIGNS[sign]} … and {more}", sign)


def cut(text: str, longest: int = VALUE_CHARS) -> str:
    """Return `text`, cut to `longest` characters."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def value_text(label: str, field: str, value: Any) -> str:
    """Return a value as text; of a record what its label does not say already."""
    if value is ABSENT or value == label:
        return ""
    if isinstance(value, dict) and label:
        rest = {key: one for key, one in value.items() if not _is_in_label(label, one)}
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
    return date_of(value) if is_time else value


def date_of(epoch_ms: int) -> str:
    """Return a time as a date with its zone, or the number where no calendar has it."""
    try:
        return datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return str(epoch_ms)


def _is_in_label(label: str, value: Any) -> bool:
    return isinstance(value, str) and (value == label or value in label.split(" "))


def head_lines(report: Report) -> Iterator[Line]:
    """Yield the head: the recipe of the plan, and how each place was read."""
    yield Line(f"{report.name}: plan, nothing was written")
    for one in report.passes:
        yield Line(f"  source       {one.source}: {one.why}")


def total_lines(report: Report, totals: Totals) -> Iterator[Line]:
    """Yield the totals, which come last."""
    where = f" → {report.catalog}" if report.catalog else ""
    yield Line(f"  records      {report.records:,} read{where}")
    yield from counts_lines(report, totals)
    for line in gate_lines(report.gate):
        yield Line(line)


def counts_lines(report: Report, totals: Totals) -> Iterator[Line]:
    """Yield how many entities each action would concern, the findings, and the requests."""
    width = max(map(len, (*report.entities, *totals.actions)), default=0)
    for kind in sorted({*report.entities, *totals.actions}):
        yield Line(f"  {kind:<{max(width, 12)}} {', '.join(_counts(kind, report, totals))}")
    for line in findings(report):
        yield Line(line)
    yield Line(
        f"  requests     {report.source_requests:,} to the source, {report.catalog_requests:,} to "
        f"the catalog; writing takes {totals.write_requests:,} more for "
        f"{plural(totals.proposals, 'proposal')}"
    )


def _counts(kind: str, report: Report, totals: Totals) -> Sequence[str]:
    counts = totals.actions.get(kind) or Counter()
    parts = [f"{counts[action]:,} to {action}" for action in ACTIONS if counts.get(action)]
    own = totals.bookkeeping[kind]
    if own:
        parts.append(f"of these {own:,} only in {OWN_PREFIX}*")
    unchanged = report.entities[kind].unchanged if kind in report.entities else 0
    return [*parts, f"{unchanged:,} unchanged"]


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
        values = _values(change)
        value = values if change.sign == "changed" else next(iter(values.values()))
        data.setdefault(change.sign, {})[change.label] = value
    if field.reordered:
        data["reordered"] = True
    return data


def _values(change: Change) -> dict[str, Any]:
    pair = {"old": change.old, "new": change.new}
    return {name: value for name, value in pair.items() if value is not ABSENT}


def impact_lines(one: Impact) -> Iterator[Line]:
    """Yield what a removal affects."""
    name = feature_name(one.removal.urn)
    when = ", due in the next pass," if one.removal.next_pass else ""
    if not one.models:
        yield Line(printable(f"  removing {name}{when} affects no model"))
        return
    production = f", {one.production:,} of them in Production" if one.production else ""
    names = ", ".join(one.names) + (", …" if one.models > len(one.names) else "")
    models = plural(one.models, "model")
    yield Line(
        printable(f"! removing {name}{when} affects {models}{production}: {names}"), "removed"
    )


def impact_data(one: Impact) -> dict[str, Any]:
    """Return what a removal affects as JSON data."""
    return {
        "kind": "impact",
        "urn": one.removal.urn,
        "name": feature_name(one.removal.urn),
        "removed": "with the next pass" if one.removal.next_pass else "with the run",
        "models": one.models,
        "in_production": one.production,
        "model_names": list(one.names),
    }


def feature_name(urn: str) -> str:
    """Return how people call a feature or a feature table: `conv_rate (shop.orders)`."""
    *_, table, name = parse(urn).parts
    return f"{name} ({table})" if entity_type_of(urn) == "mlFeature" else name


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
        "gate": None if report.gate is None else gate_data(report.gate),
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
