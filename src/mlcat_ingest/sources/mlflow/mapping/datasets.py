"""Datasets that a run used: training and evaluation data, by the place they were read from.

The name MLflow shows for a dataset is chosen by whoever logged it; only the source it was logged
with says where the data is, and joins to what other tools write about it.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from mlcat_ingest.core.redaction import redact_urls
from mlcat_ingest.core.text import whole_characters
from mlcat_ingest.metadata.aspects.ml import ML_MODEL_EVALUATION_DATA, ML_MODEL_TRAINING_DATA
from mlcat_ingest.metadata.proposal import Aspect
from mlcat_ingest.sources.datasets import (
    DATABASES,
    LEVELS,
    DatasetName,
    Datasets,
    Place,
    place_of_format,
    place_of_uri,
    spark_name,
    split,
)
from mlcat_ingest.sources.mlflow.mapping.text import Truncator, compact_json
from mlcat_ingest.sources.mlflow.values.records import CONTEXT_TAG, DatasetInput, json_or_none

_EVALUATION: Final = frozenset(
    {"eval", "evaluation", "val", "valid", "validation", "test", "testing", "holdout"}
)

_TRAINING: Final = frozenset({"train", "training"})

_UC_PARTS: Final = 3
_OF_SPARK: Final = ("spark", "delta", "databricks")
"""Source types that begin so have their tables in a metastore, or in Unity Catalog."""

_SETTING: Final = re.compile(r";\s*database(?:name)?\s*=\s*([^;]+)", re.IGNORECASE)
"""The database in the address of an SQL Server."""

_SESSION_CATALOG: Final = "spark_catalog"
_HUBS: Final = {"hugging_face": "huggingface", "huggingface": "huggingface", "kaggle": "kaggle"}
_JSON: Final = ("{", "[", '"')
# What Feast gives as the source of every run's training data, where it has no other.
_NO_PLACE: Final = frozenset({"feast.get_historical_features"})

_NO_PLATFORMS: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class DatasetFacts:
    """The aspects that a run's datasets add to its model; `summary` lists all of them as JSON.

    `urns` are those of the datasets that have one, each once.
    """

    aspects: dict[str, Aspect]
    summary: str
    urns: tuple[str, ...] = ()


NO_DATASETS: Final = DatasetFacts(
    {
        ML_MODEL_TRAINING_DATA: {"trainingData": []},
        ML_MODEL_EVALUATION_DATA: {"evaluationData": []},
    },
    "",
)
"""The facts of a run that logged no datasets."""


def dataset_facts(
    inputs: Sequence[DatasetInput],
    datasets: Datasets,
    env: str,
    truncator: Truncator,
    *,
    evaluates: bool = False,
    measured_on: Collection[tuple[str, str]] = (),
) -> DatasetFacts:
    """Return the training and evaluation data of a run; each dataset once.

    Data logged without a context is training data, or evaluation data if the run `evaluates`, or if
    its name and digest are in `measured_on`: MLflow adds the dataset of a logged model's metric to
    the run. A dataset whose source names no place that the catalog could know is in the summary
    only.
    """
    training: dict[str, dict[str, str]] = {}
    evaluation: dict[str, dict[str, str]] = {}
    summary = []
    for item in inputs:
        context = item.tags.get(CONTEXT_TAG) or ""
        place, urn = dataset_name(item.source_type, item.source, datasets, env)
        summary.append(_summary(item, context, place, urn))
        if urn is None:
            name = truncator.clean(item.name, "dataset name")
            source_type = truncator.clean(item.source_type, "source type of a dataset")
            truncator.note("dataset_unresolved", f"{name} (source type {source_type})")
            continue
        entry = {"dataset": urn}
        if context:
            entry["motivation"] = truncator.clean(context, "dataset context")
        judges = is_evaluation(item, evaluates=evaluates, measured_on=measured_on)
        (evaluation if judges else training).setdefault(urn, entry)
    aspects: dict[str, Aspect] = {
        ML_MODEL_TRAINING_DATA: {"trainingData": list(training.values())},
        ML_MODEL_EVALUATION_DATA: {"evaluationData": list(evaluation.values())},
    }
    urns = tuple(dict.fromkeys((*training, *evaluation)))
    return DatasetFacts(aspects, compact_json(summary), urns)


def is_evaluation(
    item: DatasetInput, *, evaluates: bool, measured_on: Collection[tuple[str, str]]
) -> bool:
    """Return whether a dataset was logged to evaluate a model with, not to train one."""
    context = (item.tags.get(CONTEXT_TAG) or "").strip().lower()
    if not context and (item.name, item.digest) in measured_on:
        return True
    return context in _EVALUATION or (evaluates and context not in _TRAINING)


def _summary(
    item: DatasetInput, context: str, place: DatasetName | None, urn: str | None
) -> dict[str, str | int]:
    facts = {
        "digest": item.digest or None,
        "context": context or None,
        "rows": _rows(item.profile),
        "source_type": item.source_type or None,
        "urn": urn,
        "part": (place.part or None) if place is not None else None,
    }
    return {"name": item.name, **{k: v for k, v in facts.items() if v is not None}}


def _rows(profile: str | None) -> int | None:
    facts = json_object(profile)
    rows = facts.get("num_rows")
    if rows is None:
        shape = facts.get("features_shape")
        rows = shape[0] if isinstance(shape, list) and shape else None
    return rows if isinstance(rows, int) and not isinstance(rows, bool) else None


# Many runs use the same few datasets.
@lru_cache(maxsize=256)
def dataset_name(
    source_type: str, source: str, datasets: Datasets, env: str
) -> tuple[DatasetName | None, str | None]:
    """Return name and URN of the dataset behind a run's input; None if its source has none."""
    place = place_of(source_type, source, datasets.source_types)
    if place is None:
        return None, None
    platform, name = place
    resolved = datasets.resolve(platform, whole_characters(name))
    return resolved, datasets.urn(resolved, env)


