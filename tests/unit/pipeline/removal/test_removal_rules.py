"""The rules of a removal one by one: proof, two passes, limits, and groups in use."""

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from mlcat_ingest.errors import CatalogRequestError, LimitError, StateUnavailableError
from mlcat_ingest.metadata.aspects import STATUS
from mlcat_ingest.metadata.identity import Writer
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.pipeline.context import RunContext
from mlcat_ingest.pipeline.merge.entity import MergedEntity
from mlcat_ingest.pipeline.removal.soft_delete import DeferredRemovals, Removal
from mlcat_ingest.pipeline.removal.unlisted import _is_from, _ListedUrns
from mlcat_ingest.pipeline.state.partitions import PartitionKey
from mlcat_ingest.recipe.model import LimitsSpec
from mlcat_ingest.sources.base import Capability, Missing, NamedGroup, Unlisted
from support.fakes import FakeSink, group_urn, model_urn

SOURCE = "mlflow:a:"
A, B, C = map(model_urn, "abc")
TOOL = "urn:li:api:mlflow:server/tool"


@dataclass
class KnownEntities:
    """What state knows of a partition, and what it is asked to remember."""

    renamed: Sequence[str] = ()
    listed: Sequence[str] = ()
    unlisted: Sequence[str] = ()
    absent: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    count: int = 0
    fails: bool = False
    bases: dict[str, str] = field(default_factory=dict)
    counted: int = 0
    earlier: Sequence[str] = ()

    def urns(self, _: object, *, listed: bool = True, clean: bool = False) -> Iterable[str]:
        del clean
        yield from self.listed if listed else self.unlisted
        if self.fails and not listed:
            raise StateUnavailableError("the disk is gone")

    def absent_urns(self, _: object) -> Sequence[str]:
        return tuple(self.absent)

    def replace_absent(self, _: object, urns: Sequence[str]) -> None:
        self.absent = list(urns)

    def delete(self, _: object, urns: Sequence[str]) -> None:
        self.deleted += urns

    def base(self, urn: str) -> str | None:
        return self.bases.get(urn)

    def with_base(self, entity_type: str) -> list[str]:
        return [urn for urn in self.bases if f":{entity_type}:" in urn]

    def record_count(self, _: object) -> int:
        self.counted += 1
        return self.count


PART = PartitionKey("r", "fake://", SOURCE, "")


@dataclass(eq=False)
class FinishedPass:
    finished: object
    is_complete: bool
    key: PartitionKey = PART
    entity_types: Sequence[str] = ("mlModel", "mlModelGroup")
    full: str | None = "requested"
    renamed: Sequence[str] = ()


@dataclass
class World:
    """A catalog, state, and a source that names what it has no more."""

    sink: FakeSink = field(default_factory=lambda: FakeSink(place="fake://"))
    known: KnownEntities = field(default_factory=KnownEntities)
    notes: list[tuple[str, str]] = field(default_factory=list)
    copied: list[tuple[str, str]] = field(default_factory=list)
    renamed_back: Sequence[tuple[str, str]] = ()
    next_pass: list[str] = field(default_factory=list)
    unfound: list[str] = field(default_factory=list)
    refused: Sequence[str] = ()
    remembers: bool = True
    complete: bool = True
    finished: bool = True
    capabilities: Sequence[Capability] = (Capability.MISSING,)
    ratio: float = 0.2
    second_pass: bool = False
    moved_to: str | None = None
    switched_off: bool = False
    entity_types: Sequence[str] = ("mlModel", "mlModelGroup")
    is_gone: Callable[[], bool] = lambda: True
    deferred: Sequence[str] = ()
    named: Sequence[NamedGroup] = ()

    def hold(self, *urns: str, **more: Any) -> None:
        for urn in urns:
            name = "mlModelGroupProperties" if "Group" in urn else "mlModelProperties"
            custom = {"mlcat.source": SOURCE, "mlcat.applied.r": "2:id"}
            self.sink.put(urn, name, {"customProperties": custom, **more})

    def missing(self, source: str, unlisted: Iterable[Unlisted]) -> list[Missing]:
        assert source == SOURCE
        facts = (self.moved_to, self.second_pass, self.switched_off)
        return [Missing(one.urn, self.is_gone, *facts) for one in unlisted]

    def remove(self) -> list[str]:
        """Return the URNs of the entities to remove after a pass."""
        part: Any = FinishedPass(
            ({}, self.complete) if self.finished else None,
            self.complete,
            entity_types=self.entity_types,
            renamed=self.known.renamed,
        )
        ledger: Any = SimpleNamespace(
            note=lambda kind, text: self.notes.append((kind, text)),
            absent=self.known.replace_absent,
            deleted=self.known.delete,
            state=SimpleNamespace(
                entities=self.known, remembers=self.remembers, writer=Writer("r", "id")
            ),
        )
        copier: Any = SimpleNamespace(
            copy=lambda old, new: self.copied.append((old, new)),
            leads_to=lambda new, old: (new, old) in self.renamed_back,
        )
        keys: Any = SimpleNamespace(refused=self.refused)
        source: Any = SimpleNamespace(capabilities=self.capabilities, missing=self.missing)
        deferred = DeferredRemovals()
        status = {STATUS: {"removed": True}}
        deferred.partition(
            [MergedEntity(Entity(urn, status), {}, "removed") for urn in self.deferred]
        )
        removal = Removal(
            RunContext(self.sink, ledger),
            deferred,
            copier,
            keys,
            LimitsSpec(max_removed_ratio=self.ratio),
        )
        with closing(deferred):
            removal.named.extend(self.named)
            entities = list(removal.after(source, [] if self.named else [part]))
            assert not self.copied, "what is not hidden yet may be edited"
            removal.copy_moved()
        self.unfound = [*removal.unfound(part)]
        self.next_pass = removal.next_pass
        assert all(one.aspects[STATUS] == {"removed": True} for one in entities)
        whole = [one.urn for one in entities if one.aspects.keys() != {STATUS}]
        assert all("mlcat.applied.other" in str(self.sink.stored[urn]) for urn in whole)
        return [one.urn for one in entities]


