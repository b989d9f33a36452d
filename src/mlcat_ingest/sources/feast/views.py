"""Views of Feast as feature tables, with their columns. The code of a view is never looked at.

A view names data sources, and these the datasets behind them. A dataset has the name that the
connector of its platform gives it. Nothing is guessed: a table whose database is named nowhere, and
one that only a query names, are no datasets, and a note says so.

Source: `feast.core.DataSource` of Feast 0.67, and the JSON that its contributed sources keep there.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from typing import Any, Final, NamedTuple

from mlcat_ingest.errors import CodecError
from mlcat_ingest.metadata.aspects import MLFeatureDataType
from mlcat_ingest.metadata.codec import loads
from mlcat_ingest.metadata.proposal import Note
from mlcat_ingest.metadata.reserved import TYPE_TAG
from mlcat_ingest.sources.datasets import (
    LEVELS,
    place_of_format,
    place_of_uri,
    spark_name,
    without_quotes,
)
from mlcat_ingest.sources.definitions.tables import (
    DatasetPlace,
    Feature,
    FeatureTable,
    FormerEntries,
    Key,
    chosen_type,
)
from mlcat_ingest.sources.feast.config import DEFAULT_SCHEMAS, FeastConfig, TableDefaults
from mlcat_ingest.sources.feast.registry import value_name

_NO_DEFAULTS: Final = TableDefaults()
_OF_PATHS: Final = frozenset("/\\:")
_DATASETLESS: Final = frozenset({"REQUEST_SOURCE", "PUSH_SOURCE"})
_SOURCE_FIELDS: Final = ("stream_source", "batch_source", "source")

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


class _SourceLocation(NamedTuple):
    """The location of a data source's data, as it names it: an address, a table or a query."""

    platform: str = ""
    table: str = ""
    schema: str = ""
    database: str = ""
    uri: str = ""
    query: str = ""
    format: str = ""


@dataclass(frozen=True, slots=True)
class _UpstreamDatasets:
    """The datasets behind data sources, each once.

    `names` are those of the data sources, `queries` digests of the queries among them. `notes` name
    sources that are no dataset, and the reason. `former` are the names by DataHub's own source.
    `features` of other views and `request_fields` are the inputs of an on-demand view.
    """

    names: tuple[str, ...] = ()
    datasets: tuple[DatasetPlace, ...] = ()
    queries: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()
    former: tuple[DatasetPlace, ...] = ()
    features: tuple[str, ...] = ()
    request_fields: tuple[str, ...] = ()

    def __add__(self, other: "_UpstreamDatasets") -> "_UpstreamDatasets":
        both = ((getattr(self, one.name), getattr(other, one.name)) for one in fields(self))
        return _UpstreamDatasets(*(tuple(dict.fromkeys(ours + theirs)) for ours, theirs in both))


