"""The field `lineage`: one hop of what an entity comes from or of what comes from it."""

from collections.abc import Mapping
from typing import Any, Final

from graphql import GraphQLResolveInfo

from mlcat_ingest.catalog.store.lineage import LineageWish
from mlcat_ingest.catalog.web.graphql.nodes import Node
from mlcat_ingest.catalog.web.graphql.resolvers.common import (
    Fields,
    context_of,
    nodes_in,
    page_of,
)

_COUNT: Final = 100


def _lineage(
    node: Node, info: GraphQLResolveInfo, **arguments: Mapping[str, Any]
) -> dict[str, Any]:
    wish = arguments["input"]
    start, count = page_of(wish, _COUNT, context_of(info).limits)
    page = node.cohort.lineage(
        node.urn,
        LineageWish(
            upstream=wish["direction"] == "UPSTREAM",
            start=start,
            count=count,
            ghosts=wish["includeGhostEntities"] is True,
        ),
    )
    others = nodes_in(info, (other.urn for other in page.entities))
    return {
        "start": start,
        "count": len(page.entities),
        "total": page.total,
        "filtered": page.hidden,
        "relationships": [
            {"type": other.relationship, "entity": others.get(other.urn), "degree": 1}
            for other in page.entities
        ],
    }


LINEAGE: Final[Fields] = {"lineage": _lineage}
"""The field of the interface EntityWithRelationships."""
