"""The data platforms that are in every catalog from its first start.

Those that this package and DataHub's clients write about, as a DataHub 1.x server knows them.
"""

from typing import Final

from sqlalchemy import insert, select
from sqlalchemy.engine import Connection

from mlcat_ingest.catalog.schema.tables import setting
from mlcat_ingest.catalog.schema.values import SYSTEM_ACTOR, Write
from mlcat_ingest.catalog.store.batch import Batch
from mlcat_ingest.catalog.store.prepare import prepare
from mlcat_ingest.metadata.aspects.assets import DATA_PLATFORM_INFO

_SETTING: Final = "data_platforms"
"""Set once they were written: one that is deleted or changed later stays so."""

# Type, delimiter of the names of its datasets, and then name by name: `name=display name`, where
# the two differ by more than a capital letter.
_ROWS: Final = (
    (
        "RELATIONAL_DB",
        ".",
        (
            "athena=AWS Athena, bigquery=BigQuery, clickhouse=ClickHouse, db2=DB2, hana=SAP HANA, "
            "cockroachdb=CockroachDb, mariadb=MariaDB, mssql=SQL Server, mysql=MySQL, oracle, "
            "postgres=PostgreSQL, redshift, snowflake, sqlite=SQLite, teradata"
        ),
    ),
    ("OLAP_DATASTORE", ".", "doris=Apache Doris, druid, kusto, pinot, vertica"),
    ("KEY_VALUE_STORE", ".", "cassandra, couchbase, dynamodb=DynamoDB, mongodb=MongoDB, redis"),
    ("QUERY_ENGINE", ".", "dremio, presto, trino"),
    ("MESSAGE_BROKER", ".", "kafka, pulsar"),
    (
        "FILE_SYSTEM",
        "/",
        (
            "abs=Azure Blob Storage, adlsGen1=Azure Data Lake (Gen 1), gcs=Google Cloud Storage, "
            "adlsGen2=Azure Data Lake (Gen 2), dbfs=Databricks File System, hdfs=HDFS, s3=AWS S3"
        ),
    ),
    ("FILE_SYSTEM", ".", "hive, hudi, iceberg"),
    ("OTHERS", "/", "dagster, excel, http=Web"),
    (
        "OTHERS",
        ".",
        (
            "airflow, csv=CSV, databricks, datahub=DataHub, dbt=dbt, delta-lake=Delta Lake, "
            "elasticsearch, feast, file, fivetran, flink=Apache Flink, glue, "
            "great-expectations=Great Expectations, huggingface=Hugging Face, "
            "kaggle, kafka-connect=Kafka Connect, looker, metabase, mlflow=MLflow, mode, neo4j, "
            "powerbi=Power BI, prefect, sagemaker=SageMaker, salesforce, spark, superset, "
            "tableau, vertexai=Vertex AI"
        ),
    ),
)


def known_platforms() -> list[Write]:
    """Return the writes that make the known platforms."""
    writes = []
    for kind, delimiter, names in _ROWS:
        for entry in names.split(", "):
            name, _, display = entry.partition("=")
            value = {
                "name": name,
                "displayName": display or name.capitalize(),
                "type": kind,
                "datasetNameDelimiter": delimiter,
            }
            writes.append(Write(f"urn:li:dataPlatform:{name}", DATA_PLATFORM_INFO, value))
    return writes


def add_platforms(connection: Connection) -> None:
    """Write the known platforms into a catalog that never had them."""
    if connection.scalar(select(setting.c.value).where(setting.c.name == _SETTING)) is not None:
        return
    items = [prepare(write) for write in known_platforms()]
    Batch(connection, SYSTEM_ACTOR).apply(items)
    connection.execute(insert(setting).values(name=_SETTING, value="1"))
