"""Lists of entities: `scroll`, the list of one type, and the search of Rest.li."""

import base64
import json
from typing import Any
from urllib.parse import quote

import pytest

from mlcat_ingest.catalog.limits import SEARCH_CRITERIA, SEARCH_PATTERNS, SEARCH_VALUES, SORT_KEYS
from support.catalog_store import feature, group, model, put
from support.rest_client import RestClient

SCROLL = "/openapi/v3/entity/scroll"
MODELS = "/openapi/v3/entity/mlModel"
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


def urns(page: Any) -> list[str]:
    return [entity["urn"] for entity in page["entities"]]


def test_pages_lead_to_each_other_in_the_order_of_urns(client: RestClient) -> None:
    found: list[str] = []
    scroll_id = ""
    for _ in range(10):
        page = client.ok("POST", f"{SCROLL}?count=2{scroll_id}", {})
        found += urns(page)
        assert page["totalCount"] == 5
        if page["scrollId"] is None:
            break
        scroll_id = f"&scrollId={quote(page['scrollId'])}"
    assert found == sorted([model("a"), model("b"), model("c"), group("g"), feature("t", "x")])


def test_aspects_are_shown_as_asked_for(client: RestClient) -> None:
    by_urn = {"filter": {"or": [{"and": [{"field": "urn", "value": model("a")}]}]}}
    [urn_alone] = client.ok("POST", SCROLL, by_urn)["entities"]
    assert urn_alone == {"urn": model("a")}
    [whole] = client.ok("POST", SCROLL, {**by_urn, "aspects": []})["entities"]
    assert {"mlModelKey", "mlModelProperties"} <= set(whole)
    some = {**by_urn, "aspects": ["mlModelProperties", "status"]}
    [part] = client.ok("POST", f"{SCROLL}?systemMetadata=true", some)["entities"]
    assert set(part) == {"urn", "mlModelProperties"}
    assert part["mlModelProperties"]["systemMetadata"]["version"] == "1"


def test_what_is_searched_is_narrowed_by_types_queries_and_filters(client: RestClient) -> None:
    def found(query: str = "*", **body: Any) -> list[str]:
        return urns(client.ok("POST", f"{SCROLL}?query={quote(query)}", body))

    assert found(entities=["mlModelGroup", "mlfeature"]) == [feature("t", "x"), group("g")]
    assert found("churn b") == [model("b")]
    assert found('name:"churn b"') == [model("b")]
    assert found("urn:urn\\:li\\:mlFeature*") == [feature("t", "x")]
    assert found(model("b")) == [model("b")]
    assert found(f'urn:"{model("a")}"') == [model("a")]
    assert found("name:churn*", entities=["mlModelGroup"]) == [group("g")]
    in_group = {"field": "groups", "values": [group("g")], "condition": "EQUAL"}
    named = {"field": "name", "values": ["churn a"], "negated": True}
    both = {"and": [{"criteria": [in_group, named]}]}
    assert found(filter=both) == [model("b"), model("c")]
    assert found("churn c", filter=both) == [model("c")]
    either = {"and": [{"criteria": [{"field": "name", "values": [f"churn {n}"]}]} for n in "ab"]}
    assert found(filter=either) == [model("a"), model("b")]
    assert found("NOT name:churn*", entities=["mlModel"]) == []
    assert len(found("*", filter={"and": [{"criteria": []}]})) == 5


def test_removed_entities_are_found_where_asked_for(client: RestClient) -> None:
    page = client.ok("GET", f"{MODELS}?includeSoftDelete=true&query=urn:*gone*")
    assert urns(page) == [model("gone")]
    assert client.ok("GET", f"{MODELS}?query=urn:*gone*")["totalCount"] == 0


@pytest.mark.parametrize(
    ("query", "order"),
    [
        ("", "abc"),
        ("?sortOrder=DESCENDING", "cba"),
        ("?sortCriteria=name&sortOrder=descending", "cba"),
        ("?sort=urn&sortOrder=ASCENDING", "abc"),
        ("?sortCriteria=created", "cab"),
    ],
)
def test_a_list_is_sorted(client: RestClient, query: str, order: str) -> None:
    page = client.ok("GET", f"{MODELS}{query}")
    assert urns(page) == [model(name) for name in order]
    assert "mlModelProperties" in page["entities"][0]


def test_the_body_says_how_to_sort_too(client: RestClient) -> None:
    sort = [{"field": "name", "order": "DESCENDING"}, {"field": "urn"}]
    page = client.ok("POST", SCROLL, {"entities": ["mlModel"], "sortCriteria": sort})
    assert urns(page) == [model("c"), model("b"), model("a")]


def test_a_list_shows_the_aspects_it_names(client: RestClient) -> None:
    page = client.ok("GET", f"{MODELS}?aspects=mlModelKey&count=1")
    assert [set(entity) for entity in page["entities"]] == [{"urn", "mlModelKey"}]
    assert len(client.ok("GET", "/openapi/v3/entity/mlmodel")["entities"]) == 3


def test_facets_count_values(client: RestClient) -> None:
    facets = client.ok("GET", f"{MODELS}?skipAggregation=false")["facets"]
    by_name = {facet["name"]: facet["aggregations"] for facet in facets}
    assert by_name["platform"] == {"urn:li:dataPlatform:mlflow": 3}
    assert by_name["_entityType"] == {"mlModel": 3}


def test_slices_together_are_everything_once(client: RestClient) -> None:
    found = [
        urn
        for at in range(3)
        for urn in urns(client.ok("POST", f"{SCROLL}?sliceId={at}&sliceMax=3", {}))
    ]
    assert len(found) == len(set(found)) == 5


def test_an_empty_body_asks_for_everything(client: RestClient) -> None:
    assert client.ok("POST", SCROLL)["totalCount"] == 5


