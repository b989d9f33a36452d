"""Metadata tests that the client evaluates: reads, writes, and outcomes that are not known."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from mlcat_ingest.client.base import Evaluation, StoredEntity, TestOutcome
from mlcat_ingest.client.evaluator import (
    ClientEvaluator,
    WrittenEntity,
    _NeighbourCache,
    _WrittenEntities,
)
from mlcat_ingest.errors import CatalogRequestError, CatalogUnavailableError, NotAuthorizedError
from mlcat_ingest.metadata.codec import dumps
from mlcat_ingest.metadata.proposal import Proposal
from support.fakes import FakeSink, group_urn, model_urn

NAMED, GROUPED, THEIRS = "urn:li:test:named", "urn:li:test:grouped", "urn:li:test:theirs"
A, B, GROUP = model_urn("a"), model_urn("b"), group_urn("g")
RESULTS = "testResults"


def info(path: str, operator: str = "exists", *values: str) -> dict[str, Any]:
    rules = {"property": path, "operator": operator, "values": list(values)}
    text = dumps({"on": {"types": ["mlModel"]}, "rules": rules}).decode()
    return {"name": "n", "category": "c", "definition": {"type": "JSON", "json": text}}


@dataclass
class Guarded(FakeSink):
    """Does not give some aspects, or some URNs."""

    guarded: frozenset[str] = frozenset()
    error: Exception = field(default_factory=lambda: NotAuthorizedError("no"))

    def read_many(self, urns: Sequence[str], aspects: Any) -> Mapping[str, StoredEntity]:
        if self.guarded.intersection(urns) or self.guarded.intersection(aspects):
            raise self.error
        return super().read_many(urns, aspects)


def a_sink(**options: Any) -> Guarded:
    sink = Guarded(place="fake://catalog", **options)
    sink.put(A, "mlModelProperties", {"name": "a", "groups": [GROUP]})
    sink.put(B, "mlModelProperties", {"groups": [GROUP]})
    sink.put(GROUP, "mlModelGroupProperties", {"description": "d"})
    sink.put(NAMED, "testInfo", info("mlModelProperties.name"))
    path = "mlModelProperties.groups.mlModelGroupProperties.description"
    sink.put(GROUPED, "testInfo", info(path))
    return sink


def run(sink: FakeSink, *tests: str, push: bool = True) -> Evaluation:
    evaluator = ClientEvaluator(sink)
    return evaluator.evaluate_batch([A, B], should_push=push, test_urns=tests or [NAMED])


def results_of(sink: FakeSink, urn: str) -> tuple[set[str], set[str]]:
    stored = sink.stored[urn].get(RESULTS, {"passing": [], "failing": []})
    passing, failing = ({one["test"] for one in stored[side]} for side in ("passing", "failing"))
    return passing, failing


def test_the_outcomes_are_returned_and_stored() -> None:
    sink = a_sink()
    found = run(sink, NAMED, GROUPED)
    both = TestOutcome((NAMED, GROUPED), ())
    assert found == Evaluation({A: both, B: TestOutcome((GROUPED,), (NAMED,))}, where="client")
    assert results_of(sink, A) == ({NAMED, GROUPED}, set())
    assert results_of(sink, B) == ({GROUPED}, {NAMED})
    assert [one.headers for one in sink.writes[0]] == [{"If-Version-Match": "-1"}] * 2
    # Nothing changed, so nothing is written.
    assert run(sink, NAMED, GROUPED) == found
    assert len(sink.writes) == 1


def test_a_batch_is_read_at_once_and_a_neighbour_once() -> None:
    sink = a_sink()
    evaluator = ClientEvaluator(sink)
    for _ in range(2):
        evaluator.evaluate_batch([A, B], should_push=True, test_urns=[GROUPED])
    assert sink.reads == [[GROUPED], [A, B], [GROUP], [A, B]]


def test_what_was_just_written_is_not_read() -> None:
    sink = a_sink()
    evaluator = ClientEvaluator(sink)
    known = {"mlModelProperties": {"name": "as written"}, RESULTS: None}
    evaluator.keep_written({A: known, B: {**known, "mlModelProperties": None}})
    found = evaluator.evaluate_batch([A, B], should_push=True, test_urns=[NAMED])
    assert found.outcomes == {A: TestOutcome((NAMED,), ()), B: TestOutcome((), (NAMED,))}
    assert sink.reads == [[NAMED]]
    assert [one.headers for one in sink.writes[0]] == [{"If-Version-Match": "-1"}] * 2
    # It is known for one evaluation: somebody may have changed it by the next.
    evaluator.evaluate_batch([A, B], should_push=True, test_urns=[NAMED])
    assert sink.reads == [[NAMED], [A, B]]


def test_results_of_others_on_an_entity_that_was_just_written_stay() -> None:
    theirs = {"passing": [{"test": THEIRS, "type": "SUCCESS"}], "failing": []}
    sink = a_sink()
    sink.put(A, RESULTS, theirs)
    evaluator = ClientEvaluator(sink)
    evaluator.keep_written({A: {"mlModelProperties": {"name": "a"}, RESULTS: None}})
    found = evaluator.evaluate_batch([A], should_push=True, test_urns=[NAMED])
    assert found.not_stored == {}
    assert results_of(sink, A) == ({THEIRS, NAMED}, set())


def test_a_batch_of_which_some_were_not_just_written_is_read_at_once() -> None:
    sink = a_sink()
    evaluator = ClientEvaluator(sink)
    evaluator.keep_written({A: {"mlModelProperties": {}}})
    found = evaluator.evaluate_batch([A, B], should_push=True, test_urns=[NAMED])
    assert found.outcomes[A] == TestOutcome((NAMED,), ())
    assert sink.reads == [[NAMED], [A, B]]


def test_written_entities_beyond_the_limit_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlcat_ingest.client.evaluator.WRITTEN_ENTRIES", 5)
    kept = _WrittenEntities()
    wide: WrittenEntity = {"mlModelProperties": {"hyperParams": [{}, {}, {}]}}
    kept.put(A, wide)
    kept.put(B, wide)
    assert kept.take([A, B]) == {A: wide}
    kept.put(B, wide)
    kept.put(B, {"mlModelProperties": None})
    kept.put(A, wide)
    assert kept.take([A, B]) == {A: wide, B: {"mlModelProperties": None}}


def test_results_that_another_writer_stores_meanwhile_stay() -> None:
    theirs = {"passing": [{"test": THEIRS, "type": "SUCCESS"}], "failing": []}
    sink = a_sink()

    def interfere(_: Sequence[Proposal]) -> None:
        sink.before_write = lambda _: None
        sink.put(A, RESULTS, theirs)

    sink.before_write = interfere
    assert run(sink).not_stored == {}
    assert results_of(sink, A) == ({THEIRS, NAMED}, set())
    assert results_of(sink, B) == (set(), {NAMED})


@pytest.mark.parametrize("is_stored", [True, False])
def test_results_that_are_answered_late_are_read_before_they_are_sent_again(
    *, is_stored: bool
) -> None:
    sink = a_sink()

    def end_late(proposals: Sequence[Proposal]) -> None:
        sink.before_write = lambda _: None
        if is_stored:
            sink.write(proposals)
        raise CatalogUnavailableError("late", context={"status": 504})

    sink.before_write = end_late
    assert run(sink).not_stored == {}
    assert results_of(sink, A) == ({NAMED}, set())
    assert results_of(sink, B) == (set(), {NAMED})


def test_a_service_that_is_away_ends_the_evaluation() -> None:
    sink = a_sink()

    def refuse(_: Sequence[Proposal]) -> None:
        raise CatalogUnavailableError("away", context={"status": 503})

    sink.before_write = refuse
    with pytest.raises(CatalogUnavailableError, match="away"):
        run(sink)


def test_a_writer_that_never_rests_is_given_up() -> None:
    sink = a_sink()
    rounds: list[int] = []

    def interfere(_: Sequence[Proposal]) -> None:
        rounds.append(len(rounds))
        entry = {"test": f"{THEIRS}{len(rounds)}", "type": "SUCCESS"}
        sink.put(A, RESULTS, {"passing": [entry], "failing": []})

    sink.before_write = interfere
    found = run(sink)
    assert set(found.outcomes) == {A, B}
    assert "another writer" in found.not_stored[A]
    assert results_of(sink, A) == ({f"{THEIRS}{len(rounds)}"}, set())


def test_results_that_are_refused_are_named() -> None:
    found = run(a_sink(refuse={A}))
    assert set(found.outcomes) == {A, B}
    assert set(found.not_stored) == {A}


@pytest.mark.parametrize(
    "refused", [NotAuthorizedError("no"), CatalogRequestError("no", status=400)]
)
def test_a_neighbour_that_cannot_be_read_makes_no_outcome(refused: Exception) -> None:
    sink = a_sink(guarded=frozenset({GROUP}), error=refused)
    found = run(sink, NAMED, GROUPED)
    assert found.outcomes == {}
    assert set(found.unevaluated) == {GROUPED}
    # What was evaluated is stored all the same.
    assert results_of(sink, A) == ({NAMED}, set())
    assert results_of(sink, B) == (set(), {NAMED})


def test_an_entity_that_is_at_fault_costs_the_others_nothing() -> None:
    error = CatalogRequestError("no", status=400)
    found = run(a_sink(guarded=frozenset({B}), error=error), push=False)
    assert found.outcomes == {A: TestOutcome((NAMED,), ())}
    assert set(found.unevaluated) == {NAMED}


def test_results_that_cannot_be_read_are_not_written_over() -> None:
    sink = a_sink(guarded=frozenset({RESULTS}))
    assert set(run(sink).not_stored) == {A, B}
    assert sink.writes == []


def test_an_aspect_that_a_type_never_has_is_absent_and_not_asked_for() -> None:
    sink = a_sink(guarded=frozenset({"mlModelGroupProperties"}))
    sink.put(NAMED, "testInfo", info("mlModelGroupProperties.description"))
    assert run(sink).outcomes == {urn: TestOutcome((), (NAMED,)) for urn in (A, B)}


def test_tests_that_cannot_be_known_end_the_evaluation() -> None:
    sink = a_sink(guarded=frozenset({"testInfo"}))
    assert "the metadata tests cannot be read: no" in str(run(sink).not_evaluated)
    # This catalog does not list its tests.
    listed = ClientEvaluator(a_sink()).evaluate_batch([A], should_push=True, test_urns=[])
    assert "does not list" in str(listed.not_evaluated)


def test_a_test_that_is_not_there_or_is_malformed_is_named() -> None:
    sink = a_sink()
    sink.put(THEIRS, "testInfo", {"definition": {"json": "["}})
    found = run(sink, NAMED, THEIRS, "urn:li:test:lost")
    assert set(found.unevaluated) == {THEIRS, "urn:li:test:lost"}
    assert set(found.outcomes) == {A, B}


def test_the_digest_tells_sets_of_tests_apart() -> None:
    sink = a_sink()
    first = ClientEvaluator(sink).tests([NAMED])
    assert first.digest == ClientEvaluator(sink).tests([NAMED]).digest
    assert first.digest != ClientEvaluator(sink).tests([NAMED, GROUPED]).digest
    sink.put(NAMED, "testInfo", info("mlModelProperties.description"))
    assert first.digest != ClientEvaluator(sink).tests([NAMED]).digest


def test_the_cache_keeps_no_more_than_its_size() -> None:
    sink = a_sink()
    cache = _NeighbourCache(sink, size=1)
    for urn in (A, B, B, A):
        assert cache.read([urn], ["mlModelProperties"])[urn]
    assert sink.reads == [[A], [B], [A]]
    cache.forget([A])
    assert cache.read([A], ["ownership"]) == {A: {}}
