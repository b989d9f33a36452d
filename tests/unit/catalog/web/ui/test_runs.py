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
from mlcat_ingest.catalog.web.ui import runs
from mlcat_ingest.catalog.web.ui.text import duration
from support.asgi import call
from support.catalog_store import group, model, put
from support.names import HOSTILE
from support.pages import Browser, Reader, at, get, page

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


def test_a_long_parameter_is_cut_with_the_whole_one_hover_away(store: Store) -> None:
    for name in ("a", "b"):
        put_run(store, name, {"auc": 1}, {"prompt": f"{name} {'word ' * 20}end", "exact": "x" * 40})
    shown = get(store, at(CHURN, address(("show", "params.prompt"), ("show", "params.exact")))).text
    assert re.search(r'<abbr title="a (word ){20}end"><bdi>a (word ){7}wo…</bdi></abbr>', shown)
    assert f"<bdi>{'x' * 40}</bdi>" in shown


@pytest.mark.parametrize(
    ("query", "meant"),
    [
        (("sort", "metrics.acu"), "metrics.auc"),
        (("sort", "-params.dept"), "params.depth"),
        (("show", "statsu"), "status"),
        (("chart", "metrics.acu"), "metrics.auc"),
        (("over", "params.dpeth"), "params.depth"),
        (("colour", "params.dpeth"), "params.depth"),
    ],
)
def test_a_column_that_no_model_has_is_named_with_the_nearest(
    store: Store, query: tuple[str, str], meant: str
) -> None:
    put_run(store, "a", {"auc": 0.95}, {"depth": 8}, status="FINISHED")
    found = page(store, at(CHURN, address(query))).text
    wrong = query[1].removeprefix("-")
    assert f"No model here has `{wrong}`; did you mean `{meant}`?" in found
    assert names(store, address(query)) == ["a"]
    for right in (("sort", "-status"), ("show", "*"), ("show", "stage"), ("sort", "name")):
        assert "No model here" not in page(store, at(CHURN, address(right))).text
    put_run(store, "b", {"auc": 0.9}, {"depth": 9}, status="FINISHED")
    found = page(store, at(CHURN, address(("sort", "metrics.acu"), ("chart", "metrics.acv")))).text
    assert "auc over time" in found
    assert "nothing says which values are better" not in found


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


def put_mixed(store: Store) -> None:
    """Put runs that every column orders differently, and a test of which one fails."""
    put(
        store,
        "urn:li:test:t",
        testInfo={"name": "t", "category": "c", "definition": {"type": "JSON", "json": "{}"}},
    )
    for name, status, duration_ms, owner, failing in (
        ("b", "FINISHED", "9", "zoe", 0),
        ("a", "KILLED", "10", "ada", 1),
        ("c", "FAILED", "", "", None),
    ):
        custom = {"duration_ms": duration_ms} if duration_ms else {}
        urn = put_run(store, name, {"auc": 1}, {}, status=status, **custom)
        if owner:
            owners = [{"owner": f"urn:li:corpuser:{owner}", "type": "DATAOWNER"}]
            put(store, urn, ownership={"owners": owners})
        if failing is not None:
            sides = [[], [{"test": "urn:li:test:t", "type": "FAILURE"}]]
            put(store, urn, testResults={"failing": sides[failing], "passing": sides[1 - failing]})


@pytest.mark.parametrize(
    ("field", "ascending", "descending"),
    [
        ("name", "abc", "cba"),
        ("status", "cba", "abc"),
        ("duration_ms", "bac", "abc"),
        ("owner", "abc", "bac"),
        ("tests", "bac", "abc"),
    ],
)
def test_every_heading_sorts_both_ways_and_what_has_no_value_comes_last(
    store: Store, field: str, ascending: str, descending: str
) -> None:
    put_mixed(store)
    first = [href for href in page(store, at(CHURN)).links if f"sort={field}" in href]
    turned = [href for href in page(store, at(CHURN)).links if f"sort=-{field}" in href]
    assert len(first + turned) == 1
    for sort, order in ((field, ascending), (f"-{field}", descending)):
        assert names(store, f"?sort={sort}") == list(order)
        answer = get(store, at(CHURN, f"?sort={sort}")).text
        assert answer.count("aria-sort") == 1
        other = sort.removeprefix("-") if sort.startswith("-") else f"-{sort}"
        assert f'href="{at(CHURN, f"?sort={other}")}"' in answer
        heads = re.findall(r'<th scope="col".*?<bdi>(.*?)</bdi>', answer)
        assert heads[0] == "Name"
        assert f'aria-sort="{"de" if sort.startswith("-") else "a"}scending"' in answer
        sorted_head = re.findall(r'aria-sort="[a-z]+"><a [^>]*><bdi>(.*?)</bdi>', answer)
        assert heads.index(sorted_head[0]) == (0 if field == "name" else 1)


