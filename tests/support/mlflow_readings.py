"""All that a reader of MLflow lists, in the order it comes, fit to be compared."""

import dataclasses
import math
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, TypeVar

from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.reader import Reader
from mlcat_ingest.sources.mlflow.source import MlflowSource
from mlcat_ingest.sources.mlflow.values.records import Run
from mlcat_ingest.testing.conformance.rules import without_sightings
from support import reading

ReaderT = TypeVar("ReaderT", bound=Reader)
NOT_A_NUMBER = math.nan


def comparable(run: Run) -> Run:
    """Return a run whose metrics that are no numbers equal themselves."""
    metrics = tuple(
        metric._replace(value=NOT_A_NUMBER if math.isnan(metric.value) else metric.value)
        for metric in run.metrics
    )
    return dataclasses.replace(run, metrics=metrics)


@contextmanager
def opened_reader(reader: ReaderT) -> Iterator[ReaderT]:
    """Close the connection of `reader` at the end of the block."""
    with closing(reader.connection):
        yield reader


def records_of(reader: Reader) -> dict[str, list[Any]]:
    """Return the records of every listing."""
    experiments = [one for page in reader.experiments() for one in page]
    ids = [one.experiment_id for one in experiments]
    return {
        "experiments": experiments,
        "registered": [one for page in reader.registered_models() for one in page],
        "versions": [one for page in reader.model_versions() for one in page],
        "logged": [one for page in reader.logged_models(ids) for one in page],
        "runs": [comparable(one) for page in reader.runs(ids) for one in page],
    }


def entities_of(reader: Reader, **config: Any) -> list[Entity]:
    """Return what all records become; links are the same whatever the tracking URI is."""
    chosen = MlflowConfig.model_validate(
        {"tracking_uri": "http://any", "ui_url": "https://mlflow.example", **config}
    )
    source = MlflowSource(chosen, reader=reader)
    mapped = (entity for record in reading.records_of(source) for entity in source.map(record))
    return [dataclasses.replace(one, aspects=without_sightings(one.aspects)) for one in mapped]
