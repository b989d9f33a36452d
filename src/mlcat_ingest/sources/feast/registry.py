"""A registry as raw objects, the transport that fetches them, and the check of both.

`split_registry` cuts a serialized registry into objects that are not decoded yet. It reads only the
frame of the message: number and length of each field. So an object that cannot be decoded is one
broken object, and never the end of the registry. Protobuf's own parser cannot tell a registry that
breaks off from a file that is none.

Source: the wire format of Protocol Buffers; `feast.core.Registry` of Feast 0.67.
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, get_args

from mlcat_ingest.core.findings import Finding
from mlcat_ingest.core.pending import RequestSide
from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import MlcatError, ProtocolMismatchError, SourceUnavailableError

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
"""The kinds of objects that are read from a registry."""

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class RawObject:
    """One object of a registry as its message; `project` and `name` are empty where unknown."""

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
        """Return the identity of this registry, without secrets; may connect."""

    @abstractmethod
    def objects(self) -> Iterator[RawObject]:
        """Yield every object of the registry, of all projects and in any order.

        Raises: as `Source.read`.
        """

    def requests_made(self) -> int:
        """Return how many requests were sent so far."""
        return self.requests

    def check(self) -> Iterator[Finding]:
        """Yield whether the registry can be read, and the number of objects of each project.

        Cost: the registry is read once.
        """
        what = "Feast registry"
        counts: dict[str, Counter[str]] = {}
        try:
            for raw in self.objects():
                counts.setdefault(raw.project, Counter())[raw.kind] += 1
            identity = self.server_id()
        except MlcatError as error:
            yield Finding(what, "failed", error.message, error.hint)
            return
        total = sum(kinds.total() for kinds in counts.values())
        if not total:
            hint = "run `feast apply`, and check that the user may read its objects"
            yield Finding(what, "warning", f"{self.shown} is readable and empty", hint)
            return
        yield Finding(what, "ok", f"{self.shown} is readable: {plural(total, 'object')}")
        yield Finding("Feast server id", "ok", identity)
        for project, kinds in sorted(counts.items()):
            yield Finding("Feast project", "ok", f"{project or 'none'}: {_in_words(kinds)}")

    def close(self) -> None:
        """Release connections, if there are any; safe to call twice."""


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

# Numbers of the fields that identify an object: its spec, and in that its name and project.
_NAMES: Final[Mapping[Kind, tuple[int | None, int, int]]] = {
    **dict.fromkeys(KINDS, (1, 1, 2)),
    "project": (1, 1, 1),
    "entity": (1, 1, 9),
    "data_source": (None, 20, 21),
}


def split_registry(content: bytes, shown: str = "") -> Iterator[RawObject]:
    """Yield the objects of a serialized registry, once all of its frame is seen to be sound.

    `shown` is its address in errors.

    Raises:
        ProtocolMismatchError: this is no registry.
        SourceUnavailableError: the registry breaks off.

    Cost: a second copy of the content at most, an object at a time.
    """
    for field in _registry_fields(content, f"the registry {shown}".rstrip()):
        kind = _REGISTRY.get(field.number)
        if kind is not None:
            yield raw_object(kind, content[field.start : field.end])


def raw_object(kind: Kind, proto: bytes, project: str = "") -> RawObject:
    """Return the object that `proto` is, by its own name as far as that can be read.

    `project` is the default for an object without one.
    """
    spec_number, name_number, project_number = _NAMES[kind]
    try:
        spec = proto if spec_number is None else next(submessages(proto, spec_number), b"")
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
            if field.number <= _LAST_REGISTRY_FIELD:
                known = field.wire_type == _LENGTH
                if not known:
                    break
    except _CutOffError:
        if known:
            raise SourceUnavailableError(
                f"{name} is truncated after {plural(len(content), 'byte')}",
                hint="try again once `feast apply` has finished",
            ) from None
    except ValueError:
        known = False
    if not known:
        what = "the file is empty" if not content else f"it starts with {content[:20]!r}"
        raise ProtocolMismatchError(
            f"{name} is not a Feast registry: {what}",
            hint="use the file that `feast apply` writes, such as data/registry.db",
        )
    return fields


def submessages(message: bytes, number: int) -> Iterator[bytes]:
    """Yield the contents of the field `number` of a message: text, bytes or messages.

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


def _in_words(counts: Counter[str]) -> str:
    words = []
    for kind in KINDS:
        if kind != "project" and counts[kind]:
            noun = kind.replace("_", " ")
            words.append(plural(counts[kind], noun, "entities" if noun == "entity" else None))
    return ", ".join(words) or "nothing"
