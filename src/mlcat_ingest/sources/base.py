"""The source: it reads records, maps each to entities, and is closed.

An author of a source inherits `Source`, implements `read`, `map` and `close`, and declares further
abilities in `capabilities`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import ClassVar, Generic, Protocol, TypeVar

from mlcat_ingest.core.findings import Finding, NoRequests, RequestSide
from mlcat_ingest.links.index import FeatureIndex
from mlcat_ingest.metadata.aliases import Sighting
from mlcat_ingest.metadata.proposal import Aspect, Entity, Note


class Capability(Enum):
    """An ability of a source beyond reading all of its records."""

    FEATURES = "features"
    """Its records are feature tables: it is read before sources of runs, gives a `FeatureIndex`
    with `Finished`, and lists its tables in `coming_tables`."""
    MISSING = "missing"
    """`missing` proves deletions; entities of other sources are never removed."""
    SHARDS = "shards"
    """`shards` divides it, so that several processes can read it: the scopes `Shards` and
    `Remainder`."""
    RUNS = "runs"
    """It finds runs by their ids, and registered models by their names: the scope `Runs`."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Incremental: the changes since the checkpoint of each partition; all where there is none."""

    needs: ClassVar[Capability | None] = None


@dataclass(frozen=True, slots=True)
class Everything:
    """All that the recipe asks for, without regard to checkpoints."""

    needs: ClassVar[Capability | None] = None


@dataclass(frozen=True, slots=True)
class Shards:
    """The records in the shards with these keys, and none that belongs to several shards.

    It asks for no partition.
    """

    keys: Collection[str]
    needs: ClassVar[Capability | None] = Capability.SHARDS


