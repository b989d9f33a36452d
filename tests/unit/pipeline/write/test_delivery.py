"""Writing over nobody's write: versions, conflicts, and entities of which a part is refused."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from mlcat_ingest.client.base import CatalogFacts
from mlcat_ingest.errors import AspectRejectedError, CatalogUnavailableError
from mlcat_ingest.metadata.identity import Writer
from mlcat_ingest.metadata.proposal import Entity, Proposal
from mlcat_ingest.net.session import LATE, TIMEOUTS
from mlcat_ingest.pipeline.context import RunContext
from mlcat_ingest.pipeline.flow import Cancellation
from mlcat_ingest.pipeline.ledger import Ledger
from mlcat_ingest.pipeline.merge.applied import decode, text_of_keys
from mlcat_ingest.pipeline.merge.entity import merge_entity
from mlcat_ingest.pipeline.merge.rules import MergeRules
from mlcat_ingest.pipeline.outcome import Outcome
from mlcat_ingest.pipeline.report.report import EntityCounts
from mlcat_ingest.pipeline.report.tally import Tally
from mlcat_ingest.pipeline.run import PipelineRun, RunOptions
from mlcat_ingest.pipeline.state.session import StateSession
from mlcat_ingest.pipeline.write import delivery
from mlcat_ingest.pipeline.write.conflicts import read_stored, write_again
from mlcat_ingest.pipeline.write.delivery import ROUNDS, Delivery
from support.fakes import FakeSink, FakeSource, group_urn, model_urn, once
from support.recipes import a_recipe, run

HOME = "mlModelProperties"
A, B, C = map(group_urn, "abc")
NEVER = {"If-Version-Match": "999999999"}

# Where no versions are checked: one read to merge, one to see that the probe is stored, and this.
AFTER_OUR_WRITE = 3


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlcat_ingest.pipeline.write.delivery.PAUSE_S", 0)
    monkeypatch.setattr("mlcat_ingest.pipeline.write.read_back.PAUSE_S", 0)


def model(name: str, *groups: str, **aspects: Any) -> Entity:
    return Entity(model_urn(name), {**aspects, HOME: {"groups": list(groups)}})


def owned(name: str) -> Entity:
    owner = {"owner": "urn:li:corpuser:u", "type": "DATAOWNER"}
    return model(name, A, ownership={"owners": [owner]})


def a_sink(**options: Any) -> FakeSink:
    return FakeSink(place="fake://catalog", **options)


def groups(sink: FakeSink, name: str) -> list[str]:
    found: list[str] = sink.stored[model_urn(name)][HOME]["groups"]
    return found


def base(sink: FakeSink, name: str) -> Any:
    return decode(sink.stored[model_urn(name)][HOME]["customProperties"]["mlcat.applied.test"])


def headers(writes: Sequence[Proposal]) -> list[str | None]:
    return [None if one.headers is None else one.headers["If-Version-Match"] for one in writes]


def meddling(sink: FakeSink) -> Callable[..., None]:
    """Return a hook of somebody who puts `r` into one more group each time."""
    count = iter(range(1000))

    def meddle(*_: object) -> None:
        sink.put(model_urn("r"), HOME, {"groups": [A, group_urn(f"x{next(count)}")]})

    return meddle


# --- where versions are checked ------------------------------------------------------------------


def test_every_write_waits_for_the_version_that_was_read() -> None:
    sink = a_sink()
    run(sink, owned("r"))
    probe, first = sink.writes
    assert [one.headers for one in probe] == [NEVER, NEVER]
    assert headers(first) == ["-1", "-1"]
    sink.writes.clear()
    report = run(sink, model("r", B))
    assert headers(sink.writes[1]) == ["1"]
    assert groups(sink, "r") == [B]
    assert (report.conflicts, report.unverified, report.exit_code) == (0, 0, 0)


def test_the_probe_is_an_entity_that_one_proposal_is_all_of() -> None:
    sink = a_sink()
    run(sink, owned("r"), model("s", A))
    [probe] = sink.writes[0]
    assert (probe.entity_urn, probe.aspect_name) == (model_urn("s"), HOME)


def test_a_run_that_ends_after_its_probe_leaves_no_entry_without_its_base() -> None:
    def fail() -> None:
        raise CatalogUnavailableError("gone")

    sink = a_sink(checks_versions=False)
    sink.before_write = once(fail, at=2)
    assert run(sink, owned("r")).exit_code == 1
    assert sink.stored[model_urn("r")]["ownership"]["owners"]
    run(sink, model("r", A, ownership={"owners": []}))
    assert sink.stored[model_urn("r")]["ownership"]["owners"] == []


def test_nothing_is_probed_where_nothing_is_written_or_held() -> None:
    sink = a_sink()
    run(sink, model("r", A))
    sink.writes.clear()
    run(sink, model("r", A))
    assert sink.writes == []
    plain = FakeSink()
    run(plain, model("r", A))
    assert [headers(writes) for writes in plain.writes] == [[None]]


def test_what_somebody_wrote_in_between_is_read_and_merged_again() -> None:
    sink = a_sink()
    run(sink, model("r", A), model("calm", A))
    theirs = {**sink.stored[model_urn("r")][HOME], "groups": [C, A]}
    sink.before_write = once(lambda: sink.put(model_urn("r"), HOME, theirs), at=2)
    report = run(sink, model("r", B), model("calm", B))
    assert groups(sink, "r") == [C, B]
    assert groups(sink, "calm") == [B]
    assert base(sink, "r") == {HOME: {"groups": text_of_keys((B,))}}
    assert report.entities == {"mlModel": EntityCounts(read=2, updated=2)}
    assert (report.conflicts, report.exit_code) == (1, 0)


def test_an_entity_that_never_keeps_still_is_given_up() -> None:
    sink = a_sink()
    run(sink, model("r", A), model("calm", A))
    sink.before_write = meddling(sink)
    report = run(sink, model("r", B), model("calm", B))
    assert report.entities == {"mlModel": EntityCounts(read=2, updated=1, rejected=1)}
    assert report.exit_code == 4
    assert "conflict with another writer after" in report.rejected_examples[0].reason
    assert report.conflicts == ROUNDS - 1  # after the last one nobody reads again
    assert groups(sink, "calm") == [B]
    assert B not in groups(sink, "r")


def test_a_request_that_was_sent_twice_meets_what_it_wrote_and_counts_once() -> None:
    sink = a_sink()

    class Lossy(FakeSink):
        def write(self, proposals: Sequence[Proposal]) -> Any:
            # The reply to the first attempt is lost, and the client sends the same again.
            if proposals[0].headers != NEVER:
                super().write(proposals)
            return super().write(proposals)

    sink = Lossy(place="fake://catalog")
    report = run(sink, owned("r"), owned("s"))
    assert report.entities == {"mlModel": EntityCounts(read=2, created=2)}
    assert (report.conflicts, report.exit_code) == (0, 0)
    assert sink.versions == {
        (model_urn(name), aspect): 1 for name in "rs" for aspect in (HOME, "ownership")
    }


class Enforcing(FakeSink):
    """A catalog that is known to check versions."""

    @property
    def facts(self) -> CatalogFacts:
        return replace(super().facts, enforces_conditions=True)


@pytest.mark.parametrize("stored_after", [1, 3, None])
@pytest.mark.parametrize("status", sorted(TIMEOUTS))
def test_after_a_timeout_what_is_stored_is_read_before_half_is_sent_again(
    stored_after: int | None, status: int
) -> None:
    events: list[tuple[str, int]] = []
    under_way: list[Proposal] = []

    class Slow(Enforcing):
        def read_many(self, urns: Sequence[str], aspects: Any) -> Any:
            events.append(("read", len(urns)))
            return super().read_many(urns, aspects)

        def read_stamps(self, urns: Sequence[str], aspects: Any) -> Any:
            events.append(("look", len(urns)))
            if events.count(("look", 1)) == stored_after:
                assert not super().write(under_way)
            return super().read_stamps(urns, aspects)

        def write(self, proposals: Sequence[Proposal]) -> Any:
            events.append(("write", len({one.entity_urn for one in proposals})))
            if len(events) > 2:
                return super().write(proposals)
            under_way.extend(proposals)
            raise CatalogUnavailableError("Read timed out.", context={"status": status})

    sink = Slow(place="fake://catalog", batch_size=4)
    report = run(sink, *(model(name, A) for name in "rstu"))
    assert (report.conflicts, report.exit_code) == (0, 0)
    assert report.entities == {"mlModel": EntityCounts(read=4, created=4)}
    assert set(sink.versions.values()) == {1}
    looks = [("look", 1)] * (stored_after or 5)
    # Equal values too, with the key: the search index may not know of what was under way.
    parts = [("write", 2)] * 2 if stored_after is None else [("write", 1)] * 4
    assert events[:-1] == [("read", 4), ("write", 4), *looks, ("read", 4), *parts]


def test_a_batch_is_awaited_for_as_long_again_as_its_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = SimpleNamespace(now_s=0.0)
    pauses: list[float] = []

    class Slow(Enforcing):
        def write(self, proposals: Sequence[Proposal]) -> Any:
            if not clock.now_s:
                clock.now_s = 64.0
                raise CatalogUnavailableError("Read timed out.", context={"status": LATE})
            return super().write(proposals)

    monkeypatch.setattr(delivery, "time", SimpleNamespace(monotonic=lambda: clock.now_s))
    monkeypatch.setattr(Cancellation, "pause", lambda _, seconds: pauses.append(seconds))
    assert run(Slow(place="fake://catalog"), model("r", A)).exit_code == 0
    assert pauses == [2, 4, 8, 16, 32, 0]


@pytest.mark.parametrize(
    ("most", "took_s", "sizes"),
    # What is read together is cut by the size of that moment.
    [
        (200, [5], [200] * 4),
        (200, [10], [200, 100, 100, 200, 200]),
        (200, [10, 2], [200, 100, 100, 200, 200]),
        (200, [10, 3, 3, 3, 3, 1], [200, *[100] * 6]),
        (200, [5_000], [200, *[20] * 10, 200, 200]),
        (1_000, [2], [200] * 2 + [400]),
        (300, [1], [200, 300, 300]),
    ],
)
def test_the_size_of_batches_follows_the_time_that_they_take(
    most: int, took_s: list[int], sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(now_s=0)
    times = iter(took_s)
    written: list[int] = []

    class Slow(Enforcing):
        @property
        def facts(self) -> CatalogFacts:
            return replace(super().facts, connections=1)

        def write(self, proposals: Sequence[Proposal]) -> Any:
            clock.now_s += next(times, 0)
            written.append(len(proposals))
            return super().write(proposals)

    monkeypatch.setattr(delivery, "time", SimpleNamespace(monotonic=lambda: clock.now_s))
    entities = [model(f"r{n}", A) for n in range(800)]
    report = run(Slow(place="fake://catalog", batch_size=most), *entities)
    assert report.entities["mlModel"].created == 800
    assert written == sizes


def test_a_catalog_that_never_answers_in_time_ends_the_run() -> None:
    writes: list[int] = []

    class Dead(Enforcing):
        def write(self, proposals: Sequence[Proposal]) -> Any:
            writes.append(len(proposals))
            raise CatalogUnavailableError("Read timed out.", context={"status": LATE})

    report = run(Dead(place="fake://catalog"), model("r", A), model("s", A))
    assert (report.exit_code, report.rejected) == (1, 0)
    assert len(writes) == ROUNDS


def test_a_reference_that_somebody_else_made_first_is_left_to_them() -> None:
    tag = Entity("urn:li:tag:t", {"tagProperties": {"name": "ours"}}, only_if_absent=True)
    sink = a_sink()
    sink.before_write = once(lambda: sink.put(tag.urn, "tagProperties", {"name": "theirs"}), at=2)
    assert run(sink, tag).exit_code == 0
    assert sink.stored[tag.urn]["tagProperties"] == {"name": "theirs"}


def test_an_aspect_without_a_version_counts_as_the_first() -> None:
    # DataHub: ConditionalWriteValidator compares it as 1.
    sink = a_sink()
    run(sink, model("r", A))
    sink.tells_versions = False
    report = run(sink, model("r", B))
    assert headers(sink.writes[-1]) == ["1"]
    assert groups(sink, "r") == [B]
    assert (report.conflicts, report.unverified) == (0, 0)


def test_pauses_between_conflicts_grow_until_a_replica_has_caught_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sink = a_sink()
    run(sink, model("r", A))
    monkeypatch.setattr("mlcat_ingest.pipeline.write.delivery.PAUSE_S", 0.02)
    pauses: list[float] = []
    monkeypatch.setattr(Cancellation, "pause", lambda _, seconds: pauses.append(seconds))
    sink.before_write = meddling(sink)
    assert run(sink, model("r", B)).exit_code == 4
    assert len(pauses) == ROUNDS - 1
    assert pauses[0] < 0.1
    assert pauses == sorted(pauses)
    assert 20 < sum(pauses) < 60


def test_what_others_write_during_a_pause_is_no_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = a_sink()
    run(sink, model("r", A))
    meddle = meddling(sink)
    sink.before_write = once(meddle, at=2)
    monkeypatch.setattr(Cancellation, "pause", meddle)
    report = run(sink, model("r", B))
    assert (report.conflicts, report.exit_code) == (1, 0)
    assert groups(sink, "r") == [A, group_urn("x1"), B]


# --- where versions are not checked --------------------------------------------------------------


def test_a_write_that_is_taken_under_an_impossible_condition_shows_that_none_is_checked() -> None:
    sink = a_sink(checks_versions=False)
    report = run(sink, owned("r"), model("s", A))
    probe, batch = sink.writes
    assert headers(probe) == ["999999999"]
    assert headers(batch) == [None, None, None]
    assert report.entities == {"mlModel": EntityCounts(read=2, created=2)}
    assert (report.conflicts, report.unverified) == (0, 0)
    assert run(sink, owned("r"), model("s", A)).proposals_sent == 0


def test_what_our_write_went_over_is_restored_from_the_history() -> None:
    sink = a_sink(checks_versions=False)
    run(sink, model("r", A), model("calm", A))
    old = sink.stored[model_urn("r")][HOME]
    theirs = {
        **old,
        "groups": [A, C],
        "customProperties": {**old["customProperties"], "reviewed": "yes"},
        "description": "theirs",
    }
    sink.before_write = once(lambda: sink.put(model_urn("r"), HOME, theirs), at=2)
    report = run(sink, model("calm", B), model("r", B))
    stored = sink.stored[model_urn("r")][HOME]
    assert sorted(stored["groups"]) == sorted([B, C])
    assert stored["customProperties"]["reviewed"] == "yes"
    assert stored["description"] == "theirs"
    assert base(sink, "r") == {HOME: {"groups": text_of_keys((B,))}}
    assert report.entities == {"mlModel": EntityCounts(read=2, updated=2)}
    assert (report.conflicts, report.unverified, report.exit_code) == (1, 0, 0)


@pytest.mark.parametrize("has_history", [True, False])
def test_what_went_over_our_write_is_merged_again_without_history_unverified(
    *, has_history: bool
) -> None:
    sink = a_sink(checks_versions=False)
    run(sink, model("r", A))
    theirs = {**sink.stored[model_urn("r")][HOME], "groups": [A, C]}
    sink.history = sink.history if has_history else None
    sink.before_read = once(lambda: sink.put(model_urn("r"), HOME, theirs), at=AFTER_OUR_WRITE)
    report = run(sink, model("r", B))
    assert groups(sink, "r") == [C, B]
    assert (report.conflicts, report.unverified) == (1, 0 if has_history else 1)


def test_a_base_of_ours_that_another_writer_restored_does_not_go_over_the_one_of_now() -> None:
    sink = a_sink(checks_versions=False)
    run(sink, model("r", A))
    ours = sink.stored[model_urn("r")][HOME]
    sink.put(model_urn("r"), HOME, {"groups": [A]})
    sink.before_write = once(lambda: sink.put(model_urn("r"), HOME, ours), at=1)
    run(sink, model("r", A, B))
    assert groups(sink, "r") == [A, B]
    assert base(sink, "r") == {HOME: {"groups": text_of_keys((A, B))}}


def test_what_others_took_away_stays_away() -> None:
    sink = a_sink(checks_versions=False)
    sink.put(model_urn("r"), HOME, {"groups": [C], "description": "d"})
    run(sink, model("r", A))
    old = sink.stored[model_urn("r")][HOME]
    theirs = {"groups": [A], "customProperties": old["customProperties"]}
    sink.before_write = once(lambda: sink.put(model_urn("r"), HOME, theirs), at=1)
    run(sink, model("r", B))
    assert groups(sink, "r") == [B]
    assert "description" not in sink.stored[model_urn("r")][HOME]


@pytest.mark.parametrize("kept", [range(24, 40), range(1, 40)], ids=["some", "more than are read"])
def test_of_versions_between_what_is_kept_is_restored_and_the_rest_unverified(
    kept: range,
) -> None:
    sink = a_sink(checks_versions=False)
    run(sink, model("r", A))
    old = sink.stored[model_urn("r")][HOME]
    many = [group_urn(f"g{n}") for n in range(30)]

    def write_often() -> None:
        for count in range(1, 31):
            sink.put(model_urn("r"), HOME, {**old, "groups": [A, *many[:count]]})

    sink.before_write = once(write_often, at=1)
    get_aspect = sink.get_aspect
    sink.get_aspect = lambda urn, aspect, version=0: (  # type: ignore[method-assign]
        get_aspect(urn, aspect, version) if version >= kept.start else None
    )
    report = run(sink, model("r", B))
    assert {*groups(sink, "r")} == {B, *many}
    assert (report.unverified, report.exit_code) == (1, 0)


def test_where_no_versions_are_reported_either_the_report_says_unverified() -> None:
    sink = a_sink(checks_versions=False, tells_versions=False)
    assert run(sink, model("r", A), model("s", A)).unverified == 2
    assert run(sink, model("r", B)).unverified == 1


def test_what_cannot_be_read_back_costs_a_note() -> None:
    sink = a_sink()
    sink.before_read = once(_cannot_be_read, at=2)
    report = run(sink, model("r", A))
    assert (report.exit_code, report.dropped) == (0, {})
    assert report.notes == {"not_read_back": 1}


def _cannot_be_read() -> None:
    raise CatalogUnavailableError("it is down")


def test_a_urn_without_an_environment_is_read_back_too() -> None:
    odd = Entity("urn:li:mlModel:odd", {HOME: {"groups": [A]}})
    report = run(a_sink(), odd)
    assert (report.exit_code, report.dropped) == (0, {})


def test_an_aspect_that_is_gone_after_our_write_is_left_alone() -> None:
    sink = a_sink(checks_versions=False)
    sink.before_read = once(sink.stored.clear, at=AFTER_OUR_WRITE)
    report = run(sink, model("r", A))
    assert sink.stored == {}
    assert report.dropped == {"mlModel in PROD: the entity": 1}


# --- what is refused -----------------------------------------------------------------------------


def test_the_aspect_at_fault_stands_alone_and_is_in_no_base() -> None:
    sink = a_sink(refuse={(model_urn("bad"), "ownership")})
    report = run(sink, owned("good"), owned("bad"))
    assert report.exit_code == 4
    assert report.entities == {"mlModel": EntityCounts(read=2, created=1, rejected=1)}
    [refused] = report.rejected_examples
    assert (refused.reference, refused.reason) == (model_urn("bad"), "ownership: 422 not liked")
    assert list(sink.stored[model_urn("bad")]) == [HOME]
    assert base(sink, "bad") == {HOME: {"groups": text_of_keys((A,))}}
    assert list(base(sink, "good")) == [HOME, "ownership"]
    sink.refuse = ()
    assert run(sink, owned("bad")).exit_code == 0
    assert list(base(sink, "bad")) == [HOME, "ownership"]


def test_without_its_properties_an_entity_has_no_base_and_is_refused_whole() -> None:
    sink = a_sink(refuse={(model_urn("bad"), HOME)})
    report = run(sink, owned("good"), owned("bad"))
    assert report.entities == {"mlModel": EntityCounts(read=2, created=1, rejected=1)}
    assert model_urn("bad") not in sink.stored


def test_an_entity_whose_parts_all_arrive_one_by_one_has_arrived() -> None:
    class TooMuchAtOnce(FakeSink):
        def _problem(self, urn: str, entity: Sequence[Proposal]) -> str | None:
            both = {one.aspect_name for one in entity} >= {"ownership", "globalTags"}
            return "too much at once" if both else super()._problem(urn, entity)

    sink = TooMuchAtOnce(place="fake://catalog")
    entity = owned("r")
    tagged = Entity(
        entity.urn, {"globalTags": {"tags": [{"tag": "urn:li:tag:t"}]}, **entity.aspects}
    )
    report = run(sink, tagged)
    assert report.entities == {"mlModel": EntityCounts(read=1, created=1)}
    assert set(sink.stored[entity.urn]) == {HOME, "ownership", "globalTags"}
    assert set(base(sink, "r")) == {HOME, "ownership", "globalTags"}


def test_aspects_without_a_word_about_the_properties_are_tried_one_by_one_too() -> None:
    sink = a_sink(refuse={(model_urn("r"), "ownership")})
    tags = {"tags": [{"tag": "urn:li:tag:t"}]}
    owners = owned("r").aspects["ownership"]
    report = run(sink, Entity(model_urn("r"), {"ownership": owners, "globalTags": tags}))
    assert report.exit_code == 4
    assert sink.stored[model_urn("r")]["globalTags"] == tags
    assert list(base(sink, "r")) == ["globalTags"]


def test_the_probe_learns_nothing_from_what_is_refused_for_what_it_says() -> None:
    class ContentFirst(FakeSink):
        def _has_moved(self, proposal: Proposal) -> bool:
            return proposal.entity_urn not in self.refuse and super()._has_moved(proposal)

    sink = ContentFirst(place="fake://catalog", refuse={model_urn("bad")})
    pages = [[model("bad", A)], [model(f"r{n}", A) for n in range(200)]]
    PipelineRun(
        [FakeSource([page]) for page in pages], sink, RunOptions(a_recipe("test"))
    ).execute()
    probes = [writes[0].entity_urn for writes in sink.writes if writes[0].headers == NEVER]
    assert probes == [model_urn("bad"), model_urn("r0")]


# --- what is known of an entity after its write --------------------------------------------------


def deliver(sink: FakeSink, *entities: Entity) -> dict[str, Outcome]:
    """Deliver entities, and return the outcomes by URN."""
    merge = partial(merge_entity, rules=MergeRules(Writer("test")))
    delivery = Delivery(RunContext(sink, Ledger(Tally("test"))), merge)
    stored = read_stored(sink, StateSession(), entities)
    merged = [merge(one, stored.get(one.urn)) for one in entities]
    return {one.merged.urn: one for one in delivery.deliver(merged)}


def test_an_outcome_is_exact_where_the_catalog_checks_versions() -> None:
    sink = a_sink()
    outcome = deliver(sink, model("r", A))[model_urn("r")]
    assert outcome.exact
    assert outcome.merged.proposals[0].aspect == sink.stored[model_urn("r")][HOME]
    assert not deliver(a_sink(checks_versions=False), model("r", A))[model_urn("r")].exact
    assert not deliver(FakeSink(), model("r", A))[model_urn("r")].exact


def test_an_exact_outcome_has_what_was_merged_again_after_a_conflict() -> None:
    sink = a_sink()
    deliver(sink, model("r", A))
    theirs = {**sink.stored[model_urn("r")][HOME], "groups": [C, A]}
    sink.before_write = once(lambda: sink.put(model_urn("r"), HOME, theirs), at=2)
    outcome = deliver(sink, model("r", B))[model_urn("r")]
    assert outcome.exact
    assert outcome.merged.proposals[0].aspect["groups"] == groups(sink, "r") == [C, B]


def test_an_entity_that_is_taken_apart_is_not_exact() -> None:
    outcome = deliver(a_sink(refuse={(model_urn("r"), "ownership")}), owned("r"))[model_urn("r")]
    assert outcome.refusals
    assert not outcome.exact


def test_a_request_that_meets_what_it_had_written_is_written_again() -> None:
    sink = a_sink()
    deliver(sink, model("r", A))
    written = a_sink()
    deliver(written, model("r", A))
    deliver(written, model("r", B))
    meets = written.stored[model_urn("r")][HOME]
    sink.before_write = once(lambda: sink.put(model_urn("r"), HOME, meets), at=2)
    outcome = deliver(sink, model("r", B))[model_urn("r")]
    assert (outcome.refusals, outcome.exact, outcome.merged.change) == ((), True, "updated")
    # The service may have been killed between its database and its index.
    key, again = sink.writes[-1]
    assert (key.aspect_name, key.aspect["name"]) == ("mlModelKey", "r")
    assert (again.aspect, headers([again])) == (meets, ["2"])


def test_a_request_that_meets_what_it_had_written_and_an_edit_is_written_again() -> None:
    written = a_sink()
    deliver(written, owned("r"))
    sink = a_sink()

    def answer_is_lost() -> None:
        for name, aspect in written.stored[model_urn("r")].items():
            sink.put(model_urn("r"), name, aspect)
        sink.put(model_urn("r"), HOME, {"groups": [C]})

    sink.before_write = once(answer_is_lost, at=2)
    outcome = deliver(sink, owned("r"))[model_urn("r")]
    assert outcome.kind == "created"
    assert [one.aspect_name for one in sink.writes[-1]] == ["mlModelKey", "ownership", HOME]
    assert groups(sink, "r") == [C, A]


def test_aspects_that_a_refused_request_had_stored_are_written_again() -> None:
    class Refusing(FakeSink):
        def write(self, proposals: Sequence[Proposal]) -> Any:
            is_first = not self.stored
            refused = super().write(proposals)
            if not is_first or refused:
                return refused
            return [
                AspectRejectedError(
                    urn=one.entity_urn, aspect=one.aspect_name, status=422, reason="no"
                )
                for one in proposals
            ]

    sink = Refusing(place="fake://catalog")
    outcome = deliver(sink, owned("r"))[model_urn("r")]
    assert not outcome.refusals
    again = {one.aspect_name for writes in sink.writes[2:] for one in writes}
    assert again == {"mlModelKey", "ownership", HOME}


def test_what_is_written_again_is_refused_for_the_aspect_at_fault() -> None:
    sink, entity = a_sink(refuse={(model_urn("bad"), "ownership")}), owned("bad")
    deliver(sink, entity)
    merge = partial(merge_entity, rules=MergeRules(Writer("test")))
    stored = read_stored(sink, StateSession(), [entity])[entity.urn]
    delivery = Delivery(RunContext(sink, Ledger(Tally("test"))), merge)
    [outcome] = delivery.deliver([write_again(merge(entity, stored))])
    assert [one.proposal.aspect_name for one in outcome.refusals] == ["ownership"]


def test_what_is_written_again_stays_so_when_somebody_writes_in_between() -> None:
    sink = a_sink()
    tag = {"tags": [{"tag": "urn:li:tag:ours"}]}
    deliver(sink, model("r", A, globalTags=tag))
    written = a_sink()
    deliver(written, model("r", A, globalTags=tag))
    deliver(written, model("r", B, globalTags=tag))
    meets = written.stored[model_urn("r")][HOME]

    def meddle(_: object) -> None:
        if len(sink.writes) == 1:
            sink.put(model_urn("r"), HOME, meets)
        if len(sink.writes) == 2:
            sink.put(model_urn("r"), HOME, {**meets, "groups": [C]})

    sink.writes.clear()
    sink.before_write = meddle
    outcome = deliver(sink, model("r", B, globalTags=tag))[model_urn("r")]
    assert outcome.refusals == ()
    assert [one.aspect_name for one in sink.writes[-1]] == ["mlModelKey", "globalTags", HOME]
    assert groups(sink, "r") == [C, B]
