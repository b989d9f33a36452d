"""A registry as raw objects, the transport that fetches them, the check of both, and its messages.

`split_registry` cuts a serialized registry into objects that are not decoded yet. The messages are
the part of Feast's that this package reads, without Feast. Fields carry the names and numbers that
Feast gives them. Others, above all the bodies of functions, are skipped when a message is parsed:
nothing in a registry is ever executed.

Source: the protobuf definitions of Feast 0.67, package `feast.core`.
"""

import csv
import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby, starmap
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID

from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, timestamp_pb2
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from mlcat_ingest.core.findings import RequestSide
from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import ProtocolMismatchError, RecipeError

_PACKAGE: Final = "mlcat.feast"

_TABLE: Final = Path(__file__).with_name("messages.csv")


class _Row(NamedTuple):
    """A field of a message, or with the type `value` a value of an enum.

    The type of a field is a scalar, an enum, another message, `map` of text to text, or
    `map:<message>`; `*` is for a list.
    """

    message: str
    number: str
    name: str
    type: str


_ROWS: Final = csv.reader(_TABLE.read_text("utf-8").splitlines()[1:])
# Feast's SDK writes the value types 30 and 31, though its own definitions have no such numbers.
_DECLARED: Final[Mapping[str, list[_Row]]] = {
    name: [*group] for name, group in groupby(starmap(_Row, _ROWS), itemgetter(0))
}
ENUMS: Final[Mapping[str, Mapping[int, str]]] = {
    name: {int(row.number): row.name for row in rows}
    for name, rows in _DECLARED.items()
    if rows[0].type == "value"
}
"""Feast's names of the values of each enum, by number."""

_MESSAGES: Final = {name: rows for name, rows in _DECLARED.items() if name not in ENUMS}

# Frames are read in place of messages, and leave what is in them as bytes: an object that cannot be
# decoded is one broken object then, and never the end of the registry.
_MESSAGES["RegistryFrame"] = [
    row._replace(type="bytes*" if row.type.endswith("*") else "bytes")
    for row in _MESSAGES["Registry"]
]

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


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name="mlcat/feast.proto",
        package=_PACKAGE,
        # Enums are open in this syntax: a number that is not declared stays a number.
        syntax="proto3",
        dependency=[known.name for known in _KNOWN.values()],
    )
    for name, values in ENUMS.items():
        # Names of values share the scope of their enum: each gets one of its own.
        enum = file.message_type.add(name=name).enum_type.add(name="Enum")
        for number, value in values.items():
            enum.value.add(name=value, number=number)
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field in fields:
            _add_field(message, field.number, field.name, field.type)
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
    elif kind in ENUMS:
        field.type, field.type_name = _FIELD.TYPE_ENUM, f".{_PACKAGE}.{kind}.Enum"
    else:
        package = "google.protobuf" if kind in _KNOWN else _PACKAGE
        field.type, field.type_name = _FIELD.TYPE_MESSAGE, f".{package}.{kind}"


# A pool of our own: the default one may hold Feast's definitions, if Feast is installed.
_POOL: Final = descriptor_pool.DescriptorPool()
for _content in (*(known.serialized_pb for known in _KNOWN.values()), _file().SerializeToString()):
    _POOL.AddSerializedFile(_content)


def _class_of(full_name: str) -> type[Message]:
    return GetMessageClass(_POOL.FindMessageTypeByName(full_name))


# Older versions of protobuf drop the classes that nothing holds, and then read what they freed.
_KNOWN_CLASSES: Final = [_class_of(f"google.protobuf.{name}") for name in _KNOWN]


MESSAGES: Final[Mapping[str, type[Any]]] = {
    name: _class_of(f"{_PACKAGE}.{name}") for name in _MESSAGES
}
"""The class of each message by its name at Feast, such as `FeatureViewSpec`, and of each frame."""