@dataclass(frozen=True, slots=True)
class Upstreams:
    """Finds the datasets of the data sources of one registry, by the options of a recipe.

    `lookup` finds the source of a project and name, or None.
    """

    config: FeastConfig
    lookup: Callable[[str, str], Any]

    def of(self, project: str, holder: Any) -> _UpstreamDatasets:
        """Return the datasets of a view, or of what refers to one, through the views below it."""
        upstream = _UpstreamDatasets()
        for name in _SOURCE_FIELDS:
            if name in holder.DESCRIPTOR.fields_by_name and holder.HasField(name):
                source = self._complete(project, getattr(holder, name))
                upstream += self._of(project, source, frozenset())
                upstream += _UpstreamDatasets(former=(_former_name(source),))
        for below in getattr(holder, "source_views", ()):
            upstream += self.of(project, below)
        return upstream

    def _of(self, project: str, source: Any, above: frozenset[str]) -> _UpstreamDatasets:
        source = self._complete(project, source)
        if source.name in above:
            return _UpstreamDatasets()
        location = self._location(source)
        query = ""
        dataset: _SourceLocation | DatasetPlace | Note | None = location
        if isinstance(location, _SourceLocation):
            query, dataset = location.query, self._dataset(source.name, location)
        upstream = _UpstreamDatasets(
            names=(source.name,) if source.name else (),
            datasets=(dataset,) if isinstance(dataset, DatasetPlace) else (),
            # In place of its text, which may hold secrets.
            queries=(hashlib.sha256(query.encode()).hexdigest(),) if query else (),
            notes=(dataset,) if isinstance(dataset, Note) else (),
        )
        if source.HasField("batch_source"):
            upstream += self._of(project, source.batch_source, above | {source.name})
        return upstream

    def _complete(self, project: str, source: Any) -> Any:
        """Return a data source as it is registered, where only some of it was copied."""
        if source.type and (source.data_source_class_type or not source.HasField("custom_options")):
            return source
        return self.lookup(project, source.name) or source

    def _location(self, source: Any) -> _SourceLocation | DatasetPlace | Note | None:
        """Return the location of a source, None for one that holds no data, such as a push."""
        kind = value_name("SourceType", source.type)
        if kind in _DATASETLESS:
            return None
        if kind in _CONTRIBUTED:
            return _contributed_location(source, _CONTRIBUTED[kind])
        if kind in _TABLE_SOURCES:
            platform = _TABLE_SOURCES[kind]
            return _table_location(platform, getattr(source, f"{platform}_options"))
        return self._file_or_stream(kind, source)

    def _file_or_stream(self, kind: str, source: Any) -> _SourceLocation | DatasetPlace | Note:
        match kind:
            case "BATCH_FILE":
                options = source.file_options
                return _SourceLocation(uri=options.uri, format=_format_in(options.file_format))
            case "BATCH_SPARK":
                return self._spark_location(source.name, source.spark_options)
            case "STREAM_KAFKA":
                return _SourceLocation("kafka", source.kafka_options.topic)
            case "STREAM_KINESIS":
                stream = source.kinesis_options
                name = _stream_of(stream) if self.config.kinesis_region else stream.stream_name
                return _SourceLocation("kinesis", name)
            case _:
                return Note("source_unknown", f"{source.name}: type {source.type}")

    def _spark_location(self, name: str, options: Any) -> _SourceLocation | DatasetPlace | Note:
        kind = _format_in(options.table_format) or options.file_format.lower()
        address = options.table or options.path
        if kind == "iceberg" and address and not _OF_PATHS.intersection(address):
            # Spark loads a table of Iceberg's catalog by its name, which may be given as the path.
            given = options.table_format.iceberg_format
            table = without_quotes("iceberg", address).removeprefix(f"{given.catalog}.")
            parts = (table,) if "." in table else (given.namespace, table)
            return _SourceLocation("iceberg", ".".join(parts) if all(parts) else "")
        if options.table:
            return self._of_spark(name, options.table)
        return _SourceLocation(uri=options.path, query=options.query, format=kind)

    def _of_spark(self, name: str, table: str) -> _SourceLocation | DatasetPlace | Note:
        """Return the table or files that a name of Spark SQL stands for, or why there are none."""
        parts, files = spark_name(table)
        if files is not None:
            return DatasetPlace(*files)
        platform = self.config.spark_platform
        parts = parts[1:] if parts[:1] == ("spark_catalog",) else parts
        if not parts:
            return Note("source_without_place", f"{name}: its table has no name of Spark SQL")
        if len(parts) > LEVELS[platform]:
            levels = f"{len(parts)} parts, one of {platform} has {LEVELS[platform]}"
            return Note(
                "source_without_place", f"{name}: its table has {levels}; set `spark_platform`"
            )
        return _SourceLocation(platform, ".".join(parts))

    def _dataset(self, name: str, location: _SourceLocation) -> DatasetPlace | Note:
        """Return the dataset at the location of the source of this name, or why there is none."""
        if location.table:
            return self._table(name, location)
        if location.uri:
            return self._file(name, location.uri, location.format)
        if location.query:
            return Note("source_is_query", f"{name}: defined by a query, without a table")
        return Note("source_without_place", f"{name}: neither a table nor a path")

    def _table(self, name: str, location: _SourceLocation) -> DatasetPlace | Note:
        platform, levels = location.platform, LEVELS.get(location.platform, 1)
        table = location.table
        if platform not in _VERBATIM:
            table = ".".join(without_quotes(platform, part) for part in table.split("."))
        parts = [part for part in table.split(".") if part]
        defaults = self.config.connections.get(platform, _NO_DEFAULTS)
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

    def _file(self, name: str, uri: str, kind: str) -> DatasetPlace | Note:
        place = place_of_uri(uri)
        if place is not None and place[0] == "file" and place[1].startswith("."):
            repo_path = self.config.repo_path
            if repo_path is None:
                return Note("source_without_place", f"{name}: a relative path; set `repo_path`")
            place = place_of_uri(os.path.normpath(repo_path / uri))
        if place is None:
            return Note("source_without_place", f"{name}: its address is not that of a dataset")
        return DatasetPlace(*place_of_format(kind, place))


