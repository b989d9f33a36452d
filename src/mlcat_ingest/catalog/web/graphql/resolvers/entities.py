"""The fields that entities have in common."""

from collections.abc import Mapping
from typing import Any, Final

from graphql import GraphQLResolveInfo

from mlcat_ingest.catalog.schema.values import Direction
from mlcat_ingest.catalog.web.graphql.kinds import kind_of
from mlcat_ingest.catalog.web.graphql.loader import Cohort, Edges
from mlcat_ingest.catalog.web.graphql.nodes import Node, Record
from mlcat_ingest.catalog.web.graphql.resolvers.common import (
    Fields,
    Resolver,
    aspect,
    bad_request,
    context_of,
    nodes_in,
    page_of,
    part,
)
from mlcat_ingest.metadata.aspects.assets import TEST_RESULTS
from mlcat_ingest.metadata.aspects.common import DATA_PLATFORM_INSTANCE, STATUS
from mlcat_ingest.metadata.codec import dumps
from mlcat_ingest.metadata.urn import PREFIX

_RELATIONSHIPS_COUNT: Final = 100
_MOST_TYPES: Final = 100
_PLATFORM: Final = f"{PREFIX}dataPlatform:"
# The first part of these URNs is the bare name of a platform.
_NAMED_PLATFORM: Final = frozenset({"chart", "dashboard", "dataFlow"})

_PRIVILEGES: Final = {
    f"can{what}": True
    for what in (
        "EditDeprecation",
        "EditDescription",
        "EditDomains",
        "EditEmbed",
        "EditGlossaryTerms",
        "EditLineage",
        "EditLinks",
        "EditOwners",
        "EditProperties",
        "EditQueries",
        "EditTags",
        "ManageChildren",
        "ManageEntity",
    )
}


def properties(node: Node, _info: GraphQLResolveInfo) -> Record | None:
    """Return the properties aspect of an entity."""
    return None if node.kind.properties is None else node.record(node.kind.properties)


def property_of_entity(field: str) -> Resolver:
    """Return the resolver that gives one field of the entity's properties aspect."""

    def resolve(node: Node, _info: GraphQLResolveInfo) -> Any:
        value = None if node.kind.properties is None else node.aspect(node.kind.properties)
        return None if value is None else value.get(field)

    return resolve


def custom_properties(record: Record, _info: GraphQLResolveInfo) -> list[Record] | None:
    """Return the map as a list of entries, in stored order; None where it is unset."""
    value = record.value.get("customProperties")
    if not isinstance(value, dict):
        return None
    return [Record(record.node, {"key": key, "value": item}) for key, item in value.items()]


def _editable(node: Node, _info: GraphQLResolveInfo) -> Record | None:
    return None if node.kind.editable is None else node.record(node.kind.editable)


def _urn(node: Node, _info: GraphQLResolveInfo) -> str:
    return node.urn


def _type(node: Node, _info: GraphQLResolveInfo) -> str:
    return node.kind.enum


def _exists(node: Node, _info: GraphQLResolveInfo) -> bool:
    return node.cohort.exists(node.urn)


def _last_ingested(node: Node, _info: GraphQLResolveInfo) -> int | None:
    stored = node.cohort.aspects(node.urn).values()
    observed = (aspect.system_metadata.get("lastObserved") for aspect in stored)
    return max((time for time in observed if isinstance(time, int)), default=None)


def _platform(node: Node, _info: GraphQLResolveInfo) -> Node | None:
    urn = node.part(0)
    if node.kind.entity_type in _NAMED_PLATFORM:
        urn = f"{_PLATFORM}{urn}"
    elif not urn.startswith(_PLATFORM):
        urn = (node.aspect(DATA_PLATFORM_INSTANCE) or {}).get("platform", "")
    # Few platforms stand behind many entities, so each is a cohort by itself.
    cohort = Cohort(node.cohort.loader, [urn])
    return Node(urn, kind_of("dataPlatform"), cohort) if urn.startswith(_PLATFORM) else None


def _status(node: Node, _info: GraphQLResolveInfo) -> Record | None:
    value = node.aspect(STATUS)
    return None if value is None else Record(node, {"removed": value.get("removed") is True})


def _privileges(_node: Node, _info: GraphQLResolveInfo) -> Mapping[str, bool]:
    return _PRIVILEGES


def _aspects(
    node: Node, _info: GraphQLResolveInfo, **arguments: Mapping[str, Any] | None
) -> list[dict[str, str]]:
    wish = arguments.get("input") or {}
    if wish.get("autoRenderOnly"):
        return []
    named = wish.get("aspectNames")
    return [
        {"aspectName": name, "payload": dumps(stored.value).decode()}
        for name, stored in node.cohort.aspects(node.urn).items()
        if named is None or name in named
    ]


def _relationships(
    node: Node, info: GraphQLResolveInfo, **arguments: Mapping[str, Any]
) -> dict[str, Any]:
    wish = arguments["input"]
    if len(wish["types"]) > _MOST_TYPES:
        raise bad_request(f"types: more than {_MOST_TYPES}")
    start, count = page_of(wish, _RELATIONSHIPS_COUNT, context_of(info).limits)
    edges = Edges(
        frozenset(wish["types"]),
        Direction(wish["direction"]),
        start,
        count,
        include_removed=wish["includeSoftDelete"] is not False,
    )
    page = node.cohort.related(node.urn, edges)
    others = nodes_in(info, (other.urn for other in page.entities))
    shown = [
        {
            "type": other.relationship,
            "direction": wish["direction"],
            "entity": others.get(other.urn),
        }
        for other in page.entities
    ]
    return {"start": start, "count": len(shown), "total": page.total, "relationships": shown}


ENTITY: Final[Fields] = {
    "urn": _urn,
    "type": _type,
    "exists": _exists,
    "lastIngested": _last_ingested,
    "status": _status,
    "testResults": aspect(TEST_RESULTS),
    "aspects": _aspects,
    "privileges": _privileges,
    "relationships": _relationships,
    "platform": _platform,
    "origin": part(2),
    "description": property_of_entity("description"),
    "properties": properties,
    "editableProperties": _editable,
}
"""Fields that any entity type may have; a field means the same wherever it stands."""
