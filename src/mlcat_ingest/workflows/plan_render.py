"""Forms of a plan: lines for people, bounded; a JSON object for each change, whole."""

import json
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from mlcat_ingest.core.text import cut, plural, printable
from mlcat_ingest.metadata.aspects import STATUS
from mlcat_ingest.metadata.diff import (
    ABSENT,
    AspectDiff,
    Change,
    FieldDiff,
    Sign,
    value_text,
    with_dates,
)
from mlcat_ingest.metadata.labels import with_label
from mlcat_ingest.metadata.reserved import OWN_PREFIX
from mlcat_ingest.metadata.urn import decoded_parts, entity_type_of
from mlcat_ingest.pipeline.merge.entity import MergedEntity
from mlcat_ingest.pipeline.report.render import findings, gate_data, gate_lines, left_out
from mlcat_ingest.pipeline.report.report import EntityCounts, Report
from mlcat_ingest.recipe import secrets
from mlcat_ingest.workflows.plan import Plan
from mlcat_ingest.workflows.plan_diff import Action, EntityDiff, diff_merged
from mlcat_ingest.workflows.plan_impact import Impact

ENTITIES_SHOWN: Final = 20
"""Entities that are shown in full; the others are counted."""

CHANGES_SHOWN: Final = 10
"""Entries of one field that are shown."""

VALUE_CHARS: Final = 80
"""Length at which a value is cut, or a line of one."""

LINES_SHOWN: Final = 10
"""Lines of one text that are shown."""

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


def _entity_lines(diff: EntityDiff) -> Iterator[Line]:
    """Yield an entity and what would change in it."""
    sign, style = _ACTIONS[diff.action]
    yield Line(printable(f"{sign} {diff.action} {with_label(diff.urn, diff.label)}"), style)
    if not diff.aspects and diff.action == "update":
        yield Line(f"    only internal properties, {OWN_PREFIX}*")
    for aspect in diff.aspects:
        whole = " (new)" if aspect.created else " (goes)" if aspect.deleted else ""
        yield Line(printable(f"    {aspect.aspect}{whole}"))
        for field in _with_equal_times_joined(aspect.fields):
            yield from _field_lines(field)


def first_entity_lines(diffs: Iterator[EntityDiff]) -> Iterator[Line]:
    """Yield the first entities in full, and how many more there are."""
    for diff in islice(diffs, ENTITIES_SHOWN):
        yield from _entity_lines(diff)
    if more := sum(1 for _ in diffs):
        yield Line(f"… and {plural(more, 'more entity', 'more entities')}, see --json")


def _with_equal_times_joined(fields: Iterable[FieldDiff]) -> Iterator[FieldDiff]:
    """Yield fields; those in which one and the same time changes are one, `createdAt, created`."""
    groups: dict[object, list[FieldDiff]] = {}
    for field in fields:
        groups.setdefault(_change_of_time(field) or field.field, []).append(field)
    for key, group in groups.items():
        if isinstance(key, Change):
            names = ", ".join(field.field for field in group)
            yield replace(group[0], field=names, changes=(key,))
        else:
            yield from group


def _change_of_time(field: FieldDiff) -> Change | None:
    """Return the change of a field that holds nothing but a time, as dates."""
    if field.collection or len(field.changes) != 1:
        return None
    old, new = (_time_in(field.field, value) for value in field.changes[0][1:])
    return None if old is None or new is None else Change("", old, new)


def _time_in(field: str, value: Any) -> Any:
    """Return the date of a time, by itself or in a time stamp; None for any other value."""
    if isinstance(value, dict) and value.keys() == {"time"}:
        return _time_in("time", value["time"])
    shown = with_dates(field, value)
    return shown if value is ABSENT or (isinstance(value, int) and shown != value) else None


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
        shown = " → ".join(cut(value, VALUE_CHARS) for value in values if value)
        yield Line(printable(f"{start}{': ' if shown else ''}{shown}"), change.sign)
        return
    yield Line(printable(f"{start}:"), change.sign)
    signs: tuple[Sign, Sign] = ("removed", "added")
    for sign, value in zip(signs, values, strict=True):
        lines = value.split("\n") if value else []
        for line in lines[:LINES_SHOWN]:
            yield Line(
                printable(f"          {_SIGNS[sign]} {cut(line, VALUE_CHARS)}".rstrip()), sign
            )
        if len(lines) > LINES_SHOWN:
            more = plural(len(lines) - LINES_SHOWN, "more line")
            yield Line(f"          {_SIGNS[sign]} … and {more}", sign)


def head_lines(report: Report) -> Iterator[Line]:
    """Yield the head: the recipe of the plan, and how each place was read."""
    yield Line(f"{report.name}: plan, nothing was written")
    yield from (Line(summary.line) for summary in report.passes)


def total_lines(plan: Plan) -> Iterator[Line]:
    """Yield the totals, which come last."""
    report = plan.report
    where = f" → {report.catalog}" if report.catalog else ""
    yield Line(f"  records      {report.records:,} read{where}")
    yield from counts_lines(plan)
    yield from map(Line, gate_lines(report.gate))


def counts_lines(plan: Plan) -> Iterator[Line]:
    """Yield how many entities each action would concern, the findings, and the requests."""
    report, totals = plan.report, plan.totals
    width = max(map(len, (*report.entities, *totals.actions)), default=0)
    for kind in sorted({*report.entities, *totals.actions}):
        yield Line(f"  {kind:<{max(width, 12)}} {', '.join(_counts(kind, plan))}")
    yield from map(Line, findings(report))
    yield Line(
        f"  requests     {report.source_requests:,} to the source, {report.catalog_requests:,} to "
        f"the catalog; writing takes at most {totals.write_requests:,} more for "
        f"{plural(totals.proposals, 'proposal')}"
    )


