"""Aspects of what models are linked to: platforms, datasets, containers, tags, runs and tests.

Source: `com.linkedin.dataplatform.*`, `com.linkedin.dataprocess.*`, `com.linkedin.container.*`,
`com.linkedin.dataset.*`, `com.linkedin.tag.*`, `com.linkedin.test.*` of DataHub's metadata model.
"""

# ruff: noqa: N815 - fields are spelled as on the wire

from typing import Annotated, Literal, NotRequired, Required, TypedDict

from mlcat_ingest.metadata.aspects.common import (
    AuditStamp,
    CustomProperties,
    EdgeRecord,
    FabricType,
    TimeStamp,
)
from mlcat_ingest.metadata.aspects.markers import (
    EMPTY_LIST,
    AnyUrn,
    Default,
    DurationMillis,
    Edge,
    Int32,
    Millis,
    UrnOf,
)
from mlcat_ingest.metadata.aspects.ml import MLHyperParam, MLMetric


class DataPlatformInfo(TypedDict):
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


class DataPlatformInstanceProperties(CustomProperties, total=False):
    """One installation of a platform: name to show, description, address."""

    externalUrl: str
    name: str
    description: str


_LineageMatch = Literal["EXACT", "NORMALIZED", "UNRESOLVED"]


class Upstream(TypedDict):
    """A dataset that another one is made from."""

    dataset: Annotated[str, Edge("DownstreamOf", "dataset")]
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


class UpstreamLineage(TypedDict):
    """What a dataset is made from, as a whole and field by field."""

    upstreams: list[Upstream]
    fineGrainedLineages: NotRequired[
        Annotated[
            list[FineGrainedLineage],
            Edge("DownstreamOf", "dataset", "schemaField", at="upstreams"),
        ]
    ]


class DataJobInputOutput(TypedDict):
    """What a job reads and writes, and which jobs come before it."""

    inputDatasets: Annotated[list[str], Edge("Consumes", "dataset")]
    outputDatasets: Annotated[list[str], Edge("Produces", "dataset")]
    inputDatasetEdges: NotRequired[
        Annotated[list[EdgeRecord], Edge("Consumes", "dataset", at="destinationUrn")]
    ]
    outputDatasetEdges: NotRequired[
        Annotated[list[EdgeRecord], Edge("Produces", "dataset", at="destinationUrn")]
    ]
    inputDatajobs: NotRequired[Annotated[list[str], Edge("DownstreamOf", "dataJob")]]
    inputDatajobEdges: NotRequired[
        Annotated[list[EdgeRecord], Edge("DownstreamOf", "dataJob", at="destinationUrn")]
    ]
    inputDatasetFields: NotRequired[Annotated[list[str], Edge("Consumes", "schemaField")]]
    outputDatasetFields: NotRequired[Annotated[list[str], Edge("Produces", "schemaField")]]
    fineGrainedLineages: NotRequired[list[FineGrainedLineage]]


class DatasetProperties(CustomProperties, total=False):
    """A dataset: name to show, full name, description and addresses. MLflow: a dataset input."""

    externalUrl: str
    name: str
    qualifiedName: str
    description: str
    uri: str
    created: TimeStamp
    lastModified: TimeStamp
    tags: Annotated[list[str], EMPTY_LIST]


class TagProperties(TypedDict):
    """A tag: name to show, description, colour as `#rrggbb`."""

    name: str
    description: NotRequired[str]
    colorHex: NotRequired[str]


class ContainerProperties(CustomProperties, total=False):
    """A container of assets; `qualifiedName` is its full name at the source."""

    externalUrl: str
    name: Required[str]
    qualifiedName: str
    description: str
    env: FabricType
    created: TimeStamp
    lastModified: TimeStamp


class DataProcessInstanceProperties(CustomProperties, total=False):
    """One execution of a process: its name, when it began and who began it."""

    externalUrl: str
    name: Required[str]
    type: Literal["BATCH_SCHEDULED", "BATCH_AD_HOC", "STREAMING"]
    created: Required[AuditStamp]