@pytest.fixture
def world() -> World:
    world = World()
    world.hold(A, B)
    return world


def test_entities_that_a_complete_pass_did_not_list_are_removed(world: World) -> None:
    assert world.remove() == [A, B]
    assert world.known.deleted == [A, B]


def test_groups_that_were_renamed_in_a_circle_are_looked_at_once(world: World) -> None:
    names = [group_urn(name) for name in "abc"]
    for name, new in zip(names, [*names[1:], names[0]], strict=True):
        custom = {"mlcat.source": SOURCE, "mlcat.renamed_to": new, "mlcat.applied.r": "2:id"}
        world.sink.put(name, "mlModelGroupProperties", {"customProperties": custom})
    world.known.unlisted = names[:1]
    read_many = world.sink.read_many

    def read_few(urns: Sequence[str], aspects: Collection[str]) -> Any:
        assert len(world.sink.reads) < 9, "they are read again and again"
        return read_many(urns, aspects)

    world.sink.read_many = read_few  # type: ignore[method-assign]
    assert set(world.remove()) == {A, B, *names}
    assert world.known.deleted.count(names[0]) == 1


def test_groups_are_searched_for_only_where_a_source_has_them(world: World) -> None:
    world.entity_types = ["mlModel"]
    world.hold(group_urn("hidden"))
    world.sink.put(group_urn("hidden"), "status", {"removed": True})
    asked: list[str] = []
    search = world.sink.entities_of_source

    def entities_of_source(entity_type: str, *args: Any, **options: Any) -> Any:
        asked.append(entity_type)
        return search(entity_type, *args, **options)

    world.sink.entities_of_source = entities_of_source  # type: ignore[method-assign]
    assert world.remove() == [A, B]
    assert asked == ["mlModel"]


def test_an_entity_that_is_neither_listed_nor_gone_is_kept_and_noted(world: World) -> None:
    world.is_gone = lambda: False
    assert world.remove() == []
    assert world.known.deleted == []
    assert world.notes == [
        ("unlisted_kept", f"{urn}: not listed, and not reported as deleted") for urn in (A, B)
    ]


def test_a_pass_that_did_not_end_proves_nothing(world: World) -> None:
    world.finished = world.complete = False
    world.known.renamed = [A]
    assert world.remove() == []


def test_a_pass_over_changes_knows_only_the_entities_that_were_renamed(world: World) -> None:
    world.complete = False
    world.known.renamed, world.known.absent = [A], [B]
    assert world.remove() == [A]
    assert world.known.absent == [B]


def test_a_source_that_proves_nothing_is_not_asked(world: World) -> None:
    world.capabilities = ()
    assert world.remove() == []
    assert world.notes == []


