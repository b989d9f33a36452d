"""Aspects without a typed form here: they are kept as they come, whole.

Source: DataHub's metadata model 1.7; a test compares the names with the SDK's schema classes.
"""

import csv
from pathlib import Path
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


def _declare_unnamed() -> None:
    """Declare the aspects that no module of ours names.

    Those without entity types are of open ones.
    """
    table = Path(__file__).with_name("untyped.csv").read_text("utf-8")
    for row in csv.DictReader(table.splitlines()):
        is_series = row["timeseries"] == "yes"
        aspect(row["name"], row["record"], on=row["entity_types"], timeseries=is_series)


_declare_unnamed()
