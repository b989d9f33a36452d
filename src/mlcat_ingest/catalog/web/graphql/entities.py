"""The fields that entities have in common, and the fields of `Query` that look entities up."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from graphql import GraphQLResolveInfo

from mlcat_ingest.catalog.schema.values import NO_RUN, UNKNOWN_ACTOR, Direction
from mlcat_ingest.catalog.web.graphql.nodes import Cohort, Edges, Node, Record, kind_of, node_of
from mlcat_ingest.catalog.web.graphql.resolvers import (
    Fields,
    Resolver,
    bad_request,
    context_of,
    nodes_in,
    page_of,
    part,
    parts_of,
    selected_fields,
)
from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.aspects.common import DATA_PLATFORM_INSTANCE, STATUS
from mlcat_ingest.metadata.urn import KINDS as URN_KINDS
from mlcat_ingest.metadata.urn import PREFIX, entity_type_of

_RELATIONSHIPS_COUNT: Final = 100
_MOST_TYPES: Final = 100
_PLATFORM: Final = f"{PREFIX}dataPlatform:"
_NO_RUN: Final = (None, NO_RUN)
# The first part of these URNs is the bare name of a platform.
_NAMED_PLATFORM: Final = frozenset({"chart", "dashboard", "dataFlow"})


def properties(node: Node, _info: GraphQLResolveInfo) -> Record | None:
    """Return the properties aspect of an entity."""
    return node.record(node.kind.properties)


def property_of_entity(field: str) -> Resolver:
    """Return the resolver that gives one field of the entity's properties aspect."""

    def resolve(node: Node, _info: GraphQLResolveInfo) -> Any:
        value = node.aspect(node.kind.properties)
        return None if value is None else value.get(field)

    return resolve


def custom_properties(record: Record, _info: GraphQLResolveInfo) -> list[Record]:
    """Return the map as a list of entries, in stored order; where it is unset, an empty one."""
    value = record.value.get("customProperties")
    entries = value.items() if isinstance(value, dict) else ()
    return [Record(record.node, {"key": key, "value": item}) for key, item in entries]


def _editable(node: Node, _info: GraphQLResolveInfo) -> Record | None:
    return node.record(node.kind.editable)


def _urn(node: Node, _info: GraphQLResolveInfo) -> str:
    return node.urn


def _type(node: Node, _info: GraphQLResolveInfo) -> str:
    return node.kind.enum


def _exists(node: Node, _info: GraphQLResolveInfo) -> bool:
    return node.cohort.exists(node.urn)


def _last_ingested(node: Node, _info: GraphQLResolveInfo) -> int | None:
    stored = [aspect.system_metadata for aspect in node.cohort.aspects(node.urn).values()]
    observed = (
        metadata.get("lastObserved") for metadata in stored if metadata.get("runId") not in _NO_RUN
    )
    return max((time for time in observed if isinstance(time, int)), default=None)


def _platform(node: Node, _info: GraphQLResolveInfo) -> Node | None:
    urn = node.part(0)
    if node.kind.entity_type in _NAMED_PLATFORM:
        urn = f"{_PLATFORM}{urn}"
    elif not urn.startswith(_PLATFORM):
        urn = (node.aspect(DATA_PLATFORM_INSTANCE) or {}).get("platform", "")
    # Many entities share few platforms, so each platform is a cohort by itself.
    cohort = Cohort(node.cohort.loader, [urn])
    return Node(urn, kind_of("dataPlatform"), cohort) if urn.startswith(_PLATFORM) else None


def _status(node: Node, _info: GraphQLResolveInfo) -> Record | None:
    value = node.aspect(STATUS)
    return None if value is None else Record(node, {"removed": value.get("removed") is True})


def _privileges(_node: Node, _info: GraphQLResolveInfo) -> Mapping[str, bool]:
    return {"canEditProperties": True}


def _aspects(
    node: Node, _info: GraphQLResolveInfo, **arguments: Mapping[str, Any] | None
) -> list[dict[str, str]]:
    inputs = arguments.get("input") or {}
    if inputs.get("autoRenderOnly"):
        return []
    named = inputs.get("aspectNames")
    return [
        {"aspectName": name, "payload": stored.text}
        for name, stored in node.cohort.aspects(node.urn).items()
        if named is None or name in named
    ]


