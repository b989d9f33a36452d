"""Aspects without a typed form here: they are kept as they come, whole.

Source: DataHub's metadata model 1.7; a test compares the names with the SDK's schema classes.
"""

from collections.abc import Mapping
from typing import Final

from mlcat_ingest.metadata.aspects.declaration import ASSETS, aspect

CORP_GROUP_INFO: Final = aspect("corpGroupInfo", "identity", on="corpGroup")
CORP_USER_EDITABLE_INFO: Final = aspect("corpUserEditableInfo", "identity", on="corpuser")
CORP_USER_INFO: Final = aspect("corpUserInfo", "identity", on="corpuser")
DATA_FLOW_INFO: Final = aspect("dataFlowInfo", "datajob", on="dataFlow", patch_keys={})
DATAHUB_EXECUTION_REQUEST_RESULT: Final = aspect(
    "dataHubExecutionRequestResult",
    "execution.ExecutionRequestResult",
    on="dataHubExecutionRequest",
)
DATAHUB_INGESTION_SOURCE_INFO: Final = aspect(
    "dataHubIngestionSourceInfo", "ingestion", on="dataHubIngestionSource"
)
DATA_JOB_INFO: Final = aspect("dataJobInfo", "datajob", on="dataJob", patch_keys={})
DOMAIN_PROPERTIES: Final = aspect("domainProperties", "domain", on="domain")
EDITABLE_DATA_FLOW_PROPERTIES: Final = aspect(
    "editableDataFlowProperties", "datajob", on="dataFlow"
)
EDITABLE_DATA_JOB_PROPERTIES: Final = aspect("editableDataJobProperties", "datajob", on="dataJob")
EDITABLE_DATASET_PROPERTIES: Final = aspect(
    "editableDatasetProperties", "dataset", on="dataset", patch_keys={}
)
EDITABLE_SCHEMA_METADATA: Final = aspect(
    "editableSchemaMetadata",
    "schema",
    on="dataset",
    patch_keys={
        "editableSchemaFieldInfo": "fieldPath",
        "editableSchemaFieldInfo.globalTags.tags": "tag",
        "editableSchemaFieldInfo.glossaryTerms.terms": "urn",
    },
)
FORMS: Final = aspect("forms", "common", on=f"{ASSETS} glossaryTerm domain corpuser corpGroup")
GLOSSARY_TERM_INFO: Final = aspect("glossaryTermInfo", "glossary", on="glossaryTerm")
OPERATION: Final = aspect("operation", "common", on="dataset", timeseries=True)
PROPERTY_DEFINITION: Final = aspect(
    "propertyDefinition",
    "structured.StructuredPropertyDefinition",
    on="structuredProperty",
    patch_keys={"entityTypes": "", "allowedValues": "value", "allowedPlatforms": ""},
)
SCHEMA_METADATA: Final = aspect("schemaMetadata", "schema", on="dataset glossaryTerm")
SIBLINGS: Final = aspect("siblings", "common", on="dataset", patch_keys={"siblings": ""})
CHART_INFO: Final = aspect(
    "chartInfo", "chart", patch_keys={"inputEdges": "destinationUrn", "inputs": ""}
)
DASHBOARD_INFO: Final = aspect(
    "dashboardInfo",
    "dashboard",
    patch_keys={
        "chartEdges": "destinationUrn",
        "datasetEdges": "destinationUrn",
        "dashboards": "destinationUrn",
        "charts": "",
        "datasets": "",
    },
)
DATA_PRODUCT_PROPERTIES: Final = aspect(
    "dataProductProperties", "dataproduct", patch_keys={"assets": "destinationUrn"}
)
DOCUMENT_INFO: Final = aspect("documentInfo", "knowledge")
FORM_INFO: Final = aspect(
    "formInfo", "form", patch_keys={"prompts": "id", "actors.users": "", "actors.groups": ""}
)
GLOSSARY_NODE_INFO: Final = aspect("glossaryNodeInfo", "glossary")
INPUT_FIELDS: Final = aspect("inputFields", "common")
OWNERSHIP_TYPE_INFO: Final = aspect("ownershipTypeInfo", "ownership.OwnershipTypeInfo")

