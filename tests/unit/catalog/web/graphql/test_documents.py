"""Documents, and the AI entity types that DataHub's GraphQL does not know."""

from typing import Any

from mlcat_ingest.catalog.store.store import Store
from support.catalog_assets import AGENT, MODEL, PROMPT, SERVER, SKILL, TOOLS, put_assets
from support.catalog_graphql import ask, read
from support.catalog_store import model, put

ADA = {"urn": "urn:li:corpuser:ada"}
STAMP = {"time": 1_780_000_000_000, "actor": ADA}
OTHER = "urn:li:document:other"
RELATED = """... on MLModel { relatedDocuments(input: {start: 0, count: 1}) {
    start count total documents { urn info { title } } } }"""
SEARCH = """query ($text: String!, $filters: [AndFilterInput!]) {
    searchAcrossEntities(input: {query: $text, orFilters: $filters}) {
        total searchResults { entity { urn type } } } }"""


def put_other(store: Store, *, removed: bool = False) -> None:
    info = {
        "title": "Other",
        "status": {"state": "UNPUBLISHED"},
        "contents": {"text": "more"},
        "created": {"time": 1, "actor": ADA["urn"]},
        "lastModified": {"time": 2, "actor": ADA["urn"]},
        "source": {"sourceType": "EXTERNAL", "externalUrl": "https://wiki.example/o"},
        "relatedAssets": [{"asset": MODEL}],
        "relatedDocuments": [{"document": PROMPT}],
        "parentDocument": {"document": PROMPT},
    }
    settings = {"showInGlobalContext": False}
    put(store, OTHER, documentInfo=info, documentSettings=settings, status={"removed": removed})


def found(store: Store, text: str, **variables: Any) -> set[str]:
    page = ask(store, SEARCH, text=text, **variables)["searchAcrossEntities"]
    return {one["entity"]["urn"] for one in page["searchResults"]}


def test_a_document(store: Store) -> None:
    put_assets(store)
    put_other(store)
    fields = """... on Document {
        subType platform { name } settings { showInGlobalContext } ownership { owners { type } }
        info { title contents { text } status { state } source { sourceType externalUrl }
            created { time actor { urn } } lastModified { time } customProperties { key value }
            relatedAssets { asset { urn type } } relatedDocuments { document { urn } }
            parentDocument { document { urn } } } }"""
    prompt = read(store, PROMPT, fields)
    assert (prompt["subType"], prompt["platform"]["name"]) == ("Prompt", "mlflow")
    assert prompt["ownership"] == {"owners": [{"type": "TECHNICAL_OWNER"}]}
    info = prompt["info"]
    assert info["contents"]["text"].startswith("What to pack for {{city}}?")
    assert info["created"] == STAMP
    assert {"key": "task", "value": "chat"} in info["customProperties"]
    assert info["relatedAssets"] == [{"asset": {"urn": MODEL, "type": "MLMODEL"}}]
    assert info["relatedDocuments"] is info["parentDocument"] is info["source"] is None
    other = read(store, OTHER, fields)
    assert other["settings"] == {"showInGlobalContext": False}
    info = other["info"]
    assert info["status"] == {"state": "UNPUBLISHED"}
    assert info["source"] == {"sourceType": "EXTERNAL", "externalUrl": "https://wiki.example/o"}
    assert info["relatedDocuments"] == [info["parentDocument"]] == [{"document": {"urn": PROMPT}}]


def test_the_documents_of_a_model(store: Store) -> None:
    put_assets(store)
    put_other(store)
    page = read(store, MODEL, RELATED)["relatedDocuments"]
    assert (page["start"], page["count"], page["total"]) == (0, 1, 2)
    assert page["documents"] == [{"urn": PROMPT, "info": {"title": "Packing"}}]
    put_other(store, removed=True)
    assert read(store, MODEL, RELATED)["relatedDocuments"]["total"] == 1
    none = {"start": 0, "count": 1, "total": 0, "documents": []}
    assert read(store, model("none"), RELATED)["relatedDocuments"] == none


def test_types_that_graphql_does_not_know_are_null_and_not_found(store: Store) -> None:
    put_assets(store)
    urns = [SERVER, *TOOLS, SKILL, AGENT, PROMPT]
    query = "query ($urns: [String!]!) { entities(urns: $urns) { urn type } }"
    *unknown, prompt = ask(store, query, urns=urns)["entities"]
    assert (unknown, prompt["type"]) == ([None] * 5, "DOCUMENT")
    assert [read(store, urn, "urn __typename") for urn in urns[:-1]] == [None] * 5
    assert found(store, "forecast") == set()
    assert found(store, "packing") == {PROMPT}
    typed = {"field": "_entityType", "values": ["service", "api"]}
    assert found(store, "*", filters=[{"and": [typed]}]) == set()
    fields = """... on MLModel { relationships(input: {types: ["AgentUsesModel"],
        direction: INCOMING}) { total relationships { type entity { urn } } } }"""
    incoming = read(store, MODEL, fields)["relationships"]
    assert incoming["relationships"] == [{"type": "AgentUsesModel", "entity": None}]
