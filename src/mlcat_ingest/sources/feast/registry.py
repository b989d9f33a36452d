"""A registry as raw objects, the transport that fetches them, the check of both, and its messages.

`split_registry` cuts a serialized registry into objects that are not decoded yet. The messages are
the part of Feast's that this package reads, without Feast. Fields carry the names and numbers that
Feast gives them. Others, above all the bodies of functions, are skipped when a message is parsed:
nothing in a registry is ever executed.

Source: the protobuf definitions of Feast 0.67, package `feast.core`.
"""

import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, Literal, get_args
from uuid import UUID

from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, timestamp_pb2
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from mlcat_ingest.core.findings import Finding, RequestSide
from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import ProtocolMismatchError

_PACKAGE: Final = "mlcat.feast"

_ENUMS: Final[Mapping[str, str]] = {
    # Feast's SDK writes 30 and 31, though its own definitions have no such numbers.
    "ValueType": """
        INVALID=0 BYTES=1 STRING=2 INT32=3 INT64=4 DOUBLE=5 FLOAT=6 BOOL=7 UNIX_TIMESTAMP=8
        BYTES_LIST=11 STRING_LIST=12 INT32_LIST=13 INT64_LIST=14 DOUBLE_LIST=15 FLOAT_LIST=16
        BOOL_LIST=17 UNIX_TIMESTAMP_LIST=18 NULL=19 MAP=20 MAP_LIST=21 BYTES_SET=22 STRING_SET=23
        INT32_SET=24 INT64_SET=25 DOUBLE_SET=26 FLOAT_SET=27 BOOL_SET=28 UNIX_TIMESTAMP_SET=29
        PDF_BYTES=30 IMAGE_BYTES=31 JSON=32 JSON_LIST=33 STRUCT=34 STRUCT_LIST=35 UUID=36
        TIME_UUID=37 UUID_LIST=38 TIME_UUID_LIST=39 UUID_SET=40 TIME_UUID_SET=41 VALUE_LIST=42
        VALUE_SET=43 DECIMAL=44 DECIMAL_LIST=45 DECIMAL_SET=46 SCALAR_MAP=47 ZONED_TIMESTAMP=48
        """,
    "SourceType": """
        INVALID=0 BATCH_FILE=1 BATCH_BIGQUERY=2 STREAM_KAFKA=3 STREAM_KINESIS=4 BATCH_REDSHIFT=5
        CUSTOM_SOURCE=6 REQUEST_SOURCE=7 BATCH_SNOWFLAKE=8 PUSH_SOURCE=9 BATCH_TRINO=10
        BATCH_SPARK=11 BATCH_ATHENA=12 BATCH_ICEBERG=13
        """,
    "State": "STATE_UNSPECIFIED=0 CREATED=1 GENERATED=2 MATERIALIZING=3 AVAILABLE_ONLINE=4",
    "ConflictPolicy": "LAST_WRITE_WINS=0 LABELER_PRIORITY=1 MAJORITY_VOTE=2",
}