def _stream_of(options: Any) -> str:
    return f"{options.region}:{options.stream_name}"


_FORMER_NAMES: Final[Mapping[str, tuple[str, Callable[[Any], str]]]] = {
    "BATCH_FILE": ("file", lambda s: s.file_options.uri.replace("://", ".").replace("/", ".")),
    "BATCH_BIGQUERY": ("bigquery", lambda s: s.bigquery_options.table),
    "BATCH_SNOWFLAKE": ("snowflake", lambda s: s.snowflake_options.table),
    "STREAM_KAFKA": ("kafka", lambda s: s.kafka_options.topic),
    "STREAM_KINESIS": ("kinesis", lambda s: _stream_of(s.kinesis_options)),
    "REQUEST_SOURCE": ("request", lambda s: s.name),
}
"""Platform and name of a source's dataset, by `_get_data_source_details` of DataHub 1.7."""


def _former_name(source: Any) -> DatasetPlace:
    """Return the name that DataHub's own source gives to a dataset."""
    platform, name_of = _FORMER_NAMES.get(
        value_name("SourceType", source.type), ("unknown", lambda _: "unknown")
    )
    return DatasetPlace(platform, name_of(source))


def _format_in(choice: Any) -> str:
    """Return the format that is set of those that Feast can choose among, empty for none."""
    return next((field.name.removesuffix("_format") for field, _ in choice.ListFields()), "")


def _table_location(platform: str, options: Any) -> _SourceLocation:
    table = options.table
    if platform == "bigquery":
        # The legacy spelling has a colon after the project; in others it is part of the project.
        project, colon, rest = table.rpartition(":")
        table = f"{project}.{rest}" if colon and rest.count(".") == 1 else table
    schema, database = getattr(options, "schema", ""), getattr(options, "database", "")
    return _SourceLocation(platform, table, schema, database, query=options.query)


def _contributed_location(source: Any, default_class: str) -> _SourceLocation | Note:
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
        return _SourceLocation(uri=name)
    return _SourceLocation(platform, name, query=texts.get("query", ""))


_SCALARS: Final[Mapping[int, MLFeatureDataType]] = {
    **dict.fromkeys((1, 30), "BYTE"),
    **dict.fromkeys((3, 4), "ORDINAL"),
    **dict.fromkeys((5, 6, 44), "CONTINUOUS"),
    **dict.fromkeys((8, 48), "TIME"),
    **dict.fromkeys((20, 32, 34, 47), "MAP"),
    **dict.fromkeys((36, 37), "NOMINAL"),
    2: "TEXT",
    7: "BINARY",
    31: "IMAGE",
}

_INTERNAL_TAGS: Final = ("feast:", "feast.connection-ref.")
"""Prefixes of the tags in which Feast keeps its own data: schemas, addresses of credentials."""

_DUMMY: Final = "__dummy"
"""The entity that Feast gives to a view without any."""

_DESCRIPTION_TAG: Final = "description"
"""The tag that held the description of a field before fields had one."""

ViewName = tuple[str, str]
"""Project and name of a view, or of an entity."""


def _feature_type(number: int) -> MLFeatureDataType | None:
    """Return the data type of features for the number of a value type, None if it has none."""
    name = value_name("ValueType", number)
    if name.endswith("_LIST"):
        return "SEQUENCE"
    if name.endswith("_SET"):
        return "SET"
    return _SCALARS.get(number)


