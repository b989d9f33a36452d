"""Key aspects: a URN's parts as fields, spelled as in the URN (encoded).

A catalog derives them from the URN; a client that asks for one asks whether the entity exists.
Source: `com.linkedin.metadata.key.*` of DataHub's metadata model.
"""

from typing import Annotated, Final, NotRequired, TypedDict

from mlcat_ingest.metadata.aspects.common import FabricType
from mlcat_ingest.metadata.aspects.declaration import Edge, UrnOf, aspect


class ModelKey(TypedDict):
    """Key of a model, a model group, a deployment or a dataset."""

    platform: Annotated[str, UrnOf("dataPlatform")]
    name: str
    origin: FabricType


class FeatureKey(TypedDict):
    """Key of a feature or of a primary key; the namespace is the name of its feature table."""

    featureNamespace: str
    name: str


class MLFeatureTableKey(TypedDict):
    """Key of a feature table."""

    platform: Annotated[str, Edge("SourcePlatform", "dataPlatform")]
    name: str


class DataPlatformKey(TypedDict):
    """Key of a data platform."""

    platformName: str


class DataPlatformInstanceKey(TypedDict):
    """Key of an installation of a data platform."""

    platform: Annotated[str, UrnOf("dataPlatform")]
    instance: str


class DataFlowKey(TypedDict):
    """Key of a data flow: its orchestrator, its id there, and the cluster it runs on."""

    orchestrator: str
    flowId: str
    cluster: str


class DataJobKey(TypedDict):
    """Key of a data job: its flow, and its id there."""

    flow: Annotated[str, Edge("IsPartOf", "dataFlow")]
    jobId: str


class VersionSetKey(TypedDict):
    """Key of a version set, and the entity type of its members."""

    id: str
    entityType: str


class ContainerKey(TypedDict):
    """Key of a container."""

    guid: NotRequired[str]


class CorpUserKey(TypedDict):
    """Key of a user."""

    username: str


class IdKey(TypedDict):
    """Key of an entity with an id."""

    id: str


class NameKey(TypedDict):
    """Key of an entity with a name."""

    name: str


CORP_USER_KEY: Final = aspect("corpUserKey", "metadata.key", CorpUserKey, "corpuser")
aspect("mlModelKey", "metadata.key", ModelKey, "mlModel")
aspect("mlModelGroupKey", "metadata.key", ModelKey, "mlModelGroup")
aspect("mlModelDeploymentKey", "metadata.key", ModelKey, "mlModelDeployment")
aspect("datasetKey", "metadata.key", ModelKey, "dataset")
aspect("mlFeatureKey", "metadata.key", FeatureKey, "mlFeature")
aspect("mlPrimaryKeyKey", "metadata.key", FeatureKey, "mlPrimaryKey")
aspect("mlFeatureTableKey", "metadata.key", MLFeatureTableKey, "mlFeatureTable")
aspect("dataPlatformKey", "metadata.key", DataPlatformKey, "dataPlatform")
aspect("dataPlatformInstanceKey", "metadata.key", DataPlatformInstanceKey, "dataPlatformInstance")
aspect("dataFlowKey", "metadata.key", DataFlowKey, "dataFlow")
aspect("dataJobKey", "metadata.key", DataJobKey, "dataJob")
aspect("versionSetKey", "metadata.key", VersionSetKey, "versionSet")
aspect("containerKey", "metadata.key", ContainerKey, "container")
aspect("dataProcessInstanceKey", "metadata.key", IdKey, "dataProcessInstance")
aspect("testKey", "metadata.key", IdKey, "test")
aspect("domainKey", "metadata.key", IdKey, "domain")
aspect("structuredPropertyKey", "structured", IdKey, "structuredProperty")
aspect("tagKey", "metadata.key", NameKey, "tag")
aspect("glossaryTermKey", "metadata.key", NameKey, "glossaryTerm")
aspect("corpGroupKey", "metadata.key", NameKey, "corpGroup")
