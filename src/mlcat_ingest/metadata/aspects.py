"""The aspects of the catalog's model that this package names, and what it knows of them.

A declaration adds to what DataHub's own model says: how lists are merged and patched, what the
service computes, and what people search by. "MLflow" names what this package's mapping makes it of.
"""

from typing import Final, Literal, TypeAlias

from mlcat_ingest.metadata.declaration import ATTRIBUTION, SearchField, aspect, choices

# --- of most entity types ---

STATUS: Final = aspect("status", patch_keys={}, searched=(SearchField("removed", "removed"),))
"""The soft delete: `removed` hides the entity. Source in MLflow: the lifecycle stage."""

SUB_TYPES: Final = aspect("subTypes", searched=(SearchField("typeNames", "typeNames", "tags"),))
"""Finer kinds of the entity, free text, the main one first."""

DATA_PLATFORM_INSTANCE: Final = aspect(
    "dataPlatformInstance",
    searched=(
        SearchField("platform", "platform", entity_types=("dataPlatform",)),
        SearchField("instance", "platformInstance"),
    ),
)
"""The platform the entity lives on, and which installation of it. Source: the recipe."""

CONTAINER: Final = aspect(
    "container",
    searched=(
        SearchField("container", "container", entity_types=("container",)),
        SearchField("container", "browsePathV2"),
    ),
)
"""The container that holds the entity."""

BROWSE_PATHS: Final = aspect("browsePaths")
"""Slash-separated paths of the older browse view."""

BROWSE_PATHS_V2: Final = aspect(
    "browsePathsV2",
    one_value=frozenset({"path"}),
    searched=(SearchField("path.urn", "browsePathV2"),),
)
"""The place of the entity in the browse view, outermost step first."""

# The descriptions that people wrote in the catalog's pages; ours never overwrite them.
EDITABLE_CONTAINER_PROPERTIES: Final = aspect("editableContainerProperties")
EDITABLE_ML_FEATURE_PROPERTIES: Final = aspect("editableMlFeatureProperties")
EDITABLE_ML_FEATURE_TABLE_PROPERTIES: Final = aspect("editableMlFeatureTableProperties")
EDITABLE_ML_MODEL_GROUP_PROPERTIES: Final = aspect("editableMlModelGroupProperties")
EDITABLE_ML_MODEL_PROPERTIES: Final = aspect("editableMlModelProperties")
EDITABLE_ML_PRIMARY_KEY_PROPERTIES: Final = aspect("editableMlPrimaryKeyProperties")

IS_LATEST: Final = "isLatest"
"""The field of a version that the service computes; a proposal that holds it is refused."""

VERSION_PROPERTIES: Final = aspect(
    "versionProperties",
    merge_keys={"aliases": "versionTag"},
    patch_keys={},
    computed=frozenset({IS_LATEST}),
    unowned=frozenset({"metadataCreatedTimestamp"}),
)
"""The version of a version set that the entity is. MLflow: version number, aliases.

`sortId` orders the set as text (numbers are padded with zeros). `isLatest` is computed
by the service.
"""

VERSION_SET_PROPERTIES: Final = aspect("versionSetProperties")
"""The set itself: its newest member, and how members are ordered."""

# --- by which people govern entities ---

OWNERSHIP_TYPES: Final = choices("com.linkedin.common.Owner", "type")
"""The catalog's own types of ownership."""

OWNERSHIP: Final = aspect(
    "ownership",
    merge_keys={"owners": f"owner type typeUrn {ATTRIBUTION}"},
    patch_keys={"owners": "owner type typeUrn"},
    computed=frozenset({"ownerTypes"}),
    curated="owners",
    searched=(
        SearchField("owners.owner", "owners", "tags", entity_types=("corpuser", "corpGroup")),
    ),
)
"""The owners of the entity. Source in MLflow: the run's user, the `mlflow.user` tag.

`ownerTypes` is an index by owner type that the service computes; leave it out.
"""

GLOBAL_TAGS: Final = aspect(
    "globalTags",
    merge_keys={"tags": f"tag {ATTRIBUTION}"},
    patch_keys={"tags": "tag"},
    curated="tags",
    searched=(SearchField("tags.tag", "tags", "tags", entity_types=("tag",)),),
)
"""The catalog's tags on the entity, which are names of their own (not MLflow's tags)."""

GLOSSARY_TERMS: Final = aspect(
    "glossaryTerms",
    merge_keys={"terms": f"urn {ATTRIBUTION}"},
    patch_keys={"terms": "urn"},
    unowned=frozenset({"auditStamp"}),
    curated="terms",
    searched=(SearchField("terms.urn", "glossaryTerms", "tags", entity_types=("glossaryTerm",)),),
)
"""The business terms of the entity, and when they last changed."""

INSTITUTIONAL_MEMORY: Final = aspect(
    "institutionalMemory",
    merge_keys={"elements": "url"},
    curated="elements",
    searched=(SearchField("elements.description", "links", "description", keyword=False),),
)
"""Links to pages about the entity, keyed by address and description."""

