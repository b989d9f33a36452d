"""A run over a source and a sink that are fakes: what is written, counted, and how it ends."""

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from mlcat_ingest.client.base import CatalogFacts, Evaluation
from mlcat_ingest.errors import (
    AuthenticationError,
    CatalogUnavailableError,
    RecordError,
    SourceUnavailableError,
)
from mlcat_ingest.metadata.proposal import Entity, Note, Proposal
from mlcat_ingest.pipeline.evaluate.evaluator import Evaluator
from mlcat_ingest.pipeline.merge.applied import decode
from mlcat_ingest.pipeline.merge.limits import HEAVIEST
from mlcat_ingest.pipeline.outcome import Outcome
from mlcat_ingest.pipeline.report.progress import OnProgress, Progress
from mlcat_ingest.pipeline.report.render import as_json
from mlcat_ingest.pipeline.report.report import EntityCounts, Report
from mlcat_ingest.pipeline.run import MOST_WORKERS, PipelineRun, RunOptions
from mlcat_ingest.recipe.secrets import SECRETS
from mlcat_ingest.sources.base import Finished, Page, ReadRequest, Source, SourceRecord
from support.fakes import FakeSink, FakeSource, group_urn, model_urn
from support.recipes import a_recipe

GROUP = group_urn("g")


def model(name: str, **properties: object) -> Entity:
    return Entity(
        model_urn(name),
        {
            "mlModelProperties": {"name": name, "groups": [GROUP], **properties},
            "ownership": {"owners": [{"owner": "urn:li:corpuser:u", "type": "DATAOWNER"}]},
        },
    )


def models(count: int, *, start: int = 0) -> list[Entity]:
    return [model(f"r{n}") for n in range(start, start + count)]


def run(
    source: Source[Any] | Sequence[Source[Any]],
    sink: FakeSink,
    *,
    progress: OnProgress | None = None,
    **recipe: Any,
) -> Report:
    sources = [source] if isinstance(source, Source) else source
    options = RunOptions(a_recipe("test", **recipe))
    return PipelineRun(sources, sink, options).execute(progress)


def test_everything_read_is_written_evaluated_and_counted() -> None:
    sink = FakeSink()
    source = FakeSource([[Entity(GROUP, {"mlModelGroupProperties": {"name": "g"}})], models(450)])
    report = run(source, sink)
    assert report.exit_code == 0
    assert report.records == 451
    assert report.entities == {
        "mlModel": EntityCounts(read=450, created=450),
        "mlModelGroup": EntityCounts(read=1, created=1),
    }
    assert report.proposals_sent == 901
    assert sum(len(batch) for batch in sink.writes) == 901
    assert report.evaluation.evaluated == 451
    assert report.evaluation.passing == 451
    assert sink.stored[model_urn("r7")]["mlModelProperties"]["groups"] == [GROUP]
    assert (source.closed, sink.closed, sink.complete) == (1, 1, True)
    assert report.catalog == "a catalog in memory"
    assert report.catalog_requests == sink.traffic.requests_made()
    assert report.source_requests == 2


def test_requests_are_as_few_as_full_batches_allow() -> None:
    sink = FakeSink()
    run(FakeSource([models(1000)]), sink)
    assert [len(read) for read in sink.reads] == [200] * 5
    assert sorted(len(batch) for batch in sink.writes) == [200] * 10
    assert sorted(len(batch) for batch in sink.evaluations) == [200] * 5


def test_the_end_of_a_pass_waits_for_what_is_about_to_be_evaluated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    take, flush, order, sink = Evaluator.take, Evaluator.flush, list[str](), FakeSink()

    def hesitate(self: Evaluator, outcomes: Sequence[Outcome]) -> None:
        time.sleep(0.05)
        take(self, outcomes)
        note(self, "take")

    def end(self: Evaluator) -> None:
        note(self, "flush")
        flush(self)

    def note(evaluator: Evaluator, step: str) -> None:
        if evaluator._context.sink is sink:  # no thread that the run of another test has left
            order.append(step)

    monkeypatch.setattr(Evaluator, "take", hesitate)
    monkeypatch.setattr(Evaluator, "flush", end)
    run(FakeSource([models(400)]), sink)
    assert order[:5] == ["take"] * 4 + ["flush"]


