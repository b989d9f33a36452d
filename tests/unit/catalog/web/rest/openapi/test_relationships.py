"""Lists of edges: any relationship, and those along which data flows."""

from typing import Any
from urllib.parse import quote

import pytest

from mlcat_ingest.catalog.limits import SEARCH_CRITERIA
from support.catalog_store import feature, group, model, put, table
from support.rest_client import RestClient

EDGES = "/openapi/v3/relationship/scroll"
LINEAGE = "/openapi/v3/lineage/scroll"
DATASET = "urn:li:dataset:(urn:li:dataPlatform:hive,a.b,PROD)"


@pytest.fixture
def client(client: RestClient) -> RestClient:
    for name in ("a", "b", "c"):
        properties = {"groups": [group("g")], "mlFeatures": [feature("t", "x")]}
        put(client.store, model(name), mlModelProperties=properties)
    put(client.store, feature("t", "x"), mlFeatureProperties={"sources": [DATASET]})
    put(client.store, table("t"), mlFeatureTableProperties={"mlFeatures": [feature("t", "x")]})
    return client


def edges(client: RestClient, query: str = "", **body: Any) -> list[tuple[str, str, str]]:
    page = client.ok("POST", f"{EDGES}?count=100{query}", body)
    assert page["scrollId"] is None
    return [
        (one["source"]["urn"], one["relationshipType"], one["destination"]["urn"])
        for one in page["results"]
    ]


def of(*urns: str) -> dict[str, Any]:
    return {"and": [{"criteria": [{"field": "urn", "values": list(urns), "condition": "EQUAL"}]}]}


def test_all_edges_come_once_page_after_page(client: RestClient) -> None:
    everything = edges(client)
    assert (model("a"), "MemberOf", group("g")) in everything
    assert len(everything) == len(set(everything))
    found: list[str] = []
    scroll_id = ""
    for _ in range(50):
        page = client.ok("POST", f"{EDGES}?count=2{scroll_id}", {})
        found += [str(one) for one in page["results"]]
        if page["scrollId"] is None:
            break
        scroll_id = f"&scrollId={quote(page['scrollId'])}"
    assert len(found) == len(set(found)) == len(everything)


def test_an_edge_shows_its_ends(client: RestClient) -> None:
    page = client.ok("POST", f"{EDGES}?relationshipTypes=MemberOf&count=1", {})
    assert page["results"] == [
        {
            "relationshipType": "MemberOf",
            "source": {"urn": model("a"), "entityType": "mlModel"},
            "destination": {"urn": group("g"), "entityType": "mlModelGroup"},
        }
    ]
    assert page["scrollId"]


def test_edges_are_narrowed_by_types_relationships_and_ends(client: RestClient) -> None:
    member = [(model(name), "MemberOf", group("g")) for name in "abc"]
    consumes = [(model(name), "Consumes", feature("t", "x")) for name in "abc"]
    assert edges(client, "&relationshipTypes=MemberOf") == member
    two = "&relationshipTypes=MemberOf&relationshipTypes=Consumes"
    assert sorted(edges(client, two)) == sorted([*member, *consumes])
    assert edges(client, "&destinationTypes=mlmodelgroup") == member
    assert edges(client, "&sourceTypes=mlModel&destinationTypes=mlFeature") == consumes
    assert edges(client, "&sourceTypes=tag") == []
    from_a = edges(client, two, sourceFilter=of(model("a")))
    assert sorted(from_a) == sorted([consumes[0], member[0]])
    assert edges(client, two, destinationFilter=of(group("g"), group("h"))) == member
    assert edges(client, two, sourceFilter=of(model("b")), destinationFilter=of(group("g"))) == [
        member[1]
    ]
    # Turned round, what is called source is the end that edges arrive at.
    assert edges(client, f"{two}&direction=INCOMING", sourceFilter=of(group("g"))) == member
    either = {"or": [*of(model("a"))["and"], *of(model("b"))["and"]]}
    assert len(edges(client, "&relationshipTypes=MemberOf", sourceFilter=either)) == 2
    assert len(edges(client, "&relationshipTypes=MemberOf", sourceFilter={"or": []})) == 3
    assert edges(client, edgeFilter={"or": []}) == edges(client)


