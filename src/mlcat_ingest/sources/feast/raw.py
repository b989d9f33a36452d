"""A registry cut into its objects, which are not decoded yet, and where registries come from.

Only the frame of a message is looked at: which field comes next, and how long it is. So an object
that cannot be decoded is one broken object, and never the end of the registry.

Source: the wire format of Protocol Buffers; `feast.core.Registry` of Feast 0.67.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol, get_args

from mlcat_ingest.core.awaiting import Awaits
from mlcat_ingest.core.findings import Finding
from mlcat_ingest.errors import ProtocolMismatchError, SourceUnavailableError

Kind = Literal[
    "project",
    "entity",
    "data_source",
    "feature_view",
    "stream_feature_view",
    "on_demand_feature_view",
    "label_view",
    "feature_service",
]
"""What a registry holds, as far as it is read."""

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class RawObject:
    """One object of a registry as its message; `project` and `name` are empty where unknown."""

    kind: Kind
    project: str
    name: str
    proto: bytes


class Transport(Awaits, Protocol):
    """Reads the objects of one registry. Nothing is contacted before it is used."""

    def server_id(self) -> str:
        """Return what tells this registry from others, without secrets; may connect."""
        ...

    def objects(self) -> Iterator[RawObject]:
        """Yield every object of the registry, of all projects and in any order.

        Raises: as `Source.read`.
        """
        ...

    def requests_made(self) -> int:
        """Return how many requests were sent so far."""
        ...

    def check(self) -> Iterator[Finding]:
        """Yield what `mlcat-ingest check` found, connecting but changing nothing."""
        ...

    def close(self) -> None:
        """Release connections; safe to call twice."""
        ...


class _Field(NamedTuple):
    """One field of a message; `end` is also where the next one begins."""

    number: int
    wire_type: int
    start: int
    end: int


class _CutOffError(ValueError):
    """The bytes end in the middle of a field."""


_VARINT: Final = 0
_LENGTH: Final = 2
_FIXED: Final = {1: 8, 5: 4}
_VARINT_BYTES: Final = 10

_REGISTRY: Final[Mapping[int, Kind]] = {
    1: "entity",
    6: "feature_view",
    7: "feature_service",
    8: "on_demand_feature_view",
    12: "data_source",
    14: "stream_feature_view",
    17: "project",
    19: "label_view",
}
_LAST_REGISTRY_FIELD: Final = 19

# Where an object says which it is: the field of its spec, and there of name and project.
_NAMES: Final[Mapping[Kind, tuple[int | None, int, int]]] = {
    **dict.fromkeys(KINDS, (1, 1, 2)),
    "project": (1, 1, 1),
    "entity": (1, 1, 9),
    "data_source": (None, 20, 21),
}


def split_registry(content: bytes, shown: str = "") -> Iterator[RawObject]:
    """Yield the objects of a serialized registry, once all of its frame is seen to be sound.

    `shown` says in errors where it comes from.

    Raises:
        ProtocolMismatchError: this is no registry.
        SourceUnavailableError: the registry breaks off.

    Cost: a second copy of the content at most, an object at a time.
    """
    fields = _registry_fields(content, f"the registry {shown}".rstrip())
    for field in fields:
        kind = _REGISTRY.get(field.number)
        if kind is not None:
            yield raw_object(kind, content[field.start : field.end])


def raw_object(kind: Kind, proto: bytes, project: str = "") -> RawObject:
    """Return the object that `proto` is, by its own name as far as that can be read.

    `project` is taken where the object does not say one.
    """
    spec_number, name_number, project_number = _NAMES[kind]
    try:
        spec = proto
        if spec_number is not None:
            spec = next(submessages(proto, spec_number), b"")
        name, own = (
            next(submessages(spec, number), b"").decode()
            for number in (name_number, project_number)
        )
    except ValueError:  # UnicodeDecodeError, too
        return RawObject(kind, project, "", proto)
    return RawObject(kind, own or project, name, proto)


def _registry_fields(content: bytes, name: str) -> list[_Field]:
    fields: list[_Field] = []
    known = False
    try:
        for field in _fields(content):
            fields.append(field)
            ours = field.number <= _LAST_REGISTRY_FIELD
            known = known or ours
            if ours and field.wire_type != _LENGTH:
                known = False
                break
    except _CutOffError:
        if known:
            raise SourceUnavailableError(
                f"{name} breaks off after {len(content)} bytes",
                hint="is it being written? try again",
            ) from None
    except ValueError:
        known = False
    if not known:
        what = "is empty" if not content else f"begins with {content[:20]!r}"
        raise ProtocolMismatchError(
            f"{name} is no Feast registry: it {what}",
            hint="a registry is the file that `feast apply` writes, such as data/registry.db",
        )
    return fields


def submessages(message: bytes, number: int) -> Iterator[bytes]:
    """Yield what the field `number` of a message holds, where that is text, bytes or a message.

    Raises:
        ValueError: it is no message.
    """
    for field in _fields(message):
        if field.number == number and field.wire_type == _LENGTH:
            yield message[field.start : field.end]


def _fields(message: bytes) -> Iterator[_Field]:
    """Yield the fields of a message.

    Raises:
        ValueError: it is none; `_CutOffError` if it ends within a field.
    """
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == _LENGTH:
            length, at = _varint(message, at)
        elif wire_type == _VARINT:
            _, end = _varint(message, at)
            length = end - at
        else:
            length = _FIXED.get(wire_type, -1)
        if number == 0 or length < 0:
            raise ValueError(f"field {number} of type {wire_type}")
        if at + length > len(message):
            raise _CutOffError
        yield _Field(number, wire_type, at, at + length)
        at += length


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for index in range(_VARINT_BYTES):
        if at + index >= len(message):
            raise _CutOffError
        byte = message[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, at + index + 1
    raise ValueError("a number of more than ten bytes")
