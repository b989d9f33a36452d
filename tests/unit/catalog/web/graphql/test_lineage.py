"""One hop of lineage: which edges count, which way they point, and what is left out."""

from typing import Any

import pytest

from mlcat_ingest.catalog.schema.values import Write
from mlcat_ingest.catalog.store.store import Store
from support.catalog_graphql import ask, refused
from support.catalog_store import feature, group, model, put, statements, table

DATASET = "urn:li:dataset:(urn:li:dataPlatform:s3,bucket/data,PROD)"
RUN = "urn:li:dataProcessInstance:run"
QUERY = """query ($urn: String!, $inputs: LineageInput!) { entity(urn: $urn) {
    ... on EntityWithRelationships { lineage(input: $inputs) {
        start count total filtered relationships { type degree entity { urn } } } } } }"""


def lineage(store: Store, urn: str, direction: str, **inputs: Any) -> Any:
    found = ask(store, QUERY, urn=urn, inputs={"direction": direction, **inputs})
    return found["entity"]["lineage"]


def ends(found: Any) -> list[tuple[str, str]]:
    return [(each["type"], each["entity"]["urn"]) for each in found["relationships"]]


@pytest.fixture
def graph(store: Store) -> Store:
    put(store, DATASET, datasetProperties={})
    put(store, feature("t", "f"), mlFeatureProperties={"sources": [DATASET]})
    put(store, table("t"), mlFeatureTableProperties={"mlFeatures": [feature("t", "f")]})
    put(store, group("g"), mlModelGroupProperties={})
    put(
        store,
        model("m"),
        mlModelProperties={
            "mlFeatures": [feature("t", "f")],
            "groups": [group("g")],
            "trainingJobs": [RUN],
            "downstreamJobs": ["urn:li:dataProcessInstance:scoring"],
        },
    )
    stamp = {"time": 1, "actor": "urn:li:corpuser:ada"}
    put(
        store,
        RUN,
        dataProcessInstanceProperties={"name": "run", "created": stamp},
        dataProcessInstanceInput={
            "inputs": [DATASET],
            "inputEdges": [{"destinationUrn": DATASET}],
        },
        dataProcessInstanceOutput={"outputs": [], "outputEdges": [{"destinationUrn": model("m")}]},
    )
    return store


def test_a_model_comes_from_its_features_and_its_run(graph: Store) -> None:
    found = lineage(graph, model("m"), "UPSTREAM")
    assert ends(found) == [
        ("Consumes", feature("t", "f")),
        ("TrainedBy", RUN),
        ("DataProcessInstanceProduces", RUN),
    ]
    assert {key: found[key] for key in ("start", "count", "total", "filtered")} == {
        "start": 0,
        "count": 100,
        "total": 3,
        "filtered": 0,
    }
    assert {each["degree"] for each in found["relationships"]} == {1}


def test_a_group_comes_from_its_models(graph: Store) -> None:
    assert ends(lineage(graph, group("g"), "UPSTREAM")) == [("MemberOf", model("m"))]
    assert ends(lineage(graph, group("g"), "DOWNSTREAM")) == []
    assert ends(lineage(graph, model("m"), "DOWNSTREAM")) == [("MemberOf", group("g"))]


def test_what_only_holds_or_lists_is_no_lineage(graph: Store) -> None:
    """A table contains features, a run's plain `inputs` repeat its edges: neither is annotated."""
    assert ends(lineage(graph, table("t"), "DOWNSTREAM")) == []
    assert ends(lineage(graph, DATASET, "DOWNSTREAM")) == [
        ("DataProcessInstanceConsumes", RUN),
        ("DerivedFrom", feature("t", "f")),
    ]


def test_missing_entities_are_left_out_and_counted(graph: Store) -> None:
    found = lineage(graph, model("m"), "DOWNSTREAM")
    assert (found["total"], found["filtered"], found["count"]) == (2, 1, 100)
    shown = lineage(graph, model("m"), "DOWNSTREAM", includeGhostEntities=True)
    assert ("UsedBy", "urn:li:dataProcessInstance:scoring") in ends(shown)
    assert (shown["total"], shown["filtered"]) == (2, 0)
    put(graph, group("g"), status={"removed": True})
    assert lineage(graph, model("m"), "DOWNSTREAM")["filtered"] == 2


def test_pages_of_lineage(graph: Store) -> None:
    whole = ends(lineage(graph, model("m"), "UPSTREAM"))
    assert ends(lineage(graph, model("m"), "UPSTREAM", start="1", count=1)) == whole[1:2]
    beyond = lineage(graph, model("m"), "UPSTREAM", start=9)
    assert (beyond["total"], beyond["count"]) == (3, 100)
    query = QUERY.replace("entity(urn: $urn)", "e: entity(urn: $urn)")
    inputs = {"direction": "UPSTREAM", "start": -1}
    assert "negative" in refused(graph, query, urn=model("m"), inputs=inputs)["message"]


def test_the_lineage_of_a_thousand_models_is_a_handful_of_statements(store: Store) -> None:
    put(store, feature("t", "f"), mlFeatureProperties={})
    put(store, group("g"), mlModelGroupProperties={})
    value = {"groups": [group("g")], "mlFeatures": [feature("t", "f")]}
    store.write([Write(model(f"m{index}"), "mlModelProperties", value) for index in range(1_000)])
    query = """query ($urn: String!) { mlModelGroup(urn: $urn) {
        lineage(input: {direction: UPSTREAM, count: 1000}) { relationships { entity {
            ... on MLModel { lineage(input: {direction: UPSTREAM}) { total
                relationships { entity { urn ... on MLFeature { name } } } } } } } } } }"""
    with statements(store) as seen:
        found = ask(store, query, urn=group("g"))["mlModelGroup"]["lineage"]["relationships"]
    assert len(found) == 1_000
    assert found[999]["entity"]["lineage"]["total"] == 1
    assert len(seen) <= 4
