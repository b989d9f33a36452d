"""The fields of entities, common ones and by type, those of their records, and look-ups by URN."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from graphql import GraphQLResolveInfo

from mlcat_ingest.catalog.schema.values import NO_RUN, UNKNOWN_ACTOR, Direction, EdgeQuery
from mlcat_ingest.catalog.store.prepare import owner_type
from mlcat_ingest.catalog.web.graphql.resolvers import (
    KINDS,
    Cohort,
    Fields,
    Node,
    Record,
    Resolver,
    associated_urn,
    bad_request,
    context_of,
    kind_of,
    node_of,
    nodes_in,
    objects,
    page_of,
    parts_of,
    selected_fields,
    texts,
)
from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.aspects import (
    BROWSE_PATHS_V2,
    CONTAINER,
    DATA_PLATFORM_INFO,
    DATA_PLATFORM_INSTANCE,
    DATA_PROCESS_INSTANCE_PROPERTIES,
    DATASET_PROPERTIES,
    DOCUMENT_SETTINGS,
    DOMAINS,
    GLOBAL_TAGS,
    INCIDENTS_SUMMARY,
    SCHEMA_METADATA,
    SUB_TYPES,
)
from mlcat_ingest.metadata.urn import KINDS as URN_KINDS
from mlcat_ingest.metadata.urn import PREFIX, entity_type_of

_RELATIONSHIPS_COUNT: Final = 100
_DOCUMENTS_COUNT: Final = 10
_RELATED: Final = frozenset({"RelatedAsset"})
_MOST_TYPES: Final = 100
_INCIDENTS_COUNT: Final = 20
_PLATFORM: Final = f"{PREFIX}dataPlatform:"
_NO_RUN: Final = (None, NO_RUN)
# The first part of these URNs is the bare name of a platform.
_NAMED_PLATFORM: Final = frozenset({"chart", "dashboard", "dataFlow"})


def _properties(node: Node, _info: GraphQLResolveInfo) -> Record | None:
    return node.record("")


def _editable(node: Node, _info: GraphQLResolveInfo) -> Record | None:
    return node.record(node.kind.editable)


def custom_properties(record: Record, _info: GraphQLResolveInfo) -> list[Record]:
    """Return the map as a list of entries, in stored order; where it is unset, an empty one."""
    value = record.value.get("customProperties")
    entries = value.items() if isinstance(value, dict) else ()
    return [Record(record.node, {"key": key, "value": item}) for key, item in entries]


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


def _is_set(name: str) -> Resolver:
    """Return the resolver of a flag of a record, which is false where it is not set."""
    return lambda record, _info: record.value.get(name) is True


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
    edges = EdgeQuery(
        frozenset(inputs["types"]),
        Direction(direction),
        start,
        count,
        include_removed=inputs["includeSoftDelete"] is not False,
    )
    page = node.cohort.page(node.urn, edges)
    others = nodes_in(info, (other.urn for other in page.entities))
    entries = [
        {"type": other.relationship, "direction": direction, "entity": others.get(other.urn)}
        for other in page.entities
    ]
    return {"start": start, "count": len(entries), "total": page.total, "relationships": entries}


ENTITY: Final[Fields] = {
    "urn": lambda node, _info: node.urn,
    "type": lambda node, _info: node.kind.enum,
    "exists": lambda node, _info: node.cohort.exists(node.urn),
    "lastIngested": _last_ingested,
    "aspects": _aspects,
    "privileges": lambda _node, _info: {"canEditProperties": True},
    "relationships": _relationships,
    "platform": _platform,
    "name": 1,
    "origin": 2,
    "description": ".description",
    "properties": _properties,
    # Older names of the same.
    "info": _properties,
    "featureProperties": _properties,
    "featureTableProperties": _properties,
    "primaryKeyProperties": _properties,
    "editableProperties": _editable,
    "editableInfo": _editable,
}
"""Fields that any entity type may have; a field means the same in each of them.

