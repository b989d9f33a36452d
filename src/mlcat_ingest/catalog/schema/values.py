"""Values that go into the store and come out of it: writes, aspects, pages."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, cast

from mlcat_ingest.catalog.errors import InvalidProposalError
from mlcat_ingest.metadata.codec import canonical, loads
from mlcat_ingest.metadata.registry import ASPECTS

UNKNOWN_ACTOR: Final = "urn:li:corpuser:unknown"
"""The writer of a request that does not name one."""

SYSTEM_ACTOR: Final = "urn:li:corpuser:__datahub_system"
"""The writer of what the catalog itself adds."""

NO_RUN: Final = "no-run-id-provided"
"""The run of system metadata that names none."""

BACKGROUND_TYPES: Final = ("dataPlatform",)
"""Entity types that every catalog has some of from the start: shown where they are asked for, left
out where no type is named."""

Change = Literal["UPSERT", "UPDATE", "RESTATE", "CREATE", "CREATE_ENTITY", "PATCH", "DELETE"]
"""How a write treats the stored value.

UPSERT and UPDATE replace it, and so does RESTATE, by which the store writes what it computes.
CREATE refuses if the aspect exists, CREATE_ENTITY if the entity does. PATCH edits it, and DELETE
removes it.
"""


class Direction(Enum):
    """The direction in which an edge is followed: leaving an entity, or arriving at it."""

    OUTGOING = "OUTGOING"
    INCOMING = "INCOMING"


@dataclass(frozen=True)
class AspectVersion:
    """One version of one aspect.

    `text` is its value as it is stored, compact JSON. `version` is 1 for the first value and one
    more a change. Times are milliseconds since the epoch, UTC: `created_ms` of the first version,
    `modified_ms` of this one. `system_text` is what the writer sent with it, likewise as text.
    """

    text: str
    version: int
    created_ms: int
    created_by: str
    modified_ms: int
    modified_by: str
    system_text: str | None = None

    @cached_property
    def value(self) -> Mapping[str, Any]:
        """The value, read when it is asked for first."""
        return cast("Mapping[str, Any]", loads(self.text))

    @property
    def system_metadata(self) -> Mapping[str, Any]:
        """What the writer sent with the value."""
        return loads(self.system_text) if self.system_text else {}

    def wire_system_metadata(self) -> dict[str, Any]:
        """Return the system metadata as the read endpoints show it, with the version as text."""
        return {
            **self.system_metadata,
            "version": str(self.version),
            "aspectCreated": {"time": self.created_ms, "actor": self.created_by},
            "aspectModified": {"time": self.modified_ms, "actor": self.modified_by},
        }


class Write(NamedTuple):
    """The intent to write one aspect of one entity.

    Of a PATCH `value` is the envelope: `{"patch": [{"op", "path", "value"}, ...]}`, beside it
    `arrayPrimaryKeys` and `forceGenericPatch` where the writer sent them. A DELETE needs none.

    `expected_version` is compared, as text, with the version stored before this write, `NOT_STORED`
    for none. The two times, in milliseconds since the epoch, are compared with the
    moment of the last change: the write is refused unless the aspect was, or was not, modified
    after it. `skip_if_exists` turns a refused CREATE or CREATE_ENTITY into no write.
    """

    urn: str
    aspect: str
    value: Mapping[str, Any] = MappingProxyType({})
    change: Change = "UPSERT"
    expected_version: str | None = None
    skip_if_exists: bool = False
    system_metadata: Mapping[str, Any] | None = None
    if_modified_since_ms: int | None = None
    if_unmodified_since_ms: int | None = None

    @property
    def conditional(self) -> bool:
        """Tell whether it is bound to a stored version or time, as in optimistic locking."""
        bounds = (self.expected_version, self.if_modified_since_ms, self.if_unmodified_since_ms)
        return bounds != (None, None, None)


class WriteResult(NamedTuple):
    """The outcome of one write: the version now stored, and whether this write changed anything.

    The version is 0 where nothing is stored under that name any more, or where it has no versions.
    """

    urn: str
    aspect: str
    version: int
    changed: bool


@dataclass(frozen=True, slots=True)
class RelatedEntity:
    """The other end of an edge, and the name of the relationship."""

    urn: str
    relationship: str


@dataclass(frozen=True, slots=True)
class EdgeQuery:
    """A page of the edges of an entity: of `relationships` (None: all), in one direction.

    Incoming edges come in the order in which their entities were made, outgoing ones by
    relationship and URN. Edges to entities that are marked as removed may be left out.
    """

    relationships: Collection[str] | None
    direction: Direction
    start: int = 0
    count: int = 100
    include_removed: bool = True


@dataclass(frozen=True, slots=True)
class RelatedPage:
    """A page of one entity's edges.

    `total` counts all of them; `hidden` those that lead to missing entities and are in no page.
    """

    total: int = 0
    entities: tuple[RelatedEntity, ...] = ()
    hidden: int = 0


@dataclass(frozen=True, slots=True)
class UrnPage:
    """A page of URNs; `total` counts all that match."""

    total: int
    urns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeletionResult:
    """The result of a deletion: how many aspects, the key counted, and events of series."""

    rows: int = 0
    timeseries_rows: int = 0


@dataclass(frozen=True, slots=True)
class TimeseriesEvent:
    """One value of a timeseries aspect; the time is the event's own, in milliseconds, UTC."""

    timestamp_ms: int
    value: Mapping[str, Any]
    system_metadata: Mapping[str, Any] = field(default_factory=dict)


_MOST_MS: Final = 2**63

# Two events of one moment are the same event, written again, if these are equal.
_IDENTITY: Final = ("messageId", "eventGranularity", "partitionSpec", "status", "operationType")


class Moment(NamedTuple):
    """The identity of an event in its series: its time, and further fields that tell it apart."""

    timestamp_ms: int
    identity: str


def is_series(aspect: str) -> bool:
    """Return whether a known aspect is a series of events."""
    spec = ASPECTS.get(aspect)
    return spec is not None and spec.timeseries


def moment_of(aspect: str, value: Mapping[str, Any]) -> Moment | None:
    """Return the identity of an event in its series; None for an aspect without events.

    Raises:
        InvalidProposalError: the event has no time.
    """
    if not is_series(aspect):
        return None
    timestamp_ms = value.get("timestampMillis")
    if isinstance(timestamp_ms, bool) or not isinstance(timestamp_ms, int):
        raise InvalidProposalError(f"{aspect}: timestampMillis must be an integer")
    if not -_MOST_MS <= timestamp_ms < _MOST_MS:
        raise InvalidProposalError(f"{aspect}: timestampMillis must fit into 64 bits")
    known_by = {name: value[name] for name in _IDENTITY if value.get(name) is not None}
    return Moment(timestamp_ms, canonical(known_by).decode() if known_by else "")
