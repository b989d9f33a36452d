"""The chart of a group: names at its points, ticks on its axes, colours by status or number."""

import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.ui.chart import Chart, _Axis, draw
from mlcat_ingest.catalog.web.ui.runs import RunsView
from support.catalog_store import group, model, put
from support.names import HOSTILE
from support.pages import at, get, page

CHURN = group("churn")
DAY = 86_400_000


@pytest.fixture(autouse=True)
def churn(store: Store) -> str:
    return put(store, CHURN, mlModelGroupProperties={"name": "churn"})


def put_run(
    store: Store, name: str, auc: object, created: int = 0, urn: str = "", **params: Any
) -> str:
    properties: dict[str, Any] = {
        "name": name,
        "groups": [CHURN],
        "trainingMetrics": [{"name": "auc", "value": str(auc)}],
        "hyperParams": [{"name": key, "value": str(value)} for key, value in params.items()],
        "customProperties": {"mlflow.status": "FAILED" if name == "diverged" else "FINISHED"},
    }
    if created:
        properties["created"] = {"time": created}
    return put(store, urn or model(name), mlModelProperties=properties)


def chart(store: Store, x: str = "created", colour: str = "status") -> Chart:
    return draw(store, RunsView(CHURN).request(), "metrics.auc", x, colour)


def test_a_point_has_the_name_of_its_run_and_its_values(store: Store) -> None:
    put_run(store, "Bold-Hare", 0.912345678, 1_700_000_000_000, depth=8)
    put_run(store, "diverged", 0.5, 1_700_000_060_000, depth=4)
    titles = [point.title for point in chart(store).points]
    assert titles == [
        "diverged: auc 0.5, 2023-11-14 22:14 UTC, FAILED",
        "Bold-Hare: auc 0.912346, 2023-11-14 22:13 UTC, FINISHED",
    ]
    over = chart(store, "params.depth", "params.depth")
    assert [point.title for point in over.points][1] == "Bold-Hare: auc 0.912346, depth 8, 8"
    answer = get(store, at(CHURN, "?chart=metrics.auc")).text
    assert f"<title>{titles[0]}</title><circle" in answer


def test_points_have_the_colour_of_their_status(store: Store) -> None:
    put_run(store, "diverged", 0.5)
    put_run(store, "a", 0.6)
    assert chart(store, colour="nothing").legend == ()
    shown = chart(store)
    assert shown.legend == ["FINISHED", "FAILED"]
    assert [(one.href, one.colour) for one in shown.points][1] == (at(model("diverged")), 1)
    text = page(store, at(CHURN, "?chart=metrics.auc")).text
    assert "FINISHED FAILED Chart" in text
    put_run(store, "diverged", 0.5)
    put(store, model("diverged"), status={"removed": True})
    assert chart(store).legend == ()


