"""Datasets by the source they were logged with."""

import json
from typing import Any

import pytest

from mlcat_ingest.metadata.proposal import Note
from mlcat_ingest.sources.mlflow.mapping.datasets import dataset_facts, dataset_urn
from mlcat_ingest.sources.mlflow.mapping.places import place_of, place_of_uri
from mlcat_ingest.sources.mlflow.records import DatasetInput


@pytest.mark.parametrize(
    ("uri", "place"),
    [
        ("s3://bucket/a/b.csv", ("s3", "bucket/a/b.csv")),
        ("s3a://bucket/a/", ("s3", "bucket/a")),
        ("s3n://bucket/odd?key#1", ("s3", "bucket/odd?key#1")),
        ("S3://bucket/a", ("s3", "bucket/a")),
        ("gs://bucket/a", ("gcs", "bucket/a")),
        ("gcs://bucket/a", ("gcs", "bucket/a")),
        ("abfss://data@acme.dfs.core.windows.net/x/y.parquet", ("abs", "data/x/y.parquet")),
        ("wasbs://data@acme.blob.core.windows.net/x", ("abs", "data/x")),
        ("abfss://no-account/x", None),
        ("https://acme.blob.core.windows.net/data/x.csv?sig=s3cret", ("abs", "data/x.csv")),
        ("https://bucket.s3.eu-west-1.amazonaws.com/a%20b.csv", ("s3", "bucket/a b.csv")),
        ("https://bucket.s3-eu-west-1.amazonaws.com/a", ("s3", "bucket/a")),
        ("https://s3.amazonaws.com/bucket/a", ("s3", "bucket/a")),
        ("https://ec2.amazonaws.com/a", ("http", "ec2.amazonaws.com/a")),
        ("https://storage.googleapis.com/bucket/a", ("gcs", "bucket/a")),
        ("https://ann:pw@Data.Example.com/x.csv?t=1", ("http", "data.example.com/x.csv")),
        ("file:///data/a%20b.csv", ("file", "/data/a b.csv")),
        ("file:/data/x.csv", ("file", "/data/x.csv")),
        ("/data/dir/", ("file", "/data/dir")),
        ("data/train.csv", ("file", "data/train.csv")),
        ("/", ("file", "/")),
        ("/Volumes/main/ml/raw/x.csv", ("databricks", "/Volumes/main/ml/raw/x.csv")),
        ("dbfs:/mnt/x", ("dbfs", "/mnt/x")),
        ("hdfs://namenode:8020/x/y/", ("hdfs", "/x/y")),
        ("bigquery://project/dataset/table", ("bigquery", "project.dataset.table")),
        ("runs:/abc/artifact", None),
        ("models:/m/1", None),
        ("mlflow-artifacts://host/x", None),
        ("s3://", None),
        ("http://[broken", None),
    ],
)
def test_a_uri_names_a_place(uri: str, place: tuple[str, str] | None) -> None:
    assert place_of_uri(uri) == place


@pytest.mark.parametrize(
    ("source_type", "source", "place"),
    [
        ("s3", {"uri": "s3://b/k"}, ("s3", "b/k")),
        ("http", {"url": "https://example.com/x.csv"}, ("http", "example.com/x.csv")),
        ("local", {"uri": "/data/x.csv"}, ("file", "/data/x.csv")),
        ("hugging_face", {"path": "org/name", "split": "train"}, ("huggingface", "org/name")),
        ("hugging_face", {"path": None}, None),
        ("delta_table", {"delta_table_name": "main.ml.t"}, ("databricks", "main.ml.t")),
        ("delta_table", {"delta_table_name": "db.t"}, ("hive", "db.t")),
        (
            "delta_table",
            {"delta_table_name": "ml.t", "is_databricks_uc_table": True},
            ("databricks", "ml.t"),
        ),
        ("delta_table", {"path": "s3://b/delta/t"}, ("delta-lake", "b/delta/t")),
        ("delta_table", {"path": "dbfs:/delta/t"}, ("dbfs", "/delta/t")),
        ("spark", {"table_name": "`db`.`t`"}, ("hive", "db.t")),
        ("spark", {"path": "s3a://b/t"}, ("s3", "b/t")),
        ("spark", {"sql": "select 1"}, None),
        ("uc_volume", {"path": "/Volumes/a/b/c"}, ("databricks", "/Volumes/a/b/c")),
        (
            "snowflake",
            {"table": "T", "schema": "PUBLIC", "database": "ML"},
            ("snowflake", "ML.PUBLIC.T"),
        ),
        ("snowflake", {"table": "ML.PUBLIC.T", "database": "X"}, ("snowflake", "ML.PUBLIC.T")),
        (
            "sql",
            {"uri": "postgresql+psycopg://ann:pw@db/shop", "table": "public.orders"},
            ("postgres", "shop.public.orders"),
        ),
        ("bigquery", {"table": "p.d.t"}, ("bigquery", "p.d.t")),
        ("code", {"tags": {"mlflow.user": "ann"}}, None),
        ("s3", {"uri": 5}, None),
    ],
)
def test_a_logged_source_names_a_place(
    source_type: str, source: dict[str, Any], place: tuple[str, str] | None
) -> None:
    assert place_of(source_type, json.dumps(source)) == place


def test_a_source_that_is_a_plain_uri_counts_too() -> None:
    assert place_of("s3", "s3://b/k") == ("s3", "b/k")


@pytest.mark.parametrize("source", ["", "[1]", '"text"', "{broken", "null"])
def test_a_source_that_tells_nothing_names_no_place(source: str) -> None:
    found = place_of("s3", source)
    assert found is None or found == ("file", source)


def test_a_place_that_fits_in_no_urn_is_none() -> None:
    assert dataset_urn(DatasetInput("d", "", "s3", "s3://b/" + "x" * 600), "PROD") is None


def test_rows_are_told_where_the_profile_counts_them() -> None:
    profiles = ['{"num_rows": 3}', '{"features_shape": [4, 2]}', '{"num_rows": "x"}', "[]", None]
    profiles += ['{"features_shape": []}', '{"num_rows": true}']
    inputs = [
        DatasetInput("d", "1", "s3", f"s3://b/{n}", profile=profile)
        for n, profile in enumerate(profiles)
    ]
    notes: list[Note] = []
    summary = json.loads(dataset_facts(inputs, "PROD", notes).summary)
    assert [item.get("rows") for item in summary] == [3, 4, None, None, None, None, None]
    assert notes == []


@pytest.mark.parametrize(
    ("context", "aspect"),
    [
        ("training", "mlModelTrainingData"),
        ("TRAIN", "mlModelTrainingData"),
        (" Validation ", "mlModelEvaluationData"),
        ("eval", "mlModelEvaluationData"),
        ("test", "mlModelEvaluationData"),
    ],
)
def test_the_context_says_what_data_was_used_for(context: str, aspect: str) -> None:
    item = DatasetInput("d", "", "s3", "s3://b/k", tags={"mlflow.data.context": context})
    aspects = dataset_facts([item], "PROD", []).aspects
    assert [name for name, fresh in aspects.items() if any(fresh.values())] == [aspect]