def _feast_properties(**texts: str | bool | None) -> dict[str, str]:
    """Return custom properties for the texts that are not empty."""
    return {
        f"feast.{name}": str(text).lower() if isinstance(text, bool) else text
        for name, text in texts.items()
        if text not in {None, ""}
    }


def _user_tags(tagged: Mapping[str, str]) -> dict[str, str]:
    """Return the tags that people gave."""
    return {key: text for key, text in tagged.items() if not key.startswith(_INTERNAL_TAGS)}


def _iso_time(holder: Any, field: str) -> str | None:
    """Return a `Timestamp` field as ISO 8601 in UTC, None where it is unset or out of bounds."""
    if not holder.HasField(field):
        return None
    try:
        return str(getattr(holder, field).ToJsonString())
    except (ValueError, OverflowError):
        return None


def _in_seconds(duration: Any) -> str | None:
    """Return a `Duration` in seconds, None for none."""
    total = duration.seconds + Decimal(duration.nanos).scaleb(-9)
    return f"{total.normalize():f}" if total else None


@dataclass(frozen=True, slots=True)
class Views:
    """Makes tables of the views of one registry; on-demand views come after what they refer to.

    `entities` are by name, `services` names the services that use a view, `behind` has the datasets
    of the views so far, `untyped` the types noted before.
    """

    entities: Mapping[ViewName, Any]
    upstreams: Upstreams
    services: Mapping[ViewName, Sequence[str]]
    behind: dict[ViewName, _UpstreamDatasets] = field(default_factory=dict)
    untyped: set[int] = field(default_factory=set)

    def table(self, kind: str, project: str, view: Any) -> FeatureTable:
        """Return the table of a view, with the datasets behind it and behind the views it uses."""
        spec = view.spec
        upstream = self.upstreams.of(project, spec)
        for _, source in sorted(getattr(spec, "sources", {}).items()):
            upstream += self._of_input(project, source)
        notes = list(upstream.notes)
        behind = replace(upstream, queries=(), notes=(), features=(), request_fields=())
        self.behind[project, spec.name] = behind
        keys = tuple(self._keys(project, spec, notes))
        features = tuple(self._features(project, view, notes))
        return FeatureTable(
            namespace=project,
            name=spec.name,
            kind=kind.replace("_", " ").title(),
            description=spec.description or None,
            owners=(spec.owner,) if spec.owner else (),
            tags=_user_tags(spec.tags),
            properties=_properties(view, upstream, self.services.get((project, spec.name), ())),
            sources=upstream.datasets,
            keys=keys,
            features=features,
            notes=tuple(notes),
            formerly=FormerEntries(upstream.former, (_DUMMY,)),
        )

    def _of_input(self, project: str, source: Any) -> _UpstreamDatasets:
        if source.HasField("request_data_source"):
            request = source.request_data_source
            schema = request.request_data_options.schema
            names = tuple(field.name for field in schema)
            return _UpstreamDatasets(former=(_former_name(request),), request_fields=names)
        if source.HasField("feature_view"):
            view = source.feature_view.spec
            name, columns, behind = view.name, view.features, self.upstreams.of(project, view)
        else:
            view = source.feature_view_projection
            name, columns = view.feature_view_name, view.feature_columns
            # A projection holds the batch source alone, if at all: the view itself knows more.
            behind = self.behind.get((project, name)) or self.upstreams.of(project, view)
        return replace(behind, features=tuple(f"{name}:{column.name}" for column in columns))

    def _features(self, project: str, view: Any, notes: list[Note]) -> Iterator[Feature]:
        """Yield the fields of a view that are no join keys; they have its version."""
        spec, number = view.spec, _version_number(view)
        version = None if number is None else f"v{number}"
        join_keys = {column.name for column in spec.entity_columns}
        join_keys.update(entity.join_key for _, entity in self._entities(project, spec) if entity)
        for feature in spec.features:
            if feature.name not in join_keys:
                yield self._feature(feature, version, notes)

    def _keys(self, project: str, spec: Any, notes: list[Note]) -> Iterator[Key]:
        """Yield the entities of a view's spec."""
        columns = {column.name: column for column in spec.entity_columns}
        for name, entity in self._entities(project, spec):
            if entity is None:
                notes.append(Note("entity_unknown", name))
                yield Key(name=name)
                continue
            join_key = entity.join_key or name
            column = columns.get(join_key)
            # If an entity has no type, the view has inferred one.
            number = entity.value_type or (column.value_type if column is not None else 0)
            yield Key(
                name=name,
                column=join_key,
                type=self._type(number, notes),
                description=entity.description or None,
                owners=(entity.owner,) if entity.owner else (),
                tags=_user_tags(entity.tags),
                properties=_feast_properties(
                    join_key=join_key, value_type=value_name("ValueType", number)
                ),
            )

    def _entities(self, project: str, spec: Any) -> Iterator[tuple[str, Any | None]]:
        for name in spec.entities:
            if name != _DUMMY:
                yield name, self.entities.get((project, name))

    def _feature(self, feature: Any, version: str | None, notes: list[Note]) -> Feature:
        tags = _user_tags(feature.tags)
        description = feature.description or tags.pop(_DESCRIPTION_TAG, "")
        type_ = self._type(feature.value_type, notes)
        return Feature(
            name=feature.name,
            version=version,
            type=chosen_type(feature.name, tags.pop(TYPE_TAG, None), notes) or type_,
            description=description or None,
            tags=tags,
            properties=_feast_properties(
                value_type=value_name("ValueType", feature.value_type),
                struct_schema=feature.tags.get("feast:struct_schema"),
                nested_type=feature.tags.get("feast:nested_inner_type"),
                vector_index=feature.vector_index or None,
                vector_length=str(feature.vector_length) if feature.vector_length else None,
                vector_search_metric=feature.vector_search_metric,
            ),
        )

    def _type(self, number: int, notes: list[Note]) -> MLFeatureDataType:
        type_ = _feature_type(number)
        if type_ is None and number not in self.untyped:
            self.untyped.add(number)
            notes.append(
                Note("feature_type_unknown", f"value type {value_name('ValueType', number)}")
            )
        return type_ or "UNKNOWN"


