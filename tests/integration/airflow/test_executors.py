"""A whole Airflow runs the DAG files that come with us, on one machine and on several workers."""

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from starlette.types import ASGIApp

from mlcat_ingest.catalog.schema.tables import entity
from mlcat_ingest.cli.main import call
from support.airflow_home import DAGS
from support.airflow_service import AirflowService, airflow_service, celery
from support.bulk_runs import insert_runs
from support.catalog_server import RunningCatalog, running_catalog
from support.held_writes import HeldWrites
from support.mlflow_server import MlflowServer, running
from support.venvs import OURS, REPOSITORY, make_venv

pytestmark = pytest.mark.timeout(1800)

DAG = "mlcat_ingest"
EXTERNAL = "mlcat_external"
SHARDS = 4
TOKEN = "a-secret-of-the-connection"
SOURCE = "name: prod\nsource: {type: mlflow, config: {tracking_uri: '${MLFLOW_TRACKING_URI}'}}\n"
SINK = "sink: {type: rest, config: {server: '${MLCAT_SERVER}', token: '${MLCAT_TOKEN}'}}\n"
REPORTS = {"dataHubIngestionSource", "dataHubExecutionRequest"}


@dataclass(frozen=True)
class World:
    folder: Path
    mlflow: MlflowServer
    airflow: AirflowService


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("executors")
    (folder / "shards.yml").write_text(SOURCE)
    (folder / "whole.yml").write_text(f"{SOURCE}{SINK}")
    settings = {
        "AIRFLOW__CORE__DAGS_FOLDER": str(shutil.copytree(DAGS, folder / "dags")),
        "MLCAT_RECIPE": str(folder / "shards.yml"),
        "MLCAT_SCHEDULE": "@yearly",
        "MLCAT_RETRY_DELAY_S": "1",
    }
    (folder / "dags" / "external.py").write_text(external_dag(folder))
    with (
        running(OURS, folder / "store") as mlflow,
        airflow_service(folder, MLFLOW_TRACKING_URI=mlflow.url, **settings) as airflow,
    ):
        insert_runs(mlflow.db_path, 1_320, experiments=40)
        yield World(folder, mlflow, airflow)


def external_dag(folder: Path) -> str:
    """Return the DAG that the page shows, with our package in a venv of its own."""
    page = (REPOSITORY / "docs" / "reference" / "airflow.md").read_text()
    blocks: list[str] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    [text] = [block for block in blocks if "external_python" in block]
    ours = make_venv("ours", (str(REPOSITORY),), root=folder)
    # Of the source that Airflow's own processes run, nothing must be found there.
    apart = f'"{ours.python}", env_vars={{"PYTHONPATH": ""}}'
    return (
        text.replace('"/opt/venvs/mlcat/bin/python"', apart)
        .replace("/opt/airflow/recipes", str(folder))
        .replace("@daily", "@yearly")
    )


def connection(catalog: RunningCatalog, under: str = "") -> dict[str, str]:
    given = {"conn_type": "mlcat", "host": f"{catalog.url}{under}", "password": TOKEN}
    return {"AIRFLOW_CONN_MLCAT_DEFAULT": json.dumps(given)}


def variables(catalog: RunningCatalog) -> dict[str, str]:
    return {"MLCAT_SERVER": catalog.url, "MLCAT_TOKEN": TOKEN}


