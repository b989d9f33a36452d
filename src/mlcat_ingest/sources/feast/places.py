"""Which dataset a data source of Feast is, as the connector of its platform names it.

Nothing is guessed: a table whose database is said nowhere, and one that only a query names, are no
datasets, and a note says so.

Source: `feast.core.DataSource` of Feast 0.67, and the JSON that its contributed sources keep there.
"""

import hashlib
import os
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from mlcat_ingest.errors import CodecError
from mlcat_ingest.metadata.codec import loads
from mlcat_ingest.metadata.proposal import Note
from mlcat_ingest.sources.dataset_places import LEVELS, place_of_uri
from mlcat_ingest.sources.definitions.model import DatasetPlace
from mlcat_ingest.sources.feast.config import FeastConfig, TableDefaults
from mlcat_ingest.sources.feast.messages import SOURCE_TYPES

_UNSAID: Final = TableDefaults()
_SCHEMAS: Final = {"postgres": "public", "redshift": "public", "snowflake": "PUBLIC"}
"""What Feast takes for the schema where only the database is said."""
_QUOTES: Final = str.maketrans("", "", '`"[]')
_DATASETLESS: Final = frozenset({"REQUEST_SOURCE", "PUSH_SOURCE"})


class Told(NamedTuple):
    """What one data source says of where its data is: an address, a table or a query."""

    platform: str = ""
    table: str = ""
    schema: str = ""
    database: str = ""
    uri: str = ""
    query: str = ""


def query_digest(query: str) -> str:
    """Return what stands for the text of a query, which may hold what is nobody's business."""
    return hashlib.sha256(query.encode()).hexdigest()


class Places:
    """Finds the dataset of a data source, as a recipe says."""

    def __init__(self, config: FeastConfig) -> None:
        """Keep what the recipe says of databases, folders and streams."""
        self._connections = config.connections
        self._repo_path = config.repo_path
        self._spark = config.spark_platform
        self._region = config.kinesis_region

    def told(self, source: Any) -> Told | Note | None:
        """Return what a `DataSource` says, None for one that is no data itself, such as a push."""
        kind = SOURCE_TYPES.get(source.type, "")
        if kind in _DATASETLESS:
            return None
        if kind == "BATCH_SPARK":
            options = source.spark_options
            table = options.table.removeprefix("spark_catalog.")
            return Told(self._spark, table, uri=options.path, query=options.query)
        if kind == "STREAM_KINESIS":
            stream = source.kinesis_options
            name = f"{stream.region}:{stream.stream_name}" if self._region else stream.stream_name
            return Told("kinesis", name)
        if kind in _CONTRIBUTED:
            return _contributed(source, _CONTRIBUTED[kind])
        tell = _BY_TYPE.get(kind)
        if tell is None:
            return Note("source_unknown", f"{source.name}: type {source.type}")
        return tell(source)

    def place(self, name: str, told: Told) -> DatasetPlace | Note:
        """Return the dataset that the source of this name tells of, or why there is none."""
        if told.table:
            return self._table(name, told)
        if told.uri:
            return self._file(name, told.uri)
        if told.query:
            return Note("source_is_query", f"{name}: only its query says where the data is")
        return Note("source_without_place", f"{name}: it names neither table nor path")

    def _table(self, name: str, told: Told) -> DatasetPlace | Note:
        platform, levels = told.platform, LEVELS.get(told.platform, 1)
        table = told.table if platform in _VERBATIM else told.table.translate(_QUOTES)
        parts = [part for part in table.split(".") if part]
        known = self._connections.get(platform, _UNSAID)
        if len(parts) == 1 and levels == 3:
            schema = told.schema or known.schema_name or _SCHEMAS.get(platform)
            parts = [schema or "", *parts]
        if len(parts) < levels:
            database = told.database or known.database
            parts = [database or (known.schema_name if levels == 2 else "") or "", *parts]
        if not all(parts):
            return Note(
                "source_without_database",
                f"{name}: {told.table} names no database or schema; see `connections.{platform}`",
            )
        return DatasetPlace(platform, table if levels == 1 else ".".join(parts))

    def _file(self, name: str, uri: str) -> DatasetPlace | Note:
        place = place_of_uri(uri)
        if place is not None and place[0] == "file" and place[1].startswith("."):
            if self._repo_path is None:
                return Note("source_without_place", f"{name}: a relative path; see `repo_path`")
            place = place_of_uri(os.path.normpath(self._repo_path / uri))
        if place is None:
            return Note("source_without_place", f"{name}: its address is none of a dataset")
        return DatasetPlace(*place)


