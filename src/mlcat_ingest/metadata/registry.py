"""The registry: every aspect, and every entity type with what other modules read of it.

An entity type without aspects here is open: it may have any aspect, which is not checked.
Source: the entity registry of DataHub's metadata model 1.7.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from mlcat_ingest.metadata.aspects import (
    assets,
    common,
    declaration,
    governance,  # noqa: F401 - it declares aspects
    keys,
    ml,
    processes,
    untyped,
)
from mlcat_ingest.metadata.aspects.declaration import AspectSpec, Default, edges_of, fields
from mlcat_ingest.metadata.codec import JsonObject
from mlcat_ingest.metadata.urn import KINDS, check, entity_type_of

DECLARED: Final[Mapping[str, AspectSpec]] = MappingProxyType(declaration.DECLARED)
"""Name to aspect, those that DataHub's clients write on open entity types included."""

ASPECTS: Final[Mapping[str, AspectSpec]] = MappingProxyType(
    {name: spec for name, spec in DECLARED.items() if spec.entity_types}
)
"""Name to aspect, for every aspect of the entity types in `ENTITIES`."""


@dataclass(frozen=True, slots=True)
class EntityType:
    """One entity type. The parts of its URNs are in `urn.KINDS`.

    Attributes:
        entity_type: its name.
        properties: its main aspect, which a proposal means that names none.
        editable: the aspect in which people describe it in the catalog, if there is one.
        type_name: its object type in GraphQL.
        enum: its value of GraphQL's EntityType.
        sought: whether a search that names no entity types finds it.
        label: what the catalog's pages call one, if not by `entity_type`.
        shows_properties: whether its page shows the main aspect in words, not as JSON.
        aspects: all aspects that it may have; none if it is open.
    """

    entity_type: str
    properties: str | None = None
    editable: str | None = None
    type_name: str = "OtherEntity"
    enum: str = "OTHER"
    sought: bool = False
    label: str | None = None
    shows_properties: bool = False
    aspects: frozenset[str] = frozenset()

    @property
    def key(self) -> str:
        """The aspect that is made of its URN."""
        return keys.CORP_USER_KEY if self.entity_type == "corpuser" else f"{self.entity_type}Key"


def _named(
    entity_type: str,
    properties: str | None = None,
    editable: str | None = None,
    *,
    type_name: str | None = None,
    enum: str | None = None,
    sought: bool = False,
    label: str | None = None,
    as_json: bool = False,
) -> EntityType:
    """Return an entity type that GraphQL has, by default under its own name: `MLModel`, `MLMODEL`.

    Its page shows the main aspect in words if the pages have a `label` for it; not with `as_json`.
    """
    name = type_name or re.sub("^(ml)?.", lambda first: first[0].upper(), entity_type)
    value = enum or re.sub("(?<=[a-z])(?=[A-Z])", "_", name.removesuffix("Entity")).upper()
    shows = label is not None and not as_json
    return EntityType(entity_type, properties, editable, name, value, sought, label, shows)