def json_object(text: str | None) -> Mapping[str, Any]:
    """Return the JSON object that `text` holds; an empty one for anything else."""
    value = json_or_none(text)
    return value if isinstance(value, dict) else {}


def place_of(
    source_type: str, source: str, platforms: Mapping[str, str] = _NO_PLATFORMS
) -> Place | None:
    """Return platform and name of the dataset that a logged source tells, or None.

    `platforms` has the platforms of further source types.

    Source: `DatasetSource.to_json` of MLflow 3.17's dataset sources (file systems and object
    stores, http, delta_table, spark, hugging_face, uc_volume), and plain URIs.
    """
    facts = json_object(source)
    kind = source_type.lower()
    configured = platforms.get(source_type)
    if kind in _HUBS and configured is None:
        path = _first_text(facts, "path", "name", "handle")
        return (_HUBS[kind], path) if path else None
    table = _first_text(facts, "delta_table_name", "table_name", "table", "table_fqn")
    uri = _first_text(facts, "uri", "url", "path", "s3_uri")
    if not facts and source.strip() != "null" and not source.lstrip().startswith(_JSON):
        uri = source.strip()
    if table:
        platform = configured or DATABASES.get(kind) or DATABASES.get(split(uri).scheme)
        if platform is not None:
            return platform, _full_name(platform, table, facts, uri)
        unity = facts.get("is_databricks_uc_table") is True
        return _of_spark(table, unity=unity) if unity or kind.startswith(_OF_SPARK) else None
    if not uri or uri in _NO_PLACE:
        return None
    uri = redact_urls(uri)
    place = place_of_uri(uri)
    if configured is not None:
        return configured, (uri.partition("://")[2] or uri) if place is None else place[1]
    return place_of_format("delta", place) if place and kind == "delta_table" else place


def _first_text(facts: Mapping[str, Any], *keys: str) -> str | None:
    return next((v.strip() for k in keys if isinstance(v := facts.get(k), str) and v.strip()), None)


def _parts(table: str) -> list[str]:
    return [part.strip('`"[]') for part in table.split(".")]


def _of_spark(table: str, *, unity: bool) -> Place | None:
    """Return the place of a table that Spark or Delta names.

    Three levels are a catalog, two the metastore.
    """
    parts, files = spark_name(table)
    if not parts:
        return files
    if len(parts) == _UC_PARTS and parts[0] == _SESSION_CATALOG:
        return ("hive", ".".join(parts[1:]))
    return ("databricks" if unity or len(parts) == _UC_PARTS else "hive", ".".join(parts))


def _full_name(platform: str, table: str, facts: Mapping[str, Any], uri: str | None) -> str:
    parts = _parts(table)
    levels = LEVELS.get(platform, len(parts))
    if len(parts) < levels:
        schema = _first_text(facts, "schema", "dataset") if len(parts) == 1 else None
        database = _first_text(facts, "database", "catalog", "project") or _database(uri)
        parts = [part for part in (database, schema, *parts) if part][-levels:]
    return ".".join(parts)


def _database(uri: str | None) -> str:
    setting = _SETTING.search(uri or "")
    return setting[1].strip() if setting else split(uri).path.strip("/")