def test_versions_are_sorted_by_alias_and_stage(store: Store) -> None:
    for number, (alias, stage) in enumerate((("b", "staging"), ("", ""), ("a", "production"))):
        put(
            store,
            model(f"v{number}"),
            mlModelProperties={"groups": [CHURN], "version": {"versionTag": str(number)}},
            versionProperties={
                "versionSet": "urn:li:versionSet:(s,mlModel)",
                "version": {"versionTag": str(number)},
                "sortId": str(number),
                "aliases": [{"versionTag": alias}] if alias else [],
            },
            globalTags={"tags": [{"tag": f"urn:li:tag:mlflow_{stage}"}] if stage else []},
        )
    assert names(store, "?sort=alias") == ["v2", "v0", "v1"]
    assert names(store, "?sort=-alias") == ["v0", "v2", "v1"]
    assert names(store, "?sort=-stage") == ["v0", "v2", "v1"]


def test_the_columns_are_those_of_the_group_whatever_its_page_shows(store: Store) -> None:
    put_mixed(store)
    titles = ["Name", "Status", "Duration", "Started", "Owner", "auc", "Tests"]

    def shown(query: str) -> list[str]:
        text = get(store, at(CHURN, query)).text
        return re.findall(r'<th scope="col".*?<bdi>(.*?)</bdi>', text)

    for query in ("", address(("filter", "status:FAILED")), "?sort=name"):
        assert shown(query) == titles
    assert shown("?show=owner&show=status") == ["Name", "Owner", "Status"]
    assert set(shown("?show=*")) == set(titles)


def test_the_picker_has_all_columns_the_chosen_ones_first(store: Store) -> None:
    put_mixed(store)
    answer = get(store, at(CHURN, "?show=metrics.auc&show=owner")).text
    boxes = re.findall(r'type="checkbox" name="show" value="([^"]+)"( checked)?', answer)
    assert boxes[:2] == [("metrics.auc", " checked"), ("owner", " checked")]
    assert {name for name, chosen in boxes if not chosen} == {
        "status",
        "duration_ms",
        "started",
        "tests",
    }


def test_the_columns_are_kept_for_one_group_and_forgotten_by_links(store: Store) -> None:
    put_mixed(store)
    browser = Browser(create_app(store))
    chosen = address(("sort", "name"), ("show", "owner"), ("show", "metrics.auc"))
    links = Reader(browser.get(at(CHURN, chosen)).text).links
    [keep] = [href for href, text in links.items() if text == "Keep these columns for this group"]
    kept = browser.get(keep)
    assert (kept.status, kept.headers["location"]) == (303, at(CHURN, "?sort=name"))
    assert f"Path={at(CHURN)};" in kept.headers["set-cookie"]
    assert "HttpOnly" in kept.headers["set-cookie"]
    answer = browser.get(at(CHURN)).text
    assert re.findall(r'<th scope="col".*?<bdi>(.*?)</bdi>', answer) == ["Name", "Owner", "auc"]
    assert "name,metrics.auc" not in browser.get(at(CHURN, "?export=csv")).text
    assert browser.get(at(CHURN, "?export=csv")).text.startswith("urn,name,owner,metrics.auc\r\n")
    other = browser.get(at(CHURN, "?show=status")).text
    assert re.findall(r'<th scope="col".*?<bdi>(.*?)</bdi>', other) == ["Name", "Status"]
    [forget] = [href for href, text in Reader(answer).links.items() if text == "Forget them"]
    assert browser.get(forget).headers["location"] == at(CHURN)
    assert "Status" in browser.get(at(CHURN)).text
    assert browser.cookies == {}