def test_entities_of_thousands_of_entries_travel_few_at_a_time() -> None:
    params = [{"name": f"p{at}", "value": "1"} for at in range(HEAVIEST // 10)]
    wide = [model(f"w{number}", hyperParams=params) for number in range(35)]
    sink = FakeSink()
    report = run(FakeSource([[*wide, model("narrow")]]), sink)
    assert report.entities["mlModel"] == EntityCounts(read=36, created=36)
    assert sorted(len(read) for read in sink.reads) == [6, 10, 10, 10]
    batches = [{one.entity_urn for one in batch} for batch in sink.writes]
    # The narrow one may find room beside nine of the others.
    assert max(len(batch - {model_urn("narrow")}) for batch in batches) < 10
    assert sum(map(len, batches)) == 36


def test_the_aspects_of_an_entity_go_together_properties_last() -> None:
    sink = FakeSink()
    three = [
        Entity(one.urn, {**one.aspects, "sourceCode": {"sourceCode": [{"type": "x"}]}})
        for one in models(150)
    ]
    run(FakeSource([three]), sink)
    assert len(sink.writes) == 3
    for batch in sink.writes:
        assert len(batch) <= 200
        names = [proposal.aspect_name for proposal in batch]
        assert names == ["ownership", "sourceCode", "mlModelProperties"] * (len(batch) // 3)


def test_the_second_run_writes_nothing() -> None:
    sink = FakeSink()
    run(FakeSource([models(300)]), sink)
    sink.writes.clear()
    sink.evaluations.clear()
    report = run(FakeSource([models(300)]), sink)
    assert (sink.writes, sink.evaluations) == ([], [])
    assert report.entities == {"mlModel": EntityCounts(read=300, unchanged=300)}


def test_entries_of_others_survive() -> None:
    sink = FakeSink()
    run(FakeSource([models(3)]), sink)
    foreign = group_urn("theirs")
    sink.stored[model_urn("r1")]["mlModelProperties"] = {
        "groups": [GROUP, foreign],
        "customProperties": {"reviewed": "yes"},
    }
    report = run(FakeSource([[model("r1", customProperties={"mine": "1"})]]), sink)
    assert report.entities == {"mlModel": EntityCounts(read=1, updated=1)}
    stored = dict(sink.stored[model_urn("r1")]["mlModelProperties"])
    base = stored["customProperties"].pop("mlcat.applied.test")
    assert (decode(base) or {}).keys() == {"mlModelProperties"}
    assert stored == {
        "name": "r1",
        "groups": [GROUP, foreign],
        "customProperties": {"reviewed": "yes", "mine": "1"},
    }
    assert report.without_base == 1


def test_of_a_urn_read_twice_the_later_word_stands_wherever_it_comes() -> None:
    # In one chunk, in a later one while the first is still packed, and after a full one.
    sink = FakeSink()
    again = [model("r0", groups=[group_urn("b")]), model("r1", groups=[group_urn("c")])]
    pages = [[*models(2), again[0]], models(250, start=2), again]
    report = run(FakeSource(pages), sink)
    assert report.exit_code == 0
    assert sink.stored[model_urn("r0")]["mlModelProperties"]["groups"] == [group_urn("b")]
    assert sink.stored[model_urn("r1")]["mlModelProperties"]["groups"] == [group_urn("c")]


def test_a_urn_that_waits_for_its_batch_to_fill_is_written_before_it_is_read_again() -> None:
    one_aspect = [
        Entity(model_urn(f"r{n}"), {"mlModelProperties": {"name": f"r{n}"}}) for n in range(200)
    ]
    sink = FakeSink()
    run(FakeSource([one_aspect[150:]]), sink)
    sink.writes.clear()
    changed = [Entity(one.urn, {"mlModelProperties": {"description": "new"}}) for one in one_aspect]
    report = run(FakeSource([one_aspect, changed]), sink)
    assert report.entities["mlModel"] == EntityCounts(
        read=400, created=150, updated=200, unchanged=50
    )
    stored = sink.stored[model_urn("r0")]["mlModelProperties"]
    assert (stored["name"], stored["description"]) == ("r0", "new")
    assert [len(batch) for batch in sink.writes] == [150, 200]


def test_one_urn_is_never_twice_in_flight() -> None:
    lock = threading.Lock()
    moving: set[str] = set()
    twice: list[str] = []

    class Watching(FakeSink):
        def read_many(self, urns: Sequence[str], aspects: Iterable[str]) -> object:  # type: ignore[override]
            if "mlModelProperties" in aspects:  # else the key alone, of what is read after it
                with lock:
                    twice.extend(moving.intersection(urns))
                    moving.update(urns)
            return super().read_many(urns, list(aspects))

        def write(self, proposals: Sequence[Proposal]) -> object:  # type: ignore[override]
            result = super().write(proposals)
            with lock:
                moving.difference_update(one.entity_urn for one in proposals)
            return result

    sink = Watching()
    pages = [[model(f"r{n}", description=f"{page}") for n in range(200)] for page in range(12)]
    report = run(FakeSource(pages), sink)
    assert report.exit_code == 0
    assert twice == []
    assert {one["mlModelProperties"]["description"] for one in sink.stored.values()} == {"11"}


@pytest.mark.parametrize(("connections", "workers"), [(1, 1), (6, 6), (64, MOST_WORKERS)])
def test_a_chunk_is_written_over_each_connection(connections: int, workers: int) -> None:
    class Connected(FakeSink):
        @property
        def facts(self) -> CatalogFacts:
            return replace(super().facts, connections=connections)

    met = threading.Barrier(workers, timeout=30)
    started: list[int] = []

    def wait(_: object) -> None:
        met.wait()
        started.append(sum(one.name == "mlcat-write" for one in threading.enumerate()))
        met.wait()

    sink = Connected(before_read=wait)
    report = run(FakeSource([models(200 * workers)]), sink)
    assert report.exit_code == 0
    assert started == [workers] * workers


def test_groups_are_written_before_their_members_fill_a_chunk() -> None:
    sink = FakeSink()
    run(FakeSource([[Entity(GROUP, {"mlModelGroupProperties": {}}), *models(200)]]), sink)
    assert sorted(map(len, sink.reads)) == [1, 200]
    group_first = FakeSink()
    many = [Entity(group_urn(f"g{n}"), {"mlModelGroupProperties": {}}) for n in range(200)]
    run(FakeSource([[*models(3), *many]]), group_first)
    assert sorted(map(len, group_first.reads)) == [3, 200]


def test_references_are_looked_up_once_and_never_changed() -> None:
    tag = Entity("urn:li:tag:t", {"tagProperties": {"name": "ours"}}, only_if_absent=True)
    other = Entity("urn:li:tag:new", {"tagProperties": {"name": "new"}}, only_if_absent=True)
    sink = FakeSink({"urn:li:tag:t": {"ownership": {"owners": []}}})
    report = run(FakeSource([[tag, other], [tag, other], *([tag] for _ in range(5))]), sink)
    assert report.entities == {"tag": EntityCounts(read=2, created=1, unchanged=1)}
    assert sink.stored["urn:li:tag:t"] == {"ownership": {"owners": []}}
    assert sink.evaluations == []


def test_remembered_references_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlcat_ingest.pipeline.read.chunks.REMEMBERED_REFERENCES", 4)
    tags = [
        Entity(f"urn:li:tag:{n}", {"tagProperties": {"name": str(n)}}, only_if_absent=True)
        for n in range(6)
    ]
    sink = FakeSink()
    report = run(FakeSource([tags, tags]), sink)
    assert len(sink.stored) == 6
    assert report.entities["tag"].created == 6


def test_memory_does_not_hold_what_was_written() -> None:
    alive: set[int] = set()
    most = 0

    class Tracked(dict[str, object]):
        def __init__(self, number: int) -> None:
            super().__init__(name=str(number))
            self.number = number
            alive.add(number)

        def __del__(self) -> None:
            alive.discard(self.number)

    class NoState(FakeSink):
        def write(self, proposals: Sequence[Proposal]) -> list[object]:  # type: ignore[override]
            nonlocal most
            del proposals
            most = max(most, len(alive))
            return []

    def pages() -> Iterator[list[int]]:
        for start in range(0, 20_000, 500):
            yield list(range(start, start + 500))

    def mapping(record: object) -> list[Entity]:
        assert isinstance(record, int)
        return [Entity(model_urn(f"r{record}"), {"mlModelProperties": Tracked(record)})]

    report = run(FakeSource(pages(), mapping), NoState())
    assert report.entities["mlModel"].created == 20_000
    assert most < 3_000


# --- records and entities that are not usable ----------------------------------------------------


@dataclass(frozen=True)
class Row(SourceRecord):
    run_id: str


@dataclass
class Rows(Source[Row]):
    rows: Sequence[Row]
    mapping: Callable[[Row], Iterable[Entity]]

    def read(self, request: ReadRequest) -> Iterator[Page[Row] | Finished]:
        del request
        yield Page(self.rows)

    def map(self, record: Row) -> Iterable[Entity]:
        return self.mapping(record)

    def close(self) -> None:
        """Nothing is open."""


def test_a_record_that_cannot_be_mapped_is_counted_and_the_rest_arrives() -> None:
    def mapping(record: Row) -> list[Entity]:
        match record:
            case Row("bad"):
                raise RecordError("has no name", record_ref="row 2")
            case Row("buggy"):
                raise KeyError("oops")
            case _:
                return models(1)

    sink = FakeSink()
    report = run(Rows([Row("bad"), Row("buggy"), Row("fine"), Row("")], mapping), sink)
    assert report.exit_code == 4
    assert report.failed_records == 2
    assert [(one.reference, one.reason) for one in report.failed_examples] == [
        ("row 2", "has no name"),
        ("Row buggy", "KeyError: 'oops'"),
    ]
    assert list(sink.stored) == [model_urn("r0")]


def test_a_record_without_a_name_is_named_by_its_class() -> None:
    def mapping(_: object) -> list[Entity]:
        raise ValueError("no")

    report = run(FakeSource([[7]], mapping), FakeSink())
    assert report.failed_examples[0].reference == "FakeRecord"


def test_examples_are_the_first_few_and_the_numbers_count_all() -> None:
    def mapping(record: object) -> list[Entity]:
        raise RecordError("no", record_ref=str(record))

    report = run(FakeSource([range(25)], mapping), FakeSink())
    assert report.failed_records == 25
    assert [one.reference for one in report.failed_examples] == [str(n) for n in range(10)]


def test_what_the_catalog_refuses_is_counted_and_not_evaluated() -> None:
    sink = FakeSink(refuse={model_urn("r1")})
    report = run(FakeSource([models(3)]), sink)
    assert report.exit_code == 4
    assert report.entities == {"mlModel": EntityCounts(read=3, created=2, rejected=1)}
    assert report.rejected == 1
    [example] = report.rejected_examples
    assert example.reference == model_urn("r1")
    assert "422 not liked" in example.reason
    assert sorted(sink.evaluations[0]) == [model_urn("r0"), model_urn("r2")]


@pytest.mark.parametrize("others", [0, 5])
def test_a_value_without_a_json_form_fails_alone(others: int) -> None:
    bad = model("bad", customProperties={"x": float("nan")})
    sink = FakeSink()
    report = run(FakeSource([[*models(others), bad]]), sink)
    assert report.exit_code == 4
    assert report.entities == {"mlModel": EntityCounts(read=others + 1, created=others, rejected=1)}
    assert "nan" in report.rejected_examples[0].reason


def test_a_skippable_error_that_no_proposal_explains_ends_the_run() -> None:
    def refuse(_: object) -> None:
        raise RecordError("inexplicable", record_ref="?")

    report = run(FakeSource([models(1)]), FakeSink(before_write=refuse))
    assert report.exit_code == 1
    assert report.failure is not None
    assert report.failure.message == "inexplicable"


def test_notes_are_counted_by_kind_with_examples() -> None:
    noted = [
        Entity(model_urn(f"r{n}"), {"mlModelProperties": {}}, notes=(Note("truncated", f"p{n}"),))
        for n in range(12)
    ]
    report = run(FakeSource([noted]), FakeSink())
    assert report.notes == {"truncated": 12}
    assert len(report.note_examples["truncated"]) == 10
    assert report.note_examples["truncated"][0] == f"{model_urn('r0')}: p0"


# --- evaluation ----------------------------------------------------------------------------------


def test_failing_tests_are_counted_by_test() -> None:
    a, b = "urn:li:test:a", "urn:li:test:b"
    failing = {model_urn("r0"): (a, b), model_urn("r1"): (a,)}
    report = run(FakeSource([models(3)]), FakeSink(failing_tests=failing))
    assert report.exit_code == 0
    assert report.evaluation.failing == 3
    assert report.evaluation.failing_tests == {a: 2, b: 1}


def test_options_reach_the_service() -> None:
    seen = []

    class Asking(FakeSink):
        def evaluate_batch(
            self, urns: Sequence[str], *, should_push: bool, test_urns: Sequence[str]
        ) -> Evaluation:
            del urns
            seen.append((should_push, tuple(test_urns)))
            return Evaluation()

    options = {"should_push": False, "test_urns": ["urn:li:test:a"]}
    run(FakeSource([models(1)]), Asking(), evaluate=options)
    assert seen == [(False, ("urn:li:test:a",))]


# --- how a run ends ------------------------------------------------------------------------------


def test_a_source_that_breaks_off_leaves_what_was_read_written_and_says_so() -> None:
    sink = FakeSink()
    source = FakeSource([models(250)], error=SourceUnavailableError("MLflow went away", hint="h"))
    after = FakeSource([models(1, start=900)])
    report = run([source, after], sink)
    assert report.exit_code == 1
    assert report.failure is not None
    assert (report.failure.kind, report.failure.message, report.failure.hint) == (
        "SourceUnavailableError",
        "MLflow went away",
        "h",
    )
    assert len(sink.stored) == 250
    assert report.evaluation.evaluated == 250
    assert after.requests == 0
    assert sink.complete is False
    with pytest.raises(SourceUnavailableError):
        report.raise_for_failure()


def test_a_catalog_that_breaks_off_ends_the_run_with_what_was_acknowledged() -> None:
    calls = 0
    lock = threading.Lock()

    def fail_at_third(_: object) -> None:
        nonlocal calls
        with lock:
            calls += 1
            if calls >= 3:
                raise CatalogUnavailableError("the catalog went away")

    sink = FakeSink(before_write=fail_at_third)
    report = run(FakeSource([models(5_000)]), sink)
    assert report.exit_code == 1
    assert report.failure is not None
    assert report.failure.message == "the catalog went away"
    assert report.entities["mlModel"].created == len(sink.stored) == 200
    assert report.entities["mlModel"].read < 5_000


@pytest.mark.parametrize("place", ["open", "read_many", "evaluate_batch", "close"])
def test_an_error_of_the_catalog_anywhere_is_the_cause(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AuthenticationError("wrong token")

    sink = FakeSink()
    monkeypatch.setattr(sink, place, fail)
    source = FakeSource([models(1)])
    report = run(source, sink)
    assert report.exit_code == 1
    assert report.failure is not None
    assert report.failure.kind == "AuthenticationError"
    assert source.closed == 1


def test_a_bug_in_a_worker_is_the_cause_too() -> None:
    def bug(_: object) -> None:
        raise ZeroDivisionError("bug")

    report = run(FakeSource([models(1)]), FakeSink(before_read=bug))
    assert report.exit_code == 1
    assert report.failure is not None
    assert report.failure.message == "ZeroDivisionError: bug"
    with pytest.raises(ZeroDivisionError):
        report.raise_for_failure()


def test_the_first_error_is_kept_when_closing_fails_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*, complete: bool) -> None:
        assert not complete
        raise OSError("disk full")

    sink = FakeSink()
    monkeypatch.setattr(sink, "close", fail)
    report = run(FakeSource(error=SourceUnavailableError("first")), sink)
    assert report.failure is not None
    assert report.failure.message == "first"


def test_ctrl_c_reports_what_was_acknowledged() -> None:
    written = threading.Event()

    def pages() -> Iterator[list[Entity]]:
        yield models(200)
        # The reader stays here, as if the source were slow, until the run has been stopped.
        written.wait(30)

    class Telling(FakeSink):
        def close(self, *, complete: bool = True) -> None:
            super().close(complete=complete)
            written.set()

    sink = Telling()

    def interrupt(progress: Progress) -> None:
        if progress.written >= 200:
            raise KeyboardInterrupt

    report = run(FakeSource(pages()), sink, progress=interrupt)
    assert report.interrupted
    assert report.exit_code == 130
    assert report.failure is None
    assert report.entities["mlModel"].created == 200
    with pytest.raises(KeyboardInterrupt):
        report.raise_for_failure()


def test_a_request_that_hangs_does_not_keep_a_stopped_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlcat_ingest.pipeline.run.GRACE_S", 0.01)
    hanging = threading.Event()
    go_on = threading.Event()

    def hang(_: object) -> None:
        hanging.set()
        go_on.wait(60)

    def interrupt(_: Progress) -> None:
        if hanging.is_set():
            raise KeyboardInterrupt

    report = run(FakeSource([models(1)]), FakeSink(before_write=hang), progress=interrupt)
    go_on.set()
    assert report.exit_code == 130


def test_a_second_ctrl_c_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = []

    def interrupted(*_: object) -> None:
        waited.append(1)
        raise KeyboardInterrupt

    monkeypatch.setattr("mlcat_ingest.pipeline.run.wait", interrupted)
    report = run(FakeSource([models(1)]), FakeSink())
    assert report.exit_code == 130
    assert len(waited) >= 2


def test_the_report_of_a_run_that_goes_on_can_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlcat_ingest.pipeline.run.KEEP_EVERY_S", 0)
    kept: list[Report] = []
    go_on = threading.Event()

    def pages() -> Iterator[list[Entity]]:
        yield models(200)
        go_on.wait(30)

    def keep(report: Report) -> None:
        kept.append(report)
        if report.entities and report.entities["mlModel"].created:
            go_on.set()

    report = PipelineRun([FakeSource(pages())], FakeSink(), RunOptions(a_recipe("t"))).execute(
        keep=keep
    )
    assert not kept[-1].finished
    assert kept[-1].entities == report.entities
    assert report.finished
    assert json.loads(as_json(kept[-1]))["exit_code"] is None


def test_progress_is_reported() -> None:
    reported: list[Progress] = []
    go_on = threading.Event()

    def pages() -> Iterator[list[Entity]]:
        yield models(10)
        go_on.wait(30)

    def progress(now: Progress) -> None:
        reported.append(now)
        if now.records:
            go_on.set()

    run(FakeSource(pages()), FakeSink(), progress=progress)
    assert reported[-1].records == 10


# --- texts ---------------------------------------------------------------------------------------


def test_secrets_and_terminal_escapes_are_kept_out_of_the_report() -> None:
    def mapping(_: object) -> list[Entity]:
        raise RecordError("token s3cret was refused", record_ref="run \x1b[31mred\n\u202e")

    SECRETS.add("s3cret")
    error = SourceUnavailableError("s3cret host", hint="s3cret?")
    report = run(FakeSource([[1]], mapping, error), FakeSink())
    assert report.failed_examples[0].reason == "token *** was refused"
    assert report.failed_examples[0].reference == r"run \u001b[31mred\u000a\u202e"
    assert report.failure is not None
    assert (report.failure.message, report.failure.hint) == ("*** host", "***?")
