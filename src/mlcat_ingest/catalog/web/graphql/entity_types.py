"""The fields of entity types and of their records: ML entities, assets, people, governance."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from graphql import GraphQLResolveInfo

from mlcat_ingest.catalog.web.graphql.entities import properties, property_of_entity
from mlcat_ingest.catalog.web.graphql.nodes import Node, Record
from mlcat_ingest.catalog.web.graphql.resolvers import (
    Fields,
    Resolver,
    aspect,
    aspect_entity,
    associated_urn,
    entry_entity,
    nodes_in,
    objects,
    part,
    pick_field,
    record_entity,
    record_list,
    stored_as,
    texts,
)
from mlcat_ingest.metadata.aspects.assets import DATA_PLATFORM_INFO
from mlcat_ingest.metadata.aspects.common import (
    BROWSE_PATHS_V2,
    CONTAINER,
    DATA_PLATFORM_INSTANCE,
    SUB_TYPES,
    VERSION_PROPERTIES,
    VERSION_SET_PROPERTIES,
)
from mlcat_ingest.metadata.aspects.governance import (
    DEPRECATION,
    DOMAINS,
    GLOBAL_TAGS,
    GLOSSARY_TERMS,
    INSTITUTIONAL_MEMORY,
    OWNERSHIP,
    STRUCTURED_PROPERTIES,
)
from mlcat_ingest.metadata.aspects.processes import (
    DATA_PROCESS_INSTANCE_PROPERTIES,
    ML_TRAINING_RUN_PROPERTIES,
)
from mlcat_ingest.metadata.aspects.untyped import FORMS, PROPERTY_DEFINITION, SCHEMA_METADATA
from mlcat_ingest.metadata.urn import PREFIX

_BOXES: Final[Mapping[str, tuple[str, str]]] = {
    "string": ("StringBox", "stringValue"),
    "boolean": ("BooleanBox", "booleanValue"),
    "int": ("IntBox", "intValue"),
    "long": ("IntBox", "intValue"),
    "float": ("FloatBox", "floatValue"),
    "double": ("FloatBox", "floatValue"),
}
"""Union member of a stored hyper-parameter: the type it reads as, and its field."""

BOXES: Final = {field: type_name for type_name, field in _BOXES.values()}
"""Field of a boxed value to its GraphQL type."""


def _references(field: str, *, unset: list[Node] | None = None) -> Resolver:
    """Return the resolver of a list of URNs that reads as a list of entities, in stored order."""
    pick = pick_field(field)

    def resolve(record: Record, _info: GraphQLResolveInfo) -> list[Node] | None:
        if not isinstance(record.value.get(field), list):
            return unset
        node = record.node
        return node.references(node.kind.properties or "", field, pick, pick(record.value))

    return resolve


def _texts(field: str) -> Resolver:
    """Return the resolver of a list of texts; where it is unset, an empty one."""

    def resolve(record: Record, _info: GraphQLResolveInfo) -> list[str]:
        return texts(record.value.get(field))

    return resolve


def _inner(field: str, name: str) -> Resolver:
    """Return the resolver of the member `name` of an object in `field`."""

    def resolve(record: Record, _info: GraphQLResolveInfo) -> Any:
        value = record.value.get(field)
        return value.get(name) if isinstance(value, dict) else None

    return resolve


def _features_or_null(record: Record, _info: GraphQLResolveInfo) -> list[str] | None:
    return texts(record.value.get("mlFeatures")) or None


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
        if (field := _BOXES.get(kind, ("", ""))[1])
    ]


def _first_hyper_parameter(record: Record, info: GraphQLResolveInfo) -> Record | None:
    return next(iter(_hyper_parameter_map(record, info) or ()), None)


def _name_in_aspect(aspect_name: str, field: str) -> Resolver:
    """Return the resolver of a name that an aspect gives; of the URN's first part where not."""

    def resolve(node: Node, _info: GraphQLResolveInfo) -> Any:
        return (node.aspect(aspect_name) or {}).get(field) or node.part(0)

    return resolve


def _titled_properties(node: Node, info: GraphQLResolveInfo) -> Record | None:
    """Return the properties with the title of a chart or dashboard as their name."""
    record = properties(node, info)
    return record and Record(node, {"name": record.value.get("title"), **record.value})


def _first_part(node: Node, info: GraphQLResolveInfo) -> Node | None:
    """Return the entity that the first part of the URN names."""
    return nodes_in(info, [node.part(0)]).get(node.part(0))


def _sub_type(node: Node, _info: GraphQLResolveInfo) -> str | None:
    names = texts((node.aspect(SUB_TYPES) or {}).get("typeNames"))
    return names[0] if names else None