def test_the_links_of_a_table_do_not_grow_with_the_square_of_its_columns(store: Store) -> None:
    put_run(store, "a", {f"metric_{number:03}": number for number in range(300)})
    every = get(store, at(CHURN, "?show=*")).text
    columns = [("show", name) for name in re.findall(r'checkbox" name="show" value="(.+?)"', every)]
    named = get(store, at(CHURN, address(*columns))).text
    assert named.count('<th scope="col"') == every.count('<th scope="col"') == len(columns) + 1
    assert len(named) == len(every)
    some = get(store, at(CHURN, address(*columns[:-1]))).text
    assert some.count('<th scope="col"') == 101
    assert "Only the first 100 columns are shown" in some
    exported = get(store, at(CHURN, address(*columns[:-1], ("export", "csv")))).text
    assert exported.splitlines()[0].count(",") == len(columns)


@pytest.mark.parametrize(("prefix", "leads"), [({}, ""), ({"x-forwarded-prefix": "/ml"}, "/ml")])
def test_columns_are_kept_below_the_path_of_the_pages(
    store: Store, prefix: dict[str, str], leads: str
) -> None:
    app = create_app(store, token="t")
    headers = {"authorization": "Bearer t", **prefix}
    target = at(CHURN, address(("show", "name"), ("keep", "1")))
    for host in ("[", "catalog.example"):
        answer = call(app, "GET", target, headers=headers, hosts=(host,))
        assert (answer.status, answer.headers["location"]) == (303, f"{leads}{at(CHURN)}")
        assert f"Path={leads}{at(CHURN)};" in answer.headers["set-cookie"]


def test_too_many_columns_are_not_kept(store: Store) -> None:
    shown = [("show", f"metrics.{number}{'x' * 40}") for number in range(200)]
    answer = call(create_app(store), "GET", at(CHURN, address(*shown, ("keep", "1"))))
    assert (answer.status, "too many columns" in answer.text) == (400, True)


def test_parameters_that_are_equal_in_all_models_are_one_line(store: Store) -> None:
    for index in range(60):
        params = {"seed": 7, "loss": "log", "depth": index % 2} | ({"x": 1} if index else {})
        put_run(store, f"r{index}", {"auc": index}, params)
    found = page(store, at(CHURN))
    assert "3 parameters are equal in all models that have them" in found.text
    assert "loss = log seed = 7 x = 1" in found.text
    assert re.findall(r'title="parameter ([^"]+)"', get(store, at(CHURN)).text) == ["depth"]
    chosen = get(store, at(CHURN, "?show=params.seed")).text
    assert re.findall(r'title="parameter ([^"]+)"', chosen) == ["seed"]
    put_run(store, "r0", {"auc": 0}, {"seed": 7, "loss": "log", "depth": 0, "x": 1})
    assert "3 parameters are equal in all 60 models" in page(store, at(CHURN)).text
    put_run(store, "r9", {"auc": 0}, {"seed": 8, "loss": "log", "depth": 0, "x": 1})
    assert "2 parameters are equal in all 60 models" in page(store, at(CHURN)).text
    filtered = address(("filter", "params.seed=7"))
    assert "2 parameters are equal in all 60 models" in page(store, at(CHURN, filtered)).text


def test_equal_parameters_are_shown_as_they_are_stored(store: Store) -> None:
    for name, big in (("a", 2**53 + 1), ("b", 2**53), ("c", 2**53)):
        params = {"seed": 20_240_115, "big": big, "rate": "1e-04"}
        put_run(store, name, {"auc": 0.5}, params | ({"x": "007"} if name != "a" else {}))
    found = page(store, at(CHURN)).text
    assert "3 parameters are equal" in found
    assert "rate = 1e-04 seed = 20240115 x = 007" in found
    assert f'title="{2**53 + 1}"' in get(store, at(CHURN)).text