# `<number> <name> <type>`: a scalar, an enum, another message, `map` of text to text, or
# `map:<message>`; `*` for a list.
_MESSAGES: Final[Mapping[str, str]] = {
    "Registry": """
        1 entities Entity*; 6 feature_views FeatureView*; 7 feature_services FeatureService*;
        8 on_demand_feature_views OnDemandFeatureView*; 12 data_sources DataSource*;
        14 stream_feature_views StreamFeatureView*; 15 project_metadata ProjectMetadata*;
        17 projects Project*; 19 label_views LabelView*; 3 registry_schema_version string;
        4 version_id string; 5 last_updated Timestamp
        """,
    "Meta": "1 created_timestamp Timestamp; 2 last_updated_timestamp Timestamp",
    "ProjectMetadata": "1 project string; 2 project_uuid string",
    "Project": "1 spec ProjectSpec; 2 meta Meta",
    "ProjectSpec": "1 name string",
    "Entity": "1 spec EntitySpecV2",
    "EntitySpecV2": """
        1 name string; 9 project string; 2 value_type ValueType; 3 description string;
        4 join_key string; 8 tags map; 10 owner string
        """,
    "FeatureSpecV2": """
        1 name string; 2 value_type ValueType; 3 tags map; 4 description string;
        5 vector_index bool; 6 vector_search_metric string; 7 vector_length int32
        """,
    "DataSource": """
        20 name string; 21 project string; 1 type SourceType; 17 data_source_class_type string;
        26 batch_source DataSource; 11 file_options FileOptions; 12 bigquery_options TableOptions;
        13 kafka_options KafkaOptions; 14 kinesis_options KinesisOptions;
        15 redshift_options SchemaTableOptions; 16 custom_options CustomSourceOptions;
        18 request_data_options RequestDataOptions; 19 snowflake_options SchemaTableOptions;
        27 spark_options SparkOptions; 30 trino_options TableOptions;
        35 athena_options AthenaOptions
        """,
    "FileOptions": "1 file_format FileFormat; 2 uri string",
    "FileFormat": "2 delta_format DeltaFormat",
    "TableFormat": """
        1 iceberg_format IcebergFormat; 2 delta_format DeltaFormat; 3 hudi_format HudiFormat
        """,
    "DeltaFormat": "1 checkpoint_location string",
    "HudiFormat": "1 table_type string",
    "IcebergFormat": "1 catalog string; 2 namespace string",
    "TableOptions": "1 table string; 2 query string",
    "SchemaTableOptions": "1 table string; 2 query string; 3 schema string; 4 database string",
    "KafkaOptions": "2 topic string",
    "KinesisOptions": "1 region string; 2 stream_name string",
    "AthenaOptions": "1 table string; 2 query string; 3 database string",
    "SparkOptions": """
        1 table string; 2 query string; 3 path string; 4 file_format string;
        6 table_format TableFormat
        """,
    "CustomSourceOptions": "1 configuration bytes",
    "RequestDataOptions": "3 schema FeatureSpecV2*",
    "FeatureView": "1 spec FeatureViewSpec; 2 meta FeatureViewMeta",
    "FeatureViewSpec": """
        1 name string; 2 project string; 3 entities string*; 4 features FeatureSpecV2*;
        5 tags map; 6 ttl Duration; 7 batch_source DataSource; 8 online bool;
        9 stream_source DataSource; 10 description string; 11 owner string;
        12 entity_columns FeatureSpecV2*; 13 offline bool; 14 source_views FeatureViewSpec*;
        16 mode string; 18 version string; 19 org string; 20 disabled bool
        """,
    "FeatureViewMeta": """
        1 created_timestamp Timestamp; 2 last_updated_timestamp Timestamp;
        3 materialization_intervals MaterializationInterval*; 4 current_version_number int32;
        5 version_id string; 6 state State
        """,
    "MaterializationInterval": "1 start_time Timestamp; 2 end_time Timestamp",
    "StreamFeatureView": "1 spec StreamFeatureViewSpec; 2 meta FeatureViewMeta",
    "StreamFeatureViewSpec": """
        1 name string; 2 project string; 3 entities string*; 4 features FeatureSpecV2*;
        5 entity_columns FeatureSpecV2*; 6 description string; 7 tags map; 8 owner string;
        9 ttl Duration; 10 batch_source DataSource; 11 stream_source DataSource; 12 online bool;
        14 mode string; 15 aggregations Aggregation*; 16 timestamp_field string;
        21 version string; 22 org string; 23 disabled bool
        """,
    "Aggregation": """
        1 column string; 2 function string; 3 time_window Duration
        """,
    "OnDemandFeatureView": "1 spec OnDemandFeatureViewSpec; 2 meta OnDemandFeatureViewMeta",
    "OnDemandFeatureViewSpec": """
        1 name string; 2 project string; 3 features FeatureSpecV2*; 4 sources map:OnDemandSource;
        6 description string; 7 tags map; 8 owner string; 11 mode string;
        12 write_to_online_store bool; 13 entities string*; 14 entity_columns FeatureSpecV2*;
        15 singleton bool; 16 aggregations Aggregation*; 17 version string; 18 org string;
        19 disabled bool
        """,
    "OnDemandFeatureViewMeta": """
        1 created_timestamp Timestamp; 2 last_updated_timestamp Timestamp;
        3 current_version_number int32; 4 version_id string; 5 state State
        """,
    "OnDemandSource": """
        1 feature_view FeatureView; 3 feature_view_projection FeatureViewProjection;
        2 request_data_source DataSource
        """,
    "FeatureViewProjection": """
        1 feature_view_name string; 3 feature_view_name_alias string;
        2 feature_columns FeatureSpecV2*; 8 batch_source DataSource;
        9 stream_source DataSource; 11 view_type string
        """,
    "LabelView": "1 spec LabelViewSpec; 2 meta Meta",
    "LabelViewSpec": """
        1 name string; 2 project string; 3 entities string*; 4 features FeatureSpecV2*;
        5 tags map; 6 ttl Duration; 7 source DataSource; 8 online bool; 9 description string;
        10 owner string; 11 entity_columns FeatureSpecV2*; 12 labeler_field string;
        13 conflict_policy ConflictPolicy; 14 retain_history bool;
        15 reference_feature_view string
        """,
    "FeatureService": "1 spec FeatureServiceSpec; 2 meta Meta",
    "FeatureServiceSpec": """
        1 name string; 2 project string; 3 features FeatureViewProjection*; 4 tags map;
        5 description string; 6 owner string
        """,
}

