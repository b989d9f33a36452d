"""Searches along lineage, over several hops."""

from dataclasses import replace
from typing import Any

import pytest

from mlcat_ingest.catalog.limits import DEFAULT_LIMITS
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.graphql.execution import answer
from support.catalog_graphql import ask, refused
from support.catalog_store import feature, group, model, put

DATASET = "urn:li:dataset:(urn:li:dataPlatform:s3,bucket/data,PROD)"
QUERY = """query ($input: ScrollAcrossLineageInput!) { scrollAcrossLineage(input: $input) {
    nextScrollId count total isPartial searchResults {
        degree degrees entity { urn } paths { path { urn } } matchedFields { name } } } }"""


@pytest.fixture
def graph(store: Store) -> Store:
    put(store, DATASET, datasetProperties={"name": "orders"})
    for name in ("f", "e"):
        put(store, feature("t", name), mlFeatureProperties={"sources": [DATASET]})
    put(
        store,
        model("m"),
        mlModelProperties={
            "mlFeatures": [feature("t", "f"), feature("t", "e"), feature("t", "unwritten")],
            "groups": [group("g")],
        },
    )
    put(store, group("g"), mlModelGroupProperties={})
    return store


def reached(store: Store, urn: str, direction: str, **inputs: Any) -> dict[str, int]:
    page = ask(store, QUERY, input={"urn": urn, "direction": direction, **inputs})
    results = page["scrollAcrossLineage"]["searchResults"]
    return {result["entity"]["urn"]: result["degree"] for result in results}


def degree(*values: str, **more: Any) -> list[Any]:
    return [{"and": [{"field": "degree", "condition": "EQUAL", "values": [*values], **more}]}]


def test_everything_upstream_of_a_group(graph: Store) -> None:
    assert reached(graph, group("g"), "UPSTREAM") == {
        model("m"): 1,
        feature("t", "f"): 2,
        feature("t", "e"): 2,
        DATASET: 3,
    }
    assert reached(graph, DATASET, "DOWNSTREAM")[group("g")] == 3
    assert reached(graph, group("g"), "DOWNSTREAM") == {}


def test_impact_passes_datasets_and_jobs(graph: Store) -> None:
    raw, staged = (
        f"urn:li:dataset:(urn:li:dataPlatform:s3,{name},PROD)" for name in ("raw", "staged")
    )
    job = "urn:li:dataJob:(urn:li:dataFlow:(airflow,flow,PROD),job)"
    field = f"urn:li:schemaField:({staged},amount)"
    put(graph, raw, datasetProperties={})
    put(graph, field, schemaFieldKey={"parent": staged, "fieldPath": "amount"})
    put(
        graph,
        DATASET,
        upstreamLineage={
            "upstreams": [{"dataset": staged, "type": "TRANSFORMED"}],
            "fineGrainedLineages": [
                {
                    "upstreamType": "FIELD_SET",
                    "upstreams": [field],
                    "downstreamType": "FIELD",
                    "downstreams": [f"urn:li:schemaField:({DATASET},amount)"],
                }
            ],
        },
    )
    put(graph, staged, datasetProperties={})
    put(
        graph,
        job,
        dataJobInputOutput={
            "inputDatasets": [],
            "inputDatasetEdges": [{"destinationUrn": raw}],
            "outputDatasets": [staged],
        },
    )
    assert reached(graph, DATASET, "UPSTREAM") == {staged: 1, job: 2, raw: 3}
    assert reached(graph, raw, "DOWNSTREAM")[group("g")] == 6
    # Fields are at the ends of relationships, and of no lineage between entities.
    made = """query ($urn: String!) { entity(urn: $urn) { relationships(input: {
        types: ["DownstreamOf"], direction: OUTGOING}) { relationships { entity { urn } } } } }"""
    found = ask(graph, made, urn=DATASET)["entity"]["relationships"]["relationships"]
    assert {one["entity"]["urn"] for one in found} == {staged, field}


