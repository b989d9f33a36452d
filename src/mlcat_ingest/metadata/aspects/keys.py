"""Key aspects: a URN's parts as fields, spelled as in the URN (encoded).

A catalog derives them from the URN; a client that asks for one asks whether the entity exists.
Source: `com.linkedin.metadata.key.*` of DataHub's metadata model.
"""

from typing import Annotated, NotRequired, TypedDict

from mlcat_ingest.metadata.aspects.common import FabricType
from mlcat_ingest.metadata.aspects.markers import Edge, UrnOf


class MLModelKey(TypedDict):
    """Key of a model."""

    platform: Annotated[str, UrnOf("dataPlatform")]
    name: str
    origin: FabricType


class MLModelGroupKey(MLModelKey):
    """Key of a model group."""


class MLModelDeploymentKey(MLModelKey):
    """Key of a deployment."""


class DatasetKey(MLModelKey):
    """Key of a dataset."""


class MLFeatureKey(TypedDict):
    """Key of a feature; the namespace is the name of its feature table."""

    featureNamespace: str
    name: str


class MLPrimaryKeyKey(MLFeatureKey):
    """Key of a primary key."""


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


class DataProcessInstanceKey(TypedDict):
    """Key of an execution of a process."""

    id: str


class TestKey(TypedDict):
    """Key of a metadata test."""

    id: str


class DomainKey(TypedDict):
    """Key of a domain."""

    id: str


class StructuredPropertyKey(TypedDict):
    """Key of a structured property."""

    id: str


class TagKey(TypedDict):
    """Key of a tag."""

    name: str


class GlossaryTermKey(TypedDict):
    """Key of a glossary term."""

    name: str


class CorpGroupKey(TypedDict):
    """Key of a group of users."""

    name: str


class CorpUserKey(TypedDict):
    """Key of a user."""

    username: str
