"""What a source is: it reads records, maps each to entities, and can be checked and closed."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

from mlcat_ingest.findings import Finding
from mlcat_ingest.links.index import FeatureIndex
from mlcat_ingest.metadata.proposal import Aspect, Entity

RecordT = TypeVar("RecordT")

PROGRAM: Final = "mlcat-ingest"
"""The distribution whose version is part of a part's settings: its mapping decides, too."""


@dataclass(frozen=True, slots=True)
class Part:
    """A place that a source reads as a whole, such as one workspace of one server.

    `key` is what its entities carry as `mlcat.source`, `instance` the platform instance, empty for
    none. `identity` maps each kind of record to one URN as this recipe makes it: if that text
    changes, all URNs of the kind do. `settings` is a digest of all that decides what is read and
    how it is mapped.
    """

    key: str
    instance: str
    identity: Mapping[str, str]
    settings: str


class PartState(Protocol):
    """What is remembered of a part; records are told by kind and id, see `Trace`."""

    @property
    def checkpoint(self) -> Mapping[str, Any] | None:
        """What `finish` was given after the last pass; None: everything has to be read."""
        ...

    def marks(self, kind: str) -> Mapping[str, str]:
        """Return the marks of records of a kind that have one."""
        ...

    def joins(self, kind: str) -> Mapping[str, str]:
        """Return the join digests of records of a kind that have one."""
        ...

    def dirty(self, kind: str) -> Sequence[str]:
        """Return the records of a kind that could not be mapped, or that the catalog refused."""
        ...

    def finish(self, checkpoint: Mapping[str, Any], *, complete: bool) -> None:
        """Say that the part is read, `complete` if every record of it was listed.

        The checkpoint counts once all that was read is acknowledged.
        """
        ...


@dataclass(frozen=True, slots=True)
class Trace:
    """What is remembered of one record once the catalog has acknowledged its entities.

    `kind` and `id` name the record in its part, and `digest` stands for its content; None where
    that is best taken from the entities, as it has to be for models whose features are looked up.
    `mark` is the source's own word about the record, `joined` its digest of what was joined to it
    from other listings; both may be empty.
    """

    part: PartState
    kind: str
    id: str
    digest: str | None = None
    mark: str = ""
    joined: str = ""


class Memory(Protocol):
    """What a recipe remembers; a source asks for each part when it begins to read it."""

    def part(self, part: Part) -> PartState:
        """Return what is remembered of `part`.

        Raises:
            RecipeError: the URNs of its entities would change.
        """
        ...


class Forgetful:
    """A memory that keeps nothing, for sinks without state: each pass reads everything."""

    checkpoint: Mapping[str, Any] | None = None

    def part(self, part: Part) -> PartState:
        """Return itself: it knows as little of a part."""
        del part
        return self

    def marks(self, kind: str) -> Mapping[str, str]:
        """Return nothing."""
        del kind
        return {}

    def joins(self, kind: str) -> Mapping[str, str]:
        """Return nothing."""
        del kind
        return {}

    def dirty(self, kind: str) -> Sequence[str]:
        """Return nothing."""
        del kind
        return ()

    def finish(self, checkpoint: Mapping[str, Any], *, complete: bool) -> None:
        """Keep nothing."""
        del checkpoint, complete


@dataclass(frozen=True, slots=True)
class Unlisted:
    """An entity that the catalog holds as one of a part, and that a pass did not come upon.

    `properties` is its stored properties aspect: what it was made from.
    """

    urn: str
    properties: Aspect


@dataclass(frozen=True, slots=True)
class Missing:
    """An entity behind which the system has nothing any more.

    `moved_to` is the URN that the same thing has now, None where it is gone. `is_gone` asks the
    system for the thing by name: only a plain "there is none" counts, one request. A system that
    cannot be asked by name sets `second_pass`: the entity is removed only if two complete passes in
    a row lack it.
    """

    urn: str
    is_gone: Callable[[], bool]
    moved_to: str | None = None
    second_pass: bool = False