def _counts(kind: str, plan: Plan) -> Sequence[str]:
    counts = _kind_data(kind, plan)
    parts = [f"{counts[action]:,} to {action}" for action in _ACTIONS if counts[action]]
    if counts["bookkeeping"]:
        parts.append(f"of these {counts['bookkeeping']:,} only in {OWN_PREFIX}*")
    parts.append(f"{counts['unchanged']:,} unchanged")
    if counts["still_removed"]:
        parts.append(f"{counts['still_removed']:,} still removed")
    return [*parts, left_out(plan.report.entities[kind])] if counts["left_out"] else parts


def change_data(diff: EntityDiff) -> Iterator[dict[str, Any]]:
    """Yield each change in an entity as JSON data: an entry of a collection, or a whole value.

    A value that is not there has no `before` or no `after`. Nothing is yielded where only keys
    `mlcat.*` change.
    """
    about = {"kind": "change", "urn": diff.urn, "name": diff.label, "action": diff.action}
    if diff.action in {"remove", "revive"}:
        removed = diff.action == "remove"
        place = {"aspect": STATUS, "field": "removed", "before": not removed, "after": removed}
        yield {**about, **place}
    for aspect in diff.aspects:
        for data in _aspect_changes(aspect):
            yield {**about, "aspect": aspect.aspect, **data}


def _aspect_changes(aspect: AspectDiff) -> Iterator[dict[str, Any]]:
    if not aspect.fields:
        yield {"field": None, "before" if aspect.deleted else "after": {}}
    for field in aspect.fields:
        for change in field.changes:
            entry = {"entry": change.label} if field.collection else {}
            pair = {"before": change.old, "after": change.new}
            values = {side: value for side, value in pair.items() if value is not ABSENT}
            yield {"field": field.field, **entry, **values}
        if field.reordered and not field.changes:
            yield {"field": field.field, "reordered": True}


def json_line(data: Mapping[str, Any]) -> str:
    """Return JSON data on one line, secrets hidden."""
    return secrets.mask(json.dumps(data, ensure_ascii=False))


class ChangeLog:
    """The file of the changes of one run, each as a plan prints it. Safe for several threads.

    Cost: the difference of each entity that is written; memory for one batch of them.
    """

    def __init__(self, path: Path) -> None:
        """Make an empty file.

        Raises:
            OSError: it cannot be written.
        """
        self.problem: str | None = None
        self._path = path
        self._lock = threading.Lock()
        self._file = path.open("w", encoding="utf-8")

    def write(self, written: Sequence[MergedEntity]) -> None:
        """Add the changes of entities; where the file takes no more, `problem` says why."""
        diffs = (diff for merged in written if (diff := diff_merged(merged)) is not None)
        text = "".join(f"{json_line(data)}\n" for diff in diffs for data in change_data(diff))
        with self._lock:
            if self.problem is not None:
                return
            try:
                self._file.write(text)
                self._file.flush()
            except OSError as error:
                self.problem = f"the changes cannot be written to {self._path}: {error.strerror}"

    def close(self) -> None:
        """Close the file; safe to call twice."""
        # It tries once more to write what is left in its buffer; `problem` says that already.
        with suppress(OSError):
            self._file.close()


def impact_lines(impact: Impact) -> Iterator[Line]:
    """Yield what a removal affects."""
    name = _feature_name(impact.removal.urn)
    when = ", due in the next pass," if impact.removal.next_pass else ""
    if not impact.models:
        yield Line(printable(f"  removing {name}{when} affects no model"))
        return
    production = f", {impact.production:,} of them in Production" if impact.production else ""
    names = ", ".join(impact.names) + (", …" if impact.models > len(impact.names) else "")
    models = plural(impact.models, "model")
    yield Line(
        printable(f"! removing {name}{when} affects {models}{production}: {names}"), "removed"
    )


def impact_data(impact: Impact) -> dict[str, Any]:
    """Return what a removal affects as JSON data."""
    return {
        "kind": "impact",
        "urn": impact.removal.urn,
        "name": _feature_name(impact.removal.urn),
        "removed": "with the next pass" if impact.removal.next_pass else "with the run",
        "models": impact.models,
        "in_production": impact.production,
        "model_names": list(impact.names),
    }


def _feature_name(urn: str) -> str:
    """Return how people call a feature or a feature table: `conv_rate (shop.orders)`."""
    *_, table, name = decoded_parts(urn)
    return f"{name} ({table})" if entity_type_of(urn) == "mlFeature" else name


def summary_data(plan: Plan) -> dict[str, Any]:
    """Return what a plan comes to as JSON data."""
    report, totals = plan.report, plan.totals
    kinds = sorted({*report.entities, *totals.actions})
    return {
        "kind": "summary",
        "name": report.name,
        "catalog": report.catalog,
        "pending": totals.entities > 0,
        "records": report.records,
        "entities": {kind: _kind_data(kind, plan) for kind in kinds},
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


def _kind_data(kind: str, plan: Plan) -> dict[str, int]:
    counts = plan.totals.actions.get(kind) or Counter()
    counted = plan.report.entities.get(kind, EntityCounts())
    return {
        **{action: counts.get(action, 0) for action in _ACTIONS},
        "bookkeeping": plan.totals.bookkeeping[kind],
        "unchanged": counted.unchanged,
        "still_removed": counted.still_removed,
        "left_out": counted.left_out,
    }
