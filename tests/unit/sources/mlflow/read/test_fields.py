"""The table of fields is whole, and each row is read alike by JSON and by SQL."""

import dataclasses
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.sources.mlflow.read import decode, fields
from mlcat_ingest.sources.mlflow.read.database.reader import DatabaseReader
from mlcat_ingest.sources.mlflow.read.fields import FieldRow, Fields
from mlcat_ingest.sources.mlflow.values.records import (
    Experiment,
    LoggedModel,
    ModelVersion,
    RegisteredModel,
    Run,
)
from support.mlflow_tables import make_database, reader_of

Info = dict[str, Any]

OTHERS = {
    Run: ["params", "metrics", "tags", "datasets", "model_inputs", "model_outputs"],
    Experiment: ["tags"],
    RegisteredModel: ["tags", "aliases"],
    ModelVersion: ["aliases", "tags", "origin"],
    LoggedModel: ["params", "tags", "metrics", "copied"],
}
"""The fields that come from lists in JSON and from further tables in SQL, or from neither."""

TABLES: dict[type, Fields[Any]] = {
    Run: fields.RUN,
    Experiment: fields.EXPERIMENT,
    RegisteredModel: fields.REGISTERED_MODEL,
    ModelVersion: fields.MODEL_VERSION,
    LoggedModel: fields.LOGGED_MODEL,
}

MODEL = f"m-{'0' * 32}"
UNLIKE = {"status:integer": ("READY", 2), "storage_location": (MODEL, f"s3://b/models/{MODEL}")}
"""The values in JSON and in SQL, of columns that hold something else than the JSON."""

READ: dict[type, tuple[str, Callable[[Info], Any], Callable[[DatabaseReader], Iterator[Any]]]] = {
    Run: ("runs", lambda info: decode.run({"info": info}), lambda reader: reader.runs(["1"])),
    Experiment: ("experiments", decode.experiment, DatabaseReader.experiments),
    RegisteredModel: (
        "registered_models",
        decode.registered_model,
        DatabaseReader.registered_models,
    ),
    ModelVersion: (
        "model_versions",
        lambda info: decode.model_version(info, decode.Aliases([])),
        DatabaseReader.model_versions,
    ),
    LoggedModel: (
        "logged_models",
        lambda info: decode.logged_model({"info": info}),
        lambda reader: reader.logged_models(["1"]),
    ),
}
"""For each record: its table, what reads its JSON, and what reads the table."""


@pytest.mark.parametrize("record", TABLES)
def test_each_field_has_a_row_or_is_read_from_more_than_one_value(record: Any) -> None:
    rows = [row.name for row in TABLES[record].rows]
    assert [field.name for field in dataclasses.fields(record)] == [*rows, *OTHERS[record]]


def values_of(row: FieldRow) -> tuple[Any, Any]:
    """Return the same value in JSON and in SQL."""
    if row.column in UNLIKE:
        return UNLIKE[row.column]
    return (1, 1) if row.column.endswith(":integer") else (row.name, row.name)


@pytest.mark.parametrize("record", TABLES)
def test_a_row_is_read_alike_from_json_and_from_a_table(record: Any, tmp_path: Path) -> None:
    table, of_json, listed = READ[record]
    rows = TABLES[record].rows
    made = {row.column.partition(":")[0]: values_of(row)[1] for row in rows}
    if record is LoggedModel:
        made["lifecycle_stage"] = "active"
    filled: dict[str, Any] = {"registered_models": [{"name": "name"}], table: [made]}
    reader = reader_of(make_database(tmp_path / "m.db", **filled))
    (of_sql,) = chain.from_iterable(listed(reader))
    reader.connection.close()
    assert of_sql == of_json({row.json: values_of(row)[0] for row in rows})
    assert [row.name for row in rows if not getattr(of_sql, row.name)] == []
