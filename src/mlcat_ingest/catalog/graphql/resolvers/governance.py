"""The fields of what people and tools put on entities: owners, tags, terms, links, places."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from graphql import GraphQLResolveInfo

from mlcat_ingest.catalog.graphql.nodes import Node, Record
from mlcat_ingest.catalog.graphql.resolvers.common import (
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

_VALUE_BOXES: Final[Mapping[str, tuple[str, str]]] = {
    "string": ("StringValue", "stringValue"),
    "double": ("NumberValue", "numberValue"),
}
"""Union member of a structured property's value: the type it reads as, and its field."""

PROPERTY_VALUES: Final = {field: type_name for type_name, field in _VALUE_BOXES.values()}
"""Field of a boxed value of a structured property to its GraphQL type."""


def _deprecation(node: Node, _info: GraphQLResolveInfo) -> Record | None:
    value = node.aspect("deprecation")
    if value is None:
        return None
    return Record(node, {**value, "deprecated": value.get("deprecated") is True})


_domain_node = aspect_entity("domains", "domains")


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
    value = node.aspect("browsePaths")
    if value is None:
        return None
    return [{"path": path.strip("/").split("/")} for path in texts(value.get("paths"))]


GOVERNED: Final[Fields] = {
    "ownership": aspect("ownership"),
    "tags": aspect("globalTags"),
    "globalTags": aspect("globalTags"),
    "glossaryTerms": aspect("glossaryTerms"),
    "domain": _domain,
    "institutionalMemory": aspect("institutionalMemory"),
    "deprecation": _deprecation,
    "dataPlatformInstance": aspect_entity("dataPlatformInstance", "instance"),
    "container": aspect_entity("container", "container"),
    "subTypes": aspect("subTypes"),
    "structuredProperties": aspect("structuredProperties"),
    "forms": aspect("forms"),
    "browsePaths": _browse_paths,
    "browsePathV2": aspect("browsePathsV2"),
}
"""Fields of the interfaces GovernedEntity and BrowsableEntity."""

RECORDS: Final[Mapping[str, Fields]] = {
    "Deprecation": {"replacement": record_entity("deprecation", "replacement")},
    "Owner": {
        "owner": entry_entity("ownership", "owner", "owners"),
        "ownershipType": entry_entity("ownership", "typeUrn", "owners"),
        "associatedUrn": associated_urn,
    },
    "TagAssociation": {
        "tag": entry_entity("globalTags", "tag", "tags"),
        "associatedUrn": associated_urn,
    },
    "GlossaryTermAssociation": {
        "term": entry_entity("glossaryTerms", "urn", "terms"),
        "associatedUrn": associated_urn,
    },
    "InstitutionalMemoryMetadata": {
        "label": stored_as("description"),
        "created": stored_as("createStamp"),
        "associatedUrn": associated_urn,
    },
    "StructuredPropertiesEntry": {
        "structuredProperty": entry_entity("structuredProperties", "propertyUrn", "properties"),
        "values": _property_values,
        "valueEntities": _value_entities,
        "associatedUrn": associated_urn,
    },
    "Forms": {
        name: record_list(name) for name in ("completedForms", "incompleteForms", "verifications")
    },
    "FormAssociation": {
        "form": entry_entity("forms", "urn", "completedForms", "incompleteForms"),
        "associatedUrn": associated_urn,
    },
    "FormVerificationAssociation": {"form": entry_entity("forms", "form", "verifications")},
    "ResolvedAuditStamp": {"actor": _actor},
    "BrowsePathV2": {"path": record_list("path")},
    "BrowsePathEntry": {
        "name": stored_as("id"),
        "entity": entry_entity("browsePathsV2", "urn", "path"),
    },
    "CustomPropertiesEntry": {"associatedUrn": associated_urn},
}
"""The records behind those fields, as far as they are not read by their own names."""