@pytest.mark.parametrize(
    ("filters", "degrees"),
    [
        (degree("1"), {1}),
        (degree("1", "2"), {1, 2}),
        (degree("3+"), {3}),
        (degree("1", "2", "3+"), {1, 2, 3}),
        (degree("2", negated=True), {1, 3}),
        (degree("9"), set()),
        ([*degree("1"), *degree("3")], {1, 3}),
        ([{"and": []}], {1, 2, 3}),
        (
            [
                {
                    "and": [
                        {"field": "degree", "values": ["1", "2"]},
                        {"field": "_entityType", "values": ["MLFEATURE"]},
                    ]
                }
            ],
            {2},
        ),
    ],
)
def test_filters_on_the_degree(graph: Store, filters: list[Any], degrees: set[int]) -> None:
    found = reached(graph, group("g"), "UPSTREAM", orFilters=filters)
    assert set(found.values()) == degrees


def test_types_words_and_paths(graph: Store) -> None:
    assert reached(graph, group("g"), "UPSTREAM", types=["DATASET"]) == {DATASET: 3}
    assert reached(graph, group("g"), "UPSTREAM", query="orders") == {DATASET: 3}
    inputs = {"urn": group("g"), "direction": "UPSTREAM", "types": ["DATASET"], "query": "orders"}
    page = ask(graph, QUERY, input=inputs)["scrollAcrossLineage"]
    (result,) = page["searchResults"]
    assert result["degrees"] == [3]
    ((way,),) = [result["paths"]]
    assert [step["urn"] for step in way["path"]][::3] == [group("g"), DATASET]
    assert {"name": "name"} in result["matchedFields"]
    assert (page["count"], page["total"], page["nextScrollId"]) == (1, 1, None)


def test_pages_of_a_scroll(graph: Store) -> None:
    met: set[str] = set()
    inputs: dict[str, Any] = {"urn": group("g"), "direction": "UPSTREAM", "count": 1}
    while True:
        page = ask(graph, QUERY, input=inputs)["scrollAcrossLineage"]
        met |= {result["entity"]["urn"] for result in page["searchResults"]}
        if not page["nextScrollId"]:
            break
        inputs["scrollId"] = page["nextScrollId"]
    assert len(met) == page["total"] == 4


def test_circles_end(store: Store) -> None:
    for name, other in (("a", "b"), ("b", "a")):
        put(store, f"urn:li:dataProcessInstance:{name}", dataProcessInstanceInput={
            "inputs": [],
            "inputEdges": [{"destinationUrn": f"urn:li:dataProcessInstance:{other}"}],
        })  # fmt: skip
    found = reached(store, "urn:li:dataProcessInstance:a", "UPSTREAM")
    assert found == {"urn:li:dataProcessInstance:b": 1}


def test_how_far_and_how_wide(graph: Store) -> None:
    wide = reached(graph, model("m"), "UPSTREAM", lineageFlags={"entitiesExploredPerHopLimit": 0})
    assert set(wide.values()) == {1}
    inputs = {"urn": group("g"), "direction": "UPSTREAM"}
    small = replace(DEFAULT_LIMITS, page_size=2)
    reply = answer(graph, QUERY, {"input": inputs}, limits=small)
    page = reply["data"]["scrollAcrossLineage"]
    degrees = [one["degree"] for one in page["searchResults"]]
    assert (sorted(degrees), page["isPartial"]) == ([1, 2], True), "the nearest are kept"
    assert ask(graph, QUERY, input=inputs)["scrollAcrossLineage"]["isPartial"] is False


def test_many_alternatives_leave_room_for_fewer_entities(
    graph: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlcat_ingest.catalog.web.graphql.search.SEARCH_VALUES", 10)
    found = reached(graph, group("g"), "UPSTREAM", orFilters=[*degree("1"), *degree("2", "3+")])
    assert sorted(found.values()) == [1, 2, 2]


@pytest.mark.parametrize("value", ["many", "", "-1", "1.5", "٣"])
def test_what_is_no_degree(graph: Store, value: str) -> None:
    inputs = {"urn": group("g"), "direction": "UPSTREAM", "orFilters": degree(value)}
    assert "number of hops" in refused(graph, QUERY, input=inputs)["message"]


def test_an_entity_that_nobody_knows(store: Store) -> None:
    assert reached(store, group("no"), "UPSTREAM") == {}
    error = refused(store, QUERY, input={"direction": "UPSTREAM", "urn": "junk"})
    assert "'junk' is not a URN" in error["message"]


def test_a_filter_of_too_many_values_is_reported(graph: Store) -> None:
    inputs = {"urn": group("g"), "direction": "UPSTREAM", "orFilters": degree("1") * 10_001}
    assert "more than 10000 values" in refused(graph, QUERY, input=inputs)["message"]
