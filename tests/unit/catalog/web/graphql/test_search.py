"""Search over GraphQL: types, filters, sorting, facets and scrolling, as clients spell them."""

from typing import Any

import pytest

from mlcat_ingest.catalog.store.store import Store
from support.catalog_graphql import ask, refused
from support.catalog_store import MLFLOW, feature, group, model, put, statements, table

ADA = "urn:li:corpuser:ada"
ACROSS = """query ($input: SearchAcrossEntitiesInput!) { searchAcrossEntities(input: $input) {
    start count total searchResults { entity { urn } } } }"""
SCROLL = """query ($input: ScrollAcrossEntitiesInput!) { scrollAcrossEntities(input: $input) {
    nextScrollId count total searchResults { entity { urn } extraProperties { name } } } }"""


@pytest.fixture
def filled(store: Store) -> Store:
    put(store, ADA, corpUserInfo={"active": True, "displayName": "Ada L."})
    put(store, group("churn"), mlModelGroupProperties={"name": "Churn"})
    for name, metric in (("churn-a", "0.9"), ("churn-b", "0.7"), ("fraud", "0.8")):
        put(
            store,
            model(name),
            mlModelProperties={
                "description": "predicts",
                "trainingMetrics": [{"name": "auc", "value": metric}],
                "customProperties": {"team": "risk"},
            },
            ownership={"owners": [{"owner": ADA, "type": "NONE"}]},
        )
    put(store, model("old"), mlModelProperties={"name": "churn old"}, status={"removed": True})
    put(store, table("customers"), mlFeatureTableProperties={"description": "churn inputs"})
    put(store, feature("customers", "age"), mlFeatureProperties={})
    put(store, "urn:li:dataHubExecutionRequest:r", dataHubExecutionRequestInput={"task": "churn"})
    return store


def found(store: Store, **inputs: Any) -> list[str]:
    inputs.setdefault("query", "*")
    results = ask(store, ACROSS, input=inputs)["searchAcrossEntities"]["searchResults"]
    return [result["entity"]["urn"] for result in results]


def test_words_find_what_people_look_for(filled: Store) -> None:
    urns = found(filled, query="churn")
    assert urns[0] == group("churn")
    assert set(urns) == {group("churn"), model("churn-a"), model("churn-b"), table("customers")}


def test_what_the_service_keeps_for_itself_is_found_by_its_type(filled: Store) -> None:
    request = "urn:li:dataHubExecutionRequest:r"
    assert request not in found(filled, count=100)
    assert found(filled, types=["EXECUTION_REQUEST"]) == [request]
    about = [{"and": [{"field": "_entityType", "values": ["EXECUTION_REQUEST"]}]}]
    assert found(filled, orFilters=about) == [request]
    assert found(filled, types=["OTHER"]) == []


def test_a_search_of_one_type(filled: Store) -> None:
    query = """query ($input: SearchInput!) { search(input: $input) {
        total searchResults { entity { urn ... on MLModel { name } } } } }"""
    page = ask(filled, query, input={"type": "MLMODEL", "query": "fraud"})["search"]
    assert page["total"] == 1
    assert page["searchResults"] == [{"entity": {"urn": model("fraud"), "name": "fraud"}}]


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ([{"and": []}], ["churn-a", "churn-b", "fraud"]),
        ([], ["churn-a", "churn-b", "fraud"]),
        ([{}], ["churn-a", "churn-b", "fraud"]),
        ([{"and": [{"field": "metrics.auc", "values": ["0.75"], "condition": "GREATER_THAN"}]}],
         ["churn-a", "fraud"]),
        ([{"and": [{"field": "hasOwners", "values": ["true"]}]}], ["churn-a", "churn-b", "fraud"]),
        ([{"and": [{"field": "hasDescription", "condition": "EXISTS"}]}],
         ["churn-a", "churn-b", "fraud"]),
        ([{"and": [{"field": "hasDomain", "values": ["true"]}]}], []),
        ([{"and": [{"field": "hasOwners", "values": ["false"]}]}], []),
        ([{"and": [{"field": "removed", "values": ["false"]}]}], []),
        ([{"and": [{"field": "groups", "condition": "EXISTS"}]}], []),
        ([{"and": [{"field": "entityType", "values": ["MLMODEL"]}]}], []),
        ([{"and": [{"field": "created", "values": ["0"], "condition": "GREATER_THAN",
                    "negated": True}]}], ["churn-a", "churn-b", "fraud"]),
        ([{"and": [{"field": "name", "values": ["fraud", "churn-a"], "condition": "IN"}]}],
         ["churn-a", "fraud"]),
        ([{"and": [{"field": "name", "values": ["churn"], "condition": "START_WITH",
                    "negated": True}]}], ["fraud"]),
        ([{"and": [{"field": "name", "values": ["fraud"]}]},
          {"and": [{"field": "name", "values": ["churn-b"]}]}], ["churn-b", "fraud"]),
        ([{"and": [{"field": "customProperties", "values": ["team=risk"]},
                   {"field": "origin", "values": ["DEV"]}]}], []),
        ([{"and": [{"field": "platform.keyword", "values": [MLFLOW], "condition": "EQUAL"}]}],
         ["churn-a", "churn-b", "fraud"]),
    ],
)  # fmt: skip
def test_filters(filled: Store, filters: list[Any], names: list[str]) -> None:
    urns = found(filled, types=["MLMODEL"], orFilters=filters)
    assert sorted(urns) == [model(name) for name in names]


