"""The fields and changes of metadata tests."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import uuid4

from graphql import GraphQLResolveInfo

from mlcat_ingest.catalog.graphql.loader import Edges
from mlcat_ingest.catalog.graphql.nodes import Node, Record
from mlcat_ingest.catalog.graphql.resolvers.common import (
    Fields,
    bad_request,
    context_of,
    entry_entity,
    nodes_in,
    not_found,
    page_of,
    record_list,
)
from mlcat_ingest.catalog.graphql.resolvers.search import run_search
from mlcat_ingest.catalog.search.request import MATCH_ALL, SearchRequest
from mlcat_ingest.catalog.store.values import Change, Direction, Write
from mlcat_ingest.metadata.urn import PREFIX

_PREFIX: Final = f"{PREFIX}test:"
_COUNT: Final = 20
_OUTCOMES: Final = {"passingCount": "IsPassing", "failingCount": "IsFailing"}


def _name(node: Node, _info: GraphQLResolveInfo) -> Any:
    return (node.aspect("testInfo") or {}).get("name") or node.part(0)


def _category(node: Node, _info: GraphQLResolveInfo) -> Any:
    return (node.aspect("testInfo") or {}).get("category") or ""


def _definition(node: Node, _info: GraphQLResolveInfo) -> Record:
    return Record(node, (node.aspect("testInfo") or {}).get("definition") or {})


def _results(node: Node, _info: GraphQLResolveInfo) -> Mapping[str, int]:
    return {
        field: node.cohort.related(
            node.urn, Edges(frozenset({relationship}), Direction.INCOMING, 0, 0)
        ).total
        for field, relationship in _OUTCOMES.items()
    }


_named_test = entry_entity("testResults", "test", "passing", "failing")


def _test_that_exists(record: Record, info: GraphQLResolveInfo) -> Node | None:
    node: Node | None = _named_test(record, info)
    return node if node is not None and node.cohort.exists(node.urn) else None


def _list_tests(
    _root: Any, info: GraphQLResolveInfo, **arguments: Mapping[str, Any]
) -> dict[str, Any]:
    wish = arguments["input"]
    start, count = page_of(wish, _COUNT, context_of(info).limits)
    request = SearchRequest(
        wish.get("query") or MATCH_ALL, frozenset({"test"}), start=start, count=count
    )
    page = run_search(info, request)
    nodes = nodes_in(info, (hit.urn for hit in page.hits))
    return {
        "start": start,
        "count": len(page.hits),
        "total": page.total,
        "tests": list(nodes.values()),
    }


def _create(_root: Any, info: GraphQLResolveInfo, **arguments: Mapping[str, Any]) -> str:
    wish = arguments["input"]
    return _write(info, f"{_PREFIX}{wish.get('id') or uuid4()}", wish, "CREATE_ENTITY")


def _update(_root: Any, info: GraphQLResolveInfo, urn: str, **arguments: Mapping[str, Any]) -> str:
    _check_exists(info, urn)
    return _write(info, urn, arguments["input"], "UPSERT")


def _delete(_root: Any, info: GraphQLResolveInfo, urn: str) -> bool:
    _check_exists(info, urn)
    context_of(info).store.delete(urn)
    return True


def _check_exists(info: GraphQLResolveInfo, urn: str) -> None:
    if not urn.startswith(_PREFIX):
        raise bad_request(f"{urn!r} is not the URN of a test")
    if urn not in context_of(info).store.exists([urn]):
        raise not_found(urn)


def _write(info: GraphQLResolveInfo, urn: str, wish: Mapping[str, Any], change: Change) -> str:
    definition = {"type": "JSON", "json": wish["definition"].get("json")}
    value = {"name": wish["name"], "category": wish["category"], "definition": definition}
    if wish.get("description") is not None:
        value["description"] = wish["description"]
    context_of(info).store.write([Write(urn, "testInfo", value, change)])
    return urn


METADATA_TESTS: Final[Mapping[str, Fields]] = {
    "Test": {
        "name": _name,
        "category": _category,
        "definition": _definition,
        "results": _results,
    },
    "TestResults": {"passing": record_list("passing"), "failing": record_list("failing")},
    "TestResult": {"test": _test_that_exists},
    "Query": {"listTests": _list_tests},
    "Mutation": {"createTest": _create, "updateTest": _update, "deleteTest": _delete},
}
"""The fields of tests and their outcomes, and the ways to change them."""
