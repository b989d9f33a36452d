"""Conflicts entity by entity: probes, retractions, patches, and the aspects that are read."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest

from mlcat_ingest.client.base import CatalogFacts, StoredEntity
from mlcat_ingest.errors import AspectRejectedError, NotAuthorizedError
from mlcat_ingest.metadata.identity import Writer
from mlcat_ingest.metadata.proposal import Aspect, Entity, Proposal
from mlcat_ingest.pipeline.context import RunContext
from mlcat_ingest.pipeline.ledger import Ledger
from mlcat_ingest.pipeline.merge.entity import Merge, merge_entity
from mlcat_ingest.pipeline.merge.retract import retract_entity, whole_entity
from mlcat_ingest.pipeline.merge.rules import MergeRules
from mlcat_ingest.pipeline.report.report import Report
from mlcat_ingest.pipeline.report.tally import Tally
from mlcat_ingest.pipeline.run import PipelineRun, RunOptions
from mlcat_ingest.pipeline.state.session import StateSession
from mlcat_ingest.pipeline.write.conflicts import (
    ConflictGuard,
    PermittedReads,
    read_stored,
    write_again,
)
from mlcat_ingest.pipeline.write.delivery import Delivery
from support.fakes import FakeSink, FakeSource, group_urn, model_urn, once
from support.recipes import a_recipe, run

HOME, EDITED = "mlModelProperties", "editableMlModelProperties"
URN = model_urn("r")
TAG = "urn:li:tag:t"
NEVER = "999999999"
THEIRS = {"description": "theirs"}
ACTIVE = {"removed": False}

INGEST: Merge = partial(merge_entity, rules=MergeRules(Writer("test")))
OTHER: Merge = partial(merge_entity, rules=MergeRules(Writer("other")))
RETRACT: Merge = partial(retract_entity, writer=Writer("test"))


@dataclass
class Sink(FakeSink):
    """Keeps the aspects of its read requests."""

    place: str | None = "fake://catalog"
    asked: list[tuple[list[str], list[str]]] = field(default_factory=list)
    enforces: bool | None = None

    @property
    def facts(self) -> CatalogFacts:
        return replace(super().facts, enforces_conditions=self.enforces)

    def read_many(
        self, urns: Sequence[str], aspects: Collection[str]
    ) -> Mapping[str, StoredEntity]:
        self.asked.append((list(urns), sorted(aspects)))
        return super().read_many(urns, aspects)


def model(*groups: str, **aspects: Any) -> Entity:
    properties = {"groups": [group_urn(name) for name in groups]}
    return Entity(URN, {**aspects, HOME: {**properties, "name": "r"}})


def tagged(*names: str) -> Entity:
    return model("g", globalTags={"tags": [{"tag": f"urn:li:tag:{name}"} for name in names]})


def deliver(sink: FakeSink, *entities: Entity, merge: Merge = INGEST) -> Report:
    """Merge entities with what is stored, write them, and return the counts."""
    tally = Tally("test")
    delivery = Delivery(RunContext(sink, Ledger(tally)), merge)
    stored = read_stored(sink, StateSession(), entities)
    delivery.deliver([merge(one, stored.get(one.urn)) for one in entities])
    return tally.report()


def conditions(sink: FakeSink) -> list[list[str | None]]:
    """Return the version that each proposal of each write request names."""
    return [
        [None if one.headers is None else one.headers["If-Version-Match"] for one in proposals]
        for proposals in sink.writes
    ]


def retract(sink: Sink, **options: Any) -> Report:
    """Take back an ingested entity; count only the requests of that."""
    deliver(sink, model("g"))
    for name, value in options.items():
        setattr(sink, name, value)
    sink.writes.clear()
    sink.asked.clear()
    return deliver(sink, whole_entity(URN), merge=RETRACT)


# --- what is read --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entity", "aspects"),
    [
        (Entity(URN, {"ownership": {}}), [HOME, "ownership"]),
        (Entity(URN, {"ownership": {}}, only_if_absent=True), ["mlModelKey", HOME, "ownership"]),
        (Entity(TAG, {"tagProperties": {}}), ["tagKey", "tagProperties"]),
    ],
)
def test_the_key_is_read_where_it_alone_shows_that_an_entity_is_there(
    entity: Entity, aspects: list[str]
) -> None:
    sink = Sink()
    read_stored(sink, StateSession(), [entity])
    assert sink.asked == [([entity.urn], sorted(aspects))]


@pytest.mark.parametrize("only_if_absent", [True, False])
def test_a_reference_of_which_only_the_key_is_stored_is_left_alone(*, only_if_absent: bool) -> None:
    sink = Sink()
    sink.put(TAG, "status", {"removed": False})
    run(sink, Entity(TAG, {"tagProperties": {"name": "ours"}}, only_if_absent=only_if_absent))
    assert sink.writes == []


# --- the probe of conditions ---------------------------------------------------------------------


@pytest.mark.parametrize("checks", [True, False])
def test_a_run_of_many_batches_probes_once(*, checks: bool) -> None:
    sink = Sink(checks_versions=checks)
    run(sink, *(Entity(model_urn(f"r{n}"), {HOME: {"name": "r"}}) for n in range(401)))
    probes = [one for one in conditions(sink) if NEVER in one]
    assert probes == [[NEVER]]
    assert len(sink.stored) == 401


@pytest.mark.parametrize("checks", [True, False])
def test_a_catalog_whose_version_says_it_is_not_probed(*, checks: bool) -> None:
    sink = Sink(checks_versions=checks)
    sink.enforces = checks
    deliver(sink, model("g"))
    assert conditions(sink) == [["-1"] if checks else [None]]
    sink.before_write = lambda _: sink.put(URN, EDITED, THEIRS)
    # Without conditions each write is verified.
    sink.asked.clear()
    deliver(sink, model("h"))
    assert len(sink.asked) == (1 if checks else 2)


def test_a_key_aspect_has_no_condition_and_is_no_probe() -> None:
    key = {"id": "x", "entityType": "mlModel"}
    version_set = Entity("urn:li:versionSet:(x,mlModel)", {"versionSetKey": key})
    sink = Sink()
    alone = deliver(sink, replace(version_set, only_if_absent=True))
    assert conditions(sink) == [[None]]
    assert alone.unverified == 0
    tag = Entity(TAG, {"tagKey": {"name": "t"}, "tagProperties": {"name": "t"}})
    deliver(sink, model("g"), tag)
    assert conditions(sink)[1:] == [[NEVER], ["-1", None, "-1"]]


VERSION = {
    "versionSet": "urn:li:versionSet:(x,mlModel)",
    "version": {"versionTag": "1"},
    "sortId": "1",
    "comment": "new",
}


@pytest.mark.parametrize("gone", [[*VERSION], ["comment"]], ids=["deletion", "patch"])
def test_what_cannot_be_written_twice_is_never_sent_under_a_condition_that_cannot_hold(
    gone: Sequence[str],
) -> None:
    sink = Sink(checks_versions=False)
    deliver(sink, model("g", versionProperties=VERSION))
    stored = sink.stored[URN]
    stored["versionProperties"] = {**stored["versionProperties"], "isLatest": True}
    sink.writes.clear()
    deliver(sink, model("g", versionProperties=dict.fromkeys(gone)))
    assert not any(NEVER in one for one in conditions(sink))
    left = VERSION.keys() - gone
    assert stored.get("versionProperties", {}).keys() == (left and left | {"isLatest"})


def test_a_probe_that_is_refused_for_its_content_too_shows_that_conditions_are_checked() -> None:
    class Thorough(Sink):
        """Names the conflict of the last aspect only."""

        def write(self, proposals: Sequence[Proposal]) -> Sequence[AspectRejectedError]:
            first, *others = super().write(proposals)
            content = AspectRejectedError(
                urn=first.urn, aspect=first.aspect, status=422, reason="not liked"
            )
            return [content, *others]

    owner = {"owner": "urn:li:corpuser:u", "type": "DATAOWNER"}
    guard = ConflictGuard(RunContext(Thorough(), Ledger(Tally("test"))), INGEST)
    guard.learn([INGEST(model("g", ownership={"owners": [owner]}), None)])
    assert guard.checks


# --- entities that are hidden because nothing of others is on them -------------------------------


@pytest.mark.parametrize("checks", [True, False])
def test_an_entity_that_nobody_uses_is_hidden(*, checks: bool) -> None:
    sink = Sink()
    report = retract(sink, checks_versions=checks)
    assert sink.stored[URN]["status"] == {"removed": True}
    assert (report.conflicts, report.unverified) == (0, 0)
    assert len([one for one in conditions(sink) if NEVER not in one]) == 1


@pytest.mark.parametrize("checks", [True, False])
def test_an_entity_that_somebody_edits_while_it_is_hidden_is_shown_again(*, checks: bool) -> None:
    sink = Sink()
    edit = partial(sink.put, URN, EDITED, THEIRS)
    report = retract(sink, checks_versions=checks, before_write=lambda _: edit())
    assert sink.stored[URN]["status"] == {"removed": False}
    assert sink.stored[URN][EDITED] == THEIRS
    assert report.conflicts == 1
    # The status is written without a condition.
    assert (sink.writes[-1][0].aspect_name, conditions(sink)[-1][0]) == ("status", None)
    assert report.unverified == int(checks)


def test_a_lost_update_of_an_entity_that_is_hidden_shows_it_again() -> None:
    sink = Sink()
    deliver(sink, model("g"))
    stored = sink.stored[URN][HOME]
    edited = {**stored, "customProperties": {**stored["customProperties"], "theirs": "x"}}
    sink.enforces = False
    edits = [edited]

    def edit(_: object) -> None:
        if edits:
            sink.put(URN, HOME, edits.pop())

    sink.checks_versions = False
    sink.before_write = edit
    report = deliver(sink, whole_entity(URN), merge=RETRACT)
    assert sink.stored[URN]["status"] == {"removed": False}
    assert sink.stored[URN][HOME]["customProperties"] == {"theirs": "x"}
    assert (report.conflicts, report.unverified) == (1, 0)


def test_where_conditions_are_checked_no_history_is_read() -> None:
    sink = Sink()

    def edit() -> None:
        sink.history = {}  # to look into it is an error
        sink.stored[URN][HOME] = {**sink.stored[URN][HOME], **THEIRS}
        sink.versions[URN, HOME] += 1

    report = retract(sink, before_read=once(edit, at=2))
    assert sink.stored[URN]["status"] == {"removed": False}
    assert sink.stored[URN][HOME]["description"] == "theirs"
    assert report.conflicts == 1


def test_a_hidden_entity_that_somebody_deletes_is_not_made_again() -> None:
    sink = Sink()

    # The last read is that of the entity after it was hidden.
    def delete() -> None:
        sink.stored.clear()

    retract(sink, before_read=once(delete, at=2))
    assert sink.stored == {}


def test_a_hidden_entity_whose_status_is_gone_stays_as_it_is() -> None:
    sink = Sink()

    def restore() -> None:
        sink.put(URN, EDITED, THEIRS)
        del sink.stored[URN]["status"]

    retract(sink, before_read=once(restore, at=2))
    assert "status" not in sink.stored[URN]


def test_an_entity_that_the_source_removed_stays_hidden_whoever_edits_it() -> None:
    sink = Sink()
    deliver(sink, model("g"))
    sink.put(URN, EDITED, THEIRS)
    sink.writes.clear()
    sink.asked.clear()
    deliver(sink, model("g", status={"removed": True}))
    assert sink.stored[URN]["status"] == {"removed": True}
    # Nor is it read to see who did.
    assert [urns for urns, aspects in sink.asked if EDITED in aspects] == []
    assert len([one for one in conditions(sink) if NEVER not in one]) == 1


def test_an_entity_that_is_not_hidden_is_not_read_after_its_write() -> None:
    sink = Sink()
    deliver(sink, model("g"))
    assert len(sink.asked) == 1


# --- lost updates --------------------------------------------------------------------------------


def test_an_edit_after_our_first_write_is_no_reason_to_write_again() -> None:
    sink = Sink(checks_versions=False)
    sink.enforces = False

    def edit() -> None:
        sink.put(URN, HOME, {**sink.stored[URN][HOME], "description": "theirs"})

    sink.before_read = once(edit, at=2)
    report = deliver(sink, model("g"))
    assert report.conflicts == 1
    assert len(sink.writes) == 1
    assert sink.stored[URN][HOME]["description"] == "theirs"


def test_a_patch_that_restores_is_one_of_what_is_stored() -> None:
    """Lost: an alias. Ours: the sort id, which the other writer changed too."""
    ours = {
        "versionSet": "urn:li:versionSet:(x,mlModel)",
        "version": {"versionTag": "1"},
        "sortId": "1",
        "aliases": [{"versionTag": "a"}],
    }
    sink = Sink(checks_versions=False)
    deliver(sink, model("g", versionProperties=ours))
    computed = {**sink.stored[URN]["versionProperties"], "isLatest": True}
    sink.put(URN, "versionProperties", computed)
    theirs = {**computed, "sortId": "9", "aliases": [{"versionTag": "a"}, {"versionTag": "t"}]}
    sink.enforces = False
    writes: list[object] = []

    def edit(proposals: object) -> None:
        writes.append(proposals)
        if len(writes) == 1:
            sink.put(URN, "versionProperties", theirs)

    sink.before_write = edit
    fresh = {**ours, "sortId": "2", "aliases": [{"versionTag": "a"}, {"versionTag": "b"}]}
    report = deliver(sink, model("g", versionProperties=fresh))
    stored = sink.stored[URN]["versionProperties"]
    assert stored["sortId"] == "2"
    assert sorted(one["versionTag"] for one in stored["aliases"]) == ["a", "b", "t"]
    assert stored["isLatest"] is True
    assert report.conflicts == 1


def test_where_the_service_stores_another_text_the_last_version_counts_as_ours() -> None:
    class Normalising(Sink):
        """Stores a number in what was sent: the version of its format."""

        def _patched(self, one: Proposal) -> Proposal:
            return replace(one, aspect={**one.aspect, "format": len(self.writes)})

    sink = Normalising(checks_versions=False)
    sink.enforces = False
    deliver(sink, model("g"))
    stored = sink.stored[URN][HOME]
    added = [group_urn("c"), group_urn("d")]
    edits = [
        {**stored, "groups": [*stored["groups"], *added], "description": "theirs"},
        {**stored, "groups": [*stored["groups"], *added[:1]]},
    ]

    def edit(_: object) -> None:
        while edits:
            sink.put(URN, HOME, edits.pop())

    sink.before_write = edit
    assert deliver(sink, model("h")).conflicts > 0
    assert set(sink.stored[URN][HOME]["groups"]) == {group_urn("h"), *added}
    assert sink.stored[URN][HOME]["description"] == "theirs"


def put_as_other(sink: Sink, entity: Entity) -> None:
    """Store an entity as another recipe would write it."""
    [stored] = read_stored(sink, StateSession(), [entity]).values()
    for one in OTHER(entity, stored).proposals:
        sink.put(URN, one.aspect_name, one.aspect)


def test_an_entry_that_another_recipe_came_to_share_meanwhile_stays() -> None:
    sink = Sink(checks_versions=False)
    sink.enforces = False
    deliver(sink, tagged("a", "b"))
    sink.before_write = once(lambda: put_as_other(sink, tagged("b")), at=1)
    deliver(sink, tagged("a"))
    assert sink.stored[URN]["globalTags"] == tagged("a", "b").aspects["globalTags"]
    deliver(sink, tagged("b"), merge=OTHER)
    assert sink.stored[URN]["globalTags"] == tagged("a", "b").aspects["globalTags"]


def test_an_entry_whose_base_a_repair_loses_is_nobodys_and_goes() -> None:
    sink = Sink(checks_versions=False)
    sink.enforces = False
    deliver(sink, tagged("a"))
    deliver(sink, tagged(), merge=OTHER)
    edited = sink.stored[URN][HOME]

    def add_and_go_over() -> None:
        put_as_other(sink, tagged("x"))
        # Somebody who had read the properties before puts the older base back.
        sink.put(URN, HOME, {**edited, "description": "a person's"})

    sink.before_write = once(add_and_go_over, at=1)
    deliver(sink, tagged("a", "b"))
    assert sink.stored[URN]["globalTags"] == tagged("a", "b").aspects["globalTags"]
    assert sink.stored[URN][HOME]["description"] == "a person's"
    deliver(sink, tagged("x"), merge=OTHER)
    deliver(sink, tagged(), merge=OTHER)
    assert sink.stored[URN]["globalTags"] == tagged("a", "b").aspects["globalTags"]


@dataclass
class Computing(Sink):
    """Computes a field of owners, as DataHub does."""

    def _put(self, urn: str, aspect: str, value: Aspect, *metadata: Any) -> None:
        computed: Aspect = {"ownerTypes": {}} if aspect == "ownership" else {}
        super()._put(urn, aspect, {**value, **computed}, *metadata)


@pytest.mark.parametrize("aspect", ["globalTags", "ownership"])
def test_what_another_recipe_adds_after_an_equal_value_of_ours_stays(aspect: str) -> None:
    def with_(*names: str, group: str = "g") -> Entity:
        tags = {"tags": [{"tag": f"urn:li:tag:{name}"} for name in names]}
        users = [f"urn:li:corpuser:{name}" for name in names]
        owners = {"owners": [{"owner": user, "type": "DATAOWNER"} for user in users]}
        return model(group, **{aspect: tags if aspect == "globalTags" else owners})

    sink = Computing(checks_versions=False)
    sink.enforces = False
    other: Merge = partial(merge_entity, rules=MergeRules(Writer("other")))
    deliver(sink, with_("a"))
    entities: list[Entity] = [with_("a", "b")]

    def add(_: object) -> None:
        while sink.writes and entities:
            entity = entities.pop()
            [stored] = read_stored(sink, StateSession(), [entity]).values()
            for one in other(entity, stored).proposals:
                sink.put(URN, one.aspect_name, one.aspect)

    entity = with_("a", group="h")
    [stored] = read_stored(sink, StateSession(), [entity]).values()
    sink.writes.clear()
    sink.before_read = add
    again = write_again(INGEST(entity, stored))
    assert aspect in {one.aspect_name for one in again.proposals}
    Delivery(RunContext(sink, Ledger(Tally("test"))), INGEST).deliver([again])
    assert with_("a", "b").aspects[aspect].items() <= sink.stored[URN][aspect].items()


def test_an_aspect_that_somebody_puts_back_is_deleted_again() -> None:
    version = {
        "versionSet": "urn:li:versionSet:(x,mlModel)",
        "version": {"versionTag": "1"},
        "sortId": "1",
    }
    sink = Sink(checks_versions=False)
    sink.enforces = False
    deliver(sink, model("g", versionProperties=version))

    def restore() -> None:
        sink.put(URN, "versionProperties", version)
        sink.put(URN, HOME, {**sink.stored[URN][HOME], **THEIRS})

    sink.before_read = once(restore, at=2)
    deliver(sink, model("g", versionProperties=dict.fromkeys(version)))
    assert "versionProperties" not in sink.stored[URN]
    assert sink.stored[URN][HOME]["description"] == "theirs"


def test_twenty_versions_of_an_aspect_are_read_at_most() -> None:
    sink = Sink(checks_versions=False)
    sink.enforces = False
    deliver(sink, model("g"))
    requests: list[int] = []
    get_aspect = sink.get_aspect

    def count(urn: str, aspect: str, version: int = 0) -> Aspect | None:
        requests.append(version)
        return get_aspect(urn, aspect, version)

    sink.get_aspect = count  # type: ignore[method-assign]
    edits = iter(range(30))

    def edit(_: object) -> None:
        for number in edits:
            stored = sink.stored[URN][HOME]
            sink.put(URN, HOME, {**stored, "description": str(number)})

    sink.before_write = edit
    assert deliver(sink, model("h")).unverified == 1
    assert len(requests) == 20
    assert sink.stored[URN][HOME]["description"] == "29"


def models(*names: str) -> list[Entity]:
    return [Entity(model_urn(name), {HOME: {"name": name}, "status": ACTIVE}) for name in names]


def test_after_a_read_that_found_nothing_the_key_says_which_are_there() -> None:
    sink = Sink()
    reads = PermittedReads(sink, StateSession())
    assert reads.read(models("a", "b")) == ({}, [])
    assert reads.read(models("c", "d")) == ({}, [])
    sink.put(model_urn("f"), HOME, THEIRS)
    stored, _ = reads.read(models("e", "f"))
    assert {urn: one[HOME].value for urn, one in stored.items()} == {model_urn("f"): THEIRS}
    sink.put(model_urn("g"), HOME, THEIRS)
    assert [*reads.read(models("g", "h"))[0]] == [model_urn("g")]
    names = [HOME, "status", "versionProperties"]
    assert [([urn.split(",")[1] for urn in urns], names_) for urns, names_ in sink.asked] == [
        (["a", "b"], names),
        (["c", "d"], ["mlModelKey"]),
        (["e", "f"], ["mlModelKey"]),
        (["f"], names),
        (["g", "h"], names),
    ]


def test_what_a_read_of_one_type_found_says_nothing_of_another() -> None:
    sink = Sink()
    reads = PermittedReads(sink, StateSession())
    groups = [Entity(group_urn(name), {"status": ACTIVE}) for name in "ab"]
    for entities in (models("a"), groups[:1], models("b"), groups[1:]):
        assert reads.read(entities) == ({}, [])
    keys = [names for _, names in sink.asked if len(names) == 1]
    assert keys == [["mlModelKey"], ["mlModelGroupKey"]]


def test_an_entity_whose_key_is_lost_is_not_overwritten() -> None:
    class Keyless(Sink):
        def read_many(self, urns: Sequence[str], aspects: Collection[str]) -> Any:
            found = super().read_many(urns, set(aspects) - {"mlModelKey"})
            return {urn: entity for urn, entity in found.items() if entity}

    sink = Keyless(enforces=True)
    sink.put(model_urn("b"), HOME, THEIRS)
    pages = [models("a", *(f"a{number}" for number in range(200))), models("b")]
    options = RunOptions(a_recipe("test"))
    report = PipelineRun([FakeSource(pages)], sink, options).execute()
    assert (report.conflicts, report.exit_code) == (1, 0)
    kept = sink.stored[model_urn("b")][HOME]
    assert (kept["name"], kept["description"]) == ("b", "theirs")


class Denying(Sink):
    """Denies a read of any of its `denied` URNs, as DataHub does: all of it, naming none."""

    def __init__(self, denied: Collection[str]) -> None:
        super().__init__()
        self.denied = frozenset(denied)
        self.calls_made = 0

    def read_many(self, urns: Sequence[str], aspects: Collection[str]) -> Any:
        self.calls_made += 1
        if self.denied.intersection(urns):
            raise NotAuthorizedError("refused", context={"reason": "403 no"})
        return super().read_many(urns, aspects)


def test_entities_that_may_not_be_read_are_found_by_halving() -> None:
    entities = [Entity(model_urn(str(n)), {"status": {"removed": False}}) for n in range(200)]
    sink = Denying([entities[117].urn])
    _, denied = PermittedReads(sink, StateSession()).read(entities)
    assert [one.merged.urn for one in denied] == [entities[117].urn]
    assert denied[0].refusals[0].reason == "403 no"
    assert sink.calls_made <= 17


def test_a_token_that_may_read_nothing_ends_soon() -> None:
    entities = [Entity(model_urn(str(n)), {"status": {"removed": False}}) for n in range(200)]
    sink = Denying([one.urn for one in entities])
    with pytest.raises(NotAuthorizedError):
        PermittedReads(sink, StateSession()).read(entities)
    assert sink.calls_made <= 17
