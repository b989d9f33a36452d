"""Aspects of jobs and of their executions, training runs among them.

Source: `com.linkedin.datajob.*`, `com.linkedin.dataprocess.*` of DataHub's metadata model.
"""

# ruff: noqa: N815 - fields are spelled as on the wire

from typing import Annotated, Final, Literal, NotRequired, Required, TypedDict

from mlcat_ingest.metadata.aspects.assets import FineGrainedLineage
from mlcat_ingest.metadata.aspects.common import AuditStamp, CustomProperties, EdgeRecord
from mlcat_ingest.metadata.aspects.declaration import AnyUrn, Edge, Millis, aspect
from mlcat_ingest.metadata.aspects.ml import MLHyperParam, MLMetric


class _DataJobKey(TypedDict):
    """Key of a data job, spelled as in its URN: its flow, and its id there."""

    flow: Annotated[str, Edge("IsPartOf", "dataFlow")]
    jobId: str


aspect("dataJobKey", _DataJobKey)


class _DataJobInputOutput(TypedDict):
    """Inputs and outputs of a job, and the jobs that come before it."""

    inputDatasets: Annotated[list[str], Edge("Consumes", "dataset", lineage="upstream")]
    outputDatasets: Annotated[list[str], Edge("Produces", "dataset", lineage="downstream")]
    inputDatasetEdges: NotRequired[
        Annotated[
            list[EdgeRecord], Edge("Consumes", "dataset", at="destinationUrn", lineage="upstream")
        ]
    ]
    outputDatasetEdges: NotRequired[
        Annotated[
            list[EdgeRecord], Edge("Produces", "dataset", at="destinationUrn", lineage="downstream")
        ]
    ]
    inputDatajobs: NotRequired[
        Annotated[list[str], Edge("DownstreamOf", "dataJob", lineage="upstream")]
    ]
    inputDatajobEdges: NotRequired[
        Annotated[
            list[EdgeRecord],
            Edge("DownstreamOf", "dataJob", at="destinationUrn", lineage="upstream"),
        ]
    ]
    inputDatasetFields: NotRequired[Annotated[list[str], Edge("Consumes", "schemaField")]]
    outputDatasetFields: NotRequired[Annotated[list[str], Edge("Produces", "schemaField")]]
    fineGrainedLineages: NotRequired[list[FineGrainedLineage]]


DATA_JOB_INPUT_OUTPUT: Final = aspect(
    "dataJobInputOutput",
    _DataJobInputOutput,
    patch_keys={
        "inputDatajobEdges": "destinationUrn",
        "inputDatasetEdges": "destinationUrn",
        "outputDatasetEdges": "destinationUrn",
        "inputDatasetFields": "",
        "outputDatasetFields": "",
    },
)


class _DataProcessInstanceProperties(CustomProperties, total=False):
    """One execution of a process: its name, when it began and who began it."""

    externalUrl: str
    name: Required[str]
    type: Literal["BATCH_SCHEDULED", "BATCH_AD_HOC", "STREAMING"]
    created: Required[AuditStamp]


DATA_PROCESS_INSTANCE_PROPERTIES: Final = aspect(
    "dataProcessInstanceProperties", _DataProcessInstanceProperties
)


class _DataProcessInstanceInput(TypedDict):
    """The inputs of an execution; `inputEdges` say the same with time and actor."""

    inputs: Annotated[list[str], Edge("Consumes", "dataset mlModel")]
    inputEdges: NotRequired[
        Annotated[
            list[EdgeRecord],
            Edge(
                "DataProcessInstanceConsumes",
                "dataset mlModel dataProcessInstance",
                at="destinationUrn",
                lineage="upstream",
            ),
        ]
    ]


DATA_PROCESS_INSTANCE_INPUT: Final = aspect(
    "dataProcessInstanceInput",
    _DataProcessInstanceInput,
    merge_keys={"inputEdges": "destinationUrn"},
    patch_keys={"inputs": "", "inputEdges": "destinationUrn"},
)


class _DataProcessInstanceOutput(TypedDict):
    """The outputs of an execution; `outputEdges` say the same with time and actor."""

    outputs: Annotated[list[str], Edge("Produces", "dataset mlModel")]
    outputEdges: NotRequired[
        Annotated[
            list[EdgeRecord],
            Edge(
                "DataProcessInstanceProduces",
                "dataset mlModel dataProcessInstance",
                at="destinationUrn",
                lineage="downstream",
            ),
        ]
    ]


DATA_PROCESS_INSTANCE_OUTPUT: Final = aspect(
    "dataProcessInstanceOutput",
    _DataProcessInstanceOutput,
    patch_keys={"outputs": "", "outputEdges": "destinationUrn"},
)


class _DataProcessInstanceRelationships(TypedDict):
    """The relations of an execution: its job, its parent and the executions before it."""

    upstreamInstances: Annotated[list[str], Edge("UpstreamOf", "dataProcessInstance")]
    parentTemplate: NotRequired[Annotated[str, Edge("InstanceOf", "dataJob dataFlow dataset")]]
    parentInstance: NotRequired[Annotated[str, Edge("ChildOf", "dataProcessInstance")]]


DATA_PROCESS_INSTANCE_RELATIONSHIPS: Final = aspect(
    "dataProcessInstanceRelationships", _DataProcessInstanceRelationships
)


class _MLTrainingRunProperties(CustomProperties, total=False):
    """A training run as an execution: its id, parameters, metrics and where its files are."""

    externalUrl: str
    id: str
    outputUrls: list[str]
    hyperParams: list[MLHyperParam]
    trainingMetrics: list[MLMetric]


ML_TRAINING_RUN_PROPERTIES: Final = aspect(
    "mlTrainingRunProperties",
    _MLTrainingRunProperties,
    merge_keys={"hyperParams": "name", "trainingMetrics": "name"},
)


class _ExecutionRequestSource(TypedDict):
    """The reason for an ingestion run: the ingestion source that it is a run of."""

    type: str
    ingestionSource: NotRequired[
        Annotated[str, Edge("ingestionSource", "dataHubIngestionSource", search="ingestionSource")]
    ]


class _CliVersionAudit(TypedDict):
    """Where a server took the version of its command line from."""

    source: Literal[
        "SOURCE_CONFIG_OVERRIDE", "MATRIX_COHORT", "MATRIX_CONNECTOR_DEFAULT", "APPLICATION_DEFAULT"
    ]
    serverVersion: NotRequired[str]


class _ExecutionRequestInput(TypedDict):
    """An ingestion run as it was asked for."""

    task: str
    args: dict[str, str]
    executorId: str
    source: _ExecutionRequestSource
    requestedAt: Millis
    actorUrn: NotRequired[AnyUrn]
    cliVersionAudit: NotRequired[_CliVersionAudit]


DATAHUB_EXECUTION_REQUEST_INPUT: Final = aspect(
    "dataHubExecutionRequestInput", _ExecutionRequestInput
)
