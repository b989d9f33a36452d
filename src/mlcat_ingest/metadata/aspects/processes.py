"""Aspects of jobs and of their executions, training runs among them.

Source: `com.linkedin.datajob.*`, `com.linkedin.dataprocess.*` of DataHub's metadata model.
"""

from typing import Final

from mlcat_ingest.metadata.aspects.declaration import aspect

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
