"""Datasets by the source they were logged with."""

import json
from typing import Any

import pytest

from mlcat_ingest.sources.datasets import PLATFORMS, Datasets, DatasetsConfig
from mlcat_ingest.sources.mlflow.mapping.datasets import dataset_facts, dataset_name, place_of
from mlcat_ingest.sources.mlflow.mapping.text import Truncator
from mlcat_ingest.sources.mlflow.values.records import DatasetInput


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
        ("spark", {"table_name": "delta.`s3://b/t`"}, ("delta-lake", "b/t")),
        ("spark", {"table_name": "db.t VERSION AS OF 3"}, ("hive", "db.t")),
        ("delta_table", {"delta_table_name": "my-cat.s.t"}, ("databricks", "my-cat.s.t")),
        ("spark", {"table_name": "parquet.`x`"}, None),
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
        ("spark", {"table_name": "spark_catalog.db.t"}, ("hive", "db.t")),
        ("sql", {"uri": "jdbc:redshift://h/dev?password=x", "table": "t"}, ("redshift", "dev.t")),
        ("mysql", {"table": "t", "schema": "shop", "database": "x"}, ("mysql", "shop.t")),
        ("mssql", {"table": "[db].[dbo].[t]"}, ("mssql", "db.dbo.t")),
        (
            "sql",
            {"uri": "jdbc:sqlserver://h:1433;user=x;databaseName=shop", "table": "dbo.t"},
            ("mssql", "shop.dbo.t"),
        ),
        (
            "sql",
            {"uri": "jdbc:oracle:thin:scott/tiger@//h:1521/svc", "table": "hr.t"},
            ("oracle", "hr.t"),
        ),
        ("oracle", {"uri": "jdbc:oracle:thin:scott/tiger@h", "table": "t"}, ("oracle", "t")),
        ("sqlserver", {"table": "a.b.c"}, ("mssql", "a.b.c")),
        ("bigquery", {"table": "t", "dataset": "d", "project": "p"}, ("bigquery", "p.d.t")),
        ("teradata", {"table": "db.t"}, None),
        ("sql", {"uri": "jdbc:teradata://h/db", "table": "db.t"}, None),
        ("kaggle", {"handle": "org/name"}, ("kaggle", "org/name")),
        ("code", {"tags": {"mlflow.user": "ann"}}, None),
        ("s3", {"uri": 5}, None),
        ("local", {"uri": "feast.get_historical_features"}, None),
    ],
)
def test_a_logged_source_names_a_place(
    source_type: str, source: dict[str, Any], place: tuple[str, str] | None
) -> None:
    assert place_of(source_type, json.dumps(source)) == place
    assert place is None or place[0] in PLATFORMS


def test_a_source_that_is_a_plain_uri_counts_too() -> None:
    assert place_of("s3", "s3://b/k") == ("s3", "b/k")


@pytest.mark.parametrize("source", ["", "[1]", '"text"', "{broken", "null"])
def test_a_source_that_tells_nothing_names_no_place(source: str) -> None:
    found = place_of("s3", source)
    assert found is None or found == ("file", source)


def test_a_recipe_says_where_unknown_source_types_have_their_data() -> None:
    platforms = {"acme_table": "snowflake", "acme_lake": "s3"}
    assert place_of("acme_table", '{"table": "A.B.C"}', platforms) == ("snowflake", "A.B.C")
    assert place_of("acme_lake", "lake://b/orders/", platforms) == ("s3", "b/orders/")
    assert place_of("acme_lake", "s3a://b/orders/", platforms) == ("s3", "b/orders")
    assert place_of("acme_lake", "{}", platforms) is None


def test_the_name_of_a_dataset_has_no_secret() -> None:
    datasets = Datasets(DatasetsConfig.model_validate({"source_types": {"acme": "s3"}}))
    for source_type, source in [
        ("acme", "lake://ann:s3cret@b/orders?token=s3cret"),
        ("s3", "s3://ann:s3cret@b/orders?X-Amz-Signature=s3cret"),
    ]:
        found, urn = dataset_name(source_type, source, datasets, "PROD")
        assert found is not None
        assert found[:2] == ("s3", "b/orders")
        assert urn == "urn:li:dataset:(urn:li:dataPlatform:s3,b/orders,PROD)"


def test_a_place_that_fits_in_no_urn_is_reported() -> None:
    truncator = Truncator()
    item = DatasetInput("d", "", "s3", "s3://b/" + "x" * 600)
    found = dataset_facts([item], Datasets(), "PROD", truncator)
    assert not any(fresh for aspect in found.aspects.values() for fresh in aspect.values())
    assert [note.kind for note in truncator.notes] == ["dataset_unresolved"]


def test_partitions_of_one_table_are_one_dataset_and_the_summary_tells_them_apart() -> None:
    days = [
        DatasetInput("d", "1", "s3", f"s3a://lake/orders/dt=2024-01-0{day}/part-0.parquet")
        for day in (1, 2)
    ]
    found = dataset_facts(days, Datasets(), "PROD", Truncator())
    urn = "urn:li:dataset:(urn:li:dataPlatform:s3,lake/orders,PROD)"
    assert found.aspects["mlModelTrainingData"] == {"trainingData": [{"dataset": urn}]}
    parts = [one["part"] for one in json.loads(found.summary)]
    assert parts == [f"dt=2024-01-0{day}/part-0.parquet" for day in (1, 2)]


def test_the_recipe_decides_over_instance_and_environment() -> None:
    config = DatasetsConfig.model_validate({"platforms": {"s3": {"instance": "eu", "env": "dev"}}})
    found = dataset_facts(
        [DatasetInput("d", "1", "s3", "s3://b/k")], Datasets(config), "QA", Truncator()
    )
    urn = "urn:li:dataset:(urn:li:dataPlatform:s3,eu.b/k,DEV)"
    assert found.aspects["mlModelTrainingData"] == {"trainingData": [{"dataset": urn}]}


def test_rows_are_reported_where_the_profile_counts_them() -> None:
    profiles = ['{"num_rows": 3}', '{"features_shape": [4, 2]}', '{"num_rows": "x"}', "[]", None]
    profiles += ['{"features_shape": []}', '{"num_rows": true}']
    inputs = [
        DatasetInput("d", "1", "s3", f"s3://b/{n}", profile=profile)
        for n, profile in enumerate(profiles)
    ]
    truncator = Truncator()
    summary = json.loads(dataset_facts(inputs, Datasets(), "PROD", truncator).summary)
    assert [item.get("rows") for item in summary] == [3, 4, None, None, None, None, None]
    assert truncator.notes == []


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
    aspects = dataset_facts([item], Datasets(), "PROD", Truncator()).aspects
    assert [name for name, fresh in aspects.items() if any(fresh.values())] == [aspect]


@pytest.mark.parametrize(
    ("context", "aspect"),
    [("", "mlModelEvaluationData"), ("training", "mlModelTrainingData")],
)
def test_data_that_a_metric_of_a_logged_model_names_was_measured_on(
    context: str, aspect: str
) -> None:
    tags = {"mlflow.data.context": context} if context else {}
    item = DatasetInput("d", "1", "s3", "s3://b/k", tags=tags)
    for measured_on, expected in (({("d", "1")}, aspect), ({("d", "2")}, "mlModelTrainingData")):
        found = dataset_facts([item], Datasets(), "PROD", Truncator(), measured_on=measured_on)
        assert [name for name, fresh in found.aspects.items() if any(fresh.values())] == [expected]
