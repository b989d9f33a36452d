"""Each kind of data source, and the URN that the connector of its platform gives the data."""

import json
from hashlib import sha256
from typing import Any

import pytest

from mlcat_ingest.sources.datasets import PLATFORMS, Datasets, DatasetsConfig
from mlcat_ingest.sources.definitions.tables import DatasetPlace, FeatureTable
from support.feast import table_of

HEAD = "urn:li:dataset:(urn:li:dataPlatform:"
SNOWFLAKE = {"snowflake": {"database": "ANALYTICS", "schema": "FEATURES"}}
SECRET = "mssql+pyodbc://feast:hunter2@db/crm"


def table(source: dict[str, Any], **options: Any) -> FeatureTable:
    return table_of({"batch_source": {"name": "s", **source}}, options)


def datasets(source: dict[str, Any], **options: Any) -> list[str]:
    """Return platform and name of the datasets of a view, as their URNs spell them."""
    named, found = Datasets(), []
    for place in table(source, **options).sources:
        assert isinstance(place, DatasetPlace)
        found.append(str(named.urn(named.resolve(*place), "PROD")))
    return [urn.removeprefix(HEAD).removesuffix(",PROD)") for urn in found]


def notes(source: dict[str, Any], **options: Any) -> list[str]:
    return [note.kind for note in table(source, **options).notes]


def file(uri: str) -> dict[str, Any]:
    return {"type": 1, "file_options": {"uri": uri}}


def bigquery(name: str) -> dict[str, Any]:
    return {"type": 2, "bigquery_options": {"table": name}}


def redshift(**message: str) -> dict[str, Any]:
    return {"type": 5, "redshift_options": message}


def snowflake(**message: str) -> dict[str, Any]:
    return {"type": 8, "snowflake_options": message}


def spark(**message: Any) -> dict[str, Any]:
    return {"type": 11, "spark_options": message}


def iceberg(**message: str) -> dict[str, Any]:
    return {"table_format": {"iceberg_format": message}}


def delta(uri: str) -> dict[str, Any]:
    return {"type": 1, "file_options": {"uri": uri, "file_format": {"delta_format": {}}}}


def athena(**message: str) -> dict[str, Any]:
    return {"type": 12, "athena_options": message}


def custom(class_: str, type_: int = 6, **message: Any) -> dict[str, Any]:
    return {
        "type": type_,
        "data_source_class_type": f"feast.contrib.{class_}",
        "custom_options": {"configuration": json.dumps(message).encode()},
    }


def postgres(**message: Any) -> dict[str, Any]:
    return custom("PostgreSQLSource", **message)


POSTGRES = {"connections": {"postgres": {"database": "Db"}}}
COUCHBASE: dict[str, Any] = {"database": "d", "scope": "s", "collection": "c"}
TRINO = {"type": 10, "trino_options": {"table": "hive.rides.Surge"}}
KAFKA = {"type": 3, "kafka_options": {"topic": "Rides.Positions"}, "batch_source": file("s3://b/k")}
KINESIS = {"type": 4, "kinesis_options": {"region": "eu-west-1", "stream_name": "Events"}}
ICEBERG = {"warehouse": "lake", "namespace": "rides", "table": "zones", "token_env_var": "T"}

