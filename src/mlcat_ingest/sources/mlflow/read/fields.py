"""The single values of MLflow's objects: one row a field, for the readers of JSON and of SQL.

The rows have the order of the record, which begins with these fields. Those behind them, such as
tags and metrics, are lists in JSON and tables of their own in SQL, and each reader makes them.
"""

from collections.abc import Callable, Iterable, Mapping
from operator import call
from typing import Any, Final, Generic, NamedTuple, TypeVar

from mlcat_ingest.sources.mlflow.values.records import (
    Experiment,
    LoggedModel,
    ModelVersion,
    RegisteredModel,
    Run,
    model_id_of,
    run_id_of,
)

RecordT = TypeVar("RecordT")

Converter = Callable[[Any], Any]
"""Makes the value of a field. Of another type it may leave a value as it is: a check follows."""

# Source: `LoggedModelStatus` of MLflow 3, as its tables have it.
_MODEL_STATUSES: Final = {1: "PENDING", 2: "READY", 3: "FAILED"}


def moment(value: Any) -> int | None:
    """Return epoch milliseconds; None where there are none, which protocol buffers spell 0.

    What is no number stays as it is, and is refused with its record.
    """
    if type(value) is int:
        return value or None
    if value is None or value == "":
        return None
    try:
        return int(value) or None
    except (ArithmeticError, TypeError, ValueError):
        unreadable: int = value
        return unreadable


def id_text(value: Any) -> Any:
    """Return an id as text: SQL has numbers, and so has some JSON."""
    return str(value) if type(value) is int else value


def _same(value: Any) -> Any:
    return value


def _or(default: str | None) -> Converter:
    """Return what puts `default` in place of an empty text and of no value."""
    return lambda value: value or default


def _stage(value: Any) -> Any:
    """Return a version's stage; MLflow's stage `None` is none."""
    return None if value == "None" else value or None


def _model_status(value: Any) -> str:
    """Return a logged model's status as MlflowClient spells it: READY, FAILED, PENDING."""
    name: str = (value or "UNSPECIFIED").removeprefix("LOGGED_MODEL_")
    return name.removeprefix("UPLOAD_")


def _numbered_status(value: Any) -> str:
    return _MODEL_STATUSES.get(value, "UNSPECIFIED")


class FieldRow(NamedTuple):
    """A field of a record, its name in MLflow's JSON, and its column, as `Table` has columns.

    `of_column` makes its value where the column holds another than the JSON.
    """

    name: str
    json: str
    column: str
    of_json: Converter
    of_column: Converter | None = None


class Fields(Generic[RecordT]):
    """The fields with which the records of one class begin."""

    def __init__(self, record: Callable[..., RecordT], *rows: FieldRow) -> None:
        """Take what makes a record of their values, and them in its order."""
        self.rows: Final = rows
        self.columns: Final = " ".join(row.column for row in rows)
        self._record = record
        self._json = [row.json for row in rows]
        self._of_json = [row.of_json for row in rows]
        self._of_columns = [row.of_column or row.of_json for row in rows]

    def of_json(self, item: Mapping[str, Any], *others: Any) -> RecordT:
        """Return the record of an object of JSON, with its other fields."""
        return self._record(*map(call, self._of_json, map(item.get, self._json)), *others)

    def of_row(self, row: Iterable[Any], *others: Any) -> RecordT:
        """Return the record of a row of `columns`, with its other fields; what follows is left."""
        return self._record(*map(call, self._of_columns, row), *others)


def _version(
    name: str, version: str, run_id: Any, source: Any, model_id: Any, *others: Any
) -> ModelVersion:
    """Return a version; its source can name the run and the model that the rest does not."""
    run_id, model_id = run_id or run_id_of(source), model_id or model_id_of(source)
    return ModelVersion(name, version, run_id, source, model_id, *others)


RUN: Final = Fields(
    Run,
    FieldRow("run_id", "run_id", "run_uuid", _same),
    FieldRow("experiment_id", "experiment_id", "experiment_id:integer", id_text),
    FieldRow("name", "run_name", "name", _or(None)),
    FieldRow("user_id", "user_id", "user_id", _or(None)),
    FieldRow("status", "status", "status", _or(None)),
    FieldRow("start_time_ms", "start_time", "start_time:integer", moment),
    FieldRow("end_time_ms", "end_time", "end_time:integer", moment),
    FieldRow("artifact_uri", "artifact_uri", "artifact_uri", _or(None)),
    FieldRow("lifecycle_stage", "lifecycle_stage", "lifecycle_stage", _or("active")),
)

EXPERIMENT: Final = Fields(
    Experiment,
    FieldRow("experiment_id", "experiment_id", "experiment_id:integer", id_text),
    FieldRow("name", "name", "name", _same),
    FieldRow("artifact_location", "artifact_location", "artifact_location", _or(None)),
    FieldRow("lifecycle_stage", "lifecycle_stage", "lifecycle_stage", _or("active")),
    FieldRow("created_at_ms", "creation_time", "creation_time:integer", moment),
    FieldRow("last_updated_at_ms", "last_update_time", "last_update_time:integer", moment),
)

REGISTERED_MODEL: Final = Fields(
    RegisteredModel,
    FieldRow("name", "name", "name", _same),
    FieldRow("description", "description", "description", _or(None)),
    FieldRow("created_at_ms", "creation_timestamp", "creation_time:integer", moment),
    FieldRow("last_updated_at_ms", "last_updated_timestamp", "last_updated_time:integer", moment),
)

MODEL_VERSION: Final = Fields(
    _version,
    FieldRow("name", "name", "name", _same),
    FieldRow("version", "version", "version:integer", id_text),
    FieldRow("run_id", "run_id", "run_id", _or(None)),
    FieldRow("source", "source", "source", _or(None)),
    FieldRow("model_id", "model_id", "storage_location", _or(None), model_id_of),
    FieldRow("stage", "current_stage", "current_stage", _stage),
    FieldRow("status", "status", "status", _or(None)),
    FieldRow("description", "description", "description", _or(None)),
    FieldRow("user_id", "user_id", "user_id", _or(None)),
    FieldRow("created_at_ms", "creation_timestamp", "creation_time:integer", moment),
    FieldRow("last_updated_at_ms", "last_updated_timestamp", "last_updated_time:integer", moment),
)

LOGGED_MODEL: Final = Fields(
    LoggedModel,
    FieldRow("model_id", "model_id", "model_id", _same),
    FieldRow("experiment_id", "experiment_id", "experiment_id:integer", id_text),
    FieldRow("name", "name", "name", _or("")),
    FieldRow("status", "status", "status:integer", _model_status, _numbered_status),
    FieldRow("source_run_id", "source_run_id", "source_run_id", _or(None)),
    FieldRow("model_type", "model_type", "model_type", _or(None)),
    FieldRow("artifact_uri", "artifact_uri", "artifact_location", _or(None)),
    FieldRow("created_at_ms", "creation_timestamp_ms", "creation_timestamp_ms:integer", moment),
    FieldRow(
        "last_updated_at_ms",
        "last_updated_timestamp_ms",
        "last_updated_timestamp_ms:integer",
        moment,
    ),
)
