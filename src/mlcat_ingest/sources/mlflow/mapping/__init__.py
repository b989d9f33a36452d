"""The mapping of MLflow: from joined records to entities, pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from mlcat_ingest.errors import RecordError
from mlcat_ingest.metadata.aspects import STATUS
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.sources.mlflow.mapping.assets import map_agent, map_asset
from mlcat_ingest.sources.mlflow.mapping.datasets import map_dataset
from mlcat_ingest.sources.mlflow.mapping.groups import (
    map_experiment,
    map_registered_model,
    map_version,
)
from mlcat_ingest.sources.mlflow.mapping.model import map_external_model, map_run
from mlcat_ingest.sources.mlflow.mapping.signature import map_signature
from mlcat_ingest.sources.mlflow.values.joined import (
    JoinedAgent,
    JoinedAsset,
    JoinedDataset,
    JoinedExperiment,
    JoinedLoggedModel,
    JoinedRecord,
    JoinedRegisteredModel,
    JoinedRun,
    JoinedSignature,
    JoinedVersion,
    RefusedRecord,
)

_REMOVED: Final = {"removed": True}


def map_record(record: JoinedRecord) -> list[Entity]:
    """Return the entities of one record, in the order to write them.

    One that is removed refers to nothing: the catalog may not have it at all.

    Raises:
        RecordError, InvalidUrnError: the record cannot be mapped.
    """
    if isinstance(record, RefusedRecord):
        raise RecordError(record.reason, record_ref=record.reference)
    entities = _MAPPINGS[type(record)](record)
    if isinstance(record, JoinedRun | JoinedSignature) and record.listed_only:
        return list(_listing_only(entities))
    if any(entity.aspects.get(STATUS) == _REMOVED for entity in entities):
        return [entity for entity in entities if not entity.only_if_absent]
    return entities


_MAPPINGS: Final[Mapping[type, Callable[[Any], list[Entity]]]] = {
    JoinedRun: map_run,
    JoinedExperiment: map_experiment,
    JoinedRegisteredModel: map_registered_model,
    JoinedVersion: map_version,
    JoinedSignature: map_signature,
    JoinedDataset: map_dataset,
    JoinedLoggedModel: map_external_model,
    JoinedAsset: map_asset,
    JoinedAgent: map_agent,
}


def _listing_only(entities: Iterable[Entity]) -> Iterator[Entity]:
    """Yield the entities of a record as what is there and needs no writing, or is to be removed."""
    for entity in entities:
        if entity.aspects.get(STATUS) == _REMOVED:
            yield entity
        elif not entity.only_if_absent:
            yield Entity(entity.urn, {})