CASES: list[tuple[dict[str, Any], dict[str, Any], list[str]]] = [
    (file("s3://bucket/drivers.parquet"), {}, ["s3,bucket/drivers.parquet"]),
    (file("s3a://bucket/drivers/"), {}, ["s3,bucket/drivers"]),
    (file("gs://bucket/a/day=1/*.parquet"), {}, ["gcs,bucket/a"]),
    (file("abfss://box@account.dfs.core.windows.net/a/b"), {}, ["abs,box/a/b"]),
    (file("/data/drivers.parquet"), {}, ["file,data/drivers.parquet"]),
    (file("file:///data/drivers.parquet"), {}, ["file,data/drivers.parquet"]),
    (file("data/../x.parquet"), {"repo_path": "/repo"}, ["file,repo/x.parquet"]),
    (bigquery("Rides.raw.Trips"), {}, ["bigquery,Rides.raw.Trips"]),
    (bigquery("Rides:raw.Trips"), {}, ["bigquery,Rides.raw.Trips"]),
    (bigquery("`Rides`.raw.Trips_20240131"), {}, ["bigquery,Rides.raw.Trips"]),
    (bigquery("example.com:rides.raw.trips"), {}, ["bigquery,example.com:rides.raw.trips"]),
    (bigquery("raw.t"), {"connections": {"bigquery": {"database": "p"}}}, ["bigquery,p.raw.t"]),
    (KAFKA, {}, ["kafka,Rides.Positions", "s3,b/k"]),
    (KINESIS, {}, ["kinesis,Events"]),
    (KINESIS, {"kinesis_region": True}, ["kinesis,eu-west-1:Events"]),
    (redshift(database="DWH", schema="R", table="T"), {}, ["redshift,dwh.r.t"]),
    (redshift(database="DWH", table="T"), {}, ["redshift,dwh.public.t"]),
    (snowflake(database="D", schema="S", table="T"), {}, ["snowflake,d.s.t"]),
    (snowflake(database="D", table="T"), {}, ["snowflake,d.public.t"]),
    (snowflake(table="T"), {"connections": SNOWFLAKE}, ["snowflake,analytics.features.t"]),
    ({"type": 9, "batch_source": {"name": "b", **bigquery("p.d.t")}}, {}, ["bigquery,p.d.t"]),
    ({"type": 7, "request_data_options": {"schema": [{"name": "hour"}]}}, {}, []),
    (TRINO, {}, ["trino,hive.rides.surge"]),
    (spark(path="s3://bucket/x"), {}, ["s3,bucket/x"]),
    (spark(table="Db.T"), {}, ["hive,db.t"]),
    (spark(table="spark_catalog.db.t"), {}, ["hive,db.t"]),
    (spark(table="c.s.T"), {"spark_platform": "databricks"}, ["databricks,c.s.t"]),
    (spark(table="`Db`.`T`"), {}, ["hive,db.t"]),
    (spark(table="`spark_catalog`.db.t"), {}, ["hive,db.t"]),
    (spark(table="db.t VERSION AS OF 3"), {}, ["hive,db.t"]),
    (spark(table="db.t FOR SYSTEM_VERSION AS OF '3'"), {}, ["hive,db.t"]),
    (spark(table="db.t timestamp as of '2024-01-31 10:00:00.5'"), {}, ["hive,db.t"]),
    (spark(table="db.t@v3"), {}, ["hive,db.t"]),
    (spark(table="delta.orders"), {}, ["hive,delta.orders"]),
    (spark(table="delta.`s3://Lake/Drivers/`"), {}, ["delta-lake,Lake/Drivers"]),
    (spark(table="delta.`s3a://lake/drivers@v12`"), {}, ["delta-lake,lake/drivers"]),
    (spark(table="DELTA.`s3://lake/d` VERSION AS OF 3"), {}, ["delta-lake,lake/d"]),
    (spark(table="delta.`dbfs:/lake/d`"), {}, ["dbfs,/lake/d"]),
    (spark(table="`parquet`.`/data/x`"), {}, ["file,data/x"]),
    (spark(table="iceberg.`gs://b/w/t`"), {}, ["iceberg,b/w/t"]),
    (spark(table="hudi.`s3://b/w/t`"), {}, ["hudi,b/w/t"]),
    (spark(path="s3://lake/d", file_format="parquet"), {}, ["s3,lake/d"]),
    (spark(path="s3://lake/d", file_format="delta"), {}, ["delta-lake,lake/d"]),
    (spark(path="s3://lake/d", table_format={"delta_format": {}}), {}, ["delta-lake,lake/d"]),
    (
        spark(
            path="abfss://box@a.dfs.core.windows.net/h/dt=1",
            table_format={"hudi_format": {"table_type": "COPY_ON_WRITE"}},
            file_format="parquet",
        ),
        {},
        ["hudi,box/h"],
    ),
    (spark(path="gs://b/w/t", table_format={"iceberg_format": {}}), {}, ["iceberg,b/w/t"]),
    (spark(path="db.t", **iceberg()), {}, ["iceberg,db.t"]),
    (spark(path="prod.db.t", **iceberg(catalog="prod")), {}, ["iceberg,db.t"]),
    (spark(path="a.b.t", **iceberg(catalog="prod")), {}, ["iceberg,a.b.t"]),
    (spark(table="prod.`db`.t", **iceberg(catalog="prod")), {}, ["iceberg,db.t"]),
    (spark(path="t", **iceberg(namespace="db")), {}, ["iceberg,db.t"]),
    (delta("s3://lake/d"), {}, ["delta-lake,lake/d"]),
    (delta("abfss://box@a.dfs.core.windows.net/d/"), {}, ["delta-lake,box/d"]),
    (delta("dbfs:/lake/d"), {}, ["dbfs,/lake/d"]),
    (delta("data/d"), {"repo_path": "/repo"}, ["delta-lake,repo/data/d"]),
    (spark(table="json.`abfss://box@a.dfs.core.windows.net/a`"), {}, ["abs,box/a"]),
    (athena(database="Lake", table="Trips"), {}, ["athena,lake.trips"]),
    (custom("IcebergSource", 13, **ICEBERG), {}, ["iceberg,rides.zones"]),
    (custom("UnityCatalogSource", 13, **ICEBERG), {}, ["databricks,lake.rides.zones"]),
    (postgres(name="s", table="public.a", query=""), POSTGRES, ["postgres,Db.public.a"]),
    (postgres(table="a"), POSTGRES, ["postgres,Db.public.a"]),
    (postgres(table='Public."Drivers"'), POSTGRES, ["postgres,Db.public.Drivers"]),
    (custom("ClickhouseSource", table="db.t"), {}, ["clickhouse,db.t"]),
    (
        custom("MsSqlServerSource", table_ref="[crm].dbo.T", connection_string=SECRET),
        {},
        ["mssql,crm.dbo.T"],
    ),
    (custom("OracleSource", table_ref="APP.T"), {}, ["oracle,app.t"]),
    (custom("OracleSource", table_ref="App.T_1"), {}, ["oracle,app.t_1"]),
    (custom("OracleSource", table_ref='"APP"."Drivers"'), {}, ["oracle,app.Drivers"]),
    (custom("CouchbaseColumnarSource", **COUCHBASE), {}, ["couchbase,d.s.c"]),
    (custom("ChrononSource", materialization_path="s3://b/m"), {}, ["s3,b/m"]),
    (
        custom("LanceSource", uri="gs://b/l.lance", storage_options={"k": "v"}),
        {},
        ["gcs,b/l.lance"],
    ),
    (custom("RaySource", reader_type="parquet", path="s3://b/r"), {}, ["s3,b/r"]),
]