@runtime_checkable
class TellsMissing(Protocol):
    """A source that can prove that things are gone; of others nothing is ever removed."""

    def missing(self, part: str, unlisted: Sequence[Unlisted]) -> Iterable[Missing]:
        """Yield those of `unlisted` that the part of this key does not hold, asking in bulk.

        What is there, but left out by the recipe's filters, is not yielded; nor is what cannot be
        told. Asked after a complete pass, before `close`. Raises as `Source.read` does.
        """
        ...


@dataclass(frozen=True, slots=True)
class ComingTable:
    """A feature table that a source is about to yield, of the `source` that it will carry.

    `name` is what the URNs of its features begin with: they name no platform. `column` is the URN
    of one of its features or keys, None where it has none.
    """

    urn: str
    name: str
    source: str
    column: str | None = None


@runtime_checkable
class TellsTables(Protocol):
    """A source of feature tables, whose names may be those of another store."""

    def coming_tables(self) -> Iterator[ComingTable]:
        """Yield every table that `read` is going to yield; asked before it, and raises as it does.

        Cost: at most that of one more `read`.
        """
        ...


@runtime_checkable
class KeepsIndex(Protocol):
    """A source of features that can say, once it is read, what its store holds."""

    @property
    def index(self) -> FeatureIndex:
        """What the last `read` came upon."""
        ...


@dataclass(frozen=True, slots=True)
class Unit:
    """A piece of a source that can be read by itself, and about how many records it has.

    `key` names it in the source, `label` to the user.
    """

    key: str
    label: str
    size: int


@runtime_checkable
class Splits(Protocol):
    """A source that several processes can read side by side, each some units of it."""

    def units(self) -> Iterator[Unit]:
        """Yield the units that hold anything, each once; asked before `read`, raises as it does.

        Raises:
            RecipeError: the recipe asks for what only a reading as a whole can tell.

        Cost: a few requests a unit.
        """
        ...

    def take_units(self, keys: Collection[str]) -> None:
        """Let `read` yield what is in these units alone, and nothing that belongs to several."""
        ...

    def take_rest(self) -> None:
        """Let `read` yield everything, but `map` say only what is in no unit, and what is gone.

        Of the rest it says no more than that it is there: entities without aspects.
        """
        ...


@runtime_checkable
class ReadsNamedRuns(Protocol):
    """A source of runs that can read some of them by their ids, in bulk."""

    def only_runs(self, run_ids: Sequence[str]) -> None:
        """Let `read` yield those of these runs that the recipe asks for, and what they belong to.

        Such a pass asks `memory` for its parts, so that names stay as they are, but finishes none
        and traces no record; ids that the system lacks are passed over.
        """
        ...

    @property
    def found_runs(self) -> Collection[str]:
        """The ids of the runs that the last such `read` yielded."""
        ...


class Source(Protocol[RecordT]):
    """Reads one system. Built by `source_class(config)`; nothing is contacted before `read`."""

    def read(self, memory: Memory) -> Iterator[Sequence[RecordT]]:
        """Yield records in pages; each record once, groups before what belongs to them.

        A source that can read only what changed asks `memory` for its checkpoint; one that cannot
        need not look at it.

        Raises:
            SourceUnavailableError: the system does not answer, or broke off.
            AuthenticationError, NotAuthorizedError: the credentials do not do.
            ProtocolMismatchError: what answers is another system, or an unusable version.
            RecipeError: the URNs of its entities would change.

        Cost: one request a page; memory for a bounded number of pages.
        """
        ...

    def trace(self, record: RecordT) -> Trace | None:
        """Return what to remember of `record`, None where it is to be merged every time; pure."""
        ...

    def map(self, record: RecordT) -> Iterable[Entity]:
        """Return the entities that `record` says something about; pure, no I/O.

        Raises:
            SkippableError: the record cannot be mapped; the caller counts it and goes on.
        """
        ...

    def requests_made(self) -> int:
        """Return how many requests were sent to the system so far."""
        ...

    def check(self) -> Iterator[Finding]:
        """Yield what `mlcat-ingest check` found, connecting but changing nothing."""
        ...

    def close(self) -> None:
        """Release connections; safe to call twice."""
        ...
