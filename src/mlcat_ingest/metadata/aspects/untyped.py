"""Aspects kept as they come, whole: other modules name them, or they have keys for patches."""

from typing import Final

from mlcat_ingest.metadata.aspects.declaration import aspect

DATA_FLOW_INFO: Final = aspect("dataFlowInfo", patch_keys={})
DATAHUB_EXECUTION_REQUEST_RESULT: Final = aspect("dataHubExecutionRequestResult")
DATAHUB_INGESTION_SOURCE_INFO: Final = aspect("dataHubIngestionSourceInfo")
DATA_JOB_INFO: Final = aspect("dataJobInfo", patch_keys={})
EDITABLE_DATASET_PROPERTIES: Final = aspect("editableDatasetProperties", patch_keys={})
EDITABLE_SCHEMA_METADATA: Final = aspect(
    "editableSchemaMetadata",
    patch_keys={
        "editableSchemaFieldInfo": "fieldPath",
        "editableSchemaFieldInfo.globalTags.tags": "tag",
        "editableSchemaFieldInfo.glossaryTerms.terms": "urn",
    },
)
FORMS: Final = aspect("forms")
ML_MODEL_METRICS: Final = aspect("mlModelMetrics")
PROPERTY_DEFINITION: Final = aspect(
    "propertyDefinition",
    patch_keys={"entityTypes": "", "allowedValues": "value", "allowedPlatforms": ""},
)
SCHEMA_METADATA: Final = aspect("schemaMetadata", one_value=frozenset({"fields", "platformSchema"}))
SIBLINGS: Final = aspect("siblings", patch_keys={"siblings": ""})
CHART_INFO: Final = aspect("chartInfo", patch_keys={"inputEdges": "destinationUrn", "inputs": ""})
DASHBOARD_INFO: Final = aspect(
    "dashboardInfo",
    patch_keys={
        "chartEdges": "destinationUrn",
        "datasetEdges": "destinationUrn",
        "dashboards": "destinationUrn",
        "charts": "",
        "datasets": "",
    },
)
DATA_PRODUCT_PROPERTIES: Final = aspect(
    "dataProductProperties", patch_keys={"assets": "destinationUrn"}
)
FORM_INFO: Final = aspect(
    "formInfo", patch_keys={"prompts": "id", "actors.users": "", "actors.groups": ""}
)
