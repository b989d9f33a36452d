"""Key aspects: a URN's parts as fields, spelled as in the URN (encoded).

A catalog derives them from the URN; a client that asks for one asks whether the entity exists.
Source: `com.linkedin.metadata.key.*` of DataHub's metadata model.
"""

from typing import Annotated, Final, NotRequired, TypedDict

from mlcat_ingest.metadata.aspects.common import FabricType
from mlcat_ingest.metadata.aspects.declaration import aspect
from mlcat_ingest.metadata.aspects.markers import Edge, UrnOf


class MLModelKey(TypedDict):
    """Key of a model."""

    platform: Annotated[str, UrnOf("dataPlatform")]
    name: str
    origin: FabricType


ML_MODEL_KEY: Final = aspect("mlModelKey", "metadata.key.MLModelKey", MLModelKey, "mlModel")


class MLModelGroupKey(MLModelKey):
    """Key of a model group."""


ML_MODEL_GROUP_KEY: Final = aspect(
    "mlModelGroupKey", "metadata.key.MLModelGroupKey", MLModelGroupKey, "mlModelGroup"
)


class MLModelDeploymentKey(MLModelKey):
    """Key of a deployment."""


ML_MODEL_DEPLOYMENT_KEY: Final = aspect(
    "mlModelDeploymentKey",
    "metadata.key.MLModelDeploymentKey",
    MLModelDeploymentKey,
    "mlModelDeployment",
)


class DatasetKey(MLModelKey):
    """Key of a dataset."""


DATASET_KEY: Final = aspect("datasetKey", "metadata.key.DatasetKey", DatasetKey, "dataset")


class MLFeatureKey(TypedDict):
    """Key of a feature; the namespace is the name of its feature table."""

    featureNamespace: str
    name: str


ML_FEATURE_KEY: Final = aspect(
    "mlFeatureKey", "metadata.key.MLFeatureKey", MLFeatureKey, "mlFeature"
)


class MLPrimaryKeyKey(MLFeatureKey):
    """Key of a primary key."""


ML_PRIMARY_KEY_KEY: Final = aspect(
    "mlPrimaryKeyKey", "metadata.key.MLPrimaryKeyKey", MLPrimaryKeyKey, "mlPrimaryKey"
)


class MLFeatureTableKey(TypedDict):
    """Key of a feature table."""

    platform: Annotated[str, Edge("SourcePlatform", "dataPlatform")]
    name: str


ML_FEATURE_TABLE_KEY: Final = aspect(
    "mlFeatureTableKey", "metadata.key.MLFeatureTableKey", MLFeatureTableKey, "mlFeatureTable"
)


class DataPlatformKey(TypedDict):
    """Key of a data platform."""

    platformName: str


DATA_PLATFORM_KEY: Final = aspect(
    "dataPlatformKey", "metadata.key.DataPlatformKey", DataPlatformKey, "dataPlatform"
)


class DataPlatformInstanceKey(TypedDict):
    """Key of an installation of a data platform."""

    platform: Annotated[str, UrnOf("dataPlatform")]
    instance: str


DATA_PLATFORM_INSTANCE_KEY: Final = aspect(
    "dataPlatformInstanceKey",
    "metadata.key.DataPlatformInstanceKey",
    DataPlatformInstanceKey,
    "dataPlatformInstance",
)


class DataFlowKey(TypedDict):
    """Key of a data flow: its orchestrator, its id there, and the cluster it runs on."""

    orchestrator: str
    flowId: str
    cluster: str


DATA_FLOW_KEY: Final = aspect("dataFlowKey", "metadata.key.DataFlowKey", DataFlowKey, "dataFlow")


class DataJobKey(TypedDict):
    """Key of a data job: its flow, and its id there."""

    flow: Annotated[str, Edge("IsPartOf", "dataFlow")]
    jobId: str


DATA_JOB_KEY: Final = aspect("dataJobKey", "metadata.key.DataJobKey", DataJobKey, "dataJob")


class VersionSetKey(TypedDict):
    """Key of a version set, and the entity type of its members."""

    id: str
    entityType: str


VERSION_SET_KEY: Final = aspect(
    "versionSetKey", "metadata.key.VersionSetKey", VersionSetKey, "versionSet"
)


class ContainerKey(TypedDict):
    """Key of a container."""

    guid: NotRequired[str]


CONTAINER_KEY: Final = aspect(
    "containerKey", "metadata.key.ContainerKey", ContainerKey, "container"
)


class DataProcessInstanceKey(TypedDict):
    """Key of an execution of a process."""

    id: str


DATA_PROCESS_INSTANCE_KEY: Final = aspect(
    "dataProcessInstanceKey",
    "metadata.key.DataProcessInstanceKey",
    DataProcessInstanceKey,
    "dataProcessInstance",
)


class TestKey(TypedDict):
    """Key of a metadata test."""

    id: str


TEST_KEY: Final = aspect("testKey", "metadata.key.TestKey", TestKey, "test")


class DomainKey(TypedDict):
    """Key of a domain."""

    id: str


DOMAIN_KEY: Final = aspect("domainKey", "metadata.key.DomainKey", DomainKey, "domain")


class StructuredPropertyKey(TypedDict):
    """Key of a structured property."""

    id: str


STRUCTURED_PROPERTY_KEY: Final = aspect(
    "structuredPropertyKey",
    "structured.StructuredPropertyKey",
    StructuredPropertyKey,
    "structuredProperty",
)


class TagKey(TypedDict):
    """Key of a tag."""

    name: str


TAG_KEY: Final = aspect("tagKey", "metadata.key.TagKey", TagKey, "tag")


class GlossaryTermKey(TypedDict):
    """Key of a glossary term."""

    name: str


GLOSSARY_TERM_KEY: Final = aspect(
    "glossaryTermKey", "metadata.key.GlossaryTermKey", GlossaryTermKey, "glossaryTerm"
)


class CorpGroupKey(TypedDict):
    """Key of a group of users."""

    name: str


CORP_GROUP_KEY: Final = aspect(
    "corpGroupKey", "metadata.key.CorpGroupKey", CorpGroupKey, "corpGroup"
)


class CorpUserKey(TypedDict):
    """Key of a user."""

    username: str


CORP_USER_KEY: Final = aspect("corpUserKey", "metadata.key.CorpUserKey", CorpUserKey, "corpuser")
