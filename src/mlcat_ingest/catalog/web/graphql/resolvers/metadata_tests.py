"""The fields of metadata tests."""

from collections.abc import Mapping
from typing import Any, Final

from graphql import GraphQLResolveInfo

from mlcat_ingest.catalog.schema.values import Direction
from mlcat_ingest.catalog.web.graphql.loader import Edges
from mlcat_ingest.catalog.web.graphql.nodes import Node, Record
from mlcat_ingest.catalog.web.graphql.resolvers.common import Fields, entry_entity, record_list
from mlcat_ingest.metadata.aspects.assets import TEST_INFO, TEST_RESULTS

_OUTCOMES: Final = {"passingCount": "IsPassing", "failingCount": "IsFailing"}


def _name(node: Node, _info: GraphQLResolveInfo) -> Any:
    return (node.aspect(TEST_INFO) or {}).get("name") or node.part(0)


def _category(node: Node, _info: GraphQLResolveInfo) -> Any:
    return (node.aspect(TEST_INFO) or {}).get("category") or ""


def _definition(node: Node, _info: GraphQLResolveInfo) -> Record:
    return Record(node, (node.aspect(TEST_INFO) or {}).get("definition") or {})


def _results(node: Node, _info: GraphQLResolveInfo) -> Mapping[str, int]:
    return {
        field: node.cohort.related(
            node.urn, Edges(frozenset({relationship}), Direction.INCOMING, 0, 0)
        ).total
        for field, relationship in _OUTCOMES.items()
    }


_named_test = entry_entity(TEST_RESULTS, "test", "passing", "failing")


def _test_that_exists(record: Record, info: GraphQLResolveInfo) -> Node | None:
    node: Node | None = _named_test(record, info)
    return node if node is not None and node.cohort.exists(node.urn) else None


METADATA_TESTS: Final[Mapping[str, Fields]] = {
    "Test": {
        "name": _name,
        "category": _category,
        "definition": _definition,
        "results": _results,
    },
    "TestResults": {"passing": record_list("passing"), "failing": record_list("failing")},
    "TestResult": {"test": _test_that_exists},
}
"""The fields of tests and their outcomes."""