def _properties(view: Any, upstream: _UpstreamDatasets, services: Sequence[str]) -> dict[str, str]:
    """Return the properties of a view, as far as its kind has the fields for them."""
    spec, meta = view.spec, view.meta
    state, policy = getattr(meta, "state", 0), getattr(spec, "conflict_policy", None)
    intervals = getattr(meta, "materialization_intervals", ())
    last = max(intervals, key=lambda one: (one.end_time.seconds, one.end_time.nanos), default=None)

    def given(*names: str) -> dict[str, str | bool | None]:
        return {name: getattr(spec, name, None) or None for name in names}

    return _feast_properties(
        **given("mode", "version", "org", "disabled"),
        version_number=_version_number(view),
        state=value_name("State", state) if state else None,
        created_at=_iso_time(meta, "created_timestamp"),
        last_updated_at=_iso_time(meta, "last_updated_timestamp"),
        materialized_until=None if last is None else _iso_time(last, "end_time"),
        online=getattr(spec, "online", None),
        **given("offline"),
        ttl_s=_in_seconds(spec.ttl) if hasattr(spec, "ttl") else None,
        **given("labeler_field"),
        conflict_policy=None if policy is None else value_name("ConflictPolicy", policy),
        **given("retain_history", "reference_feature_view"),
        upstream_features=", ".join(upstream.features),
        request_fields=", ".join(upstream.request_fields),
        aggregations=", ".join(_aggregation(step) for step in getattr(spec, "aggregations", ())),
        **given("timestamp_field", "write_to_online_store", "singleton"),
        sources=", ".join(upstream.names),
        query_sha256=", ".join(upstream.queries),
        services=", ".join(sorted(services)),
    )


def _aggregation(step: Any) -> str:
    text = f"{step.function}({step.column}) over {_in_seconds(step.time_window) or '0'} s"
    slide = _in_seconds(step.slide_interval)
    text += f" every {slide} s" if slide and step.slide_interval != step.time_window else ""
    return f"{text} as {step.name}" if step.name else text


def _version_number(view: Any) -> str | None:
    """Return the number of a view's version; Feast names one in each spec since it counts them."""
    number = getattr(view.meta, "current_version_number", 0)
    return str(number) if number or getattr(view.spec, "version", "") else None