@pytest.mark.parametrize(
    ("query", "body", "message"),
    [
        ("", [], "the body must be a JSON object"),
        ("", {"entities": ["nothing"]}, "entities: 'nothing' is not an entity type"),
        ("", {"entities": "mlModel"}, "entities must be a list"),
        ("", {"aspects": [3]}, "aspects[0]: expected a string"),
        ("", {"filter": []}, "filter must be a JSON object"),
        ("", {"filter": {"or": {}}}, "filter.or must be a list"),
        ("", {"filter": {"and": [3]}}, "filter.and[0] must be a JSON object"),
        ("", {"filter": {"criteria": [{}]}}, "filter.criteria[0].field: the parameter is missing"),
        (
            "",
            {"filter": {"or": [{"and": [{"field": "x", "condition": "LIKE"}]}]}},
            "filter.or[0].and[0].condition: 'LIKE' is none of",
        ),
        (
            "",
            {"filter": {"or": [{"and": [{"field": "x", "values": [3]}]}]}},
            "filter.or[0].and[0].values[0]: expected a string",
        ),
        (
            "",
            {"filter": {"or": [{"and": [{"field": "x", "negated": "no"}]}]}},
            "filter.or[0].and[0].negated: expected true or false",
        ),
        ("", {"sortCriteria": [{}]}, "sortCriteria[0].field: the parameter is missing"),
        ("", {"sortCriteria": [3]}, "sortCriteria[0] must be a JSON object"),
        ("", {"sortCriteria": [{"field": "x"}] * (SORT_KEYS + 1)}, "sortCriteria has 11 items"),
        (
            "",
            {"sortCriteria": [{"field": "urn", "order": "UP"}]},
            "sortCriteria[0].order: 'UP' is none of ASCENDING, DESCENDING",
        ),
        ("?sort=" + "x," * 11, {}, "sort fields; the limit is 10"),
        ("?sortOrder=x", {}, "sortOrder: 'x' is none of"),
        ("?count=x", {}, "count: expected a whole number"),
        ("?count=-1", {}, "count: expected a whole number"),
        ("?includeSoftDelete=x", {}, "includeSoftDelete: expected true or false"),
        ("?sliceId=x", {}, "sliceId: expected a whole number"),
        ("?query=(((", {}, "query: syntax error at its end"),
        ("?scrollId=x", {}, "invalid scroll id"),
        ("?scrollId=bnVsbA==", {}, "the scroll id belongs to another search"),
    ],
)
def test_what_is_not_understood_is_named(
    client: RestClient, query: str, body: Any, message: str
) -> None:
    assert message in client.refused("POST", SCROLL + query, body)


def test_a_filter_is_no_larger_than_the_limits(client: RestClient) -> None:
    def refused(*criteria: Any) -> str:
        return client.refused("POST", SCROLL, {"filter": {"or": [{"and": list(criteria)}]}})

    one = {"field": "name", "value": "nobody"}
    assert "the limit is 100" in refused(*[one] * (SEARCH_CRITERIA + 1))
    patterns = {"values": ["x"] * (SEARCH_PATTERNS + 1), "condition": "CONTAIN"}
    assert "too many patterns; the limit is 100" in refused({"field": "name", **patterns})
    long = {"field": "name", "value": "x" * 1_001, "condition": "CONTAIN"}
    assert "too long; the limit is 1000" in refused(long)
    many = {"field": "name", "values": ["x"] * (SEARCH_VALUES - SEARCH_CRITERIA)}
    assert "too many values; the limit is 10000" in refused(many, many)
    answer = client.ok(
        *("POST", SCROLL, {"filter": {"or": [{"and": [many, *[one] * (SEARCH_CRITERIA - 1)]}]}})
    )
    assert answer["entities"] == []
    spread = {"or": [{"and": [one, one]}] * (SEARCH_CRITERIA // 2 + 1)}
    assert "criteria" in client.refused("POST", SCROLL, {"filter": spread})


def forged_scroll(client: RestClient, place: Any) -> str:
    """Return the address of a scroll whose id names `place`, which no search gave."""
    given = client.ok("POST", f"{SCROLL}?count=1", {})["scrollId"]
    [mark, *values] = json.loads(base64.urlsafe_b64decode(given))
    forged = base64.urlsafe_b64encode(json.dumps([mark, *[place] * len(values)]).encode()).decode()
    return f"{SCROLL}?count=5&scrollId={quote(forged)}"


@pytest.mark.parametrize("place", [{}, [], True, 2**70])
def test_a_forged_scroll_id_without_sort_values_is_refused(client: RestClient, place: Any) -> None:
    answer = client.send("POST", forged_scroll(client, place), {})
    assert answer.status == 400
    assert "invalid scroll id" in answer.body.decode()


@pytest.mark.parametrize("place", ["x", None, 1e300, -1])
def test_a_forged_scroll_id_with_sort_values_shows_nothing_else(
    client: RestClient, place: Any
) -> None:
    everything = urns(client.ok("POST", f"{SCROLL}?count=5", {}))
    page = client.ok("POST", forged_scroll(client, place), {})
    assert set(urns(page)) <= set(everything)
    assert page["totalCount"] == 5


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
    # Where there is no filter, a DataHub server does not leave out versions on these paths.
    assert {old, new} <= set(urns(client.ok("GET", f"{MODELS}?count=100")))
    assert {old, new} <= set(urns(client.ok("POST", f"{SCROLL}?count=100", {})))
    models = {"or": [{"and": [{"field": "_entityType", "value": "mlModel"}]}]}
    found = urns(client.ok("POST", f"{SCROLL}?count=100", {"filter": models}))
    assert new in found
    assert old not in found