# --- aspects that no module of ours names ---------------------------------------------------------

_UNNAMED: Final[Mapping[tuple[str, str], str]] = {
    ("common", "corpuser corpGroup"): "origin",
    ("common", "dataJob"): "dataTransformLogic",
    ("common", "dataset"): "aliases upstreamMetrics",
    ("common.Embed", "dataset"): "embed",
    ("common", "dataset container"): "access",
    ("common", "dataset dataFlow dataJob"): "incidentsSummary",
    ("common", "glossaryTerm domain"): "displayProperties",
    ("common", "mlModel"): "cost",
    ("datajob", "dataFlow dataJob"): "versionInfo",
    ("dataplatform.slack", "corpuser"): "slackUserInfo",
    ("dataplatforminstance", "dataPlatformInstance"): "icebergWarehouseInfo",
    ("dataproduct", "dataset dataFlow dataJob container"): "dataProducts",
    ("dataset", "dataset"): (
        "datasetDeprecation datasetUpstreamLineage icebergCatalogInfo partitionsSummary "
        "semanticModelProperties viewProperties"
    ),
    ("glossary", "glossaryTerm"): "glossaryRelatedTerms",
    ("identity", "corpGroup"): "corpGroupEditableInfo",
    ("identity", "corpuser"): (
        "corpUserCredentials corpUserSettings corpUserStatus groupMembership nativeGroupMembership"
    ),
    ("identity", "corpuser corpGroup"): "roleMembership",
    ("logical", "dataset"): "logicalParent",
    ("metadata.key", "dataHubIngestionSource"): "dataHubIngestionSourceKey",
    ("metadata.key.ExecutionRequestKey", "dataHubExecutionRequest"): "dataHubExecutionRequestKey",
    ("metadata.search.features", "dataset"): "storageFeatures usageFeatures",
    ("ml.metadata", "mlModel"): "intendedUse mlModelFactorPrompts",
    ("ml.metadata.CaveatsAndRecommendations", "mlModel"): "mlModelCaveatsAndRecommendations",
    ("ml.metadata.EthicalConsiderations", "mlModel"): "mlModelEthicalConsiderations",
    ("ml.metadata.Metrics", "mlModel"): "mlModelMetrics",
    ("ml.metadata.QuantitativeAnalyses", "mlModel"): "mlModelQuantitativeAnalyses",
    ("settings.asset", "dataset glossaryTerm domain"): "assetSettings",
    ("structured", "structuredProperty"): "structuredPropertySettings",
    ("assertion", ""): (
        "assertionActions assertionInfo assertionNote assertionRunEvent assertionRunSummary"
    ),
    ("businessattribute", ""): "businessAttributes",
    ("chart", ""): "chartQuery chartUsageStatistics editableChartProperties",
    ("common", ""): "aiContext",
    ("dashboard", ""): "dashboardUsageStatistics editableDashboardProperties",
    ("dataprocess", ""): "dataProcessInfo",
    ("dataproduct", ""): "dataProductKey",
    ("metadata.key", ""): (
        "assertionKey chartKey dashboardKey dataProcessKey glossaryNodeKey schemaFieldKey"
    ),
    ("schemafield", ""): "schemaFieldAliases",
    ("schemafield.SchemaFieldInfo", ""): "schemafieldInfo",
    ("semanticmodel", ""): "semanticFieldAnnotation",
}
"""Names by package, or record, and entity types; without these they are of open entity types."""

_SERIES: Final[Mapping[str, tuple[str, str]]] = {
    "dataProcessInstanceRunEvent": ("dataprocess", "dataProcessInstance"),
    "datahubIngestionCheckpoint": ("datajob.datahub", "dataJob"),
    "datahubIngestionRunSummary": ("datajob.datahub", "dataJob"),
    "datasetProfile": ("dataset", "dataset"),
    "datasetUsageStatistics": ("dataset", "dataset"),
}

for (_record, _types), _names in _UNNAMED.items():
    for _name in _names.split():
        aspect(_name, _record, on=_types)
for _name, (_record, _types) in _SERIES.items():
    aspect(_name, _record, on=_types, timeseries=True)
