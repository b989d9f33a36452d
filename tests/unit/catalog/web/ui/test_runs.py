"""The table of a group's models: order, filter, columns, chart and export, all in the address."""

import csv
import html
import io
import json
import re
from typing import Any
from urllib.parse import urlencode

import pytest

from mlcat_ingest.catalog.schema.values import Write
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.app import create_app
from mlcat_ingest.catalog.web.ui.text import duration
from support.asgi import call
from support.catalog_store import group, model, put
from support.names import HOSTILE
from support.pages import at, get, page

CHURN = group("churn")


@pytest.fixture(autouse=True)
def churn(store: Store) -> str:
    return put(store, CHURN, mlModelGroupProperties={"name": "churn"})


def put_run(
    store: Store,
    name: str,
    metrics: dict[str, Any] | None = None,
    params: dict[str, Any] | None = None,
    **custom: str,
) -> str:
    values = [
        [{"name": key, "value": str(value)} for key, value in (given or {}).items()]
        for given in (metrics, params)
    ]
    properties = {
        "name": name,
        "groups": [CHURN],
        "trainingMetrics": values[0],
        "hyperParams": values[1],
        "customProperties": {f"mlflow.{key}": value for key, value in custom.items()},
    }
    return put(store, model(name), mlModelProperties=properties)


def names(store: Store, query: str = "") -> list[str]:
    """Return the names of the rows in their order."""
    rows = re.findall(
        r'<th scope="row"[^>]*>(?:<input[^>]*> )?<a [^>]*><bdi>(.*?)</bdi>',
        get(store, at(CHURN, query)).text,
    )
    return [html.unescape(name) for name in rows]


def address(*parameters: tuple[str, str]) -> str:
    return f"?{urlencode(parameters)}"


def test_a_metric_or_parameter_sorts_every_page_of_the_group(store: Store) -> None:
    store.write(
        [
            Write(
                model(f"r{index}"),
                "mlModelProperties",
                {
                    "name": f"r{index}",
                    "groups": [CHURN],
                    "trainingMetrics": [{"name": "auc", "value": str(index * 37 % 101)}],
                    "hyperParams": [{"name": "depth", "value": str(index)}],
                },
            )
            for index in range(101)
        ]
    )
    put_run(store, "without")
    put(store, model("elsewhere"), mlModelProperties={"groups": [group("other")]})
    expected = sorted(range(101), key=lambda index: -(index * 37 % 101))
    first, last = names(store, "?sort=-metrics.auc"), names(store, "?sort=-metrics.auc&start=100")
    assert first == [f"r{index}" for index in expected[:50]]
    assert last == [f"r{expected[100]}", "without"]
    assert names(store, "?sort=params.depth")[:3] == ["r0", "r1", "r2"]
    found = page(store, at(CHURN, "?sort=-metrics.auc&start=50"))
    assert "51 to 100 of 102" in found.text
    assert found.links[at(CHURN, "?sort=-metrics.auc&start=100")] == "3"
    assert found.links[at(CHURN, "?sort=-metrics.auc&start=0")] == "Previous"


def test_a_heading_sorts_the_best_first_and_then_turns(store: Store) -> None:
    put_run(store, "a", {"auc": 0.9, "val_loss": 0.3}, {"depth": 3})
    found = page(store, at(CHURN))
    assert found.links[at(CHURN, "?sort=-metrics.auc")].startswith("auc")
    assert found.links[at(CHURN, "?sort=metrics.val_loss")].startswith("val_loss")
    turned = get(store, at(CHURN, "?sort=-metrics.auc"))
    assert 'aria-sort="descending"' in turned.text
    assert page(store, at(CHURN, "?sort=-metrics.auc")).links[at(CHURN, "?sort=metrics.auc")]


@pytest.mark.parametrize(
    ("sort", "best"),
    [
        ("-metrics.auc", "high"),
        ("metrics.auc", None),
        ("metrics.val_loss", "low"),
        ("-metrics.val_loss", None),
        ("params.depth", None),
        ("metrics.auc&start=1", None),
    ],
)
def test_the_best_value_is_marked_where_the_list_begins_with_it(
    store: Store, sort: str, best: str | None
) -> None:
    put_run(store, "high", {"auc": 0.9, "val_loss": 0.3}, {"depth": 3})
    put_run(store, "low", {"auc": 0.8, "val_loss": 0.2}, {"depth": 2})
    text = page(store, at(CHURN, f"?sort={sort}")).text
    assert text.count(" best ") == (best is not None)
    if best is not None:
        assert text.index(f" {best} ") < text.index(" best ")