def _schema_metadata(
    node: Node, _info: GraphQLResolveInfo, version: int | None = None
) -> Record | None:
    if not version:
        return node.record(SCHEMA_METADATA)
    stored = node.cohort.loader.store.get_version(node.urn, SCHEMA_METADATA, version)
    return None if stored is None else Record(node, stored.value)


_FEATURE: Final[Fields] = {
    "name": part(1),
    "featureNamespace": part(0),
    "dataType": property_of_entity("dataType"),
}
_FEATURE_PROPERTIES: Final[Fields] = {"sources": _references("sources")}

TYPES: Final[Mapping[str, Fields]] = {
    "MLModel": {"name": part(1)},
    "MLModelProperties": {
        "version": _inner("version", "versionTag"),
        "hyperParameters": _first_hyper_parameter,
        "hyperParameterMap": _hyper_parameter_map,
        "mlFeatures": _features_or_null,
        "groups": _references("groups", unset=[]),
        "deployments": _references("deployments"),
        "tags": _texts("tags"),
        "mlModelLineageInfo": _lineage_info,
    },
    "MLModelGroup": {"name": part(1)},
    "MLModelGroupProperties": {"mlModelLineageInfo": _lineage_info},
    "MLFeature": _FEATURE,
    "MLFeatureProperties": _FEATURE_PROPERTIES,
    "MLFeatureTable": {"name": part(1)},
    "MLFeatureTableProperties": {
        "mlFeatures": _references("mlFeatures"),
        "mlPrimaryKeys": _references("mlPrimaryKeys"),
    },
    "MLPrimaryKey": _FEATURE,
    "MLPrimaryKeyProperties": _FEATURE_PROPERTIES,
    "MLModelDeployment": {"name": part(1)},
    "DataPlatform": {
        "name": part(0),
        "displayName": _name_in_aspect(DATA_PLATFORM_INFO, "displayName"),
    },
    "DataPlatformInstance": {"instanceId": part(1)},
    "Dataset": {
        "name": part(1),
        "schemaMetadata": _schema_metadata,
    },
    "DatasetProperties": {"created": _inner("created", "time")},
    "SchemaMetadata": {
        "fields": record_list("fields"),
        "platformUrn": stored_as("platform"),
        "datasetUrn": associated_urn,
        "createdAt": _inner("created", "time"),
    },
    "DataFlow": {"orchestrator": part(0), "flowId": part(1), "cluster": part(2)},
    "DataJob": {"dataFlow": _first_part, "jobId": part(1)},
    "DataProcessInstance": {
        "name": _name_in_aspect(DATA_PROCESS_INSTANCE_PROPERTIES, "name"),
        "mlTrainingRunProperties": aspect(ML_TRAINING_RUN_PROPERTIES),
    },
    "Chart": {"tool": part(0), "chartId": part(1), "properties": _titled_properties},
    "Dashboard": {"tool": part(0), "dashboardId": part(1), "properties": _titled_properties},
    "Document": {"subType": _sub_type},
    "CorpUser": {"username": part(0)},
    "CorpGroup": {"name": part(0)},
    "Tag": {"name": part(0)},
    "GlossaryTerm": {
        "name": part(0),
        "hierarchicalName": part(0),
        "description": property_of_entity("definition"),
    },
    "GlossaryTermProperties": {"description": stored_as("definition")},
    "GlossaryNodeProperties": {"description": stored_as("definition")},
    "Domain": {"id": part(0)},
    "StructuredPropertyEntity": {"definition": properties},
    "StructuredPropertyDefinition": {
        "valueType": record_entity(PROPERTY_DEFINITION, "valueType"),
        "entityTypes": _references("entityTypes"),
    },
    "SchemaFieldEntity": {"fieldPath": part(1), "parent": _first_part},
}
"""The fields of entity types and of their properties that are not read by their own names."""


_VALUE_BOXES: Final[Mapping[str, tuple[str, str]]] = {
    "string": ("StringValue", "stringValue"),
    "double": ("NumberValue", "numberValue"),
}
"""Union member of a structured property's value: the type it reads as, and its field."""

PROPERTY_VALUES: Final = {field: type_name for type_name, field in _VALUE_BOXES.values()}
"""Field of a boxed value of a structured property to its GraphQL type."""


def _deprecation(node: Node, _info: GraphQLResolveInfo) -> Record | None:
    value = node.aspect(DEPRECATION)
    if value is None:
        return None
    return Record(node, {**value, "deprecated": value.get("deprecated") is True})


_domain_node = aspect_entity(DOMAINS, "domains")


def _domain(node: Node, info: GraphQLResolveInfo) -> Record | None:
    domain = _domain_node(node, info)
    return None if domain is None else Record(node, {"domain": domain})