# Frames are read in place of messages, and leave what is in them as bytes: an object that cannot be
# decoded is one broken object then, and never the end of the registry.
_FRAMES: Final[Mapping[str, str]] = {
    "RegistryFrame": re.sub(r"[A-Za-z]+(?=\*?\s*(;|$))", "bytes", _MESSAGES["Registry"]),
    "ListFrame": "1 objects bytes*",
    "ObjectFrame": "1 spec SpecFrame; 20 name bytes; 21 project bytes",
    "SpecFrame": "1 name bytes; 2 project bytes; 9 entity_project bytes",
}

_FIELD: Final = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {
    "string": _FIELD.TYPE_STRING,
    "bytes": _FIELD.TYPE_BYTES,
    "bool": _FIELD.TYPE_BOOL,
    "int32": _FIELD.TYPE_INT32,
}
_KNOWN: Final = {
    "Timestamp": timestamp_pb2.DESCRIPTOR,
    "Duration": duration_pb2.DESCRIPTOR,
}


def _names(enum: str) -> dict[int, str]:
    """Return the names of an enum's values by number."""
    values = (declared.partition("=") for declared in _ENUMS[enum].split())
    return {int(number): name for name, _, number in values}


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name="mlcat/feast.proto",
        package=_PACKAGE,
        # Enums are open in this syntax: a number that is not declared stays a number.
        syntax="proto3",
        dependency=[known.name for known in _KNOWN.values()],
    )
    for name in _ENUMS:
        # Names of values share the scope of their enum: each gets one of its own.
        enum = file.message_type.add(name=name).enum_type.add(name="Enum")
        for number, value in _names(name).items():
            enum.value.add(name=value, number=number)
    for name, fields in {**_MESSAGES, **_FRAMES}.items():
        message = file.message_type.add(name=name)
        for field in fields.split(";"):
            _add_field(message, *field.split())
    return file


