"""The fields of what people and tools put on entities: owners, tags, terms, links, places."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from graphql import GraphQLResolveInfo

from mlcat_ingest.catalog.web.graphql.nodes import Node, Record
from mlcat_ingest.catalog.web.graphql.resolvers.common import (
    Fields,
    aspect,
    aspect_entity,
    associated_urn,
    entry_entity,
    nodes_in,
    objects,
    record_entity,
    record_list,
    stored_as,
    texts,
)
from mlcat_ingest.metadata.aspects.common import (
    BROWSE_PATHS,
    BROWSE_PATHS_V2,
    CONTAINER,
    DATA_PLATFORM_INSTANCE,
    SUB_TYPES,
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


def _domain(node: Node, info: GraphQLResolveInfo) -> dict[str, Any] | None:
    found = _domain_node(node, info)
    return None if found is None else {"domain": found, "associatedUrn": node.urn}


def _actor(record: Record, info: GraphQLResolveInfo) -> Node | None:
    urns = texts([record.value.get("actor")])
    return next(iter(nodes_in(info, urns).values()), None)


def _boxed(values: Any) -> Iterable[dict[str, Any]]:
    for value in objects(values):
        for kind, inner in value.items():
            if kind in _VALUE_BOXES:
                yield {_VALUE_BOXES[kind][1]: inner}


def _property_values(record: Record, _info: GraphQLResolveInfo) -> list[Record]:
    return [Record(record.node, boxed) for boxed in _boxed(record.value.get("values"))]


def _value_entities(record: Record, info: GraphQLResolveInfo) -> list[Node]:
    held = texts([boxed.get("stringValue") for boxed in _boxed(record.value.get("values"))])
    return list(nodes_in(info, held).values())


def _browse_paths(node: Node, _info: GraphQLResolveInfo) -> list[dict[str, Any]] | None:
    value = node.aspect(BROWSE_PATHS)
    if value is None:
        return None
    return [{"path": path.strip("/").split("/")} for path in texts(value.get("paths"))]


GOVERNED: Final[Fields] = {
    "ownership": aspect(OWNERSHIP),
    "tags": aspect(GLOBAL_TAGS),
    "globalTags": aspect(GLOBAL_TAGS),
    "glossaryTerms": aspect(GLOSSARY_TERMS),
    "domain": _domain,
    "institutionalMemory": aspect(INSTITUTIONAL_MEMORY),
    "deprecation": _deprecation,
    "dataPlatformInstance": aspect_entity(DATA_PLATFORM_INSTANCE, "instance"),
    "container": aspect_entity(CONTAINER, "container"),
    "subTypes": aspect(SUB_TYPES),
    "structuredProperties": aspect(STRUCTURED_PROPERTIES),
    "forms": aspect(FORMS),
    "browsePaths": _browse_paths,
    "browsePathV2": aspect(BROWSE_PATHS_V2),
}
"""Fields of the interfaces GovernedEntity and BrowsableEntity."""

RECORDS: Final[Mapping[str, Fields]] = {
    "Deprecation": {"replacement": record_entity(DEPRECATION, "replacement")},
    "Owner": {
        "owner": entry_entity(OWNERSHIP, "owner", "owners"),
        "ownershipType": entry_entity(OWNERSHIP, "typeUrn", "owners"),
        "associatedUrn": associated_urn,
    },
    "TagAssociation": {
        "tag": entry_entity(GLOBAL_TAGS, "tag", "tags"),
        "associatedUrn": associated_urn,
    },
    "GlossaryTermAssociation": {
        "term": entry_entity(GLOSSARY_TERMS, "urn", "terms"),
        "associatedUrn": associated_urn,
    },
    "InstitutionalMemoryMetadata": {
        "label": stored_as("description"),
        "created": stored_as("createStamp"),
        "associatedUrn": associated_urn,
    },
    "StructuredPropertiesEntry": {
        "structuredProperty": entry_entity(STRUCTURED_PROPERTIES, "propertyUrn", "properties"),
        "values": _property_values,
        "valueEntities": _value_entities,
        "associatedUrn": associated_urn,
    },
    "Forms": {
        name: record_list(name) for name in ("completedForms", "incompleteForms", "verifications")
    },
    "FormAssociation": {
        "form": entry_entity(FORMS, "urn", "completedForms", "incompleteForms"),
        "associatedUrn": associated_urn,
    },
    "FormVerificationAssociation": {"form": entry_entity(FORMS, "form", "verifications")},
    "ResolvedAuditStamp": {"actor": _actor},
    "BrowsePathV2": {"path": record_list("path")},
    "BrowsePathEntry": {
        "name": stored_as("id"),
        "entity": entry_entity(BROWSE_PATHS_V2, "urn", "path"),
    },
    "CustomPropertiesEntry": {"associatedUrn": associated_urn},
}
"""The records behind those fields, as far as they are not read by their own names."""
