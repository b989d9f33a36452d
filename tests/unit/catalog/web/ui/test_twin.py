"""What a page shows, as JSON."""

import json

import pytest

from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.app import create_app
from support.asgi import Answer, call
from support.catalog_store import group, model, put
from support.names import HOSTILE
from support.pages import HTML, at

JSON = {"accept": "application/json"}


def twin(store: Store, target: str) -> Answer:
    return call(create_app(store), "GET", target, headers=JSON)


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_a_page_has_its_values_as_json_and_its_tables_as_cells(store: Store, name: str) -> None:
    put(store, group("g"), mlModelGroupProperties={"name": name})
    metrics = [{"name": "auc", "value": "0.5"}, {"name": name, "value": "NaN"}]
    properties = {"name": name, "groups": [group("g")], "trainingMetrics": metrics}
    put(store, model("m"), mlModelProperties=properties)
    answer = twin(store, at(group("g"), "?show=metrics.auc&chart=metrics.auc"))
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    shown = json.loads(answer.text)["page"]
    assert (shown["title"], shown["kind"]) == (name, "Model group")
    assert [tab["label"] for tab in shown["tabs"] if tab["current"]] == ["Models"]
    table = shown["runs"]["listing"]
    titles = [column["title"] for column in table["columns"]]
    [row] = table["rows"]
    assert row[titles.index("Name")]["name"] == name
    assert row[titles.index("auc")] == "0.5"
    assert shown["runs"]["chart"]["y"] == "metrics.auc"


def test_metrics_of_the_first_step_are_in_their_stored_order(store: Store) -> None:
    names = [f"m{at}" for at in range(9, 0, -1)]
    metrics = [{"name": name, "value": "1", "description": "step 0"} for name in names]
    of_run = {"mlflow.run_model": model("run")}
    properties = {"groups": [group("g")], "trainingMetrics": metrics, "customProperties": of_run}
    put(store, group("g"), mlModelGroupProperties={})
    put(store, model("v"), mlModelProperties=properties)
    [[hit, *_], *_] = json.loads(twin(store, at(group("g"))).text)["page"]["runs"]["listing"][
        "rows"
    ]
    assert hit["first"] == [f"metrics.{name}" for name in names]


def test_a_search_that_no_encoding_has_is_answered(store: Store) -> None:
    answer = twin(store, "/search?q=%ED%A0%80")
    assert answer.status == 200
    assert json.loads(answer.text)["page"]["problem"] == ""


def test_browsers_get_the_page_and_what_is_missing_has_the_same_status(store: Store) -> None:
    app = create_app(store)
    for accepted in (HTML, f"{HTML},application/json", "*/*"):
        answer = call(app, "GET", "/", headers={"accept": accepted})
        assert answer.headers["content-type"].startswith("text/html")
    missing = twin(store, at(model("never")))
    assert (missing.status, json.loads(missing.text)) == (404, {"urn": model("never")})
