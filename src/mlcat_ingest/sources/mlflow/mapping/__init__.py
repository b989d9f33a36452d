"""The mapping of MLflow: from joined records to entities, pure."""

from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.sources.mlflow.joined import (
    JoinedExperiment,
    JoinedRecord,
    JoinedRegisteredModel,
    JoinedRun,
    JoinedVersion,
)
from mlcat_ingest.sources.mlflow.mapping.group import map_experiment, map_registered_model
from mlcat_ingest.sources.mlflow.mapping.model import map_run
from mlcat_ingest.sources.mlflow.mapping.version import map_version


def map_record(record: JoinedRecord) -> list[Entity]:
    """Return the entities that one record says something about, in the order to write them.

    Raises:
        RecordError, InvalidUrnError: the record cannot be mapped.
    """
    match record:
        case JoinedRun():
            return map_run(record)
        case JoinedExperiment():
            return map_experiment(record)
        case JoinedRegisteredModel():
            return map_registered_model(record)
        case JoinedVersion():
            return map_version(record)