def test_the_deprecated_filters_hold_together(filled: Store) -> None:
    both = [{"field": "name", "values": ["fraud"]}, {"field": "owners", "values": [ADA]}]
    assert found(filled, filters=both) == [model("fraud")]
    assert (
        found(filled, filters=both, orFilters=[{"and": [both[1]]}], types=["MLMODEL_GROUP"]) == []
    )


def test_removed_entities_are_hidden_unless_asked_for(filled: Store) -> None:
    assert model("old") not in found(filled, count=100)
    assert model("old") in found(filled, count=100, searchFlags={"includeSoftDeleted": True})
    about = [{"and": [{"field": "removed", "values": ["true"]}]}]
    assert found(filled, orFilters=about) == [model("old")]
    without = [{"and": [{"field": "removed", "values": ["true"], "negated": True}]}]
    assert model("old") not in found(filled, orFilters=without, count=100)


@pytest.mark.parametrize("spelling", ["sortCriteria", "sortCriterion"])
def test_sorting(filled: Store, spelling: str) -> None:
    key: Any = {"field": "metrics.auc", "sortOrder": "ASCENDING"}
    inputs = {spelling: [key] if spelling == "sortCriteria" else key}
    names = [model(name) for name in ("churn-b", "fraud", "churn-a")]
    assert found(filled, types=["MLMODEL"], sortInput=inputs) == names
    key["sortOrder"] = "DESCENDING"
    assert found(filled, types=["MLMODEL"], sortInput=inputs) == names[::-1]


def test_pages(filled: Store) -> None:
    first = ask(filled, ACROSS, input={"query": "*", "start": "0", "count": "2"})
    page = first["searchAcrossEntities"]
    assert (page["start"], page["count"]) == (0, 2)
    page = ask(filled, ACROSS, input={"query": "fraud", "count": 7})["searchAcrossEntities"]
    assert (page["count"], page["total"]) == (7, 1)
    page = ask(filled, SCROLL, input={"query": "fraud", "count": 7})["scrollAcrossEntities"]
    assert (page["count"], page["total"]) == (1, 1)
    page = first["searchAcrossEntities"]
    everything = found(filled, count=10**9)
    assert len(everything) == page["total"]
    assert found(filled, start=2, count=3) == everything[2:5]
    assert found(filled, start=10**9) == []
    assert found(filled, count=0) == []
    for inputs in ({"start": -1}, {"count": -1}, {"searchFlags": {"maxAggValues": -1}}):
        error = refused(filled, ACROSS, input={"query": "*", **inputs})
        assert error["extensions"]["code"] == 400
        assert "negative" in error["message"]


def test_scrolling_meets_everything_once(filled: Store) -> None:
    met: list[str] = []
    inputs: dict[str, Any] = {"query": "*", "count": 2, "keepAlive": "5m"}
    while True:
        page = ask(filled, SCROLL, input=inputs)["scrollAcrossEntities"]
        met += [result["entity"]["urn"] for result in page["searchResults"]]
        if not page["nextScrollId"]:
            break
        inputs["scrollId"] = page["nextScrollId"]
    assert len(met) == len(set(met)) == page["total"]
    assert set(met) == set(found(filled, count=100))
    error = refused(filled, SCROLL, input={"query": "*", "scrollId": "made up"})
    assert (error["extensions"]["code"], error["extensions"]["type"]) == (400, "BAD_REQUEST")