def test_a_filter_has_the_language_of_the_search_box(store: Store) -> None:
    put_run(store, "a", {"auc": 0.95}, {"depth": 8}, status="FAILED")
    put_run(store, "b", {"auc": 0.96}, {"depth": 8}, status="FINISHED")
    put_run(store, "c", {"auc": 0.7}, {"depth": 8}, status="FAILED")
    query = address(("filter", "metrics.auc>0.9 params.depth=8 status:failed"))
    assert names(store, query) == ["a"]
    assert names(store, address(("filter", "status!=FAILED"))) == ["b"]
    assert names(store, address(("filter", "c"))) == ["c"]


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        (("filter", "metrics.acu>0.9"), "no entity has `metrics.acu`; did you mean `metrics.auc`?"),
        (("filter", "ownre:jane"), "no field `ownre`; did you mean `owner`?"),
        (("filter", "(a"), "query: a '(' is not closed"),
        (("sort", "nothing"), "sort: no column `nothing`"),
    ],
)
def test_a_wrong_filter_or_order_has_an_error(
    store: Store, query: tuple[str, str], problem: str
) -> None:
    put_run(store, "a", {"auc": 0.95})
    text = page(store, at(CHURN, address(query))).text
    assert problem in text
    assert names(store, address(query)) == []


def test_chosen_columns_are_kept_by_every_link_and_form(store: Store) -> None:
    for index in range(60):
        put_run(store, f"r{index}", {"auc": index, "f1": 1}, {"depth": 8, "optimizer": "adam"})
    query = address(("sort", "-metrics.f1"), ("show", "params.optimizer"), ("show", "metrics.auc"))
    answer = get(store, at(CHURN, query)).text
    headings = re.findall(r'class="number" title="([^"]+)"', answer)
    assert headings == ["metric f1", "parameter optimizer", "metric auc"]
    assert "adam" in answer
    found = page(store, at(CHURN, query))
    assert found.links[at(CHURN, f"{query}&start=50")] == "Next"
    for name, value in (("sort", "-metrics.f1"), ("show", "params.optimizer")):
        assert f'<input type="hidden" name="{name}" value="{value}">' in answer
    assert '<input type="checkbox" name="show" value="params.depth">' in answer
    assert '<input type="checkbox" name="show" value="metrics.auc" checked>' in answer


def test_a_chart_has_a_point_for_each_pair_of_numbers(store: Store) -> None:
    put_run(store, "a", {"auc": 0.5}, {"depth": 2})
    put_run(store, "b", {"auc": 0.9}, {"depth": 4})
    put_run(store, "c", {"auc": "nan"}, {"depth": 6})
    put_run(store, "d", {"auc": "inf"}, {"depth": 6})
    put_run(store, "e", {"auc": 0.7}, {"depth": "deep"})
    put_run(store, "f", {}, {"depth": 3})
    answer = get(store, at(CHURN, "?chart=metrics.auc&over=params.depth")).text
    circles = re.findall(r'<a href="([^"]+)"[^>]*><circle cx="([\d.]+)" cy="([\d.]+)"', answer)
    places = {href: (float(x), float(y)) for href, x, y in circles}
    assert places == {at(model("a")): (10, 100), at(model("b")): (710, 10)}
    assert "metrics.auc over <bdi>params.depth" in answer.replace(
        "<bdi>metrics.auc</bdi>", "metrics.auc"
    )
    over_time = get(store, at(CHURN, "?chart=metrics.auc")).text
    assert over_time.count("<circle") == 3
    assert "<circle" not in get(store, at(CHURN, address(("filter", "f")))).text


def test_equal_values_are_in_the_middle_of_the_chart(store: Store) -> None:
    put_run(store, "a", {"auc": 0.5})
    assert 'cx="360.0" cy="55.0"' in get(store, at(CHURN, "?chart=metrics.auc")).text
    assert "<circle" not in get(store, at(CHURN)).text


def test_status_duration_versions_and_aliases_are_shown(store: Store) -> None:
    put_run(store, "a", status="FAILED", duration_ms="185000", versions='["churn:7", "x:1"]')
    put_run(store, "b", status="FINISHED", aliases='["churn@champion"]', versions="cut off")
    text = page(store, at(CHURN)).text
    assert "b churn@champion FINISHED" in text
    assert "a churn:7 x:1 FAILED 3 min 5 s" in text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        ("0", "0 ms"),
        ("999", "999 ms"),
        ("1290", "1.3 s"),
        ("25175", "25 s"),
        ("60000", "1 min"),
        ("7440000", "2 h 4 min"),
        ("90000000", "1 d 1 h"),
        ("soon", "soon"),
        ("", ""),
    ],
)
def test_durations_are_in_words(milliseconds: str, text: str) -> None:
    assert duration(milliseconds) == text