def value_name(enum: str, number: int) -> str:
    """Return Feast's name of a value of an enum, or the number itself where it has none."""
    return ENUMS[enum].get(number, str(number))


_LISTS: Final = {
    re.sub(r"\B(?=[A-Z])", "_", row.type.rstrip("*")).lower(): row
    for row in _DECLARED["Registry"]
    if row.type.endswith("*")
}

KINDS: Final = tuple(_LISTS)
"""The kinds of objects that are read from a registry, a row of `Registry` each, in their order:
an on-demand view comes after the views that it refers to."""

PLURALS: Final[Mapping[str, str]] = {
    kind: row.name for kind, row in _LISTS.items() if kind != "project_metadata"
}
"""What registries, tables of databases and methods of servers call the objects of a kind."""

LATE_KINDS: Final = frozenset(
    kind for kind, row in _LISTS.items() if int(row.number) > int(_LISTS["project"].number)
)
"""Kinds that came after projects: a server that knows projects may not know these."""


@dataclass(frozen=True, slots=True)
class RawObject:
    """One object of a registry as its message; `project` and `name` are empty where unknown.

    The name of the metadata of a project is its UUID. They are ordered, the oldest project first.
    """

    kind: str
    project: str
    name: str
    proto: bytes


class RegistryTransport(RequestSide):
    """Reads the objects of one registry, which it contacts on first use only.

    `shown` is the registry's address without secrets, `requests` the number of those sent.
    """

    shown: str
    requests: int = 0

    def server_id(self) -> str:
        """Return the identity of a registry without an id of its own: its address; may connect."""
        return self.shown

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


def too_large(shown: str, size: int | None, max_bytes: int) -> RecipeError:
    """Return the error about a registry of more than `max_bytes`."""
    amount = "" if size is None else f" with {plural(size, 'byte')}"
    return RecipeError(
        f"the registry {shown} is too large{amount}; the limit is {plural(max_bytes, 'byte')}",
        hint="check that it is a registry, or raise `max_bytes` in the recipe",
    )


def bounded(objects: Iterable[RawObject], shown: str, max_bytes: int) -> Iterator[RawObject]:
    """Yield `objects` as long as all of them together are no larger than `max_bytes`.

    Raises:
        RecipeError: they are.
    """
    total = 0
    for raw in objects:
        total += len(raw.proto)
        if total > max_bytes:
            raise too_large(shown, None, max_bytes)
        yield raw


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
        frame = MESSAGES["RegistryFrame"].FromString(content)
    except DecodeError:
        frame = None
    if frame is None or not frame.ListFields():
        what = "the file is empty" if not content else f"it starts with {content[:20]!r}"
        hint = "use the file that `feast apply` writes; if it is that file, run `feast apply` again"
        if content.startswith(b"SQLite format 3"):
            hint = "this is a database of SQLite: write `sqlite:///` before its path"
        reason = f"the registry {shown} is not a Feast registry, or incomplete: {what}"
        raise ProtocolMismatchError(reason, hint=hint)
    for kind, row in _LISTS.items():
        for proto in getattr(frame, row.name):
            yield raw_object(kind, proto)


def raw_object(kind: str, proto: bytes, project: str = "") -> RawObject:
    """Return the object that `proto` is, by its own name as far as that can be read.

    `project` is the default for an object without one.
    """
    try:
        if kind == "project_metadata":
            metadata = MESSAGES["ProjectMetadata"].FromString(proto)
            return RawObject(kind, metadata.project, metadata.project_uuid, proto)
        frame = MESSAGES["ObjectFrame"].FromString(proto)
        named = frame if kind == "data_source" else frame.spec
        name = named.name.decode()
        of_kind = {"project": "name", "entity": "entity_project"}
        own = getattr(named, of_kind.get(kind, "project")).decode()
    except (DecodeError, UnicodeDecodeError):
        return RawObject(kind, project, "", proto)
    return RawObject(kind, own or project, name, proto)
