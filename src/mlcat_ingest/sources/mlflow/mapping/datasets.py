"""Datasets that a run used: training and evaluation data, by the place they were read from.

The name MLflow shows for a dataset is chosen by whoever logged it; only the source it was logged
with says where the data is, and joins to what other tools write about it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mlcat_ingest.core.text import whole_characters
from mlcat_ingest.metadata.aspects.ml import ML_MODEL_EVALUATION_DATA, ML_MODEL_TRAINING_DATA
from mlcat_ingest.metadata.proposal import Aspect
from mlcat_ingest.sources.dataset_names import DatasetName
from mlcat_ingest.sources.datasets import Datasets
from mlcat_ingest.sources.mlflow.mapping.places import json_object, place_of
from mlcat_ingest.sources.mlflow.mapping.text import Fitter, compact_json
from mlcat_ingest.sources.mlflow.values.names import CONTEXT_TAG
from mlcat_ingest.sources.mlflow.values.records import DatasetInput

_EVALUATION: Final = frozenset(
    {"eval", "evaluation", "val", "valid", "validation", "test", "testing", "holdout"}
)


@dataclass(frozen=True, slots=True)
class DatasetFacts:
    """What a run's datasets add to its model; `summary` is a JSON list of all of them."""

    aspects: dict[str, Aspect]
    summary: str


NO_DATASETS: Final = DatasetFacts(
    {
        ML_MODEL_TRAINING_DATA: {"trainingData": []},
        ML_MODEL_EVALUATION_DATA: {"evaluationData": []},
    },
    "",
)
"""What a run adds that logged no datasets."""


def dataset_facts(
    inputs: Sequence[DatasetInput], datasets: Datasets, env: str, fitter: Fitter
) -> DatasetFacts:
    """Return the training and evaluation data of a run; each dataset once.

    Data logged without a context is training data. A dataset whose source names no place that the
    catalog could know is in the summary only.
    """
    training: dict[str, dict[str, str]] = {}
    evaluation: dict[str, dict[str, str]] = {}
    summary = []
    for item in inputs:
        context = item.tags.get(CONTEXT_TAG) or ""
        place = dataset_name(item, datasets)
        urn = None if place is None else datasets.urn(place, env)
        summary.append(_summary(item, context, place, urn))
        if urn is None:
            name = fitter.clean(item.name, "dataset name")
            fitter.note("dataset_unresolved", f"{name}: its source names no known place")
            continue
        entry = {"dataset": urn}
        if context:
            entry["motivation"] = fitter.clean(context, "dataset context")
        (evaluation if is_evaluation(item) else training).setdefault(urn, entry)
    aspects: dict[str, Aspect] = {
        ML_MODEL_TRAINING_DATA: {"trainingData": list(training.values())},
        ML_MODEL_EVALUATION_DATA: {"evaluationData": list(evaluation.values())},
    }
    return DatasetFacts(aspects, compact_json(summary))


def is_evaluation(item: DatasetInput) -> bool:
    """Return whether a dataset was logged to evaluate a model with, not to train one."""
    return (item.tags.get(CONTEXT_TAG) or "").strip().lower() in _EVALUATION


def _summary(
    item: DatasetInput, context: str, place: DatasetName | None, urn: str | None
) -> dict[str, str | int]:
    told: dict[str, str | int] = {"name": item.name}
    if item.digest:
        told["digest"] = item.digest
    if context:
        told["context"] = context
    rows = _rows(item.profile)
    if rows is not None:
        told["rows"] = rows
    if item.source_type:
        told["source_type"] = item.source_type
    if urn is not None:
        told["urn"] = urn
    if place is not None and place.part:
        told["part"] = place.part
    return told


def _rows(profile: str | None) -> int | None:
    facts = json_object(profile)
    rows = facts.get("num_rows")
    if rows is None:
        shape = facts.get("features_shape")
        rows = shape[0] if isinstance(shape, list) and shape else None
    return rows if isinstance(rows, int) and not isinstance(rows, bool) else None


def dataset_name(item: DatasetInput, datasets: Datasets) -> DatasetName | None:
    """Return the name of the dataset behind a run's input, or None if its source names none."""
    place = place_of(item.source_type, item.source, datasets.source_types)
    if place is None:
        return None
    platform, name = place
    return datasets.named(platform, whole_characters(name))