def test_an_export_has_all_rows_of_the_view(store: Store) -> None:
    store.write(
        [
            Write(
                model(f"r{index}"),
                "mlModelProperties",
                {
                    "name": f"r{index}",
                    "groups": [CHURN],
                    "trainingMetrics": [{"name": "auc", "value": f"0.{index:04}"}],
                    "hyperParams": [{"name": "depth", "value": "8"}],
                    "customProperties": {"mlflow.status": "FINISHED"},
                },
            )
            for index in range(1_203)
        ]
    )
    put_run(store, "failed", {"auc": 0.5}, status="FAILED", duration_ms="25")
    query = "&export=csv"
    answer = get(store, at(CHURN, address(("sort", "-metrics.auc")) + query))
    assert answer.headers["content-type"].startswith("text/csv")
    assert "attachment" in answer.headers["content-disposition"]
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert len(rows) == 1_204
    assert [rows[0][key] for key in ("name", "status", "duration_ms", "metrics.auc")] == [
        "failed",
        "FAILED",
        "25",
        "0.5",
    ]
    assert rows[1]["urn"] == model("r1202")
    assert rows[1]["params.depth"] == "8"
    filtered = address(("filter", "status:FAILED"), ("show", "metrics.auc"))
    [row] = json.loads(get(store, at(CHURN, f"{filtered}&export=json")).text)
    assert row == {
        "urn": model("failed"),
        "name": "failed",
        "status": "FAILED",
        "duration_ms": "25",
        "created": row["created"],
        "metrics.auc": "0.5",
    }


def test_no_cell_of_an_export_is_a_formula(store: Store) -> None:
    put_run(store, "=1+1", {"@x": -1.5}, {"+y": "-cmd"})
    text = get(store, at(CHURN, "?export=csv")).text
    [row] = csv.DictReader(io.StringIO(text))
    assert (row["name"], row["metrics.@x"], row["params.+y"]) == ("'=1+1", "-1.5", "'-cmd")


def test_an_export_of_a_wrong_filter_is_an_error(store: Store) -> None:
    target = at(CHURN, address(("filter", "ownre:x"), ("export", "csv")))
    assert call(create_app(store), "GET", target).status == 400


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_of_metrics_and_parameters_are_only_text(store: Store, name: str) -> None:
    put_run(store, "a", {name: 0.5}, {name: name}, status=name, versions=json.dumps([name]))
    shown = [("show", f"metrics.{name}"), ("show", f"params.{name}")]
    query = address(*shown, ("sort", f"-metrics.{name}"), ("filter", name[:40]))
    page(store, at(CHURN, query))
    page(store, at(CHURN, address(*shown, ("chart", f"metrics.{name}"))))
    get(store, at(CHURN, "?export=json"))


def best(store: Store, query: str) -> list[str]:
    """Return the names of the rows that a badge calls the best."""
    text = get(store, at(CHURN, query)).text
    rows = re.findall(r"<tr>.*?</tr>", text, re.DOTALL)
    return [
        name for row in rows if ">best<" in row for name in re.findall(r"<bdi>(.*?)</bdi>", row)[:1]
    ]


def test_what_is_not_finite_comes_last_both_ways_and_is_never_the_best(store: Store) -> None:
    for name, value in (("a", 0.5), ("nan", "NaN"), ("b", 0.7), ("inf", "Infinity")):
        put_run(store, name, {"val_loss": value})
    put_run(store, "without")
    assert names(store, "?sort=metrics.val_loss")[:2] == ["a", "b"]
    assert names(store, "?sort=-metrics.val_loss")[:2] == ["b", "a"]
    for sort in ("metrics.val_loss", "-metrics.val_loss"):
        assert names(store, f"?sort={sort}")[-1] == "without"
    assert best(store, "?sort=metrics.val_loss") == ["a"]


@pytest.mark.parametrize("status", ["FAILED", "KILLED", "RUNNING"])
def test_a_run_without_a_final_result_is_never_the_best(store: Store, status: str) -> None:
    put_run(store, "unfinished", {"val_loss": 0.1}, status=status)
    put_run(store, "good", {"val_loss": 0.5}, status="FINISHED")
    assert names(store, "?sort=metrics.val_loss") == ["unfinished", "good"]
    assert best(store, "?sort=metrics.val_loss") == ["good"]