@pytest.mark.parametrize(("source", "options", "wanted"), CASES)
def test_a_source_is_the_dataset_of_its_platforms_connector(
    source: dict[str, Any], options: dict[str, Any], wanted: list[str]
) -> None:
    assert datasets(source, **options) == wanted
    assert {one.partition(",")[0] for one in wanted} <= PLATFORMS
    assert notes(source, **options) == []


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        (file("data/x.parquet"), "source_without_place"),
        (file("hf://models/x"), "source_without_place"),
        (file(""), "source_without_place"),
        (bigquery("trips"), "source_without_database"),
        (snowflake(table="T"), "source_without_database"),
        (redshift(table="T"), "source_without_database"),
        (athena(table="T"), "source_without_database"),
        (postgres(table="public.a"), "source_without_database"),
        (custom("MongoDBSource", feature_view="f"), "source_unknown"),
        (custom("Mine", table="a.b.c"), "source_unknown"),
        ({"type": 6}, "source_unknown"),
        ({"type": 77}, "source_unknown"),
        (custom("CouchbaseColumnarSource", database="d"), "source_without_place"),
        *(
            ({**postgres(), "custom_options": {"configuration": text}}, "source_unreadable")
            for text in (b"{", b"1")
        ),
        ({"type": 2, "bigquery_options": {"query": "SELECT 1"}}, "source_is_query"),
        (postgres(query="SELECT 1"), "source_is_query"),
        (spark(query="SELECT 1"), "source_is_query"),
        (spark(table="t"), "source_without_database"),
        (spark(path="t", **iceberg()), "source_without_place"),
        (spark(table="main.feat.t"), "source_without_place"),
        (spark(table="`main`.feat.t VERSION AS OF 2"), "source_without_place"),
        (spark(table="delta.`drivers`"), "source_without_place"),
        (spark(table="parquet./data/x"), "source_without_place"),
        (spark(table="(SELECT * FROM db.t)"), "source_without_place"),
        (spark(table="db.t AS x"), "source_without_place"),
        (spark(table="db.`t"), "source_without_place"),
    ],
)
def test_a_source_that_is_no_dataset_is_a_note_and_no_edge(
    source: dict[str, Any], kind: str
) -> None:
    assert datasets(source) == []
    assert notes(source) == [kind]


def test_a_recipe_keeps_the_case_of_names_that_its_connector_keeps() -> None:
    (place,) = table(snowflake(database="D", schema="S", table="T")).sources
    assert isinstance(place, DatasetPlace)
    kept = DatasetsConfig.model_validate({"platforms": {"snowflake": {"lowercase": False}}})
    assert Datasets(kept).resolve(*place).name == "D.S.T"


def test_a_query_is_kept_as_a_digest_and_never_as_a_text() -> None:
    found = table(snowflake(query="SELECT secret FROM t"))
    assert found.properties["feast.query_sha256"] == sha256(b"SELECT secret FROM t").hexdigest()
    assert "secret" not in str(found)


def test_what_a_source_keeps_for_itself_is_shown_nowhere() -> None:
    source = custom("MsSqlServerSource", table_ref="t", connection_string=SECRET)
    assert "hunter2" not in str(table(source))


def test_a_source_of_which_only_the_name_was_copied_is_the_registered_one() -> None:
    whole = {"name": "s", "project": "p", **custom("OracleSource", table_ref="A.T")}
    for copied in ({"name": "s"}, {**whole, "data_source_class_type": ""}):
        found = table_of({"batch_source": copied}, data_sources=[whole])
        assert found.sources == (DatasetPlace("oracle", "a.t"),)


def test_a_source_below_itself_is_followed_once() -> None:
    loop = {"name": "s", "project": "p", "type": 9, "batch_source": {"name": "s"}}
    found = table_of({"batch_source": {"name": "s"}}, data_sources=[loop])
    assert (found.sources, found.notes) == ((), ())
    assert found.properties["feast.sources"] == "s"