def _add_field(
    message: descriptor_pb2.DescriptorProto, number: str, name: str, declared: str
) -> None:
    field = message.field.add(name=name, number=int(number), label=_FIELD.LABEL_OPTIONAL)
    kind = declared.rstrip("*")
    if kind.startswith("map"):
        entry = message.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
        entry.options.map_entry = True
        _add_field(entry, "1", "key", "string")
        _add_field(entry, "2", "value", kind.partition(":")[2] or "string")
        kind, declared = f"{message.name}.{entry.name}", "*"
    if declared.endswith("*"):
        field.label = _FIELD.LABEL_REPEATED
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    elif kind in _ENUMS:
        field.type, field.type_name = _FIELD.TYPE_ENUM, f".{_PACKAGE}.{kind}.Enum"
    else:
        package = "google.protobuf" if kind in _KNOWN else _PACKAGE
        field.type, field.type_name = _FIELD.TYPE_MESSAGE, f".{package}.{kind}"


def _filled_pool() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    for known in _KNOWN.values():
        pool.AddSerializedFile(known.serialized_pb)
    pool.AddSerializedFile(_file().SerializeToString())
    return pool


# A pool of our own: the default one may hold Feast's definitions, if Feast is installed.
_POOL: Final = _filled_pool()


def _class_of(full_name: str) -> type[Message]:
    return GetMessageClass(_POOL.FindMessageTypeByName(full_name))


# Older versions of protobuf drop the classes that nothing holds, and then read what they freed.
_KNOWN_CLASSES: Final = [_class_of(f"google.protobuf.{name}") for name in _KNOWN]


MESSAGES: Final[Mapping[str, type[Any]]] = {
    name: _class_of(f"{_PACKAGE}.{name}") for name in _MESSAGES
}
"""The class of each message by its name at Feast, such as `FeatureViewSpec`."""

FRAMES: Final[Mapping[str, type[Any]]] = {name: _class_of(f"{_PACKAGE}.{name}") for name in _FRAMES}
"""The class of each frame by its name."""


def message_class(kind: str) -> type[Any]:
    """Return the message that holds an object of a registry: `FeatureView` of a `feature_view`."""
    return MESSAGES[kind.title().replace("_", "")]


VALUE_TYPES: Final[Mapping[int, str]] = _names("ValueType")
"""Feast's value types by number."""

SOURCE_TYPES: Final[Mapping[int, str]] = _names("SourceType")
"""Feast's types of data sources by number."""

STATES: Final[Mapping[int, str]] = _names("State")
"""Feast's states of views by number."""

CONFLICT_POLICIES: Final[Mapping[int, str]] = _names("ConflictPolicy")
"""Feast's policies for labels that contradict each other, by number."""


Kind = Literal[
    "project_metadata",
    "project",
    "entity",
    "data_source",
    "feature_view",
    "stream_feature_view",
    "on_demand_feature_view",
    "label_view",
    "feature_service",
]
"""The kinds of objects that are read from a registry."""

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

PLURALS: Final[Mapping[Kind, str]] = {
    kind: "entities" if kind == "entity" else f"{kind}s"
    for kind in KINDS
    if kind != "project_metadata"
}
"""What registries, tables of databases and methods of servers call the objects of a kind."""


@dataclass(frozen=True, slots=True)
class RawObject:
    """One object of a registry as its message; `project` and `name` are empty where unknown.

    The name of the metadata of a project is its UUID. They are ordered, the oldest project first.
    """

    kind: Kind
    project: str
    name: str
    proto: bytes


class RegistryTransport(RequestSide):
    """Reads the objects of one registry, which it contacts on first use only.

    `shown` is the registry's address without secrets, `requests` the number of those sent.
    """

    shown: str
    requests: int = 0

    @abstractmethod
    def server_id(self) -> str:
        """Return the identity of a registry without an id of its own: its address; may connect."""

    @abstractmethod
    def objects(self) -> Iterator[RawObject]:
        """Yield every object of the registry, of all projects and in any order.

        Raises: as `Source.read`.
        """

    def requests_made(self) -> int:
        """Return how many requests were sent so far."""
        return self.requests

    def close(self) -> None:
        """Release connections, if there are any; safe to call twice."""


