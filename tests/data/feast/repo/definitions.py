"""A feature repository with every kind of thing that Feast 0.67 knows; see ../README.md."""

from datetime import timedelta
from typing import Any

import pandas as pd
from feast import (
    Aggregation,
    AthenaSource,
    BigQuerySource,
    Entity,
    FeatureService,
    FeatureView,
    Field,
    FileSource,
    KafkaSource,
    KinesisSource,
    LabelView,
    OnDemandFeatureView,
    PushSource,
    RedshiftSource,
    RequestSource,
    SnowflakeSource,
    StreamFeatureView,
    ValueType,
)
from feast.credentials import ConnectionRef
from feast.data_format import JsonFormat
from feast.infra.data_sources.contrib.iceberg_catalog.iceberg_source import IcebergSource
from feast.infra.offline_stores.contrib.mssql_offline_store.mssqlserver_source import (
    MsSqlServerSource,
)
from feast.infra.offline_stores.contrib.postgres_offline_store.postgres_source import (
    PostgreSQLSource,
)
from feast.infra.offline_stores.contrib.spark_offline_store.spark_source import SparkSource
from feast.infra.offline_stores.contrib.trino_offline_store.trino_source import TrinoSource
from feast.types import (
    Array,
    Bool,
    Bytes,
    Decimal,
    Float32,
    Float64,
    ImageBytes,
    Int32,
    Int64,
    Json,
    Map,
    PdfBytes,
    Set,
    String,
    Struct,
    UnixTimestamp,
    Uuid,
)

TIME: dict[str, Any] = {"timestamp_field": "event_timestamp"}

driver = Entity(
    name="driver",
    join_keys=["driver_id"],
    value_type=ValueType.INT64,
    description="Who drives",
    tags={"pii": "yes"},
    owner="people@example.com",
)
customer = Entity(name="customer", join_keys=["customer_id"], description="Who rides")

# --- data sources: 19 ----------------------------------------------------------------------------

file_local = FileSource(name="file_local", path="data/driver_stats.parquet", **TIME)
file_s3 = FileSource(name="file_s3", path="s3a://ride-lake/drivers/daily.parquet/", **TIME)
file_gcs = FileSource(name="file_gcs", path="gs://ride-lake/customers/day=*/x.parquet", **TIME)
bigquery_table = BigQuerySource(name="bigquery_table", table="Rides:raw.Trips", **TIME)
bigquery_query = BigQuerySource(
    name="bigquery_query", query="SELECT driver_id, event_timestamp, n FROM raw.trips", **TIME
)
snowflake_full = SnowflakeSource(
    name="snowflake_full", database="ANALYTICS", schema="FEATURES", table="DRIVER_STATS", **TIME
)
snowflake_bare = SnowflakeSource(name="snowflake_bare", table="CUSTOMER_STATS", **TIME)
redshift = RedshiftSource(
    name="redshift", database="dwh", schema="rides", table="Driver_Ratings", **TIME
)
athena = AthenaSource(
    name="athena", database="Lake", table="Trips", data_source="AwsDataCatalog", **TIME
)
spark_table = SparkSource(name="spark_table", table="warehouse.driver_hours", **TIME)
spark_path = SparkSource(
    name="spark_path", path="s3://ride-lake/spark/hours", file_format="parquet", **TIME
)
trino = TrinoSource(name="trino", table="hive.rides.Surge", **TIME)
postgres = PostgreSQLSource(name="postgres", table="public.accounts", **TIME)
mssql = MsSqlServerSource(
    name="mssql",
    table_ref="crm.dbo.customers",
    event_timestamp_column="event_timestamp",
    connection_str="mssql+pyodbc://feast:not-a-real-password@db/crm",
)
iceberg = IcebergSource(
    name="iceberg",
    warehouse="lake",
    namespace="rides",
    table="zones",
    endpoint="http://127.0.0.1:8181",
    token_env_var="ICEBERG_TOKEN",
    connection_ref=ConnectionRef(provider="vault", name="secret/iceberg"),
    **TIME,
)
kafka = KafkaSource(
    name="kafka",
    kafka_bootstrap_servers="broker:9092",
    topic="rides.positions",
    message_format=JsonFormat(
        schema_json="driver_id integer, event_timestamp timestamp, n integer"
    ),
    batch_source=file_s3,
    watermark_delay_threshold=timedelta(minutes=5),
    tags={"tier": "hot"},
    **TIME,
)
kinesis = KinesisSource(
    name="kinesis",
    region="eu-west-1",
    stream_name="ride-events",
    record_format=JsonFormat(schema_json="driver_id integer, event_timestamp timestamp, n integer"),
    batch_source=file_gcs,
    **TIME,
)
push = PushSource(name="push", batch_source=snowflake_full)
request = RequestSource(
    name="request", schema=[Field(name="hour", dtype=Int64), Field(name="zone", dtype=String)]
)

# --- feature views: 18 batch, 1 stream, 2 on demand; 1 label view ---------------------------------

DRIVER_ID = Field(name="driver_id", dtype=Int64)
CUSTOMER_ID = Field(name="customer_id", dtype=String)


def _view(name: str, source: Any, *fields: Field, **options: Any) -> FeatureView:
    return FeatureView(
        name=name,
        entities=[driver],
        schema=[DRIVER_ID, *fields],
        source=source,
        **{"ttl": timedelta(days=1), **options},
    )