def test_many_values_share_colours_in_their_order(store: Store) -> None:
    for depth in range(12):
        put_run(store, f"r{depth}", depth, depth=depth)
    put_run(store, "without", 0.5)
    shown = chart(store, colour="params.depth")
    assert shown.legend == ["0 to 2", "3 to 5", "6 to 8", "9 to 11", ""]
    assert [one.colour for one in reversed(shown.points)] == [*(at // 3 for at in range(12)), 4]
    text = page(store, at(CHURN, "?chart=metrics.auc&colour=params.depth")).text
    assert "0 to 2 3 to 5 6 to 8 9 to 11 none" in text
    assert (
        "<option selected>params.depth</option>"
        in get(store, at(CHURN, "?chart=metrics.auc&colour=params.depth")).text
    )


def test_numbers_that_are_rounded_to_one_have_their_own_colours(store: Store) -> None:
    for seed in range(20_240_115, 20_240_119):
        put_run(store, f"r{seed}", 0.5, seed=seed, rate=seed / 3)
    shown = chart(store, colour="params.seed")
    assert shown.legend == ["20240115", "20240116", "20240117", "20240118"]
    assert [point.colour for point in reversed(shown.points)] == [0, 1, 2, 3]
    assert shown.points[0].title.endswith(", 20240118")
    put_run(store, "r", 0.5, seed=0, rate=0.123456789)
    assert chart(store, colour="params.rate").legend[0] == "0.123456789"


def test_a_chart_says_how_many_models_have_no_point(store: Store) -> None:
    for name, auc in {"a": 0.5, "b": 0.6, "c": "nan", "d": "-inf", "e": "n/a"}.items():
        put_run(store, name, auc, depth=name if name == "b" else 3)
    assert (len(chart(store).points), chart(store).undrawn) == (2, 3)
    text = page(store, at(CHURN, "?chart=metrics.auc&over=params.depth")).text
    assert "4 without a finite value are not drawn" in text


def test_a_chart_without_points_keeps_the_form_that_leads_to_another(store: Store) -> None:
    put_run(store, "a", "nan", depth=3)
    text = page(store, at(CHURN)).text
    assert "auc over time, UTC; 1 without a finite value is not drawn Chart" in text
    text = page(store, at(CHURN, "?chart=metrics.auc&over=params.rate")).text
    assert "auc over params.rate No model of the list has both. Chart" in text
    assert "No model of the list" not in page(store, at(CHURN, "?filter=nothing")).text


@pytest.mark.parametrize(
    ("name", "low", "high", "labels"),
    [
        ("metrics.auc", 0.5, 0.9, ["0.5", "0.6", "0.7", "0.8", "0.9"]),
        ("metrics.auc", -3, 17, ["0", "5", "10", "15"]),
        ("metrics.auc", 0.91234567, 0.91234568, ["0.91234567", "0.912345675", "0.91234568"]),
        ("metrics.auc", 0.0002, 0.9979, ["0.2", "0.4", "0.6", "0.8"]),
        ("metrics.auc", 4, 4, ["4"]),
        ("metrics.auc", 0, 5e-324, ["0", "4.94066e-324"]),
        ("metrics.auc", -1.7e308, 1.7e308, ["-1.7e+308", "1.7e+308"]),
        ("created", 5 * DAY, 9 * DAY, [f"1970-01-{day:02}" for day in (6, 7, 8, 9, 10)]),
        (
            "created",
            DAY,
            DAY + 2_000_000,
            ["01-02 00:00", "01-02 00:10", "01-02 00:20", "01-02 00:30"],
        ),
        ("created", DAY - 400, DAY + 26_000, ["00:00:00", "00:00:10", "00:00:20"]),
        (
            "created",
            DAY + 59_000,
            DAY + 62_000,
            [f"00:{at}" for at in ("00:59", "01:00", "01:01", "01:02")],
        ),
        (
            "created",
            DAY + 59_300,
            DAY + 60_200,
            [
                f"00:{at}"
                for at in ("00:59.400", "00:59.600", "00:59.800", "01:00.000", "01:00.200")
            ],
        ),
        ("created", DAY, DAY + 1, ["00:00:00.000", "00:00:00.001"]),
        ("duration_ms", 16, 26, ["16 ms", "18 ms", "20 ms", "22 ms", "24 ms", "26 ms"]),
        ("duration_ms", 0, 240_000, ["0 ms", "1 min", "2 min", "3 min", "4 min"]),
    ],
)
def test_ticks_are_round_values(name: str, low: float, high: float, labels: list[str]) -> None:
    ticks = _Axis(name, low, high).ticks()
    assert [tick.label for tick in ticks] == labels
    assert all(0 <= tick.at <= 100 for tick in ticks)


@given(
    st.sampled_from(["metrics.auc", "created", "duration_ms"]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(0, 1e308),
)
def test_ticks_are_few_in_order_and_on_the_axis(name: str, low: float, span: float) -> None:
    axis = _Axis(name, low, max(low, min(low + span, 1.7e308)))
    ticks = axis.ticks()
    assert 1 <= len(ticks) <= 6
    assert all(0 <= tick.at <= 100 for tick in ticks)
    assert all(one.at <= other.at for one, other in pairwise(ticks))


@given(st.integers(0, 4_000_000_000_000), st.integers(1, 100_000_000_000))
def test_no_two_ticks_of_a_time_have_one_label(low: int, span: int) -> None:
    labels = [tick.label for tick in _Axis("created", low, low + span).ticks()]
    assert 2 <= len({*labels}) == len(labels)


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_hostile_names_and_values_are_only_text(store: Store, name: str) -> None:
    put_run(store, name, 0.5, 0, model("a"), **{name: name})
    put_run(store, "b", 0.6, 0, "", **{name: 5})
    answer = get(store, at(CHURN, "?chart=metrics.auc")).text
    assert len(re.findall("<circle", answer)) >= 2
    page(store, at(CHURN, "?chart=metrics.auc&colour=params.x"))
    assert chart(store, colour=f"params.{name}").points