DOMAINS: Final = aspect(
    "domains",
    patch_keys={"domains": ""},
    computed=frozenset({"domainAssociations"}),
    curated="domains",
    searched=(SearchField("domains", "domains", "tags", entity_types=("domain",)),),
)
"""The business domains of the entity; the catalog's page shows the first.

`domainAssociations` repeats them as records that the service computes; leave it out.
"""

APPLICATIONS: Final = aspect("applications")
"""The applications that the entity belongs to."""

DEPRECATION: Final = aspect("deprecation", searched=(SearchField("deprecated", "deprecated"),))
"""That the entity should no longer be used, why, from when, and what to use instead."""

DOCUMENTATION: Final = aspect(
    "documentation",
    searched=(
        SearchField("documentations.documentation", "description", "description", keyword=False),
    ),
)
"""Texts about the entity from several authors or tools."""

STRUCTURED_PROPERTIES: Final = aspect(
    "structuredProperties",
    merge_keys={"properties": "propertyUrn"},
    patch_keys={"properties": f"propertyUrn {ATTRIBUTION}"},
    curated="properties",
)
"""Typed properties that the catalog's users defined, keyed by property."""

# --- of models, model groups, features, feature tables, primary keys and deployments ---

MLFeatureDataType: TypeAlias = Literal[
    "USELESS", "NOMINAL", "ORDINAL", "BINARY", "COUNT", "TIME", "INTERVAL", "IMAGE", "VIDEO",
    "AUDIO", "TEXT", "MAP", "SEQUENCE", "SET", "CONTINUOUS", "BYTE", "UNKNOWN",
]  # fmt: skip
"""The kind of a feature's values; a list of anything is a SEQUENCE."""

ML_MODEL_PROPERTIES: Final = aspect(
    "mlModelProperties",
    merge_keys={"hyperParams": "name", "trainingMetrics": "name", "onlineMetrics": "name"},
)
"""The properties of a model: the outcome of one training run."""

ML_MODEL_GROUP_PROPERTIES: Final = aspect("mlModelGroupProperties")
"""The properties of a group: the container of all runs of one model."""

ML_FEATURE_PROPERTIES: Final = aspect("mlFeatureProperties")
"""The properties of a feature; its name is in its URN."""

ML_FEATURE_TABLE_PROPERTIES: Final = aspect("mlFeatureTableProperties")
"""The properties of a feature table: a feature view or feature group."""

aspect("mlFeatureTableKey")

ML_PRIMARY_KEY_PROPERTIES: Final = aspect("mlPrimaryKeyProperties")
"""The properties of a primary key: an entity that features are looked up by."""

ML_MODEL_DEPLOYMENT_PROPERTIES: Final = aspect("mlModelDeploymentProperties")
"""The properties of a deployment: an endpoint that serves models."""

SOURCE_CODE: Final = aspect("sourceCode", merge_keys={"sourceCode": "type sourceCodeUrl"})
"""The place of the code. MLflow: git repository and commit of the run."""

INTENDED_USE: Final = aspect("intendedUse")
"""The purpose and the users of the model, and the uses that it is not made for."""

ML_MODEL_FACTOR_PROMPTS: Final = aspect("mlModelFactorPrompts")
"""The factors that are foreseen, and those that results are reported for."""

ML_MODEL_ETHICAL_CONSIDERATIONS: Final = aspect("mlModelEthicalConsiderations")
"""Sensitive data, decisions about people, risks, and what is done about these."""

ML_MODEL_CAVEATS_AND_RECOMMENDATIONS: Final = aspect(
    "mlModelCaveatsAndRecommendations", yields=frozenset({"caveats", "recommendations"})
)
"""The limits of the model, where to use it, and what data to evaluate it on."""

ML_MODEL_METRICS: Final = aspect("mlModelMetrics")
"""How the performance of the model is measured, and from where on it decides."""

ML_MODEL_TRAINING_DATA: Final = aspect(
    "mlModelTrainingData", merge_keys={"trainingData": "dataset"}
)
"""The training data of the model. MLflow: dataset inputs of training contexts."""

ML_MODEL_EVALUATION_DATA: Final = aspect(
    "mlModelEvaluationData", merge_keys={"evaluationData": "dataset"}
)
"""The evaluation data of the model. MLflow: dataset inputs of evaluation contexts."""

# --- of services, their tools, skills, agents and documents ---

SERVICE_PROPERTIES: Final = aspect("serviceProperties")
"""A service: its name, what it provides, and the APIs that it has. MLflow: an MCP server."""

MCP_SERVER_PROPERTIES: Final = aspect("mcpServerProperties")
"""The connection of an MCP server; `timeout` is in seconds, the headers hold no secrets."""

SERVICE_DEFINITION: Final = aspect("serviceDefinition")
"""The document that describes the service, whole. MLflow: the server.json of a version."""

