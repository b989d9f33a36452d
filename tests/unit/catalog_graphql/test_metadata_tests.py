"""Metadata tests over GraphQL: how many entities passed and failed."""

from mlcat_ingest.catalog.store.store import Store
from support.catalog_graphql import read
from support.catalog_store import model, put

RULES = '{ "on": {"types": ["mlModel"]},\n "rules": [{"query": "urn", "operation": "exists"}] }'
FIELDS = "... on Test { results { passingCount failingCount } }"


def test_results_count_the_entities_that_passed_and_failed(store: Store) -> None:
    info = {"name": "t", "category": "quality", "definition": {"type": "JSON", "json": RULES}}
    urn = put(store, "urn:li:test:t", testInfo=info)
    assert read(store, urn, FIELDS)["results"] == {"passingCount": 0, "failingCount": 0}
    for index in range(3):
        outcome = {"test": urn, "type": "FAILURE" if index else "SUCCESS"}
        results = {"passing": [], "failing": [outcome]} if index else {
            "passing": [outcome], "failing": []}  # fmt: skip
        put(store, model(f"m{index}"), testResults=results)
    assert read(store, urn, FIELDS)["results"] == {"passingCount": 1, "failingCount": 2}