def test_removed_ends_are_left_out_unless_asked_for(client: RestClient) -> None:
    put(client.store, model("a"), status={"removed": True})
    members = "&relationshipTypes=MemberOf"
    assert [source for source, *_ in edges(client, members)] == [model("b"), model("c")]
    assert len(edges(client, f"{members}&includeSoftDelete=true")) == 3
    put(client.store, group("g"), status={"removed": True})
    assert edges(client, members) == []


def test_slices_together_are_everything_once(client: RestClient) -> None:
    found = [edge for at in range(3) for edge in edges(client, f"&sliceId={at}&sliceMax=3")]
    assert found == edges(client)


def flows(client: RestClient, query: str = "", **body: Any) -> set[tuple[str, str]]:
    page = client.ok("POST", f"{LINEAGE}?count=100{query}", body)
    return {(one["upstream"], one["downstream"]) for one in page["results"]}


def test_lineage_says_which_way_data_flows(client: RestClient) -> None:
    consumed = {(feature("t", "x"), model(name)) for name in "abc"}
    grouped = {(model(name), group("g")) for name in "abc"}
    derived = {(DATASET, feature("t", "x"))}
    assert flows(client) == consumed | grouped | derived
    assert flows(client, urns=[]) == flows(client)
    assert flows(client, urns=[feature("t", "x")]) == consumed | derived
    assert flows(client, "&direction=UPSTREAM", urns=[feature("t", "x")]) == derived
    assert flows(client, "&direction=downstream", urns=[feature("t", "x")]) == consumed
    assert flows(client, "&relationshipTypes=MemberOf", urns=[model("a")]) == {
        (model("a"), group("g"))
    }
    assert flows(client, "&relationshipTypes=Contains") == set()


@pytest.mark.parametrize(
    ("path", "query", "body", "message"),
    [
        (EDGES, "", [], "the body must be a JSON object"),
        (EDGES, "?count=x", {}, "count: expected a whole number"),
        (EDGES, "?scrollId=x", {}, "invalid scroll id"),
        (EDGES, "?sourceTypes=nothing", {}, "sourceTypes: 'nothing' is not an entity type"),
        (EDGES, "?sourceTypes=" + "tag," * (SEARCH_CRITERIA + 1), {}, "more than 100"),
        (EDGES, "?direction=UP", {}, "direction: 'UP' is none of OUTGOING, INCOMING"),
        (EDGES, "?includeSoftDelete=x", {}, "includeSoftDelete: expected true or false"),
        (EDGES, "", {"sourceFilter": 3}, "sourceFilter must be a JSON object"),
        (
            EDGES,
            "",
            {"sourceFilter": {"criteria": [{"field": "name", "value": "x"}]}},
            "sourceFilter: edges can only be filtered by the `urn`",
        ),
        (
            EDGES,
            "",
            {"destinationFilter": {"criteria": [{"field": "urn", "value": "x", "negated": True}]}},
            "destinationFilter: edges can only be filtered",
        ),
        (
            EDGES,
            "",
            {"edgeFilter": {"criteria": [{"field": "urn", "value": "x"}]}},
            "edgeFilter: not supported",
        ),
        (LINEAGE, "", 3, "the body must be a JSON object"),
        (LINEAGE, "", {"urns": "x"}, "urns must be a list"),
        (LINEAGE, "?direction=INCOMING", {}, "direction: 'INCOMING' is none of UPSTREAM, DOWN"),
        (LINEAGE, "?sliceId=x", {}, "sliceId: expected a whole number"),
    ],
)
def test_what_is_not_understood_is_named(
    client: RestClient, path: str, query: str, body: Any, message: str
) -> None:
    assert message in client.refused("POST", path + query, body)


def test_a_scroll_id_leads_on_in_its_own_list_only(client: RestClient) -> None:
    given = quote(client.ok("POST", f"{EDGES}?count=1", {})["scrollId"])
    reported = client.refused("POST", f"{EDGES}?count=1&relationshipTypes=x&scrollId={given}", {})
    assert "belongs to another search" in reported
