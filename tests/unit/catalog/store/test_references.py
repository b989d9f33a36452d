from typing import Any

import pytest

from mlcat_ingest.catalog.schema.values import UNKNOWN_ACTOR
from mlcat_ingest.catalog.store import graph
from mlcat_ingest.catalog.store.graph import (
    delete_references,
    find_references,
    without_reference,
)
from mlcat_ingest.catalog.store.store import Store
from support.catalog_store import feature, group, incoming, model, put, table

TAG, OTHER = "urn:li:tag:a", "urn:li:tag:b"
ADA, BOB = "urn:li:corpuser:ada", "urn:li:corpuser:bob"
STAMP = {"time": 1, "actor": ADA}


@pytest.mark.parametrize(
    ("aspect", "urn", "before", "after"),
    [
        ("globalTags", TAG, {"tags": [{"tag": TAG}, {"tag": OTHER}]}, {"tags": [{"tag": OTHER}]}),
        (
            "ownership",
            ADA,
            {
                "owners": [
                    {"owner": ADA, "type": "NONE"},
                    {"owner": BOB, "type": "NONE", "attribution": STAMP},
                ],
                "lastModified": STAMP,
            },
            {
                "owners": [{"owner": BOB, "type": "NONE", "attribution": STAMP}],
                "lastModified": STAMP,
            },
        ),
        (
            "ownership",
            "urn:li:ownershipType:t",
            {"owners": [{"owner": ADA, "type": "CUSTOM", "typeUrn": "urn:li:ownershipType:t"}]},
            {"owners": [{"owner": ADA, "type": "CUSTOM"}]},
        ),
        (
            "glossaryTerms",
            "urn:li:glossaryTerm:t",
            {"terms": [{"urn": "urn:li:glossaryTerm:t"}], "auditStamp": STAMP},
            {"terms": [], "auditStamp": STAMP},
        ),
        (
            "domains",
            "urn:li:domain:d",
            {"domains": ["urn:li:domain:d"], "domainAssociations": [{"domain": "urn:li:domain:d"}]},
            {"domains": [], "domainAssociations": []},
        ),
        ("container", "urn:li:container:c", {"container": "urn:li:container:c"}, None),
        (
            "mlModelProperties",
            group("g"),
            {"groups": [group("g"), group("h")], "name": group("g"), "x": [group("g")]},
            {"groups": [group("h")], "name": group("g"), "x": [group("g")]},
        ),
        (
            "dataProcessInstanceInput",
            model("m"),
            {"inputs": [model("m")], "inputEdges": [{"destinationUrn": model("m")}]},
            {"inputs": [], "inputEdges": []},
        ),
        ("testResults", "urn:li:test:t", {"failing": [], "passing": None}, ...),
        ("upstreamLineage", TAG, {"tag": TAG}, ...),
        ("nobodyKnows", TAG, {"tag": TAG}, ...),
    ],
)
def test_an_aspect_loses_its_references_and_nothing_else(
    aspect: str, urn: str, before: dict[str, Any], after: Any
) -> None:
    assert without_reference(aspect, before, urn) == (before if after is ... else after)


def test_references_are_found_and_then_gone(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph, "_AT_ONCE", 2)
    urns = [put(store, model(str(n)), globalTags={"tags": [{"tag": TAG}]}) for n in range(5)]
    put(store, model("m"), globalTags={"tags": [{"tag": OTHER}]})
    found = store.read(lambda c: find_references(c, TAG))
    assert found == (5, [(urn, "TaggedWith", "globalTags") for urn in urns])
    assert delete_references(store, TAG) == found
    assert incoming(store, TAG).total == 0
    assert incoming(store, OTHER).total == 1
    held = store.get_many(urns)
    assert [held[urn]["globalTags"].value for urn in urns] == [{"tags": []}] * 5
    assert held[urns[0]]["globalTags"].modified_by == UNKNOWN_ACTOR
    before = store.get_version(urns[0], "globalTags", 1)
    assert before is not None
    assert before.value == {"tags": [{"tag": TAG}]}
    assert delete_references(store, TAG) == (0, [])


def test_an_aspect_that_is_nothing_but_the_reference_goes(store: Store) -> None:
    held_in = "urn:li:container:c"
    urn = put(store, model("m"), container={"container": held_in})
    assert delete_references(store, held_in).total == 1
    assert "container" not in store.get_many([urn])[urn]


def test_two_relationships_of_one_aspect_are_two_references(store: Store) -> None:
    urn = put(
        store,
        model("m"),
        mlModelProperties={"trainingJobs": [BOB_JOB], "downstreamJobs": [BOB_JOB]},
    )
    found = delete_references(store, BOB_JOB)
    assert [relationship for _, relationship, _ in found.first] == ["TrainedBy", "UsedBy"]
    assert store.get_many([urn])[urn]["mlModelProperties"].value == {
        "trainingJobs": [],
        "downstreamJobs": [],
    }


BOB_JOB = "urn:li:dataJob:(urn:li:dataFlow:(airflow,f,PROD),j)"


def test_what_a_urn_says_is_no_reference_that_could_go(store: Store) -> None:
    put(store, table("t"), mlFeatureTableProperties={"mlFeatures": [feature("t", "f")]})
    assert store.read(lambda c: find_references(c, "urn:li:dataPlatform:feast")) == (0, [])
    assert delete_references(store, feature("t", "f")).total == 1