@dataclass(frozen=True, slots=True)
class Remainder:
    """Everything, but the records in shards are only listed: they are mapped to bare entities."""

    needs: ClassVar[Capability | None] = Capability.SHARDS


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs with these ids that the recipe selects, with their experiments.

    With them come the registered models with the names `models`, and all their versions; of those
    that are `deleted`, or lost a version, the groups are told. Unknown ids and names are ignored.
    `moves` are what events said of the aliases of these models, by workspace and name.
    Partitions are listed, which keeps the names of entities stable, but get no new checkpoint.
    """

    ids: Sequence[str]
    models: Sequence[str] = ()
    deleted: Sequence[str] = ()
    moves: Mapping[tuple[str, str], Sequence[Sighting]] = field(default_factory=dict)
    needs: ClassVar[Capability | None] = Capability.RUNS


@dataclass(frozen=True, slots=True)
class FeaturesOnly:
    """The index of features, without records and without a partition; pages are empty."""

    needs: ClassVar[Capability | None] = Capability.FEATURES


ReadScope = Changes | Everything | Shards | Remainder | Runs | FeaturesOnly
"""The part of a source that a pass reads."""


@dataclass(frozen=True, slots=True)
class Partition:
    """A place that a source reads as a whole, such as one workspace of one server.

    `key` is what its entities carry as `mlcat.source`, `instance` the platform instance, empty for
    none. `identity` maps each kind of record to one URN as this recipe makes it: if that text
    changes, all URNs of the kind do. `settings` is a digest of all that decides what is read and
    how it is mapped. `label` is its name for people, without secrets.
    """

    key: str
    instance: str
    identity: Mapping[str, str]
    settings: str
    label: str = ""


class PartitionState:
    """The state of a partition: its checkpoint, and the version of each record by kind and id."""

    checkpoint: Mapping[str, object] | None = None
    """That of `Finished` after the last pass; None: everything has to be read."""

    known: Mapping[str, Mapping[str, Mapping[str, str]]] = MappingProxyType({})
    """The columns of records that are not empty, by name, kind and id."""

    def fingerprints(self, kind: str) -> Mapping[str, str]:
        """Return the fingerprints of records of a kind that have one."""
        return self.known.get("fingerprint", {}).get(kind, {})

    def joined_fingerprints(self, kind: str) -> Mapping[str, str]:
        """Return the joined fingerprints of records of a kind that have one."""
        return self.known.get("joined_fingerprint", {}).get(kind, {})

    def dirty(self, kind: str) -> Sequence[str]:
        """Return the records of a kind that have to be read though they may not have changed.

        They could not be mapped, the catalog refused them, or no run saw the end of their writes.
        """
        return list(self.known.get("reason", {}).get(kind, ()))


class RunState(Protocol):
    """The state of a recipe; a source asks it for each partition when it begins to read that."""

    def partition(self, partition: Partition) -> PartitionState:
        """Return what is remembered of `partition`.

        Raises:
            RecipeError: the URNs of its entities would change.
        """

    def unread_keys(self) -> Sequence[str]:
        """Return the keys of the partitions that earlier runs read, and this one has not asked for.

        Of one that is gone as a whole, a source that knows so yields a complete `Finished`.
        """
        return ()


class NullState(PartitionState, RunState):
    """Has no state, for sinks without state: each pass reads everything."""

    def partition(self, partition: Partition) -> PartitionState:
        """Return itself."""
        del partition
        return self


class AskedState(NullState):
    """A state that keeps each partition that a source asked for, with what it got."""

    def __init__(self) -> None:
        self.asked: list[tuple[Partition, PartitionState]] = []

    def partition(self, partition: Partition) -> PartitionState:
        """Return the state of `partition`, a new object each time."""
        state = NullState()
        self.asked.append((partition, state))
        return state


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """A request to read: a scope, and the state that knows the checkpoint of each partition."""

    scope: ReadScope = Everything()
    state: RunState = field(default_factory=NullState)


@dataclass(frozen=True, slots=True)
class RecordVersion:
    """The version of one record, remembered once the catalog has acknowledged its entities.

    `kind` and `id` name the record in its partition, and `digest` is a digest of all in the record
    that its entities depend on, taken before it is mapped. Without a digest the entities are
    compared, as for models whose features are looked up, and a full pass maps the record. What all
    records share, such as options, belongs into the `settings` of the partition.
    `fingerprint` is the source's own word about the record, `joined_fingerprint` its digest of
    what was joined to it from other listings; both may be empty. A record `leads` to others if a
    pass over changes reads these again because of its fingerprint.
    """

    kind: str
    id: str
    digest: str | None = None
    fingerprint: str = ""
    joined_fingerprint: str = ""
    leads: bool = False


class SourceRecord(Protocol):
    """A record that a source yields; inherit this, or bring along the attribute."""

    @property
    def record_version(self) -> RecordVersion | None:
        """The version to remember, None for a record that is merged every time; pure."""
        return None


RecordT = TypeVar("RecordT", bound=SourceRecord)
RecordT_co = TypeVar("RecordT_co", bound=SourceRecord, covariant=True)


@dataclass(frozen=True, slots=True)
class Page(Generic[RecordT_co]):
    """Some records of one partition; of those without one nothing is remembered."""

    records: Sequence[RecordT_co]
    partition: PartitionState | None = None


@dataclass(frozen=True, slots=True)
class NamedGroup:
    """The group of a name in `Runs.deleted`, or that lost a member since the last pass.

    It is in the partition of the key `source`.

    `listed` are the URNs of the group and its members, as far as the system has their objects.
    """

    source: str
    urn: str
    listed: Collection[str]


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of a partition: all that was asked for of it has been yielded.

    The `checkpoint` counts once all of it is acknowledged; None leaves the last one as it is. It is
    `complete` if every record of the partition was listed. `found_ids` are those of `Runs` that are
    in the partition, `groups` those that it names, there or not. `index` is of the features of a
    feature store. `notes` are of the reading as a whole, such as objects that the source may not
    show.
    """

    partition: PartitionState | None = None
    checkpoint: Mapping[str, object] | None = None
    complete: bool = False
    found_ids: Collection[str] = ()
    groups: Sequence[NamedGroup] = ()
    index: FeatureIndex | None = None
    notes: Sequence[Note] = ()


@dataclass(frozen=True, slots=True)
class Unlisted:
    """An entity that the catalog holds as one of a partition, and that a pass did not list.

    `properties` is its stored properties aspect: what it was made from. A group that is `removed`
    already is asked about only in case its object has another URN now.
    """

    urn: str
    properties: Aspect
    removed: bool = False