def _relationships(
    node: Node, info: GraphQLResolveInfo, **arguments: Mapping[str, Any]
) -> dict[str, Any]:
    inputs = arguments["input"]
    if len(inputs["types"]) > _MOST_TYPES:
        raise bad_request(f"types: more than {_MOST_TYPES}")
    start, count = page_of(inputs, _RELATIONSHIPS_COUNT, context_of(info).limits)
    direction = inputs["direction"]
    edges = Edges(
        frozenset(inputs["types"]),
        Direction(direction),
        start,
        count,
        include_removed=inputs["includeSoftDelete"] is not False,
    )
    page = node.cohort.related_page(node.urn, edges)
    others = nodes_in(info, (other.urn for other in page.entities))
    entries = [
        {"type": other.relationship, "direction": direction, "entity": others.get(other.urn)}
        for other in page.entities
    ]
    return {"start": start, "count": len(entries), "total": page.total, "relationships": entries}


ENTITY: Final[Fields] = {
    "urn": _urn,
    "type": _type,
    "exists": _exists,
    "lastIngested": _last_ingested,
    "status": _status,
    "aspects": _aspects,
    "privileges": _privileges,
    "relationships": _relationships,
    "platform": _platform,
    "origin": part(2),
    "description": property_of_entity("description"),
    "properties": properties,
    # Older names of the same.
    "info": properties,
    "featureProperties": properties,
    "featureTableProperties": properties,
    "primaryKeyProperties": properties,
    "editableProperties": _editable,
    "editableInfo": _editable,
}
"""Fields that any entity type may have; a field means the same in each of them."""


_SINGLE: Final = ("mlModel", "mlModelGroup", "mlFeature", "mlFeatureTable")
"""Entity types that have a root field of their own."""

_IDENTITY: Final = frozenset({"urn", "type", "__typename"})


def _type_of(urn: str) -> str:
    try:
        return entity_type_of(urn)
    except InvalidUrnError as error:
        raise bad_request(str(error)) from error


def _look_up(_root: Any, info: GraphQLResolveInfo, urn: str) -> Node | None:
    """Return the entity `urn`, be it stored or not.

    Raises:
        GraphQLError: it is no URN, or has not the parts that its entity type has.
    """
    kind = URN_KINDS.get(_type_of(urn))
    count = len(parts_of(urn))
    if kind is not None and count != len(kind.parts):
        raise bad_request(f"{urn!r} has {plural(count, 'part')}, not {len(kind.parts)}")
    cohort = Cohort(context_of(info).loader, [urn])
    # All aspects at once: one entity's are few, and this tells whether it exists as well.
    cohort.aspects(urn)
    return node_of(urn, cohort)


def _entity(root: Any, info: GraphQLResolveInfo, urn: str) -> Node | None:
    if _IDENTITY.issuperset(selected_fields(info)):
        # Nothing is read of the entity, so that its parts do not matter.
        parts_of(urn)
        return nodes_in(info, [urn]).get(urn)
    return _look_up(root, info, urn)


def _entities(_root: Any, info: GraphQLResolveInfo, urns: Sequence[str]) -> list[Node | None]:
    context = context_of(info)
    if len(urns) > context.limits.page_size:
        raise bad_request(f"urns: more than {context.limits.page_size}")
    for urn in urns:
        _type_of(urn)
    cohort = Cohort(context.loader, list(dict.fromkeys(urns)))
    return [node_of(urn, cohort) for urn in urns]


def _me(_root: Any, info: GraphQLResolveInfo) -> dict[str, Node]:
    return {"corpUser": nodes_in(info, [UNKNOWN_ACTOR])[UNKNOWN_ACTOR]}


def _app_config(_root: Any, _info: GraphQLResolveInfo) -> Mapping[str, Any]:
    return {
        "telemetryConfig": {"enableThirdPartyLogging": False},
        "semanticSearchConfig": {"enabled": False, "enabledEntities": []},
    }


def _list_queries(
    _root: Any, info: GraphQLResolveInfo, **arguments: Mapping[str, Any]
) -> Mapping[str, Any]:
    start, _ = page_of(arguments["input"], 0, context_of(info).limits)
    return {"start": start, "count": 0, "total": 0, "queries": []}


def _global_views(_root: Any, _info: GraphQLResolveInfo) -> Mapping[str, Any]:
    return {}


LOOK_UPS: Final[Fields] = {
    **dict.fromkeys(_SINGLE, _look_up),
    "entity": _entity,
    "entities": _entities,
    "listQueries": _list_queries,
    "globalViewsSettings": _global_views,
    "me": _me,
    "appConfig": _app_config,
}
"""The fields of `Query` that look entities up by their URNs, and those about the service."""