class DataProcessInstanceInput(TypedDict):
    """What an execution read; `inputEdges` say the same with time and actor."""

    inputs: Annotated[list[str], Edge("Consumes", "dataset", "mlModel")]
    inputEdges: NotRequired[
        Annotated[
            list[EdgeRecord],
            Edge(
                "DataProcessInstanceConsumes",
                "dataset",
                "mlModel",
                "dataProcessInstance",
                at="destinationUrn",
            ),
        ]
    ]


class DataProcessInstanceOutput(TypedDict):
    """What an execution made; `outputEdges` say the same with time and actor."""

    outputs: Annotated[list[str], Edge("Produces", "dataset", "mlModel")]
    outputEdges: NotRequired[
        Annotated[
            list[EdgeRecord],
            Edge(
                "DataProcessInstanceProduces",
                "dataset",
                "mlModel",
                "dataProcessInstance",
                at="destinationUrn",
            ),
        ]
    ]


class DataProcessInstanceRelationships(TypedDict):
    """What an execution is an instance, a child and a follower of."""

    upstreamInstances: Annotated[list[str], Edge("UpstreamOf", "dataProcessInstance")]
    parentTemplate: NotRequired[
        Annotated[str, Edge("InstanceOf", "dataJob", "dataFlow", "dataset")]
    ]
    parentInstance: NotRequired[Annotated[str, Edge("ChildOf", "dataProcessInstance")]]


class TimeWindowSize(TypedDict):
    """A length of time in calendar units."""

    unit: Literal["SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR"]
    multiple: NotRequired[Annotated[Int32, Default("1")]]


class TimeWindow(TypedDict):
    """A stretch of time: its start and its length."""

    startTimeMillis: Millis
    length: TimeWindowSize


class PartitionSpec(TypedDict):
    """Which part of a dataset an event is about."""

    partition: str
    timePartition: NotRequired[TimeWindow]
    type: NotRequired[
        Annotated[Literal["FULL_TABLE", "QUERY", "PARTITION"], Default('"PARTITION"')]
    ]


class DataProcessInstanceRunResult(TypedDict):
    """How an execution ended, in the model's words and in the source's (`nativeResultType`)."""

    type: Literal["SUCCESS", "FAILURE", "SKIPPED", "UP_FOR_RETRY"]
    nativeResultType: str


class DataProcessInstanceRunEvent(TypedDict):
    """That an execution began or ended; a series over time. `attempt` counts from 1."""

    timestampMillis: Millis
    status: Literal["STARTED", "COMPLETE"]
    result: NotRequired[DataProcessInstanceRunResult]
    attempt: NotRequired[Int32]
    durationMillis: NotRequired[DurationMillis]
    eventGranularity: NotRequired[TimeWindowSize]
    partitionSpec: NotRequired[PartitionSpec]
    messageId: NotRequired[str]
    externalUrl: NotRequired[str]


class MLTrainingRunProperties(CustomProperties, total=False):
    """A training run as an execution: its id, parameters, metrics and where its files are."""

    externalUrl: str
    id: str
    outputUrls: list[str]
    hyperParams: list[MLHyperParam]
    trainingMetrics: list[MLMetric]


class TestDefinition(TypedDict):
    """A metadata test's rules; `json` is a JSON text."""

    type: Literal["JSON"]
    json: NotRequired[str]


class TestInfo(TypedDict):
    """A metadata test: its name, its category (free text) and its rules."""

    name: str
    category: str
    definition: TestDefinition
    description: NotRequired[str]


class TestResult(TypedDict):
    """How one metadata test went, under which version of its definition (MD5), and when."""

    test: Annotated[str, UrnOf("test")]
    type: Literal["SUCCESS", "FAILURE"]
    testDefinitionMd5: NotRequired[str]
    lastComputed: NotRequired[AuditStamp]


class TestResults(TypedDict):
    """The metadata tests that the entity passes and fails; written by the catalog."""

    failing: Annotated[list[TestResult], Edge("IsFailing", "test", at="test")]
    passing: Annotated[list[TestResult], Edge("IsPassing", "test", at="test")]
