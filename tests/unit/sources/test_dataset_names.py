"""One name for a dataset, whichever partition, file or spelling was logged."""

import pytest

from mlcat_ingest.sources.datasets import normalise


@pytest.mark.parametrize(
    ("platform", "name", "table", "part"),
    [
        ("s3", "lake/orders/dt=2024-01-01/part-0.parquet", "lake/orders", "dt=2024-01-01/part-0."),
        ("s3", "lake/orders/dt=2024-01-01", "lake/orders", "dt=2024-01-01"),
        ("s3", "lake/orders/year=2024/month=01", "lake/orders", "year=2024/month=01"),
        ("s3", "lake/orders/*.parquet", "lake/orders", "*.parquet"),
        ("s3", "lake/orders/**/*.parquet", "lake/orders", "**/*.parquet"),
        ("s3", "lake/orders/{a,b}.csv", "lake/orders", "{a,b}.csv"),
        ("s3", "lake/orders/part-00000-7f.snappy.parquet", "lake/orders", "part-00000-7f."),
        ("s3", "lake/orders/_delta_log/00.json", "lake/orders", "_delta_log/00.json"),
        ("s3", "lake/orders/000001_0", "lake/orders", "000001_0"),
        ("s3", "lake/orders/", "lake/orders", ""),
        ("s3", "lake/train.csv", "lake/train.csv", ""),
        ("s3", "lake/partners/part-time.csv", "lake/partners/part-time.csv", ""),
        ("s3", "lake/Orders", "lake/Orders", ""),
        ("s3", "dt=1", "dt=1", ""),
        ("s3", "dt=1/dt=2", "dt=1", "dt=2"),
        ("s3", "lake", "lake", ""),
        ("gcs", "lake/orders/dt=1", "lake/orders", "dt=1"),
        ("abs", "data/orders/dt=1", "data/orders", "dt=1"),
        ("delta-lake", "lake/orders/dt=1", "lake/orders", "dt=1"),
        ("file", "/data/orders/dt=1/x.csv", "data/orders", "dt=1/x.csv"),
        ("file", "./orders/dt=1", "./orders", "dt=1"),
        ("file", "./dt=1", "./dt=1", ""),
        ("file", "/dt=1", "dt=1", ""),
        ("dbfs", "/mnt/orders/dt=1", "/mnt/orders", "dt=1"),
        ("hdfs", "/orders/dt=1/", "/orders", "dt=1"),
        ("databricks", "/Volumes/Main/ml/raw/dt=1", "/Volumes/Main/ml/raw", "dt=1"),
        ("databricks", "Main.ML.Orders", "main.ml.orders", ""),
        ("http", "example.com/x/dt=1", "example.com/x/dt=1", ""),
        ("bigquery", "p.D.Events", "p.D.Events", ""),
        ("bigquery", "p.d.events_20240131", "p.d.events", "20240131"),
        ("bigquery", "p.d.events20240131", "p.d.events", "20240131"),
        ("bigquery", "p.d.events_20241331", "p.d.events_20241331", ""),
        ("bigquery", "p.d.events_*", "p.d.events", "*"),
        ("bigquery", "p.d.events_2024*", "p.d.events", "2024*"),
        ("bigquery", "p.d.events$20240131", "p.d.events", "$20240131"),
        ("bigquery", "p.d.events@-3600000", "p.d.events", "@-3600000"),
        ("bigquery", "p.d.20240131", "p.d.20240131", ""),
        ("snowflake", "ML.PUBLIC.ORDERS", "ml.public.orders", ""),
        ("postgres", "shop.public.Orders", "shop.public.Orders", ""),
        ("hive", "DB.T", "db.t", ""),
    ],
)
def test_a_name_is_that_of_the_table(platform: str, name: str, table: str, part: str) -> None:
    found = normalise(platform, name)
    assert (found.platform, found.name) == (platform, table)
    assert found.part.startswith(part)
    assert bool(found.part) == bool(part)


def test_partitions_are_kept_on_request() -> None:
    assert normalise("s3", "lake/orders/dt=1/", cut=False) == ("s3", "lake/orders/dt=1", "")
    assert normalise("bigquery", "p.d.e_20240131", cut=False).name == "p.d.e_20240131"


@pytest.mark.parametrize(
    ("platform", "name", "expected"),
    [
        ("oracle", "APP.DRIVERS$V1", "app.drivers$v1"),
        ("oracle", "APP.Drivers", "app.Drivers"),
        ("oracle", "app.drivers", "app.drivers"),
        ("snowflake", "DB.PUBLIC.Drivers", "db.public.drivers"),
        ("postgres", "db.public.Drivers", "db.public.Drivers"),
        ("mssql", "CRM.dbo.Drivers", "CRM.dbo.Drivers"),
    ],
)
def test_a_name_is_folded_as_the_connector_of_its_platform_folds_it(
    platform: str, name: str, expected: str
) -> None:
    assert normalise(platform, name).name == expected
    assert normalise(platform, name, lowercase=False).name == name


def test_case_is_a_matter_of_the_platform_and_of_the_recipe() -> None:
    assert normalise("snowflake", "ML.T", lowercase=False).name == "ML.T"
    assert normalise("postgres", "Shop.T", lowercase=True).name == "shop.t"
    assert normalise("s3", "lake/Orders", lowercase=True).name == "lake/orders"
