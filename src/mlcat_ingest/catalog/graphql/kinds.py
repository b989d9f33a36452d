"""How entity types appear in GraphQL: one table, entity type to type name and enum value."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Kind:
    """One entity type in GraphQL.

    `type_name` is the object type, `enum` the value of EntityType, `properties` the aspect behind
    the field `properties` and `editable` the one behind `editableProperties`, where there are any.
    A search that names no types finds those that are `sought`: what people look for.
    """

    entity_type: str
    type_name: str
    enum: str
    properties: str | None = None
    editable: str | None = None
    sought: bool = False


def _ml(entity_type: str, type_name: str, enum: str) -> Kind:
    capital = f"Ml{entity_type[2:]}"
    return Kind(
        entity_type,
        type_name,
        enum,
        f"{entity_type}Properties",
        f"editable{capital}Properties",
        sought=True,
    )


_ROWS = (
    _ml("mlModel", "MLModel", "MLMODEL"),
    _ml("mlModelGroup", "MLModelGroup", "MLMODEL_GROUP"),
    _ml("mlFeature", "MLFeature", "MLFEATURE"),
    _ml("mlFeatureTable", "MLFeatureTable", "MLFEATURE_TABLE"),
    _ml("mlPrimaryKey", "MLPrimaryKey", "MLPRIMARY_KEY"),
    Kind(
        "mlModelDeployment",
        "MLModelDeployment",
        "ML_MODEL_DEPLOYMENT",
        "mlModelDeploymentProperties",
        sought=True,
    ),
    Kind(
        "dataset",
        "Dataset",
        "DATASET",
        "datasetProperties",
        "editableDatasetProperties",
        sought=True,
    ),
    Kind(
        "container",
        "Container",
        "CONTAINER",
        "containerProperties",
        "editableContainerProperties",
        sought=True,
    ),
    Kind("dataPlatform", "DataPlatform", "DATA_PLATFORM", "dataPlatformInfo"),
    Kind(
        "dataPlatformInstance",
        "DataPlatformInstance",
        "DATA_PLATFORM_INSTANCE",
        "dataPlatformInstanceProperties",
    ),
    Kind(
        "dataProcessInstance",
        "DataProcessInstance",
        "DATA_PROCESS_INSTANCE",
        "dataProcessInstanceProperties",
        sought=True,
    ),
    Kind(
        "dataFlow",
        "DataFlow",
        "DATA_FLOW",
        "dataFlowInfo",
        "editableDataFlowProperties",
        sought=True,
    ),
    Kind("dataJob", "DataJob", "DATA_JOB", "dataJobInfo", "editableDataJobProperties", sought=True),
    Kind("chart", "Chart", "CHART", "chartInfo", sought=True),
    Kind("dashboard", "Dashboard", "DASHBOARD", "dashboardInfo", sought=True),
    Kind("document", "Document", "DOCUMENT", "documentInfo", sought=True),
    Kind("corpuser", "CorpUser", "CORP_USER", "corpUserInfo", "corpUserEditableInfo", sought=True),
    Kind("corpGroup", "CorpGroup", "CORP_GROUP", "corpGroupInfo", sought=True),
    Kind("tag", "Tag", "TAG", "tagProperties", sought=True),
    Kind("glossaryTerm", "GlossaryTerm", "GLOSSARY_TERM", "glossaryTermInfo", sought=True),
    Kind("domain", "Domain", "DOMAIN", "domainProperties", sought=True),
    Kind("form", "Form", "FORM", "formInfo"),
    Kind("ownershipType", "OwnershipTypeEntity", "CUSTOM_OWNERSHIP_TYPE", "ownershipTypeInfo"),
    Kind(
        "structuredProperty",
        "StructuredPropertyEntity",
        "STRUCTURED_PROPERTY",
        "propertyDefinition",
    ),
    Kind("test", "Test", "TEST", "testInfo"),
    Kind("versionSet", "VersionSet", "VERSION_SET", "versionSetProperties"),
)

_OTHER: Final = "OtherEntity"

# Entity types that have a name in EntityType and no object type of their own.
_NAMED_ONLY = {
    "application": "APPLICATION",
    "assertion": "ASSERTION",
    "businessAttribute": "BUSINESS_ATTRIBUTE",
    "dataContract": "DATA_CONTRACT",
    "dataHubAccessToken": "ACCESS_TOKEN",
    "dataHubConnection": "DATAHUB_CONNECTION",
    "dataHubExecutionRequest": "EXECUTION_REQUEST",
    "dataHubIngestionSource": "INGESTION_SOURCE",
    "dataHubPolicy": "DATAHUB_POLICY",
    "dataHubRole": "DATAHUB_ROLE",
    "dataHubView": "DATAHUB_VIEW",
    "dataProduct": "DATA_PRODUCT",
    "dataType": "DATA_TYPE",
    "entityType": "ENTITY_TYPE",
    "erModelRelationship": "ER_MODEL_RELATIONSHIP",
    "glossaryNode": "GLOSSARY_NODE",
    "incident": "INCIDENT",
    "notebook": "NOTEBOOK",
    "post": "POST",
    "query": "QUERY",
    "role": "ROLE",
    "schemaField": "SCHEMA_FIELD",
}

_SOUGHT_TOO = frozenset({"application", "dataProduct", "glossaryNode", "notebook"})

KINDS: Final = {
    kind.entity_type: kind
    for kind in (
        *_ROWS,
        *(
            Kind(entity_type, _OTHER, enum, sought=entity_type in _SOUGHT_TOO)
            for entity_type, enum in _NAMED_ONLY.items()
        ),
    )
}
"""Entity types that have a name in GraphQL."""

ENTITY_TYPES: Final = {kind.enum: kind.entity_type for kind in KINDS.values()}
"""Value of EntityType to entity type; OTHER and RESTRICTED stand for none."""

SOUGHT: Final = frozenset(kind.entity_type for kind in KINDS.values() if kind.sought)
"""The entity types of a search that names none."""


def kind_of(entity_type: str) -> Kind:
    """Return the form of an entity type; one that has no name in GraphQL is an OTHER."""
    return KINDS.get(entity_type) or Kind(entity_type, _OTHER, "OTHER")
