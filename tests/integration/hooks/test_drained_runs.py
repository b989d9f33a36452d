"""Real events of a real MLflow, drained into a real catalog."""

import pytest

from mlcat_ingest.hooks.drain import drain_into
from mlcat_ingest.hooks.spool import Event, EventSpool
from mlcat_ingest.pipeline.report.report import HooksSummary
from mlcat_ingest.pipeline.state.locks import held_state
from mlcat_ingest.sources.base import Runs
from mlcat_ingest.testing.mlflow_store import mlflow_client
from mlcat_ingest.workflows.ingest import Pipeline
from mlcat_ingest.workflows.resolve import load_resolved
from support.catalog_server import RunningCatalog
from support.hooks import Bench, models

pytestmark = pytest.mark.smoke


def some_runs(uri: str, count: int) -> list[str]:
    made = []
    with mlflow_client(uri) as client:
        for number in range(count):
            run = client.create_run("0")
            client.log_metric(run.info.run_id, "number", number)
            client.set_terminated(run.info.run_id)
            made.append(run.info.run_id)
    return made


def drained(bench: Bench) -> HooksSummary:
    resolved = load_resolved(bench.recipe)
    return drain_into(resolved, bench.spool, str(bench.recipe)).summary


def test_only_the_named_runs_arrive_and_a_second_time_changes_nothing(
    bench: Bench, catalog: RunningCatalog
) -> None:
    first, second = some_runs(bench.mlflow, 2)
    for _ in range(2):
        bench.spool.put(Event(first, recipe=str(bench.recipe)))
    bench.spool.put(Event("0" * 32, recipe=str(bench.recipe)))
    assert drained(bench) == HooksSummary(events=3, runs=2, elsewhere=1)
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


def test_what_is_asked_does_not_grow_with_the_runs(bench: Bench, catalog: RunningCatalog) -> None:
    some = some_runs(bench.mlflow, 1)
    pipeline = Pipeline(load_resolved(bench.recipe))
    one = pipeline.run_named(Runs(some)).report
    more = some_runs(bench.mlflow, 40)
    brought = pipeline.run_named(Runs(more))
    many = brought.report
    assert (list(brought.unknown), brought.refused) == ([], frozenset())
    assert many.evaluation.evaluated >= 40
    assert many.source_requests == one.source_requests
    assert many.catalog_requests <= one.catalog_requests + 1
    assert len(models(catalog, more)) == 40


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
