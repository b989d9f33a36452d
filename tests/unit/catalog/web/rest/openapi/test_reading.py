"""The search of Rest.li."""

import pytest

from support.catalog_store import feature, group, model, put
from support.rest_client import RestClient

SEARCH = "/entities?action=search"


@pytest.fixture
def client(client: RestClient) -> RestClient:
    for name in ("c", "a", "b"):
        put(
            client.store,
            model(name),
            mlModelProperties={"name": f"churn {name}", "groups": [group("g")]},
        )
    put(client.store, group("g"), mlModelGroupProperties={"name": "churn"})
    put(client.store, feature("t", "x"), mlFeatureProperties={"description": "a word"})
    put(client.store, model("gone"), status={"removed": True})
    return client


def test_rest_li_finds_entities_of_one_type(client: RestClient) -> None:
    named = {"field": "name", "values": ["churn b"], "condition": "EQUAL"}
    asked = {"input": "*", "entity": "mlModel", "start": 0, "count": 10}
    value = client.ok("POST", SEARCH, {**asked, "filter": {"or": [{"and": [named]}]}})["value"]
    assert value["entities"] == [{"entity": model("b")}]
    assert value["numEntities"] == 1
    page = client.ok("POST", SEARCH, {**asked, "start": 1, "count": 1})["value"]
    assert (len(page["entities"]), page["numEntities"], page["from"]) == (1, 3, 1)
    assert client.ok("POST", SEARCH, {"entity": "domain"})["value"]["entities"] == []
    far = client.ok("POST", SEARCH, {**asked, "start": 2**63 - 1})["value"]
    assert far["entities"] == []
    assert "entity: the parameter" in client.refused("POST", SEARCH, {})
    assert "input: expected a string" in client.refused("POST", SEARCH, {**asked, "input": 3})
    assert "filter.and[0]" in client.refused("POST", SEARCH, {**asked, "filter": {"and": [1]}})


def test_searches_leave_out_versions_that_are_not_the_latest(client: RestClient) -> None:
    for at in ("1", "2"):
        value = {
            "versionSet": "urn:li:versionSet:(churn,mlModel)",
            "version": {"versionTag": at},
            "sortId": at,
        }
        put(client.store, model(f"version {at}"), versionProperties=value)
    old, new = model("version 1"), model("version 2")
    versions = {"entity": "mlModel", "input": "version"}
    hits = client.ok("POST", SEARCH, versions)["value"]["entities"]
    assert hits == [{"entity": new}]
    both = {**versions, "searchFlags": {"filterNonLatestVersions": False}}
    hits = client.ok("POST", SEARCH, both)["value"]["entities"]
    assert [hit["entity"] for hit in hits] == [old, new]
