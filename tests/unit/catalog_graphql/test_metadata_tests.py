"""Metadata tests over GraphQL: written, changed, listed, counted, deleted."""

from typing import Any

import pytest

from mlcat_ingest.catalog.store.store import Store
from support.catalog_graphql import ask, refused
from support.catalog_store import model, put

RULES = '{ "on": {"types": ["mlModel"]},\n "rules": [{"query": "urn", "operation": "exists"}] }'
CREATE = "mutation ($input: CreateTestInput!) { createTest(input: $input) }"
UPDATE = (
    "mutation ($urn: String!, $input: UpdateTestInput!) { updateTest(urn: $urn, input: $input) }"
)
DELETE = "mutation ($urn: String!) { deleteTest(urn: $urn) }"
READ = """query ($urn: String!) { test(urn: $urn) {
    name category description definition { json } results { passingCount failingCount } } }"""
LIST = "query ($input: ListTestsInput!) { listTests(input: $input) {start count total tests {urn}}}"


def made(store: Store, name: str, **more: Any) -> Any:
    wish = {"name": name, "category": "quality", "definition": {"json": RULES}, **more}
    return ask(store, CREATE, input=wish)["createTest"]


def test_a_test_is_created_changed_and_deleted(store: Store) -> None:
    urn = made(store, "First", id="one", description="says")
    assert urn == "urn:li:test:one"
    assert ask(store, READ, urn=urn)["test"] == {
        "name": "First",
        "category": "quality",
        "description": "says",
        "definition": {"json": RULES},
        "results": {"passingCount": 0, "failingCount": 0},
    }
    changed = {"name": "Second", "category": "c", "definition": {"json": RULES}}
    assert ask(store, UPDATE, urn=urn, input=changed) == {"updateTest": urn}
    now = ask(store, READ, urn=urn)["test"]
    assert (now["name"], now["description"]) == ("Second", None)
    assert ask(store, DELETE, urn=urn) == {"deleteTest": True}
    assert ask(store, READ, urn=urn) == {"test": None}


def test_an_id_is_made_up_where_none_is_given(store: Store) -> None:
    first, second = made(store, "a"), made(store, "b")
    assert first != second
    assert first.startswith("urn:li:test:")


def test_results_count_the_entities_that_passed_and_failed(store: Store) -> None:
    urn = made(store, "t")
    for index in range(3):
        outcome = {"test": urn, "type": "FAILURE" if index else "SUCCESS"}
        results = {"passing": [], "failing": [outcome]} if index else {
            "passing": [outcome], "failing": []}  # fmt: skip
        put(store, model(f"m{index}"), testResults=results)
    assert ask(store, READ, urn=urn)["test"]["results"] == {"passingCount": 1, "failingCount": 2}


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"definition": {"json": '{"on": {"types": ["mlModel"]}}'}}, "definition.json: rules"),
        ({"definition": {"json": "{"}}, "definition.json: is"),
        ({"definition": {}}, "definition.json"),
        ({"id": "a(b"}, "entityUrn"),
    ],
)
def test_what_cannot_be_a_test_is_told_by_its_field(
    store: Store, changed: dict[str, Any], says: str
) -> None:
    wish = {"name": "t", "category": "c", "definition": {"json": RULES}, **changed}
    error = refused(store, CREATE, input=wish)
    assert says in error["message"]
    assert error["path"] == ["createTest"]
    assert error["extensions"] == {"code": 422, "type": "BAD_REQUEST"}
    assert ask(store, LIST, input={})["listTests"]["total"] == 0


def test_a_test_is_not_created_twice(store: Store) -> None:
    made(store, "t", id="one")
    wish = {"id": "one", "name": "other", "category": "c", "definition": {"json": RULES}}
    assert "already exists" in refused(store, CREATE, input=wish)["message"]


@pytest.mark.parametrize("query", [UPDATE, DELETE])
def test_what_is_not_there_cannot_be_changed(store: Store, query: str) -> None:
    wish = {"name": "t", "category": "c", "definition": {"json": RULES}}
    variables = {"input": wish} if query == UPDATE else {}
    error = refused(store, query, urn="urn:li:test:no", **variables)
    assert error["extensions"] == {"code": 404, "type": "NOT_FOUND"}
    error = refused(store, query, urn=model("m"), **variables)
    assert "not the URN of a test" in error["message"]


def test_tests_are_listed_by_page_and_word(store: Store) -> None:
    urns = [made(store, name, id=name) for name in ("owned", "described", "fresh")]
    assert ask(store, LIST, input={"start": "1", "count": 1})["listTests"] == {
        "start": 1,
        "count": 1,
        "total": 3,
        "tests": [{"urn": urns[1]}],
    }
    assert ask(store, LIST, input={"query": "DESC"})["listTests"]["total"] == 1
    assert ask(store, LIST, input={"query": "*"})["listTests"]["total"] == 3
