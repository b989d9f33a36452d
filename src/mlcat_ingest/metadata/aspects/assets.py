"""Aspects of what models are linked to: platforms, datasets, containers, tags and tests.

Source: `com.linkedin.dataplatform.*`, `com.linkedin.container.*`,
`com.linkedin.dataset.*`, `com.linkedin.tag.*`, `com.linkedin.test.*` of DataHub's metadata model.
"""

# ruff: noqa: N815 - fields are spelled as on the wire

from typing import Annotated, Final, Literal, NotRequired, Required, TypedDict

from mlcat_ingest.metadata.aspects.common import AuditStamp, CustomProperties, FabricType, TimeStamp
from mlcat_ingest.metadata.aspects.declaration import (
    EMPTY_LIST,
    AnyUrn,
    Default,
    Edge,
    UrnOf,
    aspect,
)


class _DataPlatformInfo(TypedDict):
    """A platform: its short name, what kind of system it is, and how it parts dataset names."""

    name: str
    type: Literal[
        "FILE_SYSTEM", "KEY_VALUE_STORE", "MESSAGE_BROKER", "OBJECT_STORE", "OLAP_DATASTORE",
        "OTHERS", "QUERY_ENGINE", "RELATIONAL_DB", "SEARCH_ENGINE",
    ]  # fmt: skip
    datasetNameDelimiter: str
    displayName: NotRequired[str]
    logoUrl: NotRequired[str]
    logical: NotRequired[bool]


DATA_PLATFORM_INFO: Final = aspect("dataPlatformInfo", _DataPlatformInfo)


class _DataPlatformInstanceProperties(CustomProperties, total=False):
    """One installation of a platform: name to show, description, address."""

    externalUrl: str
    name: str
    description: str


DATA_PLATFORM_INSTANCE_PROPERTIES: Final = aspect(
    "dataPlatformInstanceProperties", _DataPlatformInstanceProperties
)


_LineageMatch = Literal["EXACT", "NORMALIZED", "UNRESOLVED"]


class _Upstream(TypedDict):
    """A dataset that another one is made from."""

    dataset: Annotated[str, Edge("DownstreamOf", "dataset", lineage="upstream")]
    type: Literal["COPY", "TRANSFORMED", "VIEW"]
    auditStamp: NotRequired[
        Annotated[AuditStamp, Default('{"time": 0, "actor": "urn:li:corpuser:unknown"}')]
    ]
    created: NotRequired[AuditStamp]
    properties: NotRequired[dict[str, str]]
    query: NotRequired[AnyUrn]
    matchType: NotRequired[_LineageMatch]


class FineGrainedLineage(TypedDict):
    """Fields, or datasets, that fields are made from, and how."""

    upstreamType: Literal["FIELD_SET", "DATASET", "NONE"]
    downstreamType: Literal["FIELD", "FIELD_SET"]
    upstreams: NotRequired[list[AnyUrn]]
    downstreams: NotRequired[list[AnyUrn]]
    transformOperation: NotRequired[str]
    confidenceScore: NotRequired[Annotated[float, Default("1.0")]]
    query: NotRequired[AnyUrn]
    matchType: NotRequired[_LineageMatch]


class _UpstreamLineage(TypedDict):
    """Upstream lineage of a dataset, as a whole and field by field."""

    upstreams: list[_Upstream]
    fineGrainedLineages: NotRequired[
        Annotated[
            list[FineGrainedLineage],
            Edge("DownstreamOf", "dataset schemaField", at="upstreams"),
        ]
    ]


UPSTREAM_LINEAGE: Final = aspect(
    "upstreamLineage", _UpstreamLineage, patch_keys={"upstreams": "dataset"}
)


class _DatasetProperties(CustomProperties, total=False):
    """A dataset: name to show, full name, description and addresses. MLflow: a dataset input."""

    externalUrl: str
    name: str
    qualifiedName: str
    description: str
    uri: str
    created: TimeStamp
    lastModified: TimeStamp
    tags: Annotated[list[str], EMPTY_LIST]


DATASET_PROPERTIES: Final = aspect("datasetProperties", _DatasetProperties, patch_keys={})


class _TagProperties(TypedDict):
    """A tag: name to show, description, colour as `#rrggbb`."""

    name: str
    description: NotRequired[str]
    colorHex: NotRequired[str]


TAG_PROPERTIES: Final = aspect("tagProperties", _TagProperties)


class _ContainerProperties(CustomProperties, total=False):
    """A container of assets; `qualifiedName` is its full name at the source."""

    externalUrl: str
    name: Required[str]
    qualifiedName: str
    description: str
    env: FabricType
    created: TimeStamp
    lastModified: TimeStamp


CONTAINER_PROPERTIES: Final = aspect("containerProperties", _ContainerProperties)


class _TestDefinition(TypedDict):
    """A metadata test's rules; `json` is a JSON text."""

    type: Literal["JSON"]
    json: NotRequired[str]


class _TestInfo(TypedDict):
    """A metadata test: its name, its category (free text) and its rules."""

    name: str
    category: str
    definition: _TestDefinition
    description: NotRequired[str]


TEST_INFO: Final = aspect("testInfo", _TestInfo)


class TestResult(TypedDict):
    """How one metadata test went, under which version of its definition (MD5), and when."""

    test: Annotated[str, UrnOf("test")]
    type: Literal["SUCCESS", "FAILURE"]
    testDefinitionMd5: NotRequired[str]
    lastComputed: NotRequired[AuditStamp]


class TestResults(TypedDict):
    """The metadata tests that the entity passes and fails; written by the catalog."""

    failing: Annotated[
        list[TestResult], Edge("IsFailing", "test", at="test", search="failingTests")
    ]
    passing: Annotated[
        list[TestResult], Edge("IsPassing", "test", at="test", search="passingTests")
    ]


TEST_RESULTS: Final = aspect("testResults", TestResults)
