"""The durations of runs as numbers, orders by values that entities share, and equal parameters."""

import pytest

from mlcat_ingest.catalog.search.language import read_query
from mlcat_ingest.catalog.search.numbers import equal_values
from mlcat_ingest.catalog.search.request import SearchRequest, SortKey
from mlcat_ingest.catalog.store.store import Store
from support.catalog_store import group, model, put
from support.searching import scroll, search, where

PARAMS = ["params.a", "params.b", "params.none"]


def put_run(store: Store, name: str, of: str = "g", **params: object) -> None:
    properties = {
        "groups": [group(of)],
        "hyperParams": [{"name": key, "value": str(value)} for key, value in params.items()],
    }
    put(store, model(name), mlModelProperties=properties)


def test_runs_are_found_and_sorted_by_their_duration(store: Store) -> None:
    for name, duration_ms in (("short", "5"), ("long", "90000"), ("odd", "soon"), ("none", None)):
        custom = {} if duration_ms is None else {"mlflow.duration_ms": duration_ms}
        put(store, model(name), mlModelProperties={"customProperties": custom})
    for text, found in (("duration_ms>60000", ["long"]), ("duration_ms:[1 TO 10]", ["short"])):
        _, any_of = read_query(text, strict=True)
        assert search(store, any_of=any_of) == found
    models = frozenset({"mlModel"})
    for descending, first in ((False, ["short", "long"]), (True, ["long", "short"])):
        sort = (SortKey("duration_ms", descending=descending),)
        assert search(store, entity_types=models, sort=sort) == [*first, "odd", "none"]
    put(store, model("long"), mlModelProperties={"customProperties": {}})
    assert search(store, "*", where("duration_ms", "90000")) == []


@pytest.mark.parametrize("field", ["status", "owners", "stage", "tests"])
@pytest.mark.parametrize("order", ["ascending", "descending"])
def test_a_scroll_by_shared_values_has_each_entity_once(
    store: Store, field: str, order: str
) -> None:
    for number in range(7):
        urn = put(store, model(f"m{number}"), mlModelProperties={
            "customProperties": {"mlflow.status": "FAILED"} if number % 2 else {}
        })  # fmt: skip
        if number % 3:
            owner = {"owner": f"urn:li:corpuser:u{number % 2}", "type": "DATAOWNER"}
            put(store, urn, ownership={"owners": [owner]})
            put(store, urn, testResults={"failing": [
                {"test": f"urn:li:test:t{test}", "type": "FAILURE"} for test in range(number % 2)
            ], "passing": []})  # fmt: skip
    sort = (SortKey(field, order == "descending"), SortKey("created", descending=True))
    models = frozenset({"mlModel"})
    every = search(store, entity_types=models, sort=sort)
    assert sorted(every) == [f"m{number}" for number in range(7)]
    assert scroll(store, "*", *sort, count=2, entity_types=models) == every


@pytest.mark.parametrize("between", [0, 30])
def test_equal_parameters_are_those_of_the_found_entities_alone(store: Store, between: int) -> None:
    for number in range(5):
        put_run(store, f"m{number}", a=1.5, b=number // 4)
        for other in range(between):
            put_run(store, f"o{number}-{other}", "other", a=other, b=2)
    put_run(store, "without")

    def equal(of: str) -> dict[str, tuple[float | str, str]]:
        request = SearchRequest(any_of=((where("groups", group(of)),),))
        return store.read(lambda connection: equal_values(connection, request, PARAMS))

    assert equal("g") == {"params.a": (1.5, model("m0"))}
    assert equal("other") == ({"params.b": (2, model("o0-0"))} if between else {})
    put_run(store, "text", a="big")
    assert equal("g") == {}
    assert equal("nobody") == {}
