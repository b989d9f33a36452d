"""The merge stage: limits, and entities that need no write."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.errors import LimitError, NotAuthorizedError
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.pipeline.report.dead_letters import DeadLetters
from mlcat_ingest.pipeline.report.report import Report
from mlcat_ingest.pipeline.run import PipelineRun, RunOptions
from mlcat_ingest.pipeline.state.session import StateOptions, StateSession
from mlcat_ingest.sources.base import Finished, Page, Partition, ReadRequest, RecordVersion
from support.fakes import FakeRecord, FakeSink, FakeSource, model_urn
from support.recipes import a_recipe, run

HOME = "mlModelProperties"
A, B, C = map(model_urn, "abc")


@dataclass
class Remembered(FakeSource):
    """Reads entities, and remembers each."""

    entities: list[Entity] = field(default_factory=list)
    known: dict[str, str] = field(default_factory=dict)

    def read(self, request: ReadRequest) -> Iterator[Page[FakeRecord] | Finished]:
        identity = {"thing": model_urn("0")}
        partition = request.state.partition(Partition("fake:1", "", identity, ""))
        self.known = dict(partition.fingerprints("thing"))
        yield Page(
            [
                FakeRecord(one, RecordVersion("thing", one.urn, fingerprint="1"))
                for one in self.entities
            ],
            partition,
        )
        yield Finished(partition, {"read": True}, complete=True)


def model(urn: str, name: str = "m", **more: Any) -> Entity:
    return Entity(urn, {HOME: {"name": name}, **more})


@pytest.fixture
def sink() -> FakeSink:
    return FakeSink(place="fake://catalog")


def test_an_entity_that_needs_no_write_is_acknowledged(sink: FakeSink, tmp_path: Path) -> None:
    run(sink, model(A), model(B))
    sink.writes.clear()
    source = Remembered(entities=[model(A), model(B)])
    for known in ({}, {A: "1", B: "1"}):
        state = StateSession(f"sqlite:///{tmp_path / 'state.db'}", StateOptions("test", ()))
        options = RunOptions(a_recipe("test"), state=state)
        assert PipelineRun([source], sink, options).execute().exit_code == 0
        assert source.known == known
    assert sink.writes == []


def test_a_scope_of_all_evaluates_entities_that_need_no_write_but_none_removed(
    sink: FakeSink,
) -> None:
    removed = model(C, status={"removed": True})
    run(sink, model(A), model(B), model(C))
    run(sink, removed)
    sink.evaluations.clear()
    run(sink, model(A), model(B, "other"), removed, evaluate={"scope": "all"})
    assert sorted(urn for batch in sink.evaluations for urn in batch) == [A, B]


def test_a_removal_that_was_deferred_is_made_in_the_same_run(sink: FakeSink) -> None:
    run(sink, model(A), model(B))
    report = run(sink, model(A, status={"removed": True}), model(B))
    assert sink.stored[A]["status"] == {"removed": True}
    assert report.entities["mlModel"].removed == 1


@pytest.mark.parametrize("knows_it", [False, True])
def test_the_first_base_on_what_others_stored_comes_with_all_of_it(
    sink: FakeSink, tmp_path: Path, *, knows_it: bool
) -> None:
    """The other one may have ended before the index learnt of it, and not come back."""
    home = model(A, subTypes={"typeNames": ["Model"]})

    def ingest(recipe: str) -> Report:
        state = StateSession(f"sqlite:///{tmp_path}/{recipe}.db", StateOptions(recipe, full=True))
        options = RunOptions(a_recipe(recipe), state=state)
        return PipelineRun([Remembered(entities=[home])], sink, options).execute()

    if knows_it:  # and somebody deleted it since
        ingest("ours")
        sink.stored.clear()
        sink.versions.clear()
    ingest("other")
    sink.writes.clear()
    report = ingest("ours")
    assert (report.entities["mlModel"].updated, report.proposals_sent) == (1, 3)
    probe, written = sink.writes
    assert [one.aspect_name for one in probe] == ["subTypes", HOME]
    assert [one.aspect_name for one in written] == ["mlModelKey", "subTypes", HOME]
    sink.writes.clear()
    for recipe in ("ours", "other"):
        assert ingest(recipe).entities["mlModel"].unchanged == 1
    assert sink.writes == []


# --- the limit on new entities -------------------------------------------------------------------


def test_entities_that_are_there_already_are_not_new(sink: FakeSink) -> None:
    limits = {"max_new_entities": 2}
    assert run(sink, *map(model, (A, B, C)), limits=limits).exit_code == 2
    assert sink.stored == {}
    run(sink, model(A), model(B))
    assert run(sink, *(model(urn, "other") for urn in (A, B, C)), limits=limits).exit_code == 0
    assert set(sink.stored) == {A, B, C}


def test_a_refused_chunk_does_not_count_as_admitted(sink: FakeSink) -> None:
    recipe = a_recipe("test", limits={"max_new_entities": 3})
    pipeline = PipelineRun([Remembered()], sink, RunOptions(recipe))

    def merge(*names: str) -> None:
        pipeline._merger.merge({urn: model(urn) for urn in map(model_urn, names)})

    with closing(pipeline._deferred):
        merge("a", "b")
        with pytest.raises(LimitError, match="more than 3 new entities"):
            merge("c", "d")
        merge("c")
        with pytest.raises(LimitError):
            merge("d")
        sink.stored[A] = {HOME: {"name": "other"}}
        merge("a")


def test_an_entity_that_may_not_be_read_is_refused_and_comes_again(tmp_path: Path) -> None:
    reason = "403 urn:li:corpuser:ann lacks View Entity Page"
    denied = {B}

    class Denying(FakeSink):
        def read_many(self, urns: Sequence[str], aspects: Collection[str]) -> Any:
            if denied.intersection(urns):
                raise NotAuthorizedError("not allowed", context={"reason": reason})
            return super().read_many(urns, aspects)

    sink = Denying(place="fake://catalog")
    for created in (2, 1):
        source = Remembered(entities=[model(one) for one in (A, B, C)])
        state = StateSession(f"sqlite:///{tmp_path}/state.db", StateOptions("test"))
        letters = tmp_path / "letters.jsonl"
        kept = DeadLetters(letters)
        options = RunOptions(a_recipe("test"), state=state, dead_letters=kept)
        report = PipelineRun([source], sink, options).execute()
        counts = report.entities["mlModel"]
        assert (counts.read, counts.created, counts.rejected) == (3, created, len(denied))
        assert report.exit_code == (4 if denied else 0)
        if denied:
            [example] = report.rejected_examples
            assert (example.reference, reason in example.reason) == (B, True)
            assert B in letters.read_text()
        denied.clear()
    assert sink.stored.keys() == {A, B, C}