def _actor(record: Record, info: GraphQLResolveInfo) -> Node | None:
    urns = texts([record.value.get("actor")])
    return next(iter(nodes_in(info, urns).values()), None)


def _author(record: Record, info: GraphQLResolveInfo) -> Node | None:
    stamp = record.value.get("createStamp")
    return _actor(Record(record.node, stamp), info) if isinstance(stamp, dict) else None


def _typed_values(values: Any) -> Iterable[dict[str, Any]]:
    for value in objects(values):
        for kind, inner in value.items():
            if kind in _VALUE_BOXES:
                yield {_VALUE_BOXES[kind][1]: inner}


def _property_values(record: Record, _info: GraphQLResolveInfo) -> list[Record]:
    return [Record(record.node, typed) for typed in _typed_values(record.value.get("values"))]


def _value_entities(record: Record, info: GraphQLResolveInfo) -> list[Node]:
    strings = texts(
        [typed.get("stringValue") for typed in _typed_values(record.value.get("values"))]
    )
    return list(nodes_in(info, strings).values())


_named_ownership_type = entry_entity(OWNERSHIP, "typeUrn", "owners")


def _ownership_type(record: Record, info: GraphQLResolveInfo) -> Node | None:
    """Return the type that an entry names, or the one that DataHub keeps for its older `type`."""
    older = record.value.get("type")
    if record.value.get("typeUrn") or not isinstance(older, str):
        named: Node | None = _named_ownership_type(record, info)
        return named
    urn = f"{PREFIX}ownershipType:__system__{older.lower()}"
    return nodes_in(info, [urn]).get(urn)


def _is_latest(record: Record, _info: GraphQLResolveInfo) -> bool:
    return record.value.get("isLatest") is True


GOVERNED: Final[Fields] = {
    "ownership": aspect(OWNERSHIP),
    "tags": aspect(GLOBAL_TAGS),
    "glossaryTerms": aspect(GLOSSARY_TERMS),
    "domain": _domain,
    "institutionalMemory": aspect(INSTITUTIONAL_MEMORY),
    "deprecation": _deprecation,
    "dataPlatformInstance": aspect_entity(DATA_PLATFORM_INSTANCE, "instance"),
    "container": aspect_entity(CONTAINER, "container"),
    "subTypes": aspect(SUB_TYPES),
    "structuredProperties": aspect(STRUCTURED_PROPERTIES),
    "forms": aspect(FORMS),
    "browsePathV2": aspect(BROWSE_PATHS_V2),
    "versionProperties": aspect(VERSION_PROPERTIES),
}
"""Fields of the interfaces GovernedEntity, BrowsableEntity and SupportsVersions."""

RECORDS: Final[Mapping[str, Fields]] = {
    "Deprecation": {
        "actorEntity": record_entity(DEPRECATION, "actor"),
        "replacement": record_entity(DEPRECATION, "replacement"),
    },
    "Owner": {
        "owner": entry_entity(OWNERSHIP, "owner", "owners"),
        "ownershipType": _ownership_type,
    },
    "TagAssociation": {"tag": entry_entity(GLOBAL_TAGS, "tag", "tags")},
    "GlossaryTermAssociation": {
        "term": entry_entity(GLOSSARY_TERMS, "urn", "terms"),
        "actor": entry_entity(GLOSSARY_TERMS, "actor", "terms"),
    },
    "InstitutionalMemoryMetadata": {
        "label": stored_as("description"),
        "author": _author,
        "created": stored_as("createStamp"),
    },
    "StructuredPropertiesEntry": {
        "structuredProperty": entry_entity(STRUCTURED_PROPERTIES, "propertyUrn", "properties"),
        "values": _property_values,
        "valueEntities": _value_entities,
    },
    "Forms": {
        name: record_list(name) for name in ("completedForms", "incompleteForms", "verifications")
    },
    "FormAssociation": {"form": entry_entity(FORMS, "urn", "completedForms", "incompleteForms")},
    "FormVerificationAssociation": {"form": entry_entity(FORMS, "form", "verifications")},
    "ResolvedAuditStamp": {"actor": _actor},
    "BrowsePathV2": {"path": record_list("path")},
    "BrowsePathEntry": {
        "name": stored_as("id"),
        "entity": entry_entity(BROWSE_PATHS_V2, "urn", "path"),
    },
    "VersionProperties": {
        "versionSet": record_entity(VERSION_PROPERTIES, "versionSet"),
        "aliases": record_list("aliases"),
        "isLatest": _is_latest,
        "created": stored_as("metadataCreatedTimestamp"),
        "createdInSource": stored_as("sourceCreatedTimestamp"),
    },
    "VersionSet": {"latestVersion": aspect_entity(VERSION_SET_PROPERTIES, "latest")},
}
"""The records behind those fields, as far as they are not read by their own names."""
