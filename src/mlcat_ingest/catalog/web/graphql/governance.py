"""The fields of governance: owners, tags, terms, links, containers, forms and versions."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from graphql import GraphQLResolveInfo

from mlcat_ingest.catalog.web.graphql.nodes import Node, Record
from mlcat_ingest.catalog.web.graphql.resolvers import (
    Fields,
    aspect,
    aspect_entity,
    entry_entity,
    nodes_in,
    objects,
    record_entity,
    record_list,
    stored_as,
    texts,
)
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
from mlcat_ingest.metadata.aspects.untyped import FORMS
from mlcat_ingest.metadata.urn import PREFIX

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
