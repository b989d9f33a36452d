"""Aspects without a typed form here: they are kept as they come, whole.

Source: DataHub's metadata model 1.7; a test compares the names with the SDK's schema classes.
"""

from collections.abc import Mapping
from typing import Final

from mlcat_ingest.metadata.aspects.declaration import ASSETS, aspect

CORP_GROUP_INFO: Final = aspect("corpGroupInfo", "identity.CorpGroupInfo", on="corpGroup")
CORP_USER_EDITABLE_INFO: Final = aspect(
    "corpUserEditableInfo", "identity.CorpUserEditableInfo", on="corpuser"
)
CORP_USER_INFO: Final = aspect("corpUserInfo", "identity.CorpUserInfo", on="corpuser")
DATA_FLOW_INFO: Final = aspect("dataFlowInfo", "datajob.DataFlowInfo", on="dataFlow", patch_keys={})
DATAHUB_EXECUTION_REQUEST_RESULT: Final = aspect(
    "dataHubExecutionRequestResult",
    "execution.ExecutionRequestResult",
    on="dataHubExecutionRequest",
)
DATAHUB_INGESTION_SOURCE_INFO: Final = aspect(
    "dataHubIngestionSourceInfo",
    "ingestion.DataHubIngestionSourceInfo",
    on="dataHubIngestionSource",
)
DATA_JOB_INFO: Final = aspect("dataJobInfo", "datajob.DataJobInfo", on="dataJob", patch_keys={})
DOMAIN_PROPERTIES: Final = aspect("domainProperties", "domain.DomainProperties", on="domain")
EDITABLE_DATA_FLOW_PROPERTIES: Final = aspect(
    "editableDataFlowProperties", "datajob.EditableDataFlowProperties", on="dataFlow"
)
EDITABLE_DATA_JOB_PROPERTIES: Final = aspect(
    "editableDataJobProperties", "datajob.EditableDataJobProperties", on="dataJob"
)
EDITABLE_DATASET_PROPERTIES: Final = aspect(
    "editableDatasetProperties",
    "dataset.EditableDatasetProperties",
    on="dataset",
    patch_keys={},
)
EDITABLE_SCHEMA_METADATA: Final = aspect(
    "editableSchemaMetadata",
    "schema.EditableSchemaMetadata",
    on="dataset",
    patch_keys={
        "editableSchemaFieldInfo": "fieldPath",
        "editableSchemaFieldInfo.globalTags.tags": "tag",
        "editableSchemaFieldInfo.glossaryTerms.terms": "urn",
    },
)
FORMS: Final = aspect(
    "forms", "common.Forms", on=f"{ASSETS} glossaryTerm domain corpuser corpGroup"
)
GLOSSARY_TERM_INFO: Final = aspect(
    "glossaryTermInfo", "glossary.GlossaryTermInfo", on="glossaryTerm"
)
OPERATION: Final = aspect("operation", "common.Operation", on="dataset", timeseries=True)
PROPERTY_DEFINITION: Final = aspect(
    "propertyDefinition",
    "structured.StructuredPropertyDefinition",
    on="structuredProperty",
    patch_keys={"entityTypes": "", "allowedValues": "value", "allowedPlatforms": ""},
)
SCHEMA_METADATA: Final = aspect(
    "schemaMetadata", "schema.SchemaMetadata", on="dataset glossaryTerm"
)
SIBLINGS: Final = aspect("siblings", "common.Siblings", on="dataset", patch_keys={"siblings": ""})
CHART_INFO: Final = aspect(
    "chartInfo", "chart.ChartInfo", patch_keys={"inputEdges": "destinationUrn", "inputs": ""}
)
DASHBOARD_INFO: Final = aspect(
    "dashboardInfo",
    "dashboard.DashboardInfo",
    patch_keys={
        "chartEdges": "destinationUrn",
        "datasetEdges": "destinationUrn",
        "dashboards": "destinationUrn",
        "charts": "",
        "datasets": "",
    },
)
DATA_PRODUCT_PROPERTIES: Final = aspect(
    "dataProductProperties",
    "dataproduct.DataProductProperties",
    patch_keys={"assets": "destinationUrn"},
)
DOCUMENT_INFO: Final = aspect("documentInfo", "knowledge.DocumentInfo")
FORM_INFO: Final = aspect(
    "formInfo",
    "form.FormInfo",
    patch_keys={"prompts": "id", "actors.users": "", "actors.groups": ""},
)
GLOSSARY_NODE_INFO: Final = aspect("glossaryNodeInfo", "glossary.GlossaryNodeInfo")
INPUT_FIELDS: Final = aspect("inputFields", "common.InputFields")
OWNERSHIP_TYPE_INFO: Final = aspect("ownershipTypeInfo", "ownership.OwnershipTypeInfo")

# --- aspects that no module of ours names ---------------------------------------------------------