@pytest.mark.parametrize(
    ("capabilities", "place", "notes"),
    [
        ((Capability.MISSING,), "fake://", 0),
        ((Capability.MISSING, Capability.FEATURES), None, 0),
        ((Capability.MISSING, Capability.FEATURES), "fake://", 1),
    ],
)
def test_without_state_nothing_is_removed(
    world: World, capabilities: Sequence[Capability], place: str | None, notes: int
) -> None:
    world.remembers, world.capabilities, world.sink.place = False, capabilities, place
    assert world.remove() == []
    assert [kind for kind, _ in world.notes] == ["removal_without_state"] * notes
    world.remembers, world.known.fails = True, True
    assert world.remove() == []
    assert [kind for kind, _ in world.notes] == ["removal_without_state"] * notes * 2
    assert world.known.deleted == []


def test_a_source_that_cannot_be_asked_by_name_needs_two_complete_passes(world: World) -> None:
    world.second_pass = True
    world.known.absent = [A, C]
    assert world.remove() == [A]
    assert world.next_pass == [B]
    assert world.known.absent == [A, B]
    assert world.notes == [("absent_once", f"{B}: removal due in the next pass")]


@pytest.mark.parametrize("count", [10, 11, 12])
def test_up_to_ten_and_up_to_the_ratio_of_what_state_or_catalog_knows_are_removed(
    count: int,
) -> None:
    world = World(ratio=0.5)
    urns = [model_urn(str(at)) for at in range(count)]
    world.hold(*urns)
    world.known.count = 22 if count > 10 else 0
    if count <= 11:
        assert world.remove() == urns
    else:
        with pytest.raises(LimitError, match="12 of 22 entities of mlflow:a: would be"):
            world.remove()
        assert world.known.deleted == []
    assert world.known.counted == (count > 10)


def test_a_limit_of_all_holds_back_none_where_neither_state_nor_search_counts_every_one() -> None:
    urns = [model_urn(f"r{at:02}") for at in range(12)]
    world = World(ratio=1, deferred=urns[:1])
    world.hold(*urns[1:])
    world.known.count = 7
    assert world.remove() == urns


@pytest.mark.parametrize(("gone", "asked"), [(10, 40), (11, 40), (12, 12), (40, 12)])
def test_the_limit_counts_what_is_gone_and_asks_for_no_more(gone: int, asked: int) -> None:
    world = World(ratio=0.25)
    urns = [model_urn(f"r{at:02}") for at in range(40)]
    world.hold(*urns)
    world.known.count = 44
    answers = iter([True] * gone + [False] * (40 - gone))
    world.is_gone = lambda: next(answers)
    if gone <= 11:
        assert world.remove() == urns[:gone]
        assert len(world.notes) == 40 - gone
    else:
        with pytest.raises(LimitError, match="40 of 44 entities"):
            world.remove()
    assert len(list(answers)) == 40 - asked


def test_entities_that_are_kept_are_none_of_those_over_the_limit() -> None:
    world = World(ratio=0.25)
    world.hold(*[model_urn(f"r{at:02}") for at in range(40)])
    world.known.count = 44
    answers = iter([False] * 5 + [True] * 35)
    world.is_gone = lambda: next(answers)
    with pytest.raises(LimitError, match="35 of 44 entities"):
        world.remove()


def test_no_limit_holds_back_entities_that_the_recipe_switched_off() -> None:
    world = World(ratio=0, switched_off=True)
    urns = [model_urn(str(at)) for at in range(12)]
    world.hold(*urns)
    assert world.remove() == urns


def test_entities_found_and_counted_twice_are_removed_once(world: World) -> None:
    world.known.unlisted = [B, A, C]
    assert world.remove() == [A, B]


def test_types_that_the_catalog_refuses_are_not_searched_for(world: World) -> None:
    world.refused = ("mlModel",)
    world.hold(GROUP)
    assert world.remove() == [GROUP]


def test_entities_without_properties_are_not_asked_for(world: World) -> None:
    world.known.unlisted = ["urn:li:tag:a"]
    assert world.remove() == [A, B]
    assert world.sink.reads == [[A, B]]


def test_where_the_catalog_cannot_be_searched_state_has_to_do(world: World) -> None:
    world.sink.search_error = CatalogRequestError("no search", status=404)
    world.known.unlisted, world.known.count = [B], 3
    assert world.remove() == [B]