@pytest.fixture(scope="module")
def expected(world: World) -> dict[str, Any]:
    """What one run of the command leaves in a catalog."""
    with (
        running_catalog(world.folder / "whole.db", token=TOKEN) as catalog,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in {**variables(catalog), "MLFLOW_TRACKING_URI": world.mlflow.url}.items():
            patch.setenv(name, value)
        assert call([str(world.folder / "whole.yml"), "-q"]) == 0
        found = entities(catalog)
    assert len(found) > 1_040
    return found


def entities(catalog: RunningCatalog) -> dict[str, Any]:
    """Return all aspects of all entities, but for the reports of runs."""
    rows = select(entity.c.urn).where(entity.c.entity_type.not_in(REPORTS))
    urns = catalog.store.read(lambda connection: connection.scalars(rows).all())
    stored = catalog.store.get_many(urns)
    return {urn: {name: one.value for name, one in stored[urn].items()} for urn in urns}


@dataclass(frozen=True)
class Ran:
    """What became of a run of a DAG: its state, its tasks, and what is in the catalog."""

    state: str
    tasks: list[dict[str, Any]]
    found: dict[str, Any]
    logs: str

    def of(self, task_id: str) -> list[dict[str, Any]]:
        return sorted(
            (one for one in self.tasks if one["task_id"] == task_id), key=itemgetter("map_index")
        )


def ran(airflow: AirflowService, dag_id: str, run_id: str, catalog: RunningCatalog) -> Ran:
    """Wait for the end of a run, and return what became of it."""
    state = airflow.ended(dag_id, run_id)
    return Ran(state, airflow.tasks(dag_id, run_id), entities(catalog), airflow.logs())


@pytest.fixture(scope="module")
def local(world: World) -> dict[str, Ran]:
    """What becomes of the DAGs when they are switched on, with tasks on the scheduler's machine."""
    airflow, folder = world.airflow, world.folder
    with (
        running_catalog(folder / "local.db", token=TOKEN) as shards,
        running_catalog(folder / "external.db", token=TOKEN) as external,
        airflow.scheduler("LocalExecutor", **connection(shards), **variables(external)),
    ):
        catalogs = {DAG: shards, EXTERNAL: external}
        for dag_id in catalogs:
            airflow.switch_on(dag_id)
        return {
            dag_id: ran(airflow, dag_id, airflow.scheduled(dag_id), catalog)
            for dag_id, catalog in catalogs.items()
        }


@dataclass(frozen=True)
class Killed:
    """A run of which one worker was killed: its end, and the shard that the worker was at."""

    ran: Ran
    shard: int
    written: int


@pytest.fixture(scope="module")
def killed(world: World, local: dict[str, Ran]) -> Killed:
    """What becomes of the DAG when a worker is lost while it writes."""
    assert local[DAG].state == "success", local[DAG].logs  # it is switched on
    airflow = world.airflow
    gates: list[HeldWrites] = []

    def around(app: ASGIApp) -> ASGIApp:
        gates.append(HeldWrites(app, under="/gms/", passing=1))
        return gates[0]

    with (
        running_catalog(world.folder / "celery.db", token=TOKEN, around=around) as catalog,
        closing(gates[0]) as gate,
        celery(airflow.airflow) as settings,
        airflow.worker("lost", 1, **settings, **connection(catalog, "/gms")) as lost,
        airflow.worker("kept", 2, **settings, **connection(catalog)) as kept,
        airflow.scheduler("CeleryExecutor", **settings),
    ):
        airflow.until("workers", lambda: all("ready." in one.output() for one in (lost, kept)))
        run_id = airflow.trigger(DAG, {"shards": SHARDS, "least_size": 1})
        airflow.until("write of the worker", lambda: gate.waiting > 0)
        written = len(entities(catalog))
        [shard] = [
            one["map_index"]
            for one in airflow.tasks(DAG, run_id)
            if one["state"] == "running" and one["pid"] in lost.members()
        ]
        airflow.kill(lost)
        gate.close()
        return Killed(ran(airflow, DAG, run_id, catalog), shard, written)


def test_a_switched_on_dag_ends_as_one_run_does(
    local: dict[str, Ran], expected: dict[str, Any]
) -> None:
    run = local[DAG]
    assert run.state == "success", run.logs
    assert len(run.of("ingest")) > 1
    assert run.found == expected


def test_another_venv_ends_as_one_run_does(local: dict[str, Ran], expected: dict[str, Any]) -> None:
    run = local[EXTERNAL]
    assert run.state == "success", run.logs
    assert run.found == expected


def test_a_killed_workers_shard_is_read_anew_and_all_ends_as_one_run_does(
    killed: Killed, expected: dict[str, Any]
) -> None:
    run = killed.ran
    assert run.state == "success", run.logs
    shards = run.of("ingest")
    assert [one["state"] for one in shards] == ["success"] * SHARDS
    assert shards[killed.shard]["try_number"] > 1
    assert 0 < killed.written < len(expected)
    assert run.found == expected