_OF_CHECKED_TYPES: Final[Mapping[str, tuple[str, str]]] = {
    "access": ("common.Access", "dataset container"),
    "aliases": ("common.Aliases", "dataset"),
    "assetSettings": ("settings.asset.AssetSettings", "dataset glossaryTerm domain"),
    "corpGroupEditableInfo": ("identity.CorpGroupEditableInfo", "corpGroup"),
    "corpUserCredentials": ("identity.CorpUserCredentials", "corpuser"),
    "corpUserSettings": ("identity.CorpUserSettings", "corpuser"),
    "corpUserStatus": ("identity.CorpUserStatus", "corpuser"),
    "cost": ("common.Cost", "mlModel"),
    "dataHubExecutionRequestKey": ("metadata.key.ExecutionRequestKey", "dataHubExecutionRequest"),
    "dataHubIngestionSourceKey": (
        "metadata.key.DataHubIngestionSourceKey",
        "dataHubIngestionSource",
    ),
    "dataProducts": ("dataproduct.DataProducts", "dataset dataFlow dataJob container"),
    "datasetDeprecation": ("dataset.DatasetDeprecation", "dataset"),
    "datasetUpstreamLineage": ("dataset.DatasetUpstreamLineage", "dataset"),
    "dataTransformLogic": ("common.DataTransformLogic", "dataJob"),
    "displayProperties": ("common.DisplayProperties", "glossaryTerm domain"),
    "embed": ("common.Embed", "dataset"),
    "glossaryRelatedTerms": ("glossary.GlossaryRelatedTerms", "glossaryTerm"),
    "groupMembership": ("identity.GroupMembership", "corpuser"),
    "icebergCatalogInfo": ("dataset.IcebergCatalogInfo", "dataset"),
    "icebergWarehouseInfo": ("dataplatforminstance.IcebergWarehouseInfo", "dataPlatformInstance"),
    "incidentsSummary": ("common.IncidentsSummary", "dataset dataFlow dataJob"),
    "intendedUse": ("ml.metadata.IntendedUse", "mlModel"),
    "logicalParent": ("logical.LogicalParent", "dataset"),
    "mlModelCaveatsAndRecommendations": ("ml.metadata.CaveatsAndRecommendations", "mlModel"),
    "mlModelEthicalConsiderations": ("ml.metadata.EthicalConsiderations", "mlModel"),
    "mlModelFactorPrompts": ("ml.metadata.MLModelFactorPrompts", "mlModel"),
    "mlModelMetrics": ("ml.metadata.Metrics", "mlModel"),
    "mlModelQuantitativeAnalyses": ("ml.metadata.QuantitativeAnalyses", "mlModel"),
    "nativeGroupMembership": ("identity.NativeGroupMembership", "corpuser"),
    "origin": ("common.Origin", "corpuser corpGroup"),
    "partitionsSummary": ("dataset.PartitionsSummary", "dataset"),
    "roleMembership": ("identity.RoleMembership", "corpuser corpGroup"),
    "semanticModelProperties": ("dataset.SemanticModelProperties", "dataset"),
    "slackUserInfo": ("dataplatform.slack.SlackUserInfo", "corpuser"),
    "storageFeatures": ("metadata.search.features.StorageFeatures", "dataset"),
    "structuredPropertySettings": ("structured.StructuredPropertySettings", "structuredProperty"),
    "upstreamMetrics": ("common.UpstreamMetrics", "dataset"),
    "usageFeatures": ("metadata.search.features.UsageFeatures", "dataset"),
    "versionInfo": ("datajob.VersionInfo", "dataFlow dataJob"),
    "viewProperties": ("dataset.ViewProperties", "dataset"),
}
_SERIES: Final[Mapping[str, tuple[str, str]]] = {
    "dataProcessInstanceRunEvent": (
        "dataprocess.DataProcessInstanceRunEvent",
        "dataProcessInstance",
    ),
    "datahubIngestionCheckpoint": ("datajob.datahub.DatahubIngestionCheckpoint", "dataJob"),
    "datahubIngestionRunSummary": ("datajob.datahub.DatahubIngestionRunSummary", "dataJob"),
    "datasetProfile": ("dataset.DatasetProfile", "dataset"),
    "datasetUsageStatistics": ("dataset.DatasetUsageStatistics", "dataset"),
}
_OF_OPEN_TYPES: Final = {
    "aiContext": "common.AiContext",
    "assertionActions": "assertion.AssertionActions",
    "assertionInfo": "assertion.AssertionInfo",
    "assertionKey": "metadata.key.AssertionKey",
    "assertionNote": "assertion.AssertionNote",
    "assertionRunEvent": "assertion.AssertionRunEvent",
    "assertionRunSummary": "assertion.AssertionRunSummary",
    "businessAttributes": "businessattribute.BusinessAttributes",
    "chartKey": "metadata.key.ChartKey",
    "chartQuery": "chart.ChartQuery",
    "chartUsageStatistics": "chart.ChartUsageStatistics",
    "dashboardKey": "metadata.key.DashboardKey",
    "dashboardUsageStatistics": "dashboard.DashboardUsageStatistics",
    "dataProcessInfo": "dataprocess.DataProcessInfo",
    "dataProcessKey": "metadata.key.DataProcessKey",
    "dataProductKey": "dataproduct.DataProductKey",
    "editableChartProperties": "chart.EditableChartProperties",
    "editableDashboardProperties": "dashboard.EditableDashboardProperties",
    "glossaryNodeKey": "metadata.key.GlossaryNodeKey",
    "schemaFieldAliases": "schemafield.SchemaFieldAliases",
    "schemaFieldKey": "metadata.key.SchemaFieldKey",
    "schemafieldInfo": "schemafield.SchemaFieldInfo",
    "semanticFieldAnnotation": "semanticmodel.SemanticFieldAnnotation",
}

for _name, (_record, _types) in _OF_CHECKED_TYPES.items():
    aspect(_name, _record, on=_types)
for _name, (_record, _types) in _SERIES.items():
    aspect(_name, _record, on=_types, timeseries=True)
for _name, _record in _OF_OPEN_TYPES.items():
    aspect(_name, _record)
