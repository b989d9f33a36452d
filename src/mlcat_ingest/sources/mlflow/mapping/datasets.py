"""Datasets that a run used: training and evaluation data, by the place they were read from.

The name MLflow shows for a dataset is chosen by whoever logged it; only the source it was logged
with says where the data is, and joins to what other tools write about it.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from mlcat_ingest.core.redaction import redact_tree, redact_urls
from mlcat_ingest.core.text import compact_json, json_or_none, whole_characters
from mlcat_ingest.metadata.aspects import (
    DATASET_PROPERTIES,
    ML_MODEL_EVALUATION_DATA,
    ML_MODEL_TRAINING_DATA,
    SCHEMA_METADATA,
)
from mlcat_ingest.metadata.identity import schema_hash
from mlcat_ingest.metadata.proposal import Aspect, Entity
from mlcat_ingest.metadata.reserved import DESCRIBED_BY, SOURCE_KEY
from mlcat_ingest.metadata.urn import raw_parts
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
from mlcat_ingest.sources.mlflow.mapping.properties import PropertiesBuilder
from mlcat_ingest.sources.mlflow.mapping.signature import column_type, feature_type
from mlcat_ingest.sources.mlflow.mapping.text import Truncator
from mlcat_ingest.sources.mlflow.values.joined import JoinedDataset, JoinedRecord, JoinedRun
from mlcat_ingest.sources.mlflow.values.records import (
    CONTEXT_TAG,
    Column,
    DatasetInput,
    PropertyKey,
    column_name,
)

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

_SCHEMA_TYPES: Final[Mapping[str, str]] = {
    "BINARY": "Boolean",
    "BYTE": "Bytes",
    "CONTINUOUS": "Number",
    "MAP": "Map",
    "ORDINAL": "Number",
    "SEQUENCE": "Array",
    "TEXT": "String",
    "TIME": "Time",
    "UNKNOWN": "Null",
    "object": "Record",
}
"""DataHub's type by MLflow's, or by that of the feature that a column would be."""

_NO_PLATFORMS: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _DatasetFacts:
    """The aspects that a run's datasets add to its model; `summary` lists all of them as JSON.

    `urns` are those of the datasets that have one, each once.
    """

    aspects: dict[str, Aspect]
    summary: str
    urns: tuple[str, ...] = ()


NO_DATASETS: Final = _DatasetFacts(
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
) -> _DatasetFacts:
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
    return _DatasetFacts(aspects, compact_json(summary), urns)


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
    parts = [part.strip('`"[]') for part in table.split(".")]
    levels = LEVELS.get(platform, len(parts))
    if len(parts) < levels:
        schema = _first_text(facts, "schema", "dataset") if len(parts) == 1 else None
        database = _first_text(facts, "database", "catalog", "project") or _database(uri)
        parts = [part for part in (database, schema, *parts) if part][-levels:]
    return ".".join(parts)


def _database(uri: str | None) -> str:
    setting = _SETTING.search(uri or "")
    return setting[1].strip() if setting else split(uri).path.strip("/")


def take_datasets(
    records: Iterable[JoinedRecord],
    newest: dict[str, JoinedDataset],
    trashed: dict[str, tuple[str, ...]],
) -> None:
    """Put the datasets of the runs among `records` into `newest`, by URN.

    Of a run in the trash its mark is put into `trashed`.

    Cost: memory for one schema a dataset, and for these marks.
    """
    for record in records:
        if isinstance(record, JoinedRun):
            scope, run, env = record.scope, record.run, record.scope.naming.env
            for item in run.datasets:
                _, urn = dataset_name(item.source_type, item.source, scope.datasets, env)
                if urn is not None:
                    only = item._replace(tags={})  # what the run used it for
                    found = JoinedDataset(scope, urn, only, run.run_id, run.start_time_ms or 0)
                    if record.is_removed:
                        trashed[urn] = *trashed.get(urn, ()), found.described_by
                    else:
                        newest[urn] = max(newest.get(urn, found), found, key=_rank)


def _rank(record: JoinedDataset) -> tuple[bool, int, str, str]:
    has_schema = '"type"' in (record.item.schema or "").replace("\\", "")
    return has_schema, record.start_time_ms, record.run_id, record.item.digest


def map_dataset(record: JoinedDataset) -> list[Entity]:
    """Return the dataset as its newest run tells of it; the merge leaves out those of others.

    The number of rows is a property: a server returns no version of a profile, which is an event.

    Source: `PandasDataset`, `TensorDatasetSchema` and `types/schema.py` of MLflow 3.17.
    """
    item, scope = record.item, record.scope
    truncator = Truncator(scope.limits)
    custom = PropertiesBuilder(truncator)
    custom.values[SOURCE_KEY] = scope.source_key
    custom.values[DESCRIBED_BY] = record.described_by
    custom.set_own(PropertyKey.DATASET_NAME, item.name)
    custom.set_own(PropertyKey.DATASET_DIGEST, item.digest)
    custom.set_own(PropertyKey.DATASET_SOURCE_TYPE, item.source_type)
    if (rows := _rows(item.profile)) is not None:
        custom.set_own(PropertyKey.DATASET_ROWS, str(rows))
    custom.set_own(PropertyKey.RUN_MODEL, scope.naming.model(record.run_id).urn)
    platform, path, _ = raw_parts(record.urn)
    name = truncator.text(path.rstrip("/").rpartition("/")[2] or path, "name")
    columns = _columns(item.schema)
    kept = custom.limit_entries("columns", list(columns), scope.limits.columns)
    fields = [_field(column, columns[column], truncator) for column in kept]
    schema: Aspect = {
        "schemaName": name,
        "platform": platform,
        "version": 0,
        "hash": schema_hash(redact_tree(fields)),  # as a run redacts it
        "platformSchema": {"com.linkedin.schema.Schemaless": {}},
        "fields": fields,
    }
    properties: Aspect = {"customProperties": custom.values, "name": name}
    aspects = {**({SCHEMA_METADATA: schema} if fields else {}), DATASET_PROPERTIES: properties}
    former = {DATASET_PROPERTIES: {"customProperties": {DESCRIBED_BY: "\n".join(record.trashed)}}}
    notes = tuple(truncator.notes)
    return [Entity(record.urn, aspects, notes=notes, formerly=former if record.trashed else None)]


def _columns(schema: str | None) -> Mapping[str, Column]:
    """Return the columns of a schema by name, tensors, whose JSON is a text, by part and name."""
    content = json_object(schema)
    tensors = content.get("mlflow_tensorspec")
    parts = {"": content.get("mlflow_colspec"), **(tensors if isinstance(tensors, dict) else {})}
    found: dict[str, Column] = {}
    for part, value in parts.items():
        columns = json_or_none(value) if isinstance(value, str) else value
        for at, column in enumerate(columns if isinstance(columns, list) else ()):
            if isinstance(column, dict):
                name = ".".join(filter(None, (part, column_name(column)))) or str(at)
                found.setdefault(name, column)
    return found


def _field(name: str, column: Column, truncator: Truncator) -> Mapping[str, Any]:
    kind = _SCHEMA_TYPES.get(str(column.get("type"))) or _SCHEMA_TYPES[feature_type(column)]
    # A server fills in the defaults, and the hash is of what it holds.
    return {
        "fieldPath": truncator.name(name, "column name"),
        "nullable": column.get("required") is False,
        "type": {"type": {f"com.linkedin.schema.{kind}Type": {}}},
        "nativeDataType": truncator.text(column_type(column), "column type"),
        "recursive": False,
        "isPartOfKey": False,
    }