driver_hourly_stats = _view(
    "driver_hourly_stats",
    file_local,
    Field(
        name="conv_rate",
        dtype=Float32,
        description="Share of offers that were taken",
        tags={"tier": "gold", "owner-team": "matching"},
    ),
    Field(name="acc_rate", dtype=Float64, tags={"description": "Share of offers accepted"}),
    Field(name="avg_daily_trips", dtype=Int64, tags={"mlcat.type": "COUNT"}),
    description="How drivers did in each hour",
    owner="Drivers@example.com",
    tags={"team": "drivers", "certified": ""},
    org="mobility",
)
driver_types = _view(
    "driver_types",
    file_s3,
    Field(name="as_bytes", dtype=Bytes),
    Field(name="as_pdf", dtype=PdfBytes),
    Field(name="as_image", dtype=ImageBytes),
    Field(name="as_string", dtype=String),
    Field(name="as_int32", dtype=Int32),
    Field(name="as_decimal", dtype=Decimal),
    Field(name="as_bool", dtype=Bool),
    Field(name="as_time", dtype=UnixTimestamp),
    Field(name="as_uuid", dtype=Uuid),
    Field(name="as_map", dtype=Map),
    Field(name="as_json", dtype=Json),
    Field(name="as_struct", dtype=Struct({"lat": Float64, "lon": Float64})),
    Field(name="as_list", dtype=Array(String)),
    Field(name="as_nested", dtype=Array(Array(Int64))),
    Field(name="as_set", dtype=Set(String)),
    Field(
        name="embedding",
        dtype=Array(Float32),
        vector_index=True,
        vector_length=64,
        vector_search_metric="cosine",
    ),
)
customer_profile = FeatureView(
    name="customer_profile",
    entities=[customer],
    schema=[CUSTOMER_ID, Field(name="lifetime_days", dtype=Int64)],
    source=file_gcs,
    online=False,
    ttl=timedelta(0),
)
driver_trips = _view("driver_trips", bigquery_table, Field(name="trips", dtype=Int64))
driver_query = _view("driver_query", bigquery_query, Field(name="n", dtype=Int64))
driver_snowflake = _view("driver_snowflake", snowflake_full, Field(name="score", dtype=Float64))
customer_stats = FeatureView(
    name="customer_stats",
    entities=[customer, driver],
    schema=[CUSTOMER_ID, DRIVER_ID, Field(name="rides_together", dtype=Int64)],
    source=snowflake_bare,
    ttl=timedelta(hours=2),
)
driver_ratings = _view("driver_ratings", redshift, Field(name="rating", dtype=Float32))
driver_lake = _view("driver_lake", athena, Field(name="trips", dtype=Int64))
driver_hours = _view("driver_hours", spark_table, Field(name="hours", dtype=Float32))
driver_spark = _view("driver_spark", spark_path, Field(name="hours", dtype=Float32))
surge = FeatureView(
    name="surge", schema=[Field(name="factor", dtype=Float32)], source=trino, ttl=timedelta(hours=1)
)
driver_accounts = _view("driver_accounts", postgres, Field(name="balance", dtype=Float64))
driver_crm = _view("driver_crm", mssql, Field(name="segment", dtype=String))
driver_zones = _view("driver_zones", iceberg, Field(name="zone", dtype=String))
driver_positions = _view("driver_positions", kafka, Field(name="lat", dtype=Float64))
driver_events = _view("driver_events", kinesis, Field(name="events", dtype=Int64))
driver_pushed = _view("driver_pushed", push, Field(name="score", dtype=Float64))


def _unchanged(frame: pd.DataFrame) -> pd.DataFrame:
    return frame


driver_live = StreamFeatureView(
    name="driver_live",
    entities=[driver],
    schema=[DRIVER_ID, Field(name="n", dtype=Int64)],
    source=kafka,
    mode="pandas",
    udf=_unchanged,
    udf_string="def _unchanged(frame):\n    return frame\n",
    aggregations=[Aggregation(column="n", function="sum", time_window=timedelta(hours=1))],
    ttl=timedelta(minutes=30),
    description="What drivers do now",
    owner="streams@example.com",
    tags={"team": "streams"},
    **TIME,
)


def _rate_at_hour(frame: pd.DataFrame) -> pd.DataFrame:
    found = pd.DataFrame()
    found["rate_at_hour"] = (frame["conv_rate"] * frame["hour"]).astype("float64")
    return found


def _live_share(frame: pd.DataFrame) -> pd.DataFrame:
    found = pd.DataFrame()
    found["live_share"] = (frame["n"] / frame["trips"]).astype("float64")
    return found


rate_at_hour = OnDemandFeatureView(
    name="rate_at_hour",
    sources=[driver_hourly_stats[["conv_rate"]], request],
    schema=[Field(name="rate_at_hour", dtype=Float64)],
    mode="pandas",
    udf=_rate_at_hour,
    udf_string="def _rate_at_hour(frame): ...\n",
    description="The rate, by the hour that is asked for",
    owner="matching@example.com",
    tags={"team": "matching"},
)
live_share = OnDemandFeatureView(
    name="live_share",
    sources=[driver_live, driver_trips],
    schema=[Field(name="live_share", dtype=Float64)],
    mode="pandas",
    udf=_live_share,
    udf_string="def _live_share(frame): ...\n",
)

fraud_labels = LabelView(
    name="fraud_labels",
    entities=[customer],
    schema=[CUSTOMER_ID, Field(name="is_fraud", dtype=Bool), Field(name="labeler", dtype=String)],
    source=push,
    labeler_field="labeler",
    reference_feature_view="customer_profile",
    description="What reviewers found",
    owner="fraud@example.com",
)

# --- feature services: 2 -------------------------------------------------------------------------

driver_ranking = FeatureService(
    name="driver_ranking",
    features=[driver_hourly_stats[["conv_rate", "acc_rate"]], rate_at_hour],
    description="What the ranking is trained on",
    owner="matching@example.com",
    tags={"tier": "gold"},
)
pairing = FeatureService(
    name="pairing",
    features=[driver_hourly_stats.with_name("stats_of_driver"), driver_live, customer_profile],
)