@dataclass(frozen=True, slots=True)
class Missing:
    """An entity whose object the system no longer has.

    `moved_to` is the new URN of the same object, None if it was deleted. `is_gone` asks the system
    for the object by name, in one request: only the answer "not found" counts. Without such a
    request, a source sets `second_pass`: the entity is removed only if two complete passes in a row
    lack it. For an entity that is `switched_off`, which the recipe no longer selects, no limit
    applies.
    """

    urn: str
    is_gone: Callable[[], bool]
    moved_to: str | None = None
    second_pass: bool = False
    switched_off: bool = False


@dataclass(frozen=True, slots=True)
class EntityTags:
    """Tags to set on the object that an entity was made from.

    `properties` is the entity's stored properties aspect. An object that has the first of the
    `tags` already is left as it is.
    """

    urn: str
    properties: Aspect
    tags: Mapping[str, str]


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


@dataclass(frozen=True, slots=True)
class Shard:
    """A part of a source that can be read by itself, and about how many records it has.

    `key` names it in the source, `label` to the user.
    """

    key: str
    label: str
    size: int


class Source(ABC, Generic[RecordT]):
    """Reads one system. Built by `source_class(config)`; nothing is contacted before `read`."""

    capabilities: ClassVar[frozenset[Capability]] = frozenset()

    place: str = ""
    """Its place in the recipe, such as `sources[0]`; set once it is built."""

    address: str = ""
    """The address of the system without credentials, as lineage names it; empty if it has none."""

    can_set_tags: bool = False
    """Whether `set_tags` does anything; set once it is built."""

    traffic: RequestSide = NoRequests()
    """The requests to the system; set once it is built."""

    @abstractmethod
    def read(self, request: ReadRequest) -> Iterator[Page[RecordT] | Finished]:
        """Yield records in pages, groups before what belongs to them.

        Each comes once, or again where more of it became known.

        A partition begins by asking `request.state` for it, and ends with `Finished`. A source that
        can read only what changed looks at the checkpoint; one that cannot need not.

        Raises:
            SourceUnavailableError: the system does not answer, or broke off.
            AuthenticationError, NotAuthorizedError: the credentials are refused, or not sufficient.
            ProtocolMismatchError: what answers is another system, or an unusable version.
            RecipeError: the URNs of its entities would change.

        Cost: one request a page; memory for a bounded number of pages.
        """

    @abstractmethod
    def map(self, record: RecordT) -> Iterable[Entity]:
        """Return the entities of `record`; pure, no I/O.

        Raises:
            SkippableError: the record cannot be mapped; the caller counts it and continues.
        """

    @abstractmethod
    def close(self) -> None:
        """Release connections; safe to call twice."""

    def keys(self) -> Sequence[str]:
        """Return the keys of the partitions that `read` reads; raises as it does.

        Asked before `read` where a recipe has several sources of this class: two that read one
        partition are refused. Cost: a few requests.
        """
        return ()

    def missing(self, partition: str, unlisted: Sequence[Unlisted]) -> Iterable[Missing]:
        """Yield those of `unlisted` that the partition of this key does not hold, asking in bulk.

        Neither an entity that the recipe's filters leave out is yielded, nor one whose fate cannot
        be told. Asked after `read`, before `close`. Raises as `read` does.
        """
        del partition, unlisted
        return ()

    def set_tags(self, entities: Sequence[EntityTags]) -> Iterator[tuple[str, str | None]]:
        """Set tags of the objects of `entities` that are of this source.

        Yield for each entity its URN, and why its object did not get them, None if it has them.
        Called while and after `read` yields, from any thread.

        Raises:
            SourceUnavailableError: the system does not answer.
        """
        del entities
        return iter(())

    def coming_tables(self) -> Iterator[ComingTable]:
        """Yield every feature table that `read` is going to yield; asked before it, raises as it.

        Cost: at most that of one more `read`.
        """
        return iter(())

    def shards(self) -> Iterator[Shard]:
        """Yield the shards that hold anything, each once; asked before `read`, raises as it does.

        Raises:
            RecipeError: the recipe asks for what only a reading as a whole can tell.

        Cost: a few requests a shard.
        """
        return iter(())

    def check(self) -> Iterator[Finding]:
        """Yield what `mlcat-ingest check` found, connecting but changing nothing."""
        yield Finding("the source", "warning", f"{type(self).__name__} does not implement checks")
