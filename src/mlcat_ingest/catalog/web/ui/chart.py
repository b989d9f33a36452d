"""The chart of a group: a point for each model, axes with ticks, colours by status or number."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from sqlalchemy import func, select
from sqlalchemy.engine import Connection

from mlcat_ingest.catalog.schema.tables import aspect, entity
from mlcat_ingest.catalog.search.fields import DURATION
from mlcat_ingest.catalog.search.numbers import POINTS, Point, points
from mlcat_ingest.catalog.search.request import SearchRequest
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.ui.text import (
    duration,
    entity_href,
    is_visible,
    moment,
)
from mlcat_ingest.core.paging import chunks
from mlcat_ingest.metadata.aspects import ML_MODEL_PROPERTIES
from mlcat_ingest.metadata.mlflow_keys import RUN_STATUS

STATUS: Final = "status"
"""What points are coloured by unless a reader chooses a metric or parameter."""

_COLOURS: Final = 6
_MARGIN: Final = 2.0  # percent of an axis at each end
_TICKS: Final = 5
_EDGE: Final = 12.0  # percent of an axis in which a label does not fit around its tick
_MINUTE, _HOUR, _DAY = 60_000, 3_600_000, 86_400_000
_SPANS: Final = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(second * 1_000 for second in (1, 2, 5, 10, 15, 30)),
    *(minute * _MINUTE for minute in (1, 2, 5, 10, 15, 30)),
    *(hour * _HOUR for hour in (1, 2, 3, 6, 12)),
    *(day * _DAY for day in (1, 2, 4, 7, 14, 30, 60, 90, 180, 365)),
)
"""Milliseconds between two ticks of an axis of times or durations."""


@dataclass(frozen=True, slots=True)
class _Tick:
    """A value of an axis, `at` percent of its length; a label near an end is anchored there."""

    at: float
    label: str
    anchor: str = "middle"


@dataclass(frozen=True, slots=True)
class _ChartPoint:
    """A model in a chart, its place in percent of both axes from the left and the top."""

    href: str
    x: float
    y: float
    title: Annotated[str, "its name and its values"]
    colour: Annotated[int, "the place of its colour in the legend"]


@dataclass(frozen=True, slots=True)
class Chart:
    """A metric over the time, or over another metric or parameter."""

    y: Annotated[str, "the metric, such as `metrics.auc`"]
    x: Annotated[str, "what it is drawn over: `created`, `duration_ms`, a metric or a parameter"]
    colour: Annotated[str, "what the colours mean: `status`, a metric or a parameter"]
    points: Sequence[_ChartPoint]
    up: Annotated[Sequence[_Tick], "the ticks of the metric"]
    across: Annotated[Sequence[_Tick], "the ticks of what it is drawn over"]
    legend: Annotated[Sequence[str], "the value, or the first and last one, of each colour"]
    omitted: Annotated[int, "how many of the oldest models have no point"]
    undrawn: Annotated[int, "how many models have a value that is a text, NaN or infinite"]


@dataclass(frozen=True, slots=True)
class _Axis:
    name: str
    low: float
    high: float

    def at(self, value: float) -> float:
        """Return the place of a value in percent; the middle if all are equal."""
        low, span = self.low / 2, self.high / 2 - self.low / 2  # halves: the span is finite
        part = (value / 2 - low) / span if span > 0 else 0.5
        return round(_MARGIN + part * (100 - 2 * _MARGIN), 2)

    def ticks(self) -> list[_Tick]:
        """Return some round values with their labels; else those of both ends."""
        step = self._step()
        count = range(math.ceil(self.low / step), math.floor(self.high / step) + 1) if step else ()
        values = [number * step for number in count]
        if len(values) < 2:
            step = 0
            values = [self.low, self.high] if self.low < self.high else [self.low]
        return [self._tick(value, step) for value in values]

    def _step(self) -> float:
        least = (self.high - self.low) / _TICKS
        if not 0 < least < math.inf:
            return 0
        if self.name in {"created", DURATION}:
            years = math.ceil(least / _SPANS[-1]) * _SPANS[-1]
            return next((float(span) for span in _SPANS if span >= least), years)
        power = 10.0 ** math.floor(math.log10(least))
        return next((factor * power for factor in (1, 2, 5) if factor * power >= least), 10 * power)

    def _tick(self, value: float, step: float) -> _Tick:
        at = self.at(value)
        anchor = "start" if at < _EDGE else "end" if at > 100 - _EDGE else "middle"
        return _Tick(at, self.label(value, step), anchor)

    def label(self, value: float, step: float = 0) -> str:
        """Return a value as text; that of a tick as short as the step to the next one allows."""
        if self.name == DURATION:
            return duration(str(round(value)))
        if self.name != "created":
            return f"{value:.10g}" if step else f"{value:.6g}"
        time = moment(value)
        if 0 < step < _MINUTE:
            form = "02.0f" if step >= 1_000 else "06.3f"
            return f"{time[11:16]}:{value / 1000 % 60:{form}}"
        return time[:10] if step >= _DAY else time[5:16] if step >= _MINUTE else time


def draw(store: Store, request: SearchRequest, y: str, x: str, colour: str) -> Chart:
    """Return the chart of what a search finds, without points if none has finite numbers in both.

    Raises:
        BadRequestError: the search is not understood.

    Cost: a walk through all hits, and the properties of `POINTS` models.
    """
    total, undrawn, shown = store.read(points, request, y, x, "" if colour == STATUS else colour)
    if not shown:
        return Chart(y, x, colour, (), (), (), (), 0, undrawn)
    across = _Axis(x, min(one.x for one in shown), max(one.x for one in shown))
    up = _Axis(y, min(one.y for one in shown), max(one.y for one in shown))
    described = store.read(_described, [one.urn for one in shown])
    values = {
        one.urn: described[one.urn][1] if colour == STATUS else "" if one.z is None else one.z
        for one in shown
    }
    legend, places = _legend({*values.values()})

    def circle(point: Point) -> _ChartPoint:
        value = values[point.urn]
        texts = (_titled(up, point.y), _titled(across, point.x), _whole(value))
        return _ChartPoint(
            entity_href(point.urn),
            across.at(point.x),
            round(100 - up.at(point.y), 2),
            f"{described[point.urn][0]}: {', '.join(filter(None, texts))}",
            places[value],
        )

    return Chart(
        y=y,
        x=x,
        colour=colour,
        points=[*map(circle, shown)],
        up=up.ticks(),
        across=across.ticks(),
        legend=legend if len(legend) > 1 else (),
        omitted=max(0, total - POINTS),
        undrawn=undrawn,
    )


def _whole(value: float | str) -> str:
    return value if isinstance(value, str) else str(value).removesuffix(".0")


def _titled(axis: _Axis, value: float) -> str:
    return f"{axis.name.partition('.')[2]} {axis.label(value)}".lstrip()


def _described(connection: Connection, urns: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return the name and the status of each of these models."""
    names = (func.json_extract(aspect.c.value, f"$.{key}") for key in ("displayName", "name"))
    status = func.json_extract(aspect.c.value, f'$.customProperties."{RUN_STATUS}"')
    query = (
        select(entity.c.urn, *names, status)
        .join(aspect, aspect.c.entity_id == entity.c.id)
        .where(entity.c.urn.in_(urns), aspect.c.aspect == ML_MODEL_PROPERTIES)
    )
    return dict.fromkeys(urns, ("", "")) | {
        urn: (next((name for name in names if is_visible(str(name or ""))), urn), status or "")
        for urn, *names, status in connection.execute(query)
    }


def _legend(values: Iterable[float | str]) -> tuple[list[str], dict[float | str, int]]:
    """Return the labels of the colours, and the place of each value among them.

    More values than colours share them, those next to each other. Numbers are rounded if none of
    them become equal by that.
    """
    ordered = sorted(values, key=_rank)
    groups = [*chunks(ordered, -(-len(ordered) // _COLOURS))]
    short = {one: one if isinstance(one, str) else f"{one:.6g}" for one in ordered}
    texts = short if len({*short.values()}) == len(short) else {one: _whole(one) for one in short}
    labels = [
        " to ".join(texts[one] for one in dict.fromkeys((group[0], group[-1]))) for group in groups
    ]
    return labels, {value: place for place, group in enumerate(groups) for value in group}


def _rank(value: float | str) -> tuple[bool, float, bool, str]:
    """Order numbers before texts, and runs with a result before others."""
    number = math.inf if isinstance(value, str) else value
    return value == "", number, value != "FINISHED", str(value)
