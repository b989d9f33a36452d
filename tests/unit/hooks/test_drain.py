"""The drain over a real spool: what goes, what stays, and what is asked of the recipe."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from mlcat_ingest.client.config import RestSinkConfig
from mlcat_ingest.errors import CatalogUnavailableError, StateUnavailableError
from mlcat_ingest.hooks import drain as drain_module
from mlcat_ingest.hooks.drain import DrainResult, _event_filter, drain, drain_into, follow_spool
from mlcat_ingest.hooks.spool import Event, EventSpool
from mlcat_ingest.pipeline.report.report import HooksSummary, Report, failure_of
from mlcat_ingest.pipeline.report.tally import Tally
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.sources.base import Runs
from mlcat_ingest.workflows.ingest import NamedRunsResult, Pipeline, _refused_names
from mlcat_ingest.workflows.resolve import ResolvedRecipe, load_resolved, resolve


def a_report(error: BaseException | None = None, *refused: str) -> Report:
    tally = Tally("r")
    for one in refused:
        tally.record_failed(one, "not usable")
    return tally.report(error=error)


class Pipe:
    """Stands for a pipeline: keeps what it was asked for, and refuses some runs."""

    def __init__(
        self,
        *errors: BaseException,
        unknown: Sequence[str] = (),
        refuses: frozenset[str] = frozenset(),
    ) -> None:
        self.asked: list[list[str]] = []
        self.deleted: list[str] = []
        self.moves: list[object] = []
        self._errors = list(errors)
        self._unknown = unknown
        self._refuses = refuses

    def __call__(self, named: Runs) -> NamedRunsResult:
        self.asked.append([*named.ids, *named.models])
        self.deleted += named.deleted
        self.moves += sorted(named.moves)
        refused = self._refuses & {*named.ids, *named.models}
        report = a_report(self._errors.pop(0) if self._errors else None, *refused)
        return NamedRunsResult(report, self._unknown, refused)


def a_spool(folder: Path, *run_ids: str) -> EventSpool:
    spool = EventSpool(folder)
    for one in run_ids:
        spool.put(Event(one, "FINISHED", "http://mlflow:5000"))
    return spool


def test_a_run_that_ended_twice_is_asked_for_once_and_both_events_go(tmp_path: Path) -> None:
    spool, pipe = a_spool(tmp_path, "a", "b", "a"), Pipe()
    assert drain(spool, bool, pipe).summary == HooksSummary(events=3, runs=2)
    assert sorted(pipe.asked[0]) == ["a", "b"]
    assert spool.pending() == 0


def test_models_and_the_run_of_a_new_version_are_asked_for_together(tmp_path: Path) -> None:
    spool, pipe = a_spool(tmp_path), Pipe(refuses=frozenset({"sick"}))
    for event in (
        *(Event(model="m"), Event("a", model="m"), Event("b", model="sick"), Event("b")),
        Event(model="m", status="DELETED"),
        *(Event(model="m", alias="a", workspace=one) for one in ("", "team")),
    ):
        spool.put(event)
    drained = drain(spool, bool, pipe)
    # Events of one millisecond have no order.
    assert (list(map(sorted, pipe.asked)), pipe.deleted) == ([["a", "b", "m", "sick"]], ["m"])
    assert pipe.moves == [("default", "m"), ("team", "m")]
    done = drained.summary
    assert (done.events, done.runs, done.models, done.left) == (6, 2, 1, 1)
    assert [event.model for event in spool.events()] == ["sick"]


@pytest.mark.parametrize(("servers", "moves"), [(1, [("default", "m")]), (2, [])])
def test_an_event_is_no_evidence_where_it_may_be_of_another_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, servers: int, moves: list[object]
) -> None:
    spool, pipe = a_spool(tmp_path), Pipe()
    spool.put(Event(model="m", alias="a", recipe="r"))
    configs = [{"tracking_uri": f"http://m{n}", "instance": f"i{n}"} for n in range(servers)]
    sources = [{"type": "mlflow", "config": config} for config in configs]
    sink = {"type": "rest", "config": {"server": "http://c"}}
    recipe = Recipe.model_validate({"name": "r", "sources": sources, "sink": sink})
    monkeypatch.setattr(Pipeline, "run_named", lambda _, named, **__: pipe(named))
    assert drain_into(resolve(recipe), spool, "r").summary.left == 0
    assert pipe.moves == moves


def results_of(spool: EventSpool, pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> list[DrainResult]:
    """Follow a spool until the first look at which nothing is to be done."""

    def drain_all(*_: object) -> DrainResult:
        return drain(spool, bool, pipe)

    def rest(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(drain_module, "drain_into", drain_all)
    monkeypatch.setattr("mlcat_ingest.hooks.drain.time.sleep", rest)
    results: list[DrainResult] = []
    recipe = resolve(Recipe.for_tracking_uri("http://m"))
    with pytest.raises(KeyboardInterrupt):
        follow_spool(lambda: recipe, spool, "r", results.append)
    return results


def test_a_follower_takes_what_a_killed_drain_had_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = a_spool(tmp_path, "a")
    with spool.drain_lock():
        assert spool.claim(9, bool)
    [result] = results_of(spool, Pipe(), monkeypatch)
    assert (result.summary.events, spool.pending()) == (1, 0)


def test_a_follower_drains_refused_events_again_only_with_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool, pipe = a_spool(tmp_path, "a"), Pipe(refuses=frozenset({"a"}))
    assert len(results_of(spool, pipe, monkeypatch)) == 1
    assert pipe.asked == [["a"]]


def test_a_follower_reads_its_recipe_and_token_file_for_each_drain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, recipe, tokens = tmp_path / "token", tmp_path / "recipe.yml", []
    recipe.write_text(
        "name: r\nsource: {type: mlflow, config: {tracking_uri: 'http://m'}}\n"
        "sink: {type: rest, config: {server: 'http://c', token: '${file:token}'}}\n"
    )
    spool = a_spool(tmp_path / "spool", "a")
    steps = iter(["second", None, "third"])
    failures = [CatalogUnavailableError("401")]

    def drain_with(resolved: ResolvedRecipe, *_: object) -> DrainResult:
        assert resolved.sink is not None
        assert isinstance(resolved.sink.config, RestSinkConfig)
        assert resolved.sink.config.token is not None
        tokens.append(resolved.sink.config.token.get_secret_value())
        return drain(spool, bool, Pipe(*failures))

    def rotate(_: float) -> None:
        step = next(steps, "end")
        if step == "end":
            raise KeyboardInterrupt
        token.unlink(missing_ok=True)
        if step is not None:
            failures.clear()
            token.write_text(step)
        spool.backoff.reset()
        spool.put(Event(f"run-{step}"))

    token.write_text("first")
    monkeypatch.setattr(drain_module, "drain_into", drain_with)
    monkeypatch.setattr("mlcat_ingest.hooks.drain.time.sleep", rotate)
    with pytest.raises(KeyboardInterrupt):
        follow_spool(lambda: load_resolved(recipe), spool, "r", lambda _: None)
    assert tokens == ["first", "second", "third"]
    assert spool.pending() == 0


def test_a_follower_pauses_after_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool, pipe = a_spool(tmp_path, "a"), Pipe(CatalogUnavailableError("down"))
    assert len(results_of(spool, pipe, monkeypatch)) == 1
    assert spool.backoff.reason() == str(failure_of(CatalogUnavailableError("down")))
    assert spool.backoff.remaining_s() > 0


def test_what_a_failure_ends_stays_and_ends_the_drain(tmp_path: Path) -> None:
    spool = a_spool(tmp_path, "a")
    pipe = Pipe(CatalogUnavailableError("down"), refuses=frozenset({"a"}))  # or some of it
    drained = drain(spool, bool, pipe)
    done = drained.summary
    assert (done.events, done.left, done.exit_code) == (0, 1, 1)
    assert drained.report is not None
    assert drained.report.failure == failure_of(CatalogUnavailableError("down"))
    assert len(pipe.asked) == 1
    assert drain(spool, bool, Pipe()).summary == HooksSummary(events=1, runs=1)


def test_what_was_refused_stays_and_what_came_with_it_goes(tmp_path: Path) -> None:
    spool = a_spool(tmp_path, "r1", "r2", "r1", "r3")
    pipe = Pipe(refuses=frozenset({"r1"}))
    drained = drain(spool, bool, pipe)
    done = drained.summary
    assert (done.events, done.runs, done.left, done.exit_code) == (2, 2, 2, 4)
    assert len(pipe.asked) == 1
    assert drain(spool, bool, Pipe()).summary == HooksSummary(events=2, runs=1)


@pytest.mark.parametrize(
    ("letters", "refused"),
    [
        ([], set()),
        (["urn:li:mlModel:(urn:li:dataPlatform:mlflow,aa,PROD)"], {"aa"}),
        (["JoinedRun bb", "urn:li:mlModel:(urn:li:dataPlatform:mlflow,aa,PROD)"], {"aa", "bb"}),
        # The name of one model holds that of another.
        (["urn:li:mlModel:(urn:li:dataPlatform:mlflow,fraud_2,PROD)"], {"fraud"}),
        (["urn:li:mlModelGroup:(urn:li:dataPlatform:mlflow,registered:fr,PROD)"], {"fr"}),
        # What tells of none may be of any.
        (["JoinedRun bb", "urn:li:mlModelGroup:(x,some,PROD)"], {*["aa", "bb", "fr", "fraud"]}),
        ([""], {*["aa", "bb", "fr", "fraud"]}),
    ],
)
def test_the_names_of_what_was_refused(letters: list[str], refused: set[str]) -> None:
    assert _refused_names(Runs(["aa", "bb"], ["fr", "fraud"]), letters) == refused


def test_an_event_written_during_the_drain_is_taken_too(tmp_path: Path) -> None:
    spool = a_spool(tmp_path, "a")
    pipe = Pipe()

    def bring(named: Runs) -> NamedRunsResult:
        if not pipe.asked:
            spool.put(Event("late"))
        return pipe(named)

    assert drain(spool, bool, bring).summary.events == 2
    assert pipe.asked == [["a"], ["late"]]


def test_an_error_that_nobody_expects_lets_the_events_wait_again(tmp_path: Path) -> None:
    def broken(named: Runs) -> NamedRunsResult:
        raise ZeroDivisionError(named)

    spool = a_spool(tmp_path, "a")
    with pytest.raises(ZeroDivisionError):
        drain(spool, bool, broken)
    assert len(spool.waiting()) == 1


def test_where_another_drain_is_at_work_nothing_is_done(tmp_path: Path) -> None:
    spool = a_spool(tmp_path, "a")
    with EventSpool(tmp_path).drain_lock():
        drained = drain(spool, bool, Pipe())
    assert drained.summary == HooksSummary(left=1, busy=True)


def test_runs_that_no_source_has_are_counted_and_done(tmp_path: Path) -> None:
    spool = a_spool(tmp_path, "a", "foreign")
    assert drain(spool, bool, Pipe(unknown=["foreign"])).summary == HooksSummary(
        events=2, runs=2, elsewhere=1
    )
    assert spool.pending() == 0


def test_a_spool_that_cannot_be_used_is_reported_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateUnavailableError, match=r"file/spool.* --spool"):
        drain(EventSpool(tmp_path / "file" / "spool"), bool, Pipe())


def test_events_are_distinguished_by_recipe_and_where_they_name_none_by_server() -> None:
    recipe = Recipe.for_tracking_uri("http://MLflow:5000/", "http://catalog:8080")
    accepts = _event_filter(resolve(recipe), "/here/prod.yml")
    assert accepts(Event("r", recipe="/elsewhere/prod.yml"))
    assert not accepts(Event("r", recipe="/here/other.yml"))
    assert accepts(Event("r", tracking_uri="http://mlflow:5000"))
    assert not accepts(Event("r", tracking_uri="http://other:5000"))