# In the order in which the catalog's overview lists them.
_CHECKED: Final = (
    _named(
        "mlModel",
        ml.ML_MODEL_PROPERTIES,
        common.EDITABLE_ML_MODEL_PROPERTIES,
        sought=True,
        label="Model",
    ),
    _named(
        "mlModelGroup",
        ml.ML_MODEL_GROUP_PROPERTIES,
        common.EDITABLE_ML_MODEL_GROUP_PROPERTIES,
        sought=True,
        label="Model group",
    ),
    _named(
        "mlFeatureTable",
        ml.ML_FEATURE_TABLE_PROPERTIES,
        common.EDITABLE_ML_FEATURE_TABLE_PROPERTIES,
        sought=True,
        label="Feature table",
    ),
    _named(
        "mlFeature",
        ml.ML_FEATURE_PROPERTIES,
        common.EDITABLE_ML_FEATURE_PROPERTIES,
        sought=True,
        label="Feature",
    ),
    _named(
        "mlPrimaryKey",
        ml.ML_PRIMARY_KEY_PROPERTIES,
        common.EDITABLE_ML_PRIMARY_KEY_PROPERTIES,
        sought=True,
        label="Primary key",
    ),
    _named(
        "mlModelDeployment",
        ml.ML_MODEL_DEPLOYMENT_PROPERTIES,
        enum="ML_MODEL_DEPLOYMENT",
        sought=True,
        label="Deployment",
        as_json=True,
    ),
    _named(
        "dataset",
        assets.DATASET_PROPERTIES,
        untyped.EDITABLE_DATASET_PROPERTIES,
        sought=True,
        label="Dataset",
    ),
    _named("test", assets.TEST_INFO, label="Metadata test"),
    _named("tag", assets.TAG_PROPERTIES, sought=True, label="Tag"),
    _named("glossaryTerm", untyped.GLOSSARY_TERM_INFO, sought=True, label="Glossary term"),
    _named("domain", untyped.DOMAIN_PROPERTIES, sought=True, label="Domain"),
    _named(
        "container",
        assets.CONTAINER_PROPERTIES,
        common.EDITABLE_CONTAINER_PROPERTIES,
        sought=True,
        label="Container",
    ),
    _named(
        "corpuser",
        untyped.CORP_USER_INFO,
        untyped.CORP_USER_EDITABLE_INFO,
        type_name="CorpUser",
        sought=True,
        label="User",
    ),
    _named("corpGroup", untyped.CORP_GROUP_INFO, sought=True, label="User group"),
    _named("dataPlatform", assets.DATA_PLATFORM_INFO, label="Platform"),
    _named(
        "dataPlatformInstance",
        assets.DATA_PLATFORM_INSTANCE_PROPERTIES,
        label="Platform instance",
        as_json=True,
    ),
    _named(
        "dataProcessInstance",
        processes.DATA_PROCESS_INSTANCE_PROPERTIES,
        sought=True,
        label="Process run",
    ),
    _named("versionSet", common.VERSION_SET_PROPERTIES, label="Version set", as_json=True),
    _named("dataFlow", untyped.DATA_FLOW_INFO, untyped.EDITABLE_DATA_FLOW_PROPERTIES, sought=True),
    _named("dataJob", untyped.DATA_JOB_INFO, untyped.EDITABLE_DATA_JOB_PROPERTIES, sought=True),
    _named("structuredProperty", untyped.PROPERTY_DEFINITION, type_name="StructuredPropertyEntity"),
)

_NAME: Final = re.compile("[A-Za-z][A-Za-z0-9]{0,99}")
_UNNAMED: Final = (
    "dataHubAction dataHubFile dataHubOpenAPISchema dataHubPageModule dataHubPageTemplate "
    "dataHubPersona dataHubRetention dataHubSecret dataHubStepState dataHubUpgrade "
    "dataProcess globalSettings inviteToken platformResource subscription telemetry"
)

# Entity types that DataHub's clients write, and whose aspects are kept whole, unchecked.
_OPEN: Final = (
    _named("application", sought=True),
    _named("assertion"),
    _named("businessAttribute"),
    _named("chart", untyped.CHART_INFO, sought=True),
    EntityType("dataContract", enum="DATA_CONTRACT"),
    EntityType("dataHubAccessToken", enum="ACCESS_TOKEN"),
    EntityType("dataHubConnection", enum="DATAHUB_CONNECTION"),
    EntityType(
        "dataHubIngestionSource",
        untyped.DATAHUB_INGESTION_SOURCE_INFO,
        enum="INGESTION_SOURCE",
        label="Ingestion source",
        shows_properties=True,
    ),
    EntityType("dataHubExecutionRequest", enum="EXECUTION_REQUEST", label="Ingestion run"),
    EntityType("dataHubPolicy", enum="DATAHUB_POLICY"),
    EntityType("dataHubRole", enum="DATAHUB_ROLE"),
    _named("dataHubView", enum="DATAHUB_VIEW"),
    _named("dataProduct", untyped.DATA_PRODUCT_PROPERTIES, sought=True),
    _named("dataType", type_name="DataTypeEntity"),
    _named("entityType", type_name="EntityTypeEntity"),
    EntityType("erModelRelationship", enum="ER_MODEL_RELATIONSHIP"),
    _named("form", untyped.FORM_INFO),
    _named("glossaryNode", untyped.GLOSSARY_NODE_INFO, sought=True),
    _named("incident"),
    EntityType("notebook", enum="NOTEBOOK", sought=True),
    EntityType("post", enum="POST"),
    _named("query", type_name="QueryEntity"),
    EntityType("role", enum="ROLE"),
    _named("schemaField", type_name="SchemaFieldEntity"),
    _named("dashboard", untyped.DASHBOARD_INFO, sought=True),
    _named("document", untyped.DOCUMENT_INFO, sought=True),
    _named(
        "ownershipType",
        untyped.OWNERSHIP_TYPE_INFO,
        type_name="OwnershipTypeEntity",
        enum="CUSTOM_OWNERSHIP_TYPE",
    ),
    *map(EntityType, _UNNAMED.split()),
)