def test_facets_name_what_they_count(filled: Store) -> None:
    query = """query ($input: SearchAcrossEntitiesInput!) { searchAcrossEntities(input: $input) {
        ...facets } }
        fragment facets on SearchResults { facets { field displayName aggregations {
            value count displayName entity { urn ... on CorpUser { username } } } } }"""
    inputs = {"query": "*", "searchFlags": {"maxAggValues": 2}}
    facets = ask(filled, query, input=inputs)["searchAcrossEntities"]["facets"]
    by_field = {facet["field"]: facet for facet in facets}
    assert by_field["_entityType"]["displayName"] == "Type"
    assert by_field["_entityType"]["aggregations"][0] == {
        "value": "MLMODEL",
        "count": 3,
        "displayName": None,
        "entity": None,
    }
    assert len(by_field["_entityType"]["aggregations"]) == 2
    assert by_field["owners"]["aggregations"] == [
        {
            "value": ADA,
            "count": 3,
            "displayName": "Ada L.",
            "entity": {"urn": ADA, "username": "ada"},
        }
    ]
    inputs["searchFlags"] = {"skipAggregates": True}
    assert ask(filled, query, input=inputs)["searchAcrossEntities"]["facets"] == []


def test_what_matched(filled: Store) -> None:
    query = """query ($input: SearchAcrossEntitiesInput!) { searchAcrossEntities(input: $input) {
        searchResults { matchedFields { name value } } } }"""
    inputs: dict[str, Any] = {"query": "fraud"}
    page = ask(filled, query, input=inputs)["searchAcrossEntities"]
    (result,) = page["searchResults"]
    assert {"name": "name", "value": "fraud"} in result["matchedFields"]
    inputs["searchFlags"] = {"skipHighlighting": True}
    (result,) = ask(filled, query, input=inputs)["searchAcrossEntities"]["searchResults"]
    assert result == {"matchedFields": []}


def test_a_page_of_results_is_read_together(filled: Store) -> None:
    query = ACROSS.replace(
        "entity { urn }",
        "entity { urn ... on MLModel { description ownership { owners { owner {"
        " ... on CorpUser { username properties { displayName } } } } } } }",
    )
    counts = []
    for more in (0, 40):
        for index in range(more):
            put(filled, model(f"more{index}"), mlModelProperties={}, ownership={"owners": [
                {"owner": ADA, "type": "NONE"}]})  # fmt: skip
        with statements(filled) as seen:
            ask(filled, query, input={"query": "*", "types": ["MLMODEL"], "count": 100})
        counts.append(len(seen))
    assert counts[0] == counts[1] <= 10


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ({"orFilters": [{"and": [{"field": "name", "values": ["x"]}]}] * 101}, "criteria"),
        ({"orFilters": [{"and": [{"field": "urn", "values": ["x"] * 10_001}]}]}, "values"),
        (
            {"sortInput": {"sortCriteria": [{"field": "urn", "sortOrder": "ASCENDING"}] * 11}},
            "sort fields; the limit is 10",
        ),
        (
            {"sortInput": {"sortCriterion": {"field": "created", "sortOrder": "ASCENDING"}}},
            "no entity has a field 'created'",
        ),
    ],
)
def test_a_search_that_asks_for_too_much_is_reported(
    store: Store, inputs: dict[str, Any], says: str
) -> None:
    error = refused(store, ACROSS, input={"query": "*", **inputs})
    assert says in error["message"]
    assert (error["extensions"]["code"], error["extensions"]["type"]) == (400, "BAD_REQUEST")


