"""Real events of a real MLflow, drained into a real catalog."""

from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mlcat_ingest.hooks.drain import DrainResult, drain_into
from mlcat_ingest.hooks.spool import Event, EventSpool, read_lines
from mlcat_ingest.pipeline.state.database import held_state
from mlcat_ingest.testing.mlflow_store import mlflow_client
from mlcat_ingest.workflows.ingest import Pipeline
from mlcat_ingest.workflows.resolve import load_resolved
from support.catalog_server import RunningCatalog, running_catalog
from support.hooks import RECIPE, Bench, models
from support.mlflow_server import MlflowServer

pytestmark = [pytest.mark.integration, pytest.mark.smoke]


def some_runs(uri: str, count: int) -> list[str]:
    made = []
    with mlflow_client(uri) as client:
        for number in range(count):
            run = client.create_run("0")
            client.log_metric(run.info.run_id, "number", number)
            client.set_terminated(run.info.run_id)
            made.append(run.info.run_id)
    return made


def drained(bench: Bench) -> DrainResult:
    resolved = load_resolved(bench.recipe)
    return drain_into(resolved, bench.spool, str(bench.recipe))


def test_only_the_named_runs_arrive_and_a_second_time_changes_nothing(
    bench: Bench, catalog: RunningCatalog
) -> None:
    first, second = some_runs(bench.mlflow, 2)
    for _ in range(2):
        bench.spool.put(Event(first, recipe=str(bench.recipe)))
    bench.spool.put(Event("0" * 32, recipe=str(bench.recipe)))
    assert drained(bench) == DrainResult(events=3, runs=2, elsewhere=1)
    assert models(catalog, [first, second]) == [first]
    urn = f"urn:li:mlModel:(urn:li:dataPlatform:mlflow,{first},PROD)"
    version = catalog.store.get_many([urn], ["mlModelProperties"])[urn]["mlModelProperties"].version
    bench.spool.put(Event(first, recipe=str(bench.recipe)))
    assert drained(bench).events == 1
    held = catalog.store.get_many([urn], ["mlModelProperties"])[urn]["mlModelProperties"]
    assert held.version == version
    applied = held.value["customProperties"]
    assert "mlcat.applied.hooked" in applied


def test_a_drain_needs_no_lock_and_leaves_the_scheduled_run_what_it_would_have_read(
    bench: Bench, catalog: RunningCatalog
) -> None:
    pipeline = Pipeline(load_resolved(bench.recipe))
    assert pipeline.run().exit_code == 0
    [late] = some_runs(bench.mlflow, 1)
    bench.spool.put(Event(late, recipe=str(bench.recipe)))
    url = f"sqlite:///{bench.folder / '.mlcat' / 'state.db'}"
    with held_state(url, "hooked"):  # a scheduled run at work
        assert drained(bench).events == 1
    assert models(catalog, [late]) == [late]
    report = pipeline.run()
    assert report.exit_code == 0
    assert report.entities["mlModel"].unchanged >= 1
    assert report.entities["mlModel"].written == 0


def test_names_that_changed_are_refused_as_a_run_refuses_them(
    bench: Bench, catalog: RunningCatalog
) -> None:
    assert Pipeline(load_resolved(bench.recipe)).run().exit_code == 0
    [run_id] = some_runs(bench.mlflow, 1)
    text = bench.recipe.read_text().replace("retries: 1", "retries: 1, env: DEV")
    bench.recipe.write_text(text)
    bench.spool.put(Event(run_id, recipe=str(bench.recipe)))
    found = drained(bench)
    assert (found.left, found.exit_code) == (1, 2)
    assert models(catalog, [run_id]) == []


def test_what_is_asked_does_not_grow_with_the_runs(bench: Bench, catalog: RunningCatalog) -> None:
    some = some_runs(bench.mlflow, 1)
    pipeline = Pipeline(load_resolved(bench.recipe))
    one = pipeline.run_named(some).report
    more = some_runs(bench.mlflow, 40)
    brought = pipeline.run_named(more)
    many = brought.report
    assert (list(brought.unknown), brought.refused) == ([], frozenset())
    assert many.evaluation.evaluated >= 40
    assert many.source_requests == one.source_requests
    assert many.catalog_requests <= one.catalog_requests + 1
    assert len(models(catalog, more)) == 40


def test_a_limit_of_the_recipe_keeps_the_event(bench: Bench) -> None:
    [run_id] = some_runs(bench.mlflow, 1)
    text = bench.recipe.read_text()
    bench.recipe.write_text(text + "limits: {max_new_entities: 0}\n")
    bench.spool.put(Event(run_id, recipe=str(bench.recipe)))
    found = drained(bench)
    assert (found.left, found.exit_code) == (1, 2)
    bench.recipe.write_text(text)
    assert drained(bench).events == 1


def refusing(word: str) -> Callable[[ASGIApp], ASGIApp]:
    """Return what makes of a catalog one that refuses proposals with `word` in them."""

    def around(app: ASGIApp) -> ASGIApp:
        async def picky(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                return await app(scope, receive, send)
            messages = [await receive()]
            while messages[-1].get("more_body"):
                messages.append(await receive())
            body = b"".join(one.get("body", b"") for one in messages)
            if word.encode() in body and b"ingestProposal" in scope["query_string"]:
                reported = {"exceptionClass": "E", "message": "not liked", "status": 422}
                return await JSONResponse(reported, 422)(scope, receive, send)
            left = iter(messages)

            async def again() -> Message:
                return next(left, None) or await receive()

            return await app(scope, again, send)

        return picky

    return around


def test_a_run_that_is_refused_waits_alone_and_holds_nobody_up(
    tmp_path: Path, mlflow: MlflowServer
) -> None:
    bench = Bench(tmp_path, mlflow.url)
    bad, *good = some_runs(bench.mlflow, 4)
    database = tmp_path / "catalog.db"
    with running_catalog(database, around=refusing(bad)) as picky:
        bench.recipe.write_text(RECIPE.format(mlflow=mlflow.url, catalog=picky.url))
        for one in (bad, *good):
            bench.spool.put(Event(one, recipe=str(bench.recipe)))
        found = drained(bench)
        assert (found.events, found.left, found.exit_code) == (3, 1, 4)
        assert models(picky, [bad, *good]) == good
        assert {bad in line for line in read_lines(bench.spool.refused_file)} == {True}
        [late] = some_runs(bench.mlflow, 1)
        bench.spool.put(Event(late, recipe=str(bench.recipe)))
        assert (drained(bench).events, bench.spool.pending()) == (1, 1)
    with running_catalog(database) as catalog:
        bench.recipe.write_text(RECIPE.format(mlflow=mlflow.url, catalog=catalog.url))
        assert drained(bench) == DrainResult(events=1, runs=1)
        assert models(catalog, [bad, *good, late]) == [bad, *good, late]
        assert read_lines(bench.spool.refused_file) == []


def test_a_run_of_the_recipe_drains_the_spool_that_it_is_reported(
    bench: Bench, catalog: RunningCatalog
) -> None:
    first = bench.command("recipe.yml", "--no-input")
    assert first.returncode == 0, first.stderr
    [run_id] = some_runs(bench.mlflow, 1)
    reported = EventSpool(bench.folder / "elsewhere")
    reported.put(Event(run_id, recipe="/on/another/host/recipe.yml"))
    done = bench.command("recipe.yml", "--no-input", "--spool", str(reported.folder))
    assert done.returncode == 0, done.stderr
    assert "hooks: processed 1 event of 1 run; 0 remaining" in done.stderr
    assert models(catalog, [run_id]) == [run_id]