def findings(shown: str, objects: Iterable[RawObject], identity: str) -> Iterator[Finding]:
    """Yield that a registry can be read, its identity, and the objects of each of its projects."""
    counts: dict[str, Counter[str]] = {}
    for raw in objects:
        if raw.kind != "project_metadata":
            counts.setdefault(raw.project, Counter())[raw.kind] += 1
    if not counts:
        hint = "run `feast apply`, and check that the user may read its objects"
        yield Finding("Feast registry", "warning", f"{shown} is readable and empty", hint)
        return
    total = sum(kinds.total() for kinds in counts.values())
    yield Finding("Feast registry", "ok", f"{shown} is readable: {plural(total, 'object')}")
    yield Finding("Feast server id", "ok", identity)
    for project, kinds in sorted(counts.items()):
        yield Finding("Feast project", "ok", f"{project or 'none'}: {_in_words(kinds)}")


def own_id(metadata: Iterable[RawObject], projects: Iterable[RawObject]) -> str | None:
    """Return what a registry is known by wherever it is, None if Feast put nothing such in it.

    It is the UUID of its oldest project, which files made by Feast since 0.41 lack: theirs is 12
    hex of SHA-256 of the moment at which that project was made.
    """
    for raw in metadata:
        # Feast's web pages write other data in its place, as JSON.
        with suppress(ValueError):
            return str(UUID(raw.name))
    oldest = min(filter(any, map(created, projects)), default=None)
    return None if oldest is None else sha256(repr(oldest).encode()).hexdigest()[:12]


def created(project: RawObject) -> tuple[int, int]:
    """Return when a project was made, in seconds and nanoseconds; zero where it does not say."""
    try:
        time = MESSAGES["Project"].FromString(project.proto).meta.created_timestamp
    except DecodeError:
        return 0, 0
    return time.seconds, time.nanos


def split_registry(content: bytes, shown: str = "") -> Iterator[RawObject]:
    """Yield the objects of a serialized registry, once all of its frame is seen to be sound.

    `shown` is its address in errors.

    Raises:
        ProtocolMismatchError: this is no registry, or it breaks off inside an object.

    Cost: a second copy of the content.
    """
    try:
        frame = FRAMES["RegistryFrame"].FromString(content)
    except DecodeError:
        frame = None
    if frame is None or not frame.ListFields():
        what = "the file is empty" if not content else f"it starts with {content[:20]!r}"
        raise ProtocolMismatchError(
            f"the registry {shown} is not a Feast registry, or incomplete: {what}",
            hint="use the file that `feast apply` writes, such as data/registry.db; if it is that "
            "file, run `feast apply` again",
        )
    for kind in KINDS:
        for proto in getattr(frame, PLURALS.get(kind, kind)):
            yield raw_object(kind, proto)


def raw_object(kind: Kind, proto: bytes, project: str = "") -> RawObject:
    """Return the object that `proto` is, by its own name as far as that can be read.

    `project` is the default for an object without one.
    """
    try:
        if kind == "project_metadata":
            metadata = MESSAGES["ProjectMetadata"].FromString(proto)
            return RawObject(kind, metadata.project, metadata.project_uuid, proto)
        frame = FRAMES["ObjectFrame"].FromString(proto)
        named = frame if kind == "data_source" else frame.spec
        name = named.name.decode()
        of_kind = {"project": "name", "entity": "entity_project"}
        own = getattr(named, of_kind.get(kind, "project")).decode()
    except (DecodeError, UnicodeDecodeError):
        return RawObject(kind, project, "", proto)
    return RawObject(kind, own or project, name, proto)


def _in_words(counts: Counter[str]) -> str:
    words = (
        plural(counts[kind], kind.replace("_", " "), named.replace("_", " "))
        for kind, named in PLURALS.items()
        if kind != "project" and counts[kind]
    )
    return ", ".join(words) or "nothing"
