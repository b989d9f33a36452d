"""The fields of what models are linked to, as far as an entity type has its own."""

from collections.abc import Mapping
from typing import Any, Final

from graphql import GraphQLResolveInfo

from mlcat_ingest.catalog.web.graphql.nodes import Node, Record
from mlcat_ingest.catalog.web.graphql.resolvers.common import (
    Fields,
    Resolver,
    aspect,
    nodes_in,
    part,
    record_list,
    stored_as,
    texts,
)
from mlcat_ingest.catalog.web.graphql.resolvers.entities import (
    custom_properties,
    properties,
    property_of_entity,
)
from mlcat_ingest.metadata.aspects.assets import DATA_PLATFORM_INFO
from mlcat_ingest.metadata.aspects.common import SUB_TYPES
from mlcat_ingest.metadata.aspects.processes import (
    DATA_PROCESS_INSTANCE_PROPERTIES,
    ML_TRAINING_RUN_PROPERTIES,
)
from mlcat_ingest.metadata.aspects.untyped import SCHEMA_METADATA


def _named(aspect_name: str, field: str) -> Resolver:
    """Return the resolver of a name that an aspect gives; of the URN's first part where not."""

    def resolve(node: Node, _info: GraphQLResolveInfo) -> Any:
        return (node.aspect(aspect_name) or {}).get(field) or node.part(0)

    return resolve


def _titled(node: Node, info: GraphQLResolveInfo) -> Record | None:
    """Return the properties with the title of a chart or dashboard as their name."""
    found = properties(node, info)
    return found and Record(node, {"name": found.value.get("title"), **found.value})


def _data_flow(node: Node, info: GraphQLResolveInfo) -> Node | None:
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


def _created_ms(record: Record, _info: GraphQLResolveInfo) -> Any:
    created = record.value.get("created")
    return created.get("time") if isinstance(created, dict) else None


_WITH_CUSTOM: Final[Fields] = {"customProperties": custom_properties}

ASSETS: Final[Mapping[str, Fields]] = {
    "DataPlatform": {
        "name": part(0),
        "displayName": _named(DATA_PLATFORM_INFO, "displayName"),
        "info": properties,
    },
    "DataPlatformInstance": {"instanceId": part(1)},
    "DataPlatformInstanceProperties": _WITH_CUSTOM,
    "Dataset": {"name": part(1), "schemaMetadata": _schema_metadata},
    "DatasetProperties": {**_WITH_CUSTOM, "created": _created_ms},
    "SchemaMetadata": {
        "fields": record_list("fields"),
        "platformUrn": stored_as("platform"),
    },
    "ContainerProperties": _WITH_CUSTOM,
    "DataFlow": {"orchestrator": part(0), "flowId": part(1), "cluster": part(2)},
    "DataJob": {"dataFlow": _data_flow, "jobId": part(1)},
    "NamedProperties": _WITH_CUSTOM,
    "DataProcessInstance": {
        "name": _named(DATA_PROCESS_INSTANCE_PROPERTIES, "name"),
        "mlTrainingRunProperties": aspect(ML_TRAINING_RUN_PROPERTIES),
    },
    "DataProcessInstanceProperties": _WITH_CUSTOM,
    "Chart": {"tool": part(0), "chartId": part(1), "properties": _titled},
    "Dashboard": {"tool": part(0), "dashboardId": part(1), "properties": _titled},
    "Document": {"subType": _sub_type, "info": properties},
    "CorpUser": {"username": part(0), "info": properties},
    "CorpGroup": {"name": part(0), "info": properties},
    "Tag": {"name": part(0)},
    "GlossaryTerm": {
        "name": part(0),
        "hierarchicalName": part(0),
        "description": property_of_entity("definition"),
    },
    "GlossaryTermProperties": {"description": stored_as("definition")},
    "Domain": {"id": part(0)},
    "StructuredPropertyEntity": {"definition": properties},
    "Form": {"info": properties},
    "OwnershipTypeEntity": {"info": properties},
}
"""The fields of platforms, datasets, jobs, people, tags and terms."""
