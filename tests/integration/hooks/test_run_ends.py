"""How runs end, in real processes: what the hook is told, and what a scheduled run repairs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from mlcat_ingest.hooks.drain import drain_into
from mlcat_ingest.testing.mlflow_store import mlflow_client
from mlcat_ingest.workflows.ingest import Pipeline
from mlcat_ingest.workflows.resolve import load_resolved
from support.catalog_server import RunningCatalog
from support.hooks import RECIPE, Bench, models
from support.mlflow_server import MlflowServer
from support.run_ends import WAYS, Ended, ended

pytestmark = pytest.mark.timeout(900)


@dataclass(frozen=True, slots=True)
class World:
    """What came of all scripts, and the events that they left, which are drained."""

    ended: dict[str, Ended]
    events: list[tuple[str, str]]
    arrived: Mapping[str, Any]
    bench: Bench

    @property
    def runs(self) -> list[str]:
        return [run for found in self.ended.values() for run in found.runs]


def stored(catalog: RunningCatalog, run_id: str) -> Any:
    """Return what the catalog has of a run."""
    urn = f"urn:li:mlModel:(urn:li:dataPlatform:mlflow,{run_id},PROD)"
    return catalog.store.get_many([urn], ["mlModelProperties"])[urn]["mlModelProperties"].value


def metrics(properties: Mapping[str, Any]) -> dict[str, str]:
    return {one["name"]: one["value"] for one in properties["trainingMetrics"]}


@pytest.fixture(scope="module")
def world(
    tmp_path_factory: pytest.TempPathFactory, mlflow: MlflowServer, catalog: RunningCatalog
) -> World:
    bench = Bench(tmp_path_factory.mktemp("ends"), mlflow.url)
    bench.recipe.write_text(RECIPE.format(mlflow=mlflow.url, catalog=catalog.url))
    found = ended(bench)
    events = bench.events()
    resolved = load_resolved(bench.recipe)
    drained = drain_into(resolved, bench.spool, str(bench.recipe))
    assert (drained.summary.events, drained.summary.left) == (len(events), 0)
    runs = [run for one in found.values() for run in one.runs]
    arrived = {run: stored(catalog, run) for run in models(catalog, runs)}
    return World(found, events, arrived, bench)


@pytest.mark.parametrize("name", WAYS)
def test_the_hook_is_reported_as_the_store_is(
    name: str, world: World, mlflow: MlflowServer
) -> None:
    found, way = world.ended[name], WAYS[name]
    assert found.code == way.code, found.errors
    assert ("Traceback" in found.errors) == way.shows_traceback, found.errors
    assert "mlcat" not in found.errors
    assert len(found.runs) == way.runs
    with mlflow_client(mlflow.url) as client:
        assert {client.get_run(one).info.status for one in found.runs} == {way.status}
    for run in found.runs:
        assert tuple(status for one, status in world.events if one == run) == way.events
        assert (run in world.arrived) == bool(way.events)


@pytest.mark.parametrize("name", ["nested", "grid search"])
def test_a_parent_is_heard_of_after_its_children(name: str, world: World) -> None:
    order = [run for run, _ in world.events if run in world.ended[name].runs]
    assert order[-1] == world.ended[name].runs[-1]


def test_there_are_no_events_but_those(world: World) -> None:
    reported = {run for name, way in WAYS.items() if way.events for run in world.ended[name].runs}
    assert {run for run, _ in world.events} == reported


def test_the_catalog_has_what_was_logged_before_the_end(world: World) -> None:
    [run] = world.ended["asynchronous"].runs
    assert float(metrics(world.arrived[run])["m"]) == 99
    [run] = world.ended["renamed"].runs
    assert world.arrived[run]["name"] == "another"


def test_the_next_scheduled_run_repairs_what_no_event_reported(
    world: World, catalog: RunningCatalog
) -> None:
    silent = [run for name, way in WAYS.items() if not way.events for run in world.ended[name].runs]
    assert len(silent) == 2
    late = world.ended["autologged"].runs[0]
    with mlflow_client(world.bench.mlflow) as client:
        client.log_metric(late, "long_after_the_end", 1.0)
    assert Pipeline(load_resolved(world.bench.recipe)).run().exit_code == 0
    assert models(catalog, silent) == silent
    assert "long_after_the_end" in metrics(stored(catalog, late))
