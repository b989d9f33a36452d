"""Aspects kept as they come, whole: other modules name them, or they have keys for patches."""

from typing import Final

from mlcat_ingest.metadata.aspects.declaration import aspect

DATA_FLOW_INFO: Final = aspect("dataFlowInfo", typed=False, patch_keys={})
DATAHUB_EXECUTION_REQUEST_RESULT: Final = aspect("dataHubExecutionRequestResult", typed=False)
DATAHUB_INGESTION_SOURCE_INFO: Final = aspect("dataHubIngestionSourceInfo", typed=False)
DATA_JOB_INFO: Final = aspect("dataJobInfo", typed=False, patch_keys={})
EDITABLE_DATASET_PROPERTIES: Final = aspect("editableDatasetProperties", typed=False, patch_keys={})
EDITABLE_SCHEMA_METADATA: Final = aspect(
    "editableSchemaMetadata",
    typed=False,
    patch_keys={
        "editableSchemaFieldInfo": "fieldPath",
        "editableSchemaFieldInfo.globalTags.tags": "tag",
        "editableSchemaFieldInfo.glossaryTerms.terms": "urn",
    },
)
FORMS: Final = aspect("forms", typed=False)
ML_MODEL_METRICS: Final = aspect("mlModelMetrics")
PROPERTY_DEFINITION: Final = aspect(
    "propertyDefinition",
    typed=False,
    patch_keys={"entityTypes": "", "allowedValues": "value", "allowedPlatforms": ""},
)
SCHEMA_METADATA: Final = aspect(
    "schemaMetadata", typed=False, one_value=frozenset({"fields", "platformSchema"})
)
SIBLINGS: Final = aspect("siblings", typed=False, patch_keys={"siblings": ""})
CHART_INFO: Final = aspect(
    "chartInfo", typed=False, patch_keys={"inputEdges": "destinationUrn", "inputs": ""}
)
DASHBOARD_INFO: Final = aspect(
    "dashboardInfo",
    typed=False,
    patch_keys={
        "chartEdges": "destinationUrn",
        "datasetEdges": "destinationUrn",
        "dashboards": "destinationUrn",
        "charts": "",
        "datasets": "",
    },
)
DATA_PRODUCT_PROPERTIES: Final = aspect(
    "dataProductProperties", typed=False, patch_keys={"assets": "destinationUrn"}
)
FORM_INFO: Final = aspect(
    "formInfo", typed=False, patch_keys={"prompts": "id", "actors.users": "", "actors.groups": ""}
)