def _with_aspects(entity_type: EntityType) -> EntityType:
    names = (n for n, spec in ASPECTS.items() if entity_type.entity_type in spec.entity_types)
    return replace(entity_type, aspects=frozenset(names))


ENTITIES: Final[Mapping[str, EntityType]] = MappingProxyType(
    {entity.entity_type: _with_aspects(entity) for entity in _CHECKED}
)
"""Entity types whose aspects are known, by name."""

ENTITY_TYPES: Final[Mapping[str, EntityType]] = MappingProxyType(
    {**ENTITIES, **{entity.entity_type: entity for entity in _OPEN}}
)
"""Entity types by name, open ones included."""

KEY_ASPECTS: Final = frozenset(entity.key for entity in ENTITY_TYPES.values())
"""The aspects that are made of the URN. A server checks no condition on a write of one."""


def allows(entity_type: str, aspect_name: str) -> bool:
    """Return whether an entity of this type may have this aspect; open types may have any."""
    kind = ENTITIES.get(entity_type)
    return aspect_name in kind.aspects if kind else _NAME.fullmatch(aspect_name) is not None


def implied_aspect(entity_type: str) -> str | None:
    """Return the aspect that a proposal means which names none; None for an open type."""
    kind = ENTITIES.get(entity_type)
    return None if kind is None else kind.properties


def record_name(aspect_name: str) -> str | None:
    """Return the record name that reads answer an aspect under; None for an unknown aspect."""
    spec = DECLARED.get(aspect_name)
    return None if spec is None else spec.record


@lru_cache(maxsize=128)
def key_aspect_name(entity_type: str) -> str:
    """Return the name of the aspect that is made of the URN; of open types by convention."""
    kind = ENTITIES.get(entity_type)
    return f"{entity_type}Key" if kind is None else kind.key


def key_aspect(urn: str) -> tuple[str, dict[str, str]]:
    """Return the name and the value of the key aspect of `urn`.

    Parts are spelled as in the URN. Open types have the whole id as `id`.

    Raises:
        InvalidUrnError: `urn` is no URN, or breaks a rule of its kind.
    """
    parts = check(urn)
    entity_type = entity_type_of(urn)
    name = key_aspect_name(entity_type)
    if entity_type not in KINDS:
        return name, {"id": urn.split(":", 3)[3]}
    return name, dict(zip(fields(ASPECTS[name].type), parts, strict=True))


def defaults(aspect_name: str) -> JsonObject:
    """Return what the service fills in where an aspect leaves a field out, as a fresh value."""
    spec = ASPECTS.get(aspect_name)
    if spec is None or spec.type is None:
        return {}
    return {
        field.name: json.loads(marker.json)
        for field in fields(spec.type).values()
        for marker in field.markers
        if isinstance(marker, Default)
    }


def edges(aspect_name: str, value: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """Return the relationship and the destination URN of every edge in an aspect, each once.

    Values that are not of the declared shape are passed over.
    """
    spec = ASPECTS.get(aspect_name)
    if spec is None or spec.type is None:
        return ()
    found = edges_of(spec.type, value)
    return tuple(dict.fromkeys(found) if len(found) > 1 else found)