def test_versions_that_are_not_the_latest_are_found_where_that_is_asked_for(store: Store) -> None:
    for at in ("1", "2"):
        value = {
            "versionSet": "urn:li:versionSet:(churn,mlModel)",
            "version": {"versionTag": at},
            "sortId": at,
        }
        put(store, model(f"churn-{at}"), mlModelProperties={}, versionProperties=value)
    put(store, model("churn-run"), mlModelProperties={})
    old, others = model("churn-1"), {model("churn-2"), model("churn-run")}
    both = {"searchFlags": {"filterNonLatestVersions": False}}
    models = {"orFilters": [{"and": [{"field": "_entityType", "values": ["MLMODEL"]}]}]}
    for inputs in ({"query": "churn"}, {"query": "*"}):
        # Only a search with a filter looks at the versions, as on a DataHub server.
        assert set(found(store, **inputs)) == {old, *others}
        assert set(found(store, **inputs, **models)) == others
        assert set(found(store, **inputs, **models, **both)) == {old, *others}
    for flags, urns in (({}, others), (both, {old, *others})):
        page = ask(store, SCROLL, input={"query": "*", **models, **flags})["scrollAcrossEntities"]
        assert {hit["entity"]["urn"] for hit in page["searchResults"]} == urns
    is_latest = [{"and": [{"field": "isLatest", "values": ["true"]}]}]
    assert found(store, orFilters=is_latest) == [model("churn-2")]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("/q churn OR fraud", "ab"),
        ("/q fra* OR nothing", "b"),
        ("/q leav* NOT churn", "c"),
        ("/q customer+leaves", "c"),
        ("/q tag:pii", "c"),
        ("/q (churn OR leaves) AND tags:pii", "c"),
        ("churn OR fraud", ""),
        ("about AND churn", "a"),
        ("the churn", "a"),
        ("of", ""),
        ('"fraud or not"', "b"),
        ("fra*", "b"),
        ("*raud", ""),
        ("f*d about", ""),
    ],
)
def test_a_query_in_the_syntax_of_elasticsearch(store: Store, query: str, names: str) -> None:
    put(store, model("a"), mlModelProperties={"description": "about churn"})
    put(store, model("b"), mlModelProperties={"description": "fraud or not"})
    put(
        store,
        model("c"),
        mlModelProperties={"description": "a customer who leaves"},
        globalTags={"tags": [{"tag": "urn:li:tag:pii"}]},
    )
    page = ask(store, ACROSS, input={"query": query, "types": ["MLMODEL"]})["searchAcrossEntities"]
    assert {one["entity"]["urn"] for one in page["searchResults"]} == {*map(model, names)}


@pytest.mark.parametrize(
    ("field", "value", "urn"),
    [
        ("browsePathV2", "␟eu", model("m")),
        ("browsePathV2", "␟eu␟churn", model("m")),
        ("browsePathV2", "␟churn", None),
        ("browsePathV2", "eu", None),
        ("featureNamespace", "customers", feature("customers", "age")),
        ("featureNamespace", "custom", None),
        ("features", feature("customers", "age"), table("customers")),
        ("mlFeatures", feature("customers", "age"), None),
        ("deprecated", "false", model("m")),
        ("deprecated", "true", None),
        ("removed", "false", model("m")),
        ("tags", "urn:li:tag:gold", model("m")),
        ("tags", "status:FINISHED", None),
    ],
)
def test_fields_of_datahubs_index(store: Store, field: str, value: str, urn: str | None) -> None:
    age = put(store, feature("customers", "age"), mlFeatureProperties={})
    put(store, table("customers"), mlFeatureTableProperties={"mlFeatures": [age]})
    put(
        store,
        model("m"),
        mlModelProperties={"mlFeatures": [age], "tags": ["status:FINISHED"]},
        globalTags={"tags": [{"tag": "urn:li:tag:gold"}]},
        browsePathsV2={"path": [{"id": "eu"}, {"id": "churn"}]},
        deprecation={"deprecated": False, "note": "", "actor": ADA},
        status={"removed": False},
    )
    filters = [{"and": [{"field": field, "values": [value]}]}]
    assert found(store, orFilters=filters) == ([] if urn is None else [urn])
    assert found(store, query="finished") == [model("m")]


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        ("(churn", "is not closed"),
        ("experiment:churn", "no field `experiment`; did you mean `group`?"),
        ("metrics.auc>high", "metrics.auc is compared with a number"),
    ],
)
def test_a_query_that_is_not_understood_names_the_fault(
    store: Store, query: str, fault: str
) -> None:
    text = f'{{ searchAcrossEntities(input: {{query: "/q {query}"}}) {{ total }} }}'
    assert fault in refused(store, text)["message"]
