"""Upstream datasets of a view: from the data sources that it names to the datasets behind them.

A dataset has the name that the connector of its platform gives it. Nothing is guessed: a table
whose database is named nowhere, and one that only a query names, are no datasets, and a note says
so.

Source: `feast.core.DataSource` of Feast 0.67, and the JSON that its contributed sources keep there.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from mlcat_ingest.errors import CodecError
from mlcat_ingest.metadata.codec import loads
from mlcat_ingest.metadata.proposal import Note
from mlcat_ingest.sources.datasets import LEVELS, place_of_uri, spark_name
from mlcat_ingest.sources.definitions.tables import DatasetPlace
from mlcat_ingest.sources.feast.config import DEFAULT_SCHEMAS, FeastConfig, TableDefaults
from mlcat_ingest.sources.feast.registry import SOURCE_TYPES

_ItemT = TypeVar("_ItemT")

Lookup = Callable[[str, str], Any | None]
"""Finds the registered `DataSource` of a project and name."""

_NO_DEFAULTS: Final = TableDefaults()
_QUOTES: Final = str.maketrans("", "", '`"[]')
_DATASETLESS: Final = frozenset({"REQUEST_SOURCE", "PUSH_SOURCE"})

_TABLE_SOURCES: Final = {
    "BATCH_BIGQUERY": "bigquery",
    "BATCH_REDSHIFT": "redshift",
    "BATCH_SNOWFLAKE": "snowflake",
    "BATCH_TRINO": "trino",
    "BATCH_ATHENA": "athena",
}
"""Platform by type of data sources that are tables; `<platform>_options` holds their options."""

_CONTRIBUTED: Final = {"CUSTOM_SOURCE": "", "BATCH_ICEBERG": "IcebergSource"}
"""Types of sources that are distinguished by their class, and the class of those that name none."""

_BY_CLASS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "PostgreSQLSource": ("postgres", ("table",)),
    "ClickhouseSource": ("clickhouse", ("table",)),
    "MsSqlServerSource": ("mssql", ("table_ref",)),
    "OracleSource": ("oracle", ("table_ref",)),
    "CouchbaseColumnarSource": ("couchbase", ("database", "scope", "collection")),
    "IcebergSource": ("iceberg", ("namespace", "table")),
    "UnityCatalogSource": ("databricks", ("warehouse", "namespace", "table")),
    "ChrononSource": ("", ("materialization_path",)),
    "LanceSource": ("", ("uri",)),
    "RaySource": ("", ("path",)),
}
"""By class: the platform and the options whose texts make the table's name; or that of a path."""

_VERBATIM: Final = frozenset({"kafka", "kinesis"})
"""Platforms whose names are no parts with dots between."""


class SourceLocation(NamedTuple):
    """The location of a data source's data, as it names it: an address, a table or a query."""

    platform: str = ""
    table: str = ""
    schema: str = ""
    database: str = ""
    uri: str = ""
    query: str = ""