Those that have the name of an aspect are that aspect.
"""


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
    roles = URN_KINDS.get(_type_of(urn))
    count = len(parts_of(urn))
    if roles is not None and count != len(roles):
        raise bad_request(f"{urn!r} has {plural(count, 'part')}, not {len(roles)}")
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


LOOK_UPS: Final[Fields] = {
    **dict.fromkeys(_SINGLE, _look_up),
    "entity": _entity,
    "entities": _entities,
    "listQueries": _list_queries,
    "globalViewsSettings": lambda _root, _info: {},
    "me": lambda _root, info: {"corpUser": nodes_in(info, [UNKNOWN_ACTOR])[UNKNOWN_ACTOR]},
    "appConfig": _app_config,
}
"""The fields of `Query` that look entities up by their URNs, and those about the service."""


_BOXES: Final = {
    "string": "stringValue",
    "boolean": "booleanValue",
    "int": "intValue",
    "long": "intValue",
    "float": "floatValue",
    "double": "floatValue",
}
"""Union member of a stored hyper-parameter to the field that it reads as."""


def _lineage_info(record: Record, _info: GraphQLResolveInfo) -> Record | None:
    names = ("trainingJobs", "downstreamJobs")
    return record if any(record.value.get(name) for name in names) else None


def _hyper_parameter_map(record: Record, _info: GraphQLResolveInfo) -> list[Record] | None:
    value = record.value.get("hyperParameters")
    if not isinstance(value, dict):
        return None
    node = record.node
    return [
        Record(node, {"key": key, "value": {field: inner}})
        for key, boxed in value.items()
        if isinstance(boxed, dict)
        for kind, inner in boxed.items()
        if (field := _BOXES.get(kind))
    ]


def _name_in_aspect(aspect_name: str, field: str) -> Resolver:
    """Return the resolver of a name that an aspect gives; of that in the URN where it does not."""
    return lambda node, _info: (node.aspect(aspect_name) or {}).get(field) or node.part(1)


def _titled_properties(node: Node, info: GraphQLResolveInfo) -> Record | None:
    """Return the properties with the title of a chart or dashboard as their name."""
    record = _properties(node, info)
    return record and Record(node, {"name": record.value.get("title"), **record.value})


def _first_part(node: Node, info: GraphQLResolveInfo) -> Node | None:
    """Return the entity that the first part of the URN names."""
    return nodes_in(info, [node.part(0)]).get(node.part(0))


def _sub_type(node: Node, _info: GraphQLResolveInfo) -> str | None:
    names = texts((node.aspect(SUB_TYPES) or {}).get("typeNames"))
    return names[0] if names else None


def _related_documents(
    node: Node, info: GraphQLResolveInfo, **arguments: Mapping[str, Any]
) -> dict[str, Any]:
    start, count = page_of(arguments["input"], _DOCUMENTS_COUNT, context_of(info).limits)
    incoming = EdgeQuery(_RELATED, Direction.INCOMING, start, count, include_removed=False)
    page = node.cohort.page(node.urn, incoming)
    documents = nodes_in(info, (other.urn for other in page.entities)).values()
    return {"start": start, "count": count, "total": page.total, "documents": [*documents]}


def _schema_metadata(
    node: Node, _info: GraphQLResolveInfo, version: int | None = None
) -> Record | None:
    if not version:
        return node.record(SCHEMA_METADATA)
    stored = node.cohort.loader.store.get_version(node.urn, SCHEMA_METADATA, version)
    return None if stored is None else Record(node, stored.value)


_FEATURE: Final[Fields] = {"featureNamespace": 0, "dataType": ".dataType"}


def _type_info(node: Node, _info: GraphQLResolveInfo) -> Mapping[str, str | None]:
    """Return what the URN of a data type or an entity type says: `datahub.string`."""
    name = node.part(0)
    kind = KINDS.get(name.removeprefix("datahub."))
    return {"qualifiedName": name, "type": None if kind is None else kind.enum}


TYPES: Final[Mapping[str, Fields]] = {
    "Incident": {
        "incidentType": ".type",
        "incidentStatus": ".status",
        "entity": ".entities",
        **{name: f".{name}" for name in ("customType", "title", "startedAt", "created", "source")},
    },
    "IncidentSource": {"source": "sourceUrn"},
    "MLModelProperties": {
        "version": "version.versionTag",
        "hyperParameters": lambda *of: next(iter(_hyper_parameter_map(*of) or ()), None),
        "hyperParameterMap": _hyper_parameter_map,
        "mlFeatures": lambda record, _info: texts(record.value.get("mlFeatures")) or None,
        "tags": lambda record, _info: texts(record.value.get("tags")),
        "mlModelLineageInfo": _lineage_info,
    },
    "MLModelGroupProperties": {"mlModelLineageInfo": _lineage_info},
    "MLFeature": _FEATURE,
    "MLPrimaryKey": _FEATURE,
    "DataPlatform": {
        "name": 0,
        "displayName": _name_in_aspect(DATA_PLATFORM_INFO, "displayName"),
    },
    "DataPlatformInstance": {"instanceId": 1},
    "Dataset": {
        "name": _name_in_aspect(DATASET_PROPERTIES, "name"),
        "schemaMetadata": _schema_metadata,
    },
    "DatasetProperties": {"created": "created.time"},
    "SchemaMetadata": {
        "platformUrn": "platform",
        "datasetUrn": associated_urn,
        "createdAt": "created.time",
    },
    "DataFlow": {"orchestrator": 0, "flowId": 1, "cluster": 2},
    "DataJob": {"dataFlow": _first_part, "jobId": 1},
    "DataProcessInstance": {"name": _name_in_aspect(DATA_PROCESS_INSTANCE_PROPERTIES, "name")},
    "Chart": {"tool": 0, "chartId": 1, "properties": _titled_properties},
    "Dashboard": {"tool": 0, "dashboardId": 1, "properties": _titled_properties},
    "Document": {"subType": _sub_type, "settings": DOCUMENT_SETTINGS},
    "CorpUser": {"username": 0},
    "CorpGroup": {"name": 0},
    "Tag": {"name": 0},
    "GlossaryTerm": {"name": 0, "hierarchicalName": 0, "description": ".definition"},
    "GlossaryTermProperties": {"description": "definition"},
    "GlossaryNodeProperties": {"description": "definition"},
    "Domain": {"id": 0},
    "StructuredPropertyEntity": {"definition": _properties},
    "DataTypeEntity": {"info": _type_info},
    "EntityTypeEntity": {"info": _type_info},
    "SchemaFieldEntity": {"fieldPath": 1, "parent": _first_part},
}
"""The fields of entity types and of their properties that are not read by their own names."""


_VALUE_BOXES: Final = {"string": "stringValue", "double": "numberValue"}
"""Union member of a structured property's value to the field that it reads as."""