def test_a_search_lacks_what_it_does_not_find_unless_it_failed(world: World) -> None:
    world.known.listed = [A, C]
    world.remove()
    assert world.unfound == [C]
    world.sink.search_error = CatalogRequestError("no search", status=404)
    world.remove()
    assert world.unfound == []


def test_the_limit_is_a_share_of_what_state_knows_where_nothing_can_be_searched() -> None:
    world = World(ratio=0.5)
    urns = [model_urn(f"r{n:02}") for n in range(12)]
    world.hold(*urns)
    world.sink.search_error = CatalogRequestError("no search", status=404)
    world.known.unlisted = urns
    assert world.remove() == []
    assert world.notes == [
        ("removal_without_state", "12 entities not removed: the number of all entities is unknown")
    ]
    world.known.count = 24
    assert world.remove() == urns


def a_drain(*members: str, listed: Sequence[str] = ()) -> World:
    """Return a world without state, which was told of a group with these members."""
    named = NamedGroup(SOURCE, GROUP, frozenset(listed))
    world = World(remembers=False, named=[named])
    world.hold(GROUP)
    world.hold(*members, groups=[GROUP])
    return world


def test_without_state_what_is_gone_of_a_named_group_is_removed() -> None:
    world = a_drain(A, B, listed=[GROUP, A])
    world.hold(C)
    assert world.remove() == [B]
    assert world.known.deleted == []
    assert sorted(a_drain(A, B).remove()) == sorted([GROUP, A, B])


def test_of_a_named_group_only_what_is_proved_gone_is_removed() -> None:
    world = a_drain(A, B, listed=[GROUP])
    answers = iter([False, True])
    world.is_gone = lambda: next(answers)
    assert world.remove() == [B]
    world.capabilities = ()
    assert world.remove() == []


def test_of_a_group_whose_members_cannot_be_listed_only_itself_is_removed() -> None:
    world = a_drain(A)
    world.sink.search_error = CatalogRequestError("no search", status=404)
    world.is_gone = lambda: True
    assert A not in world.remove()


@pytest.mark.parametrize(("count", "others", "removed"), [(10, 0, 10), (11, 0, 0), (11, 43, 11)])
def test_too_much_of_a_named_group_is_left_to_a_scheduled_run(
    count: int, others: int, removed: int
) -> None:
    members = [model_urn(f"r{n:02}") for n in range(count)]
    world = a_drain(*members, listed=[GROUP])
    world.hold(*[model_urn(f"other{n}") for n in range(others)])
    assert len(world.remove()) == removed
    kept = f"{count} entities not removed: more than limits.max_removed_ratio allows"
    notes = [note for note in world.notes if note[1] == kept]
    assert notes == ([] if removed else [("unlisted_kept", kept)])


def test_removed_entities_and_those_of_others_stay(world: World) -> None:
    world.sink.put(A, "status", {"removed": True})
    applied = {"mlcat.applied.other": "2:x:nM6rxxxxxx"}
    world.hold(B, customProperties={"mlcat.source": SOURCE, **applied})
    world.hold(C, customProperties={"mlcat.source": f"{SOURCE},feast:f:"})
    world.known.unlisted = [A, B, C]
    assert world.remove() == []


# --- groups ---------------------------------------------------------------------------------------

GROUP, NEW = group_urn("old"), group_urn("new")


def in_group(source: str | None, **status: Any) -> World:
    """Return a world with a group and a model in it."""
    world = World(is_gone=lambda: True)
    world.hold(GROUP)
    custom = {} if source is None else {"mlcat.source": source, "mlcat.applied.r": "2:id"}
    world.sink.put(C, "mlModelProperties", {"groups": [GROUP], "customProperties": custom})
    world.known.absent = []
    if status:
        world.sink.put(C, "status", status)
    return world


def test_a_group_is_removed_with_the_models_of_its_source() -> None:
    assert sorted(in_group(SOURCE).remove()) == sorted([GROUP, C])