def put_trial(store: Store, name: str, value: float, state: str, **tags: str) -> None:
    properties = {
        "name": name,
        "groups": [CHURN],
        "trainingMetrics": [{"name": "value", "value": str(value)}],
        "customProperties": {"mlflow.status": "FINISHED", "state": state, **tags},
    }
    put(store, model(name), mlModelProperties=properties)


@pytest.mark.parametrize("state", ["PRUNED", "FAIL", "TrialState.PRUNED", "TrialState.FAIL"])
def test_a_pruned_or_failed_trial_says_so_and_is_never_the_best(store: Store, state: str) -> None:
    put_trial(store, "pruned", 0.1, state, direction="MINIMIZE")
    put_trial(store, "complete", 0.2, "COMPLETE", direction="MINIMIZE")
    found = page(store, at(CHURN, "?sort=metrics.value"))
    shown = state.rpartition(".")[2]
    assert f"pruned FINISHED {shown} 0.1 complete FINISHED 0.2 best" in found.text
    assert "less is better, by Optuna's direction" in found.text
    assert "-metrics.value" in next(iter(found.links.keys() & {at(CHURN, "?sort=-metrics.value")}))


def test_a_trial_in_mlflows_storage_has_the_direction_of_its_study(store: Store) -> None:
    custom = {"mlflow.status": "RUNNING", "optuna.study_direction": "MAXIMIZE"}
    put(store, model("study"), mlModelProperties={"name": "study", "customProperties": custom})
    for name, value in (("low", 0.1), ("high", 0.9)):
        put_trial(store, name, value, "", numbers="1", **{"mlflow.parent_run": model("study")})
    assert best(store, "?sort=-metrics.value") == ["high"]
    assert best(store, "?sort=metrics.value") == []


def test_where_nothing_says_what_is_better_both_orders_are_one_click_away(store: Store) -> None:
    put_run(store, "a", {"odd": 1})
    put_run(store, "b", {"odd": 2})
    links = page(store, at(CHURN)).links
    orders = {at(CHURN, "?sort=metrics.odd"), at(CHURN, "?sort=-metrics.odd")}
    assert orders <= set(links)
    for sort in ("metrics.odd", "-metrics.odd"):
        found = page(store, at(CHURN, f"?sort={sort}"))
        assert "nothing says which values are better" in found.text
        assert best(store, f"?sort={sort}") == []
    links = page(store, at(CHURN, "?sort=-metrics.odd")).links
    (chosen,) = (href for href, text in links.items() if text == "Less is better")
    assert "best=metrics.odd" in chosen
    assert "a 1 best" in page(store, chosen).text
    assert "less is better, by your choice" in page(store, chosen).text
    kept = [href for href in page(store, chosen).links if "show=" in href or "sort=" in href]
    assert all("best=" in href for href in kept)
    assert '<input type="hidden" name="best" value="metrics.odd">' in get(store, chosen).text


def test_the_tag_of_an_experiment_says_what_is_better(store: Store) -> None:
    custom = {"source.mlcat.directions": "odd=minimize"}
    put(store, CHURN, mlModelGroupProperties={"name": "churn", "customProperties": custom})
    put_run(store, "a", {"odd": 1})
    put_run(store, "b", {"odd": 2})
    assert best(store, "?sort=metrics.odd") == ["a"]
    assert "a 1 best" in page(store, at(CHURN, "?sort=metrics.odd")).text


def headings(store: Store, query: str) -> list[str]:
    return re.findall(r'class="number" title="metric ([^"]+)"', get(store, at(CHURN, query)).text)


def test_the_columns_depend_on_neither_order_nor_unfolding(store: Store) -> None:
    for run in range(2):
        put_run(store, f"p{run}", {"a": 1, "b": 1, "c": 1, "d": 1, "e": 1})
    for child in range(9):
        put_run(store, f"c{child}", {"x": child, "y": 1}, parent_run=model("p0"))
    assert headings(store, "") == ["a", "b", "c", "d"]
    assert headings(store, f"?{urlencode({'open': model('p0')})}") == ["a", "b", "c", "d"]
    for name in "abcdexy":
        assert headings(store, f"?sort=metrics.{name}") == list(
            dict.fromkeys([name, "a", "b", "c", "d"])
        )
    assert headings(store, "?sort=-metrics.y&show=metrics.e") == ["y", "e"]