def _domain(node: Node, _info: GraphQLResolveInfo) -> Record | None:
    record = node.record(DOMAINS)
    return record if record is not None and record.entities("domains") else None


def _typed_values(values: Any) -> Iterable[dict[str, Any]]:
    for value in objects(values):
        for kind, inner in value.items():
            if kind in _VALUE_BOXES:
                yield {_VALUE_BOXES[kind]: inner}


def _value_entities(record: Record, info: GraphQLResolveInfo) -> list[Node]:
    strings = texts(
        [typed.get("stringValue") for typed in _typed_values(record.value.get("values"))]
    )
    return list(nodes_in(info, strings).values())


def _ownership_type(record: Record, info: GraphQLResolveInfo) -> Node | None:
    """Return the type that an entry names, or the one that DataHub keeps for its older `type`."""
    older = record.value.get("type")
    if record.value.get("typeUrn") or not isinstance(older, str):
        return next(iter(record.entities("typeUrn")), None)
    urn = owner_type(older)
    return nodes_in(info, [urn]).get(urn)


def _incidents(node: Node, info: GraphQLResolveInfo, **arguments: Any) -> dict[str, Any]:
    summary, state = node.aspect(INCIDENTS_SUMMARY) or {}, arguments.get("state")
    parts = {"activeIncidentDetails": "ACTIVE", "resolvedIncidentDetails": "RESOLVED"}
    listed = [
        one
        for part, held in parts.items()
        if state in {None, held}
        for one in objects(summary.get(part))
    ]
    listed.sort(key=lambda one: -one["createdAt"])
    start, count = page_of(arguments, _INCIDENTS_COUNT, context_of(info).limits)
    nodes = list(nodes_in(info, [one["urn"] for one in listed[start : start + count]]).values())
    return {"start": start, "count": len(nodes), "total": len(listed), "incidents": nodes}


GOVERNED: Final[Fields] = {
    "incidents": _incidents,
    "tags": GLOBAL_TAGS,
    "domain": _domain,
    "dataPlatformInstance": f"{DATA_PLATFORM_INSTANCE}.instance",
    "container": f"{CONTAINER}.container",
    "browsePathV2": BROWSE_PATHS_V2,
    "relatedDocuments": _related_documents,
}
"""Fields of the interfaces GovernedEntity, BrowsableEntity, SupportsVersions, SupportsIncidents."""

RECORDS: Final[Mapping[str, Fields]] = {
    "Status": {"removed": _is_set("removed")},
    "Deprecation": {"deprecated": _is_set("deprecated"), "actorEntity": "actor"},
    "Owner": {"ownershipType": _ownership_type},
    "DomainAssociation": {"domain": "domains"},
    "GlossaryTermAssociation": {"term": "urn"},
    "InstitutionalMemoryMetadata": {
        "label": "description",
        "author": "createStamp.actor",
        "created": "createStamp",
    },
    "StructuredPropertiesEntry": {
        "structuredProperty": "propertyUrn",
        "values": lambda record, _info: [
            Record(record.node, typed) for typed in _typed_values(record.value.get("values"))
        ],
        "valueEntities": _value_entities,
    },
    "FormAssociation": {"form": "urn"},
    "BrowsePathEntry": {"name": "id", "entity": "urn"},
    "VersionProperties": {
        "isLatest": _is_set("isLatest"),
        "created": "metadataCreatedTimestamp",
        "createdInSource": "sourceCreatedTimestamp",
    },
    "VersionSet": {"latestVersion": ".latest"},
}
"""The records behind those fields, as far as they are not read by their own names.

Where a record of the schema has entities, or an entity has an aspect by its name, the type of the
field says it.
"""