def _bigquery(source: Any) -> Told:
    options = source.bigquery_options
    project, colon, rest = options.table.rpartition(":")
    # The legacy spelling has a colon after the project; in others it is part of the project.
    legacy = colon and rest.count(".") == 1
    table = f"{project}.{rest}" if legacy else options.table
    return Told("bigquery", table, query=options.query)


def _contributed(source: Any, default_class: str) -> Told | Note:
    """Return what a source says that Feast keeps as JSON, which may hold passwords, too."""
    class_ = source.data_source_class_type.rpartition(".")[2] or default_class
    tell = _BY_CLASS.get(class_)
    if tell is None:
        return Note("source_unknown", f"{source.name}: {class_ or 'a source of no known class'}")
    try:
        options = loads(source.custom_options.configuration)
    except CodecError:
        options = None
    if not isinstance(options, dict):
        return Note("source_unreadable", f"{source.name}: its configuration is no JSON object")
    return tell({key: text for key, text in options.items() if isinstance(text, str)})


def _of_table(platform: str, key: str = "table") -> Callable[[Mapping[str, str]], Told]:
    return lambda said: Told(platform, said.get(key, ""), query=said.get("query", ""))


def _of_path(key: str) -> Callable[[Mapping[str, str]], Told]:
    return lambda said: Told(uri=said.get(key, ""))


def _joined(platform: str, *keys: str) -> Callable[[Mapping[str, str]], Told]:
    def told(said: Mapping[str, str]) -> Told:
        parts = [said.get(key, "") for key in keys]
        table = ".".join(parts) if all(parts) else ""
        return Told(platform, table, query=said.get("query", ""))

    return told


_BY_TYPE: Final[Mapping[str, Callable[[Any], Told]]] = {
    "BATCH_FILE": lambda source: Told(uri=source.file_options.uri),
    "BATCH_BIGQUERY": _bigquery,
    "BATCH_REDSHIFT": lambda source: Told("redshift", *_of_schema(source.redshift_options)),
    "BATCH_SNOWFLAKE": lambda source: Told("snowflake", *_of_schema(source.snowflake_options)),
    "BATCH_TRINO": lambda source: Told(
        "trino", source.trino_options.table, query=source.trino_options.query
    ),
    "BATCH_ATHENA": lambda source: Told(
        "athena",
        source.athena_options.table,
        database=source.athena_options.database,
        query=source.athena_options.query,
    ),
    "STREAM_KAFKA": lambda source: Told("kafka", source.kafka_options.topic),
}

_CONTRIBUTED: Final = {"CUSTOM_SOURCE": "", "BATCH_ICEBERG": "IcebergSource"}
"""Types of sources that are told by their class, and the class of those that name none."""

_BY_CLASS: Final[Mapping[str, Callable[[Mapping[str, str]], Told]]] = {
    "PostgreSQLSource": _of_table("postgres"),
    "ClickhouseSource": _of_table("clickhouse"),
    "MsSqlServerSource": _of_table("mssql", "table_ref"),
    "OracleSource": _of_table("oracle", "table_ref"),
    "CouchbaseColumnarSource": _joined("couchbase", "database", "scope", "collection"),
    "IcebergSource": _joined("iceberg", "namespace", "table"),
    "UnityCatalogSource": _joined("databricks", "warehouse", "namespace", "table"),
    "ChrononSource": _of_path("materialization_path"),
    "LanceSource": _of_path("uri"),
    "RaySource": _of_path("path"),
}

_VERBATIM: Final = frozenset({"kafka", "kinesis"})
"""Platforms whose names are no parts with dots between."""


def _of_schema(options: Any) -> tuple[str, str, str, str, str]:
    return options.table, options.schema, options.database, "", options.query