API_PROPERTIES: Final = aspect("apiProperties")
"""A callable with a name. MLflow: a tool of an MCP server."""

AGENT_SKILL_INFO: Final = aspect("agentSkillInfo")
"""A skill: its name, when to use it, what to do then, its files and the tools it needs."""

AI_AGENT_INFO: Final = aspect("aiAgentInfo")
"""An agent: its name, what it does, and its instructions. MLflow: an external model."""

AI_AGENT_DEPENDENCIES: Final = aspect(
    "aiAgentDependencies", edge_fields={"AgentHasSkill": "skills", "AgentUsesTool": "tools"}
)
"""The skills, the tools and the models of an agent."""

DOCUMENT_INFO: Final = aspect(
    "documentInfo",
    merge_keys={"relatedAssets": "asset", "relatedDocuments": "document"},
    edge_fields={
        "IsChildOf": "parentDocument",
        "RelatedAsset": "relatedAssets",
        "RelatedDocument": "relatedDocuments",
    },
    searched=(SearchField("contents.text", "text", "description", keyword=False),),
)
"""A document: its title, its text, and the assets that it is about. MLflow: a prompt."""

DOCUMENT_SETTINGS: Final = aspect("documentSettings")
"""Whether a document is among all documents, or only at the assets that it is about."""

# --- of what models are linked to, and of metadata tests and incidents ---

DATA_PLATFORM_INFO: Final = aspect("dataPlatformInfo")
"""A platform: its short name, what kind of system it is, and how it parts dataset names."""

DATA_PLATFORM_INSTANCE_PROPERTIES: Final = aspect("dataPlatformInstanceProperties")
"""One installation of a platform: name to show, description, address."""

UPSTREAM_LINEAGE: Final = aspect("upstreamLineage", patch_keys={"upstreams": "dataset"})
"""Upstream lineage of a dataset, as a whole and field by field."""

DATASET_PROPERTIES: Final = aspect("datasetProperties", patch_keys={})
"""A dataset: name to show, full name, description and addresses. MLflow: a dataset input."""

TAG_PROPERTIES: Final = aspect("tagProperties")
"""A tag: name to show, description, colour as `#rrggbb`."""

CONTAINER_PROPERTIES: Final = aspect("containerProperties")
"""A container of assets; `qualifiedName` is its full name at the source."""

TEST_INFO: Final = aspect("testInfo")
"""A metadata test: its name, its category (free text) and its rules."""

TEST_RESULTS: Final = aspect(
    "testResults", edge_fields={"IsFailing": "failingTests", "IsPassing": "passingTests"}
)
"""The metadata tests that the entity passes and fails; written by the catalog."""

INCIDENT_INFO: Final = aspect("incidentInfo")
"""An incident: what is wrong with which entities, from 0 (critical) to 3 by priority."""

INCIDENTS_SUMMARY: Final = aspect("incidentsSummary")
"""The incidents of an entity, which the catalog lists; the lists of URNs are older."""

# --- of jobs and of their executions, training runs among them ---

aspect("dataJobKey")

DATA_JOB_INPUT_OUTPUT: Final = aspect(
    "dataJobInputOutput",
    patch_keys={
        "inputDatajobEdges": "destinationUrn",
        "inputDatasetEdges": "destinationUrn",
        "outputDatasetEdges": "destinationUrn",
        "inputDatasetFields": "",
        "outputDatasetFields": "",
    },
)
"""Inputs and outputs of a job, and the jobs that come before it."""

DATA_PROCESS_INSTANCE_PROPERTIES: Final = aspect("dataProcessInstanceProperties")
"""One execution of a process: its name, when it began and who began it."""

DATA_PROCESS_INSTANCE_INPUT: Final = aspect(
    "dataProcessInstanceInput",
    merge_keys={"inputEdges": "destinationUrn"},
    patch_keys={"inputs": "", "inputEdges": "destinationUrn"},
)
"""The inputs of an execution; `inputEdges` say the same with time and actor."""

DATA_PROCESS_INSTANCE_OUTPUT: Final = aspect(
    "dataProcessInstanceOutput",
    patch_keys={"outputs": "", "outputEdges": "destinationUrn"},
)
"""The outputs of an execution; `outputEdges` say the same with time and actor."""

DATA_PROCESS_INSTANCE_RELATIONSHIPS: Final = aspect("dataProcessInstanceRelationships")
"""The relations of an execution: its job, its parent and the executions before it."""

ML_TRAINING_RUN_PROPERTIES: Final = aspect(
    "mlTrainingRunProperties",
    merge_keys={"hyperParams": "name", "trainingMetrics": "name"},
)
"""A training run as an execution: its id, parameters, metrics and where its files are."""

DATAHUB_EXECUTION_REQUEST_INPUT: Final = aspect(
    "dataHubExecutionRequestInput", edge_fields={"ingestionSource": "ingestionSource"}
)
"""An ingestion run as it was asked for."""

# --- kept as they come, whole: other modules name them, or they have keys for patches ---

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
