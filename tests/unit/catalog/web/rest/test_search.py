"""Lists and scrolls of OpenAPI v3, and `/entities?action=search`."""

from typing import Any
from urllib.parse import quote

import pytest

from support.catalog_store import group, model, put
from support.rest_client import RestClient

MODELS = "/openapi/v3/entity/mlModel"
SCROLL = "/openapi/v3/entity/scroll"
DOMAIN = "urn:li:domain:sales"


@pytest.fixture(autouse=True)
def entities(client: RestClient) -> None:
    for name in ("a", "b", "c"):
        put(client.store, model(name), mlModelProperties={"name": name, "description": "tree"})
    put(client.store, model("c"), status={"removed": False})
    put(client.store, model("gone"), status={"removed": True})
    put(client.store, group("g"), mlModelGroupProperties={"name": "tree"})
    put(client.store, DOMAIN, domainProperties={"name": "Sales"})
    put(client.store, "urn:li:service:s", serviceProperties={"displayName": "tree"})


def urns(page: dict[str, Any]) -> list[str]:
    return [item["urn"] for item in page["entities"]]


def test_a_list_has_all_aspects_or_the_named_ones(client: RestClient) -> None:
    page = client.ok("GET", f"{MODELS}?query=tree")
    assert urns(page) == [model("a"), model("b"), model("c")]
    assert (page["totalCount"], page["facets"]) == (3, [])
    assert {"mlModelKey", "mlModelProperties"} <= page["entities"][0].keys()
    page = client.ok("GET", f"{MODELS}?aspects=STATUS&systemMetadata=true")
    [item] = page["entities"]
    assert item.keys() == {"urn", "status"}
    assert item["status"]["systemMetadata"]["version"] == "1"
    assert page["totalCount"] == 3


def test_a_list_is_sorted_and_may_hold_removed_ones(client: RestClient) -> None:
    found = client.ok("GET", f"{MODELS}?sortOrder=DESCENDING&includeSoftDelete=true")
    assert urns(found) == [model("gone"), model("c"), model("b"), model("a")]
    assert urns(client.ok("GET", "/openapi/v3/entity/SERVICE")) == ["urn:li:service:s"]
    assert client.send("GET", "/openapi/v3/entity/nothing").status == 404


def test_a_scroll_meets_everything_once(client: RestClient) -> None:
    body = {"entities": ["mlModel", "mlModelGroup"]}
    found: list[str] = []
    page = client.ok("POST", f"{SCROLL}?count=3", body)
    while "scrollId" in page:
        found += urns(page)
        page = client.ok("POST", f"{SCROLL}?count=3&scrollId={quote(page['scrollId'])}", body)
    assert [*found, *urns(page)] == [model("a"), model("b"), model("c"), group("g")]
    assert client.send("POST", f"{SCROLL}?scrollId=x", body).status == 400


def test_a_scroll_has_the_aspects_of_its_body(client: RestClient) -> None:
    one = {
        "entities": ["mlmodel"],
        "filter": {"and": [{"criteria": [{"field": "name", "values": ["b"]}]}]},
    }
    assert client.ok("POST", SCROLL, one)["entities"] == [{"urn": model("b")}]
    [item] = client.ok("POST", SCROLL, {**one, "aspects": []})["entities"]
    assert {"mlModelKey", "mlModelProperties"} <= item.keys()
    [item] = client.ok("POST", SCROLL, {**one, "aspects": ["mlModelKey"]})["entities"]
    assert item.keys() == {"urn", "mlModelKey"}


def test_alternatives_of_a_scroll_and_its_order(client: RestClient) -> None:
    named = [{"criteria": [{"field": "name", "values": [name]}]} for name in ("a", "c")]
    body = {"filter": {"and": named}, "sortCriteria": [{"field": "urn", "order": "DESCENDING"}]}
    assert urns(client.ok("POST", SCROLL, body)) == [model("c"), model("a")]
    negated = [{"criteria": [{"field": "name", "values": ["a"], "negated": True}]}]
    body = {"entities": ["mlModel"], "filter": {"and": negated}}
    assert urns(client.ok("POST", SCROLL, body)) == [model("b"), model("c")]
    wrong = [{"criteria": [{"field": "name", "condition": "LIKE"}]}]
    assert client.send("POST", SCROLL, {"filter": {"and": wrong}}).status == 400


def test_an_entity_is_sought_by_its_name(client: RestClient) -> None:
    named = [{"and": [{"field": "name", "values": ["Sales"], "condition": "EQUAL"}]}]
    body = {"input": "*", "entity": "domain", "filter": {"or": named}}
    found = client.ok("POST", "/entities?action=search", body)["value"]
    assert found["numEntities"] == 1
    assert found["entities"] == [{"entity": DOMAIN, "matchedFields": []}]
    page = {"entity": "mlModel", "start": 1, "count": 1}
    found = client.ok("POST", "/entities?action=search", page)["value"]
    assert (found["numEntities"], found["from"], found["pageSize"]) == (3, 1, 1)
    assert [one["entity"] for one in found["entities"]] == [model("b")]
    assert client.send("POST", "/entities?action=search", {}).status == 400


def path(urn: str, *more: str) -> str:
    return "/".join((MODELS, quote(urn, safe=""), *more))


def test_an_aspect_is_written_by_its_path(client: RestClient) -> None:
    urn = model("new")
    written = client.ok("POST", path(urn, "mlmodelproperties"), {"value": {"name": "n"}})
    assert written == {"urn": urn, "mlModelProperties": {"value": {"name": "n"}}}
    again = path(urn, "mlModelProperties")
    refused = client.send("POST", again, {"value": {"name": "o"}})
    assert refused.status == 400
    assert "Cannot perform CREATE since the aspect already exists" in str(refused.json())
    upsert = f"{again}?createIfNotExists=false"
    wrong = {"value": {"name": "p"}, "headers": {"If-Version-Match": "7"}}
    assert client.send("POST", upsert, wrong).status == 412
    right = {"value": {"name": "p"}, "headers": {"If-Version-Match": "1"}}
    assert (
        client.ok("POST", f"{upsert}&systemMetadata=true", right)["mlModelProperties"][
            "systemMetadata"
        ]["version"]
        == "2"
    )
    assert client.send("POST", path(urn, "nope"), {"value": {}}).status == 400
    assert client.send("POST", path(urn), {"value": {}}).status == 405
    assert client.send("POST", path("urn:li:tag:t", "nope"), {"value": {}}).status == 405