@pytest.mark.parametrize("source", [None, "mlflow:b:"])
def test_a_group_with_models_of_others_stays(
    source: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    world = in_group(source)
    assert world.remove() == []
    assert f"{GROUP} is kept: it contains models of others" in caplog.messages
    caplog.clear()
    assert in_group(source, removed=True).remove() == [GROUP]
    assert not [one for one in caplog.messages if "is kept" in one]


def test_a_group_is_removed_with_a_model_that_the_pass_removes_and_that_names_no_source() -> None:
    world = in_group(None)
    world.deferred = [C]
    assert world.remove() == [C, GROUP]
    world = in_group("mlflow:b:")
    world.deferred = [C]
    assert world.remove() == [C]


def test_a_group_whose_members_cannot_be_listed_stays() -> None:
    world = World(second_pass=False)
    world.hold(GROUP)
    world.known.unlisted = [GROUP]
    world.sink.search_error = CatalogRequestError("too large", status=500)
    assert world.remove() == []
    assert world.notes == [("groups_kept", f"{GROUP}: its members cannot be listed: too large")]


def test_entries_of_others_move_with_a_group_that_was_renamed() -> None:
    world = World(moved_to=NEW)
    world.hold(GROUP)
    assert world.remove() == [GROUP]
    assert world.copied == [(GROUP, NEW)]
    world = World(moved_to=NEW, renamed_back=[(NEW, GROUP)])
    world.hold(GROUP)
    assert world.remove() == [], "another run knows that it has its old name again"
    bases = {"mlcat.applied.other": "2:x:nM6rxxxxxx", "mlcat.applied.r": "2:id"}
    world = World(moved_to=NEW, renamed_back=[(NEW, GROUP)])
    world.hold(GROUP, customProperties={"mlcat.source": SOURCE, **bases})
    assert world.remove() == [GROUP], "of what the other recipe has, too, only ours goes"
    world = World()
    world.hold(GROUP)
    assert world.remove() == [GROUP]
    assert world.copied == []


def test_removed_groups_are_copied_after_the_living_one_the_newest_first() -> None:
    world = World(moved_to=NEW)
    removed = [group_urn(name) for name in "abc"]
    for urn, time in zip(removed, (2, 3, 1), strict=True):
        world.hold(urn, lastModified={"time": time})
        world.sink.put(urn, "status", {"removed": True})
    world.hold(GROUP)
    assert world.remove() == [GROUP], "what is removed counts in no limit"
    first, second, last = removed
    assert [old for old, _ in world.copied] == [GROUP, second, first, last]
    world.moved_to = None
    world.copied.clear()
    assert world.remove() == [GROUP], "a removed group that has no other name is nobody's business"
    assert world.copied == []


@pytest.mark.parametrize("source", ["other:x:", f"other:x:,{SOURCE}"])
def test_only_removed_groups_of_this_source_are_copied(source: str) -> None:
    world = World(moved_to=NEW, known=KnownEntities(unlisted=[GROUP, A]))
    world.hold(GROUP, A)
    for urn in (GROUP, A):
        world.sink.put(urn, "status", {"removed": True})
    home = {"customProperties": {"mlcat.source": source}}
    world.sink.put(GROUP, "mlModelGroupProperties", home)
    assert world.remove() == []
    assert world.copied == ([(GROUP, NEW)] if SOURCE in source else [])


def test_listed_urns_are_known_apart() -> None:
    urns = [model_urn(str(at)) for at in range(2_000)]
    listed = _ListedUrns(urns[::2])
    assert all(urn in listed for urn in urns[::2])
    assert not any(urn in listed for urn in urns[1::2])
    assert A not in _ListedUrns([])


@pytest.mark.parametrize(
    ("entity_types", "removed"),
    [(("mlModel", "mlModelGroup"), [GROUP]), (("mlModel",), []), (("service", "api"), [TOOL])],
)
def test_what_no_record_has_is_looked_at_where_the_state_has_its_base(
    entity_types: Sequence[str], removed: list[str]
) -> None:
    world = World(entity_types=entity_types)
    world.hold(GROUP)
    world.sink.put(TOOL, "apiProperties", {"name": "tool"})
    world.sink.not_indexed = {GROUP}
    world.known.bases = {GROUP: "2:id", TOOL: "2:id"}
    assert world.remove() == removed


@pytest.mark.parametrize(
    ("urn", "source", "is_from"),
    [
        (A, SOURCE, True),
        (A, "mlflow:b:", False),
        (A, None, False),
        ("urn:li:api:a", "mlflow:b:", False),
        ("urn:li:api:a", None, True),
    ],
)
def test_of_a_type_without_custom_properties_the_state_knows_the_source(
    urn: str, source: str | None, *, is_from: bool
) -> None:
    custom = {"mlcat.source": source} if source else {}
    assert _is_from(urn, custom, SOURCE) == is_from