def test_a_chart_has_a_point_for_each_pair_of_numbers(store: Store) -> None:
    put_run(store, "a", {"auc": 0.5}, {"depth": 2})
    put_run(store, "b", {"auc": 0.9}, {"depth": 4})
    put_run(store, "c", {"auc": "nan"}, {"depth": 6})
    put_run(store, "d", {"auc": "inf"}, {"depth": 6})
    put_run(store, "e", {"auc": 0.7}, {"depth": "deep"})
    put_run(store, "f", {}, {"depth": 3})
    answer = get(store, at(CHURN, "?chart=metrics.auc&over=params.depth")).text
    circles = re.findall(
        r'<a href="([^"]+)"[^>]*><title>[^<]*</title>'
        r'<circle class="c0" cx="([\d.]+)%" cy="([\d.]+)%"',
        answer,
    )
    places = {href: (float(x), float(y)) for href, x, y in circles}
    assert places == {at(model("a")): (2, 98), at(model("b")): (98, 2)}
    assert "metrics.auc over <bdi>params.depth" in answer.replace(
        "<bdi>metrics.auc</bdi>", "metrics.auc"
    )
    over_time = get(store, at(CHURN, "?chart=metrics.auc")).text
    assert over_time.count("<title>") - 1 == 3
    assert "<circle" not in get(store, at(CHURN, address(("filter", "f")))).text


def test_equal_values_are_in_the_middle_of_the_chart(store: Store) -> None:
    put_run(store, "a", {"auc": 0.5})
    assert 'cx="50.0%" cy="50.0%"' in get(store, at(CHURN, "?chart=metrics.auc")).text
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


def test_a_duration_of_more_digits_than_a_number_may_have_stays_text(store: Store) -> None:
    urn = put_run(store, "a", status="FINISHED", duration_ms="9" * 5_000)
    for target in ("/", "/kind/mlModel", at(CHURN), at(urn)):
        assert get(store, target).status == 200
    assert "9" * 5_000 in page(store, at(urn)).text


def test_an_export_has_all_rows_of_the_view(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "_EXPORT_HITS", 500)
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
    assert "params.depth" not in rows[1]  # it is equal in all
    every = get(store, at(CHURN, address(("show", "*")) + query)).text
    assert list(csv.DictReader(io.StringIO(every)))[1]["params.depth"] == "8"
    shown = [("show", name) for name in ("status", "metrics.auc", "duration_ms", "started")]
    filtered = address(("filter", "status:FAILED"), *shown)
    [row] = json.loads(get(store, at(CHURN, f"{filtered}&export=json")).text)
    assert row == {
        "urn": model("failed"),
        "name": "failed",
        "status": "FAILED",
        "metrics.auc": 0.5,
        "duration_ms": 25,
        "started": row["started"],
    }


def test_json_has_numbers_and_null_for_what_is_missing(store: Store) -> None:
    put_run(store, "a", {"auc": "NaN", "huge": 1e300}, {"depth": 8, "lr": 1}, status="FAILED")
    put_run(store, "b", {"auc": 7}, {"depth": 9})
    shown = [("show", name) for name in ("status", "metrics.auc", "metrics.huge", "params.lr")]
    rows = json.loads(get(store, at(CHURN, address(*shown, ("export", "json")))).text)
    assert [[*row.values()][1:] for row in rows] == [
        ["b", None, 7, None, None],
        ["a", "FAILED", "NaN", 1e300, "1"],
    ]


def test_no_cell_of_an_export_is_a_formula(store: Store) -> None:
    put_run(
        store,
        "=1+1",
        {"@x": -1.5},
        {"+y": "-cmd", "s": 'a;=1+1;b; -2; "@x";-3;c', "z": '\uff1d1,"2"\r\n3'},
    )
    text = get(store, at(CHURN, "?export=csv")).text
    [row] = csv.DictReader(io.StringIO(text))
    assert (row["name"], row["metrics.@x"], row["params.+y"]) == ("'=1+1", "-1.5", "'-cmd")
    assert row["params.s"] == "a;'=1+1;b;' -2;' \"@x\";'-3;c"
    assert row["params.z"] == '\'\uff1d1,"2"\r\n3'
    assert text.endswith('"\'\uff1d1,""2""\r\n3"\r\n')


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_an_export_of_a_wrong_filter_is_an_error(store: Store, kind: str) -> None:
    target = at(CHURN, address(("filter", "ownre:x"), ("export", kind)))
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


def test_values_that_are_equal_are_the_best_together(store: Store) -> None:
    for name, value in (("a", 0.7), ("b", 0.7), ("c", 0.5)):
        put_run(store, name, {"auc": value})
    assert sorted(best(store, "?sort=-metrics.auc")) == ["a", "b"]


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
    assert f" pruned 0.1 FINISHED {shown} " in found.text
    assert " complete 0.2 best FINISHED " in found.text
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