def query_digest(query: str) -> str:
    """Return a digest in place of a query's text, which may hold secrets."""
    return hashlib.sha256(query.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class UpstreamDatasets:
    """The datasets behind data sources, each once.

    `names` are those of the data sources, `queries` digests of the queries among them. `notes` name
    sources that are no dataset, and the reason.
    """

    names: tuple[str, ...] = ()
    datasets: tuple[DatasetPlace, ...] = ()
    queries: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()

    def __add__(self, other: "UpstreamDatasets") -> "UpstreamDatasets":
        return UpstreamDatasets(
            _unique(self.names + other.names),
            _unique(self.datasets + other.datasets),
            _unique(self.queries + other.queries),
            _unique(self.notes + other.notes),
        )


NOTHING: Final = UpstreamDatasets()


class Upstreams:
    """Finds the datasets of the data sources of one registry, by the options of a recipe."""

    def __init__(self, config: FeastConfig, lookup: Lookup) -> None:
        """Keep the recipe's databases, folders and streams; `lookup` finds registered sources."""
        self._config = config
        self._lookup = lookup

    def of(self, project: str, holder: Any, *fields: str) -> UpstreamDatasets:
        """Return the datasets of the `DataSource` fields of a message that are set."""
        upstream = NOTHING
        for field in fields:
            if holder.HasField(field):
                upstream += self._of(project, getattr(holder, field), frozenset())
        return upstream

    def _of(self, project: str, source: Any, above: frozenset[str]) -> UpstreamDatasets:
        source = self._complete(project, source)
        if source.name in above:
            return NOTHING
        location = self._location(source)
        query = ""
        dataset: SourceLocation | DatasetPlace | Note | None = location
        if isinstance(location, SourceLocation):
            query, dataset = location.query, self._dataset(source.name, location)
        upstream = UpstreamDatasets(
            names=(source.name,) if source.name else (),
            datasets=(dataset,) if isinstance(dataset, DatasetPlace) else (),
            queries=(query_digest(query),) if query else (),
            notes=(dataset,) if isinstance(dataset, Note) else (),
        )
        if source.HasField("batch_source"):
            upstream += self._of(project, source.batch_source, above | {source.name})
        return upstream

    def _complete(self, project: str, source: Any) -> Any:
        """Return a data source as it is registered, where only some of it was copied."""
        if source.type and (source.data_source_class_type or not source.HasField("custom_options")):
            return source
        return self._lookup(project, source.name) or source

    def _location(self, source: Any) -> SourceLocation | DatasetPlace | Note | None:
        """Return the location of a source, None for one that holds no data, such as a push."""
        kind = SOURCE_TYPES.get(source.type, "")
        if kind in _DATASETLESS:
            return None
        if kind in _CONTRIBUTED:
            return _contributed_location(source, _CONTRIBUTED[kind])
        if kind in _TABLE_SOURCES:
            platform = _TABLE_SOURCES[kind]
            return _table_location(platform, getattr(source, f"{platform}_options"))
        return self._file_or_stream(kind, source)

    def _file_or_stream(self, kind: str, source: Any) -> SourceLocation | DatasetPlace | Note:
        match kind:
            case "BATCH_FILE":
                return SourceLocation(uri=source.file_options.uri)
            case "BATCH_SPARK":
                options = source.spark_options
                if options.table:
                    return self._of_spark(source.name, options.table)
                return SourceLocation(uri=options.path, query=options.query)
            case "STREAM_KAFKA":
                return SourceLocation("kafka", source.kafka_options.topic)
            case "STREAM_KINESIS":
                stream = source.kinesis_options
                region = f"{stream.region}:" if self._config.kinesis_region else ""
                return SourceLocation("kinesis", f"{region}{stream.stream_name}")
            case _:
                return Note("source_unknown", f"{source.name}: type {source.type}")

    def _of_spark(self, name: str, table: str) -> SourceLocation | DatasetPlace | Note:
        """Return the table or files that a name of Spark SQL stands for, or why there are none."""
        parts, files = spark_name(table)
        if files is not None:
            return DatasetPlace(*files)
        platform = self._config.spark_platform
        parts = parts[1:] if parts[:1] == ("spark_catalog",) else parts
        if not parts:
            return Note("source_without_place", f"{name}: its table has no name of Spark SQL")
        if len(parts) > LEVELS[platform]:
            levels = f"{len(parts)} parts, one of {platform} has {LEVELS[platform]}"
            return Note(
                "source_without_place", f"{name}: its table has {levels}; set `spark_platform`"
            )
        return SourceLocation(platform, ".".join(parts))

    def _dataset(self, name: str, location: SourceLocation) -> DatasetPlace | Note:
        """Return the dataset at the location of the source of this name, or why there is none."""
        if location.table:
            return self._table(name, location)
        if location.uri:
            return self._file(name, location.uri)
        if location.query:
            return Note("source_is_query", f"{name}: defined by a query, without a table")
        return Note("source_without_place", f"{name}: neither a table nor a path")

    def _table(self, name: str, location: SourceLocation) -> DatasetPlace | Note:
        platform, levels = location.platform, LEVELS.get(location.platform, 1)
        table = location.table if platform in _VERBATIM else location.table.translate(_QUOTES)
        parts = [part for part in table.split(".") if part]
        defaults = self._config.connections.get(platform, _NO_DEFAULTS)
        if len(parts) == 1 and levels == 3:
            schema = location.schema or defaults.schema_name or DEFAULT_SCHEMAS.get(platform)
            parts = [schema or "", *parts]
        if len(parts) < levels:
            database = location.database or defaults.database
            parts = [database or (defaults.schema_name if levels == 2 else "") or "", *parts]
        if not all(parts):
            return Note(
                "source_without_database",
                f"{name}: {location.table} has no database or schema; set `connections.{platform}`",
            )
        return DatasetPlace(platform, table if levels == 1 else ".".join(parts))

    def _file(self, name: str, uri: str) -> DatasetPlace | Note:
        place = place_of_uri(uri)
        if place is not None and place[0] == "file" and place[1].startswith("."):
            repo_path = self._config.repo_path
            if repo_path is None:
                return Note("source_without_place", f"{name}: a relative path; set `repo_path`")
            place = place_of_uri(os.path.normpath(repo_path / uri))
        if place is None:
            return Note("source_without_place", f"{name}: its address is not that of a dataset")
        return DatasetPlace(*place)


def _table_location(platform: str, options: Any) -> SourceLocation:
    table = options.table
    if platform == "bigquery":
        # The legacy spelling has a colon after the project; in others it is part of the project.
        project, colon, rest = table.rpartition(":")
        table = f"{project}.{rest}" if colon and rest.count(".") == 1 else table
    schema, database = getattr(options, "schema", ""), getattr(options, "database", "")
    return SourceLocation(platform, table, schema, database, query=options.query)


def _contributed_location(source: Any, default_class: str) -> SourceLocation | Note:
    """Return the location of a source that Feast keeps as JSON, which may hold passwords, too."""
    class_ = source.data_source_class_type.rpartition(".")[2] or default_class
    if class_ not in _BY_CLASS:
        return Note("source_unknown", f"{source.name}: {class_ or 'unknown class'}")
    try:
        options = loads(source.custom_options.configuration)
    except CodecError:
        options = None
    if not isinstance(options, dict):
        return Note("source_unreadable", f"{source.name}: its configuration is not a JSON object")
    texts = {key: text for key, text in options.items() if isinstance(text, str)}
    platform, keys = _BY_CLASS[class_]
    parts = [texts.get(key, "") for key in keys]
    name = ".".join(parts) if all(parts) else ""
    if not platform:
        return SourceLocation(uri=name)
    return SourceLocation(platform, name, query=texts.get("query", ""))


def _unique(items: Iterable[_ItemT]) -> tuple[_ItemT, ...]:
    return tuple(dict.fromkeys(items))
