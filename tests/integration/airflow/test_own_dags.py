"""DAGs of users, in a real Airflow: one trains, one meets a catalog that is down, one is README's.

The models that the first trained say which task it was.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.airflow_home import Outcome, Step, make_airflow
from support.catalog_server import running_catalog
from support.mlflow_server import running
from support.ports import free_port
from support.venvs import OURS, REPOSITORY, venv_for

pytestmark = pytest.mark.timeout(1800)

TRAINING = """
from datetime import UTC, datetime

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import dag


@dag(dag_id="training", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC))
def training():
    command = 'exec "$TRAINER" -P -c "$SCRIPT"'
    BashOperator(task_id="once", bash_command=command)
    BashOperator.partial(task_id="many", bash_command=command, append_env=True).expand(
        env=[{"SEED": "1"}, {"SEED": "2"}]
    )


training()
"""

WAITING = """
import os
from datetime import UTC, datetime, timedelta

from airflow.sdk import dag

from mlcat_ingest.airflow.operator import MlcatIngestOperator


def comes_up(context):
    os.environ["AIRFLOW_CONN_MLCAT_DEFAULT"] = os.environ["AIRFLOW_CONN_UP"]


@dag(dag_id="waiting", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC))
def waiting():
    MlcatIngestOperator(
        task_id="ingest",
        recipe={"name": "inline", "source": {"type": "mlflow"}},
        mlcat_conn_id="mlcat_default",
        retries=3,
        retry_delay=timedelta(0),
        on_retry_callback=comes_up,
    )


waiting()
"""

(README_DAG,) = re.findall(
    r"```python\n(.*?)```", (REPOSITORY / "README.md").read_text(), re.DOTALL
)
RECIPE = "/opt/airflow/recipes/mlflow.yml"

SCRIPT = """
import mlflow
with mlflow.start_run():
    mlflow.log_metric("auc", 0.9)
"""


@dataclass(frozen=True)
class World:
    outcome: Outcome
    models: list[dict[str, Any]]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("listener")
    dags = folder / "dags"
    dags.mkdir()
    (dags / "training.py").write_text(TRAINING)
    (dags / "waiting.py").write_text(WAITING)
    (dags / "readme.py").write_text(README_DAG.replace(RECIPE, str(folder / "mlflow.yml")))
    (folder / "mlflow.yml").write_text("name: readme\nsource: {type: mlflow}\n")
    airflow = make_airflow(folder)
    # An interpreter that has nothing of ours trains.
    trainer = str(venv_for("mlflow-skinny-3.17").python)
    with (
        running(OURS, folder / "store") as mlflow,
        running_catalog(folder / "catalog.db") as catalog,
    ):
        variables = environment(dags, catalog.url)
        up = {"AIRFLOW_CONN_MLCAT_DEFAULT": variables["AIRFLOW_CONN_UP"]}
        outcome = airflow.script(
            [Step("training"), Step("waiting"), Step("mlflow_to_catalog", env=up)],
            **variables,
            TRAINER=trainer,
            MLFLOW_TRACKING_URI=mlflow.url,
        )
        urns = catalog.store.list_urns("mlModel", 0, 10).urns
        stored = catalog.store.get_many(urns, ("mlModelProperties",))
        models = [dict(stored[urn]["mlModelProperties"].value) for urn in urns]
    return World(outcome, models)


def environment(dags: Path, catalog: str) -> dict[str, str]:
    down = {"conn_type": "mlcat", "host": f"http://127.0.0.1:{free_port()}"}
    return {
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__MLCAT__LISTENER": "True",
        "AIRFLOW__API__BASE_URL": "https://airflow.example.com",
        "AIRFLOW_CONN_MLCAT_DEFAULT": json.dumps({**down, "extra": {"retries": 0}}),
        "AIRFLOW_CONN_UP": json.dumps({**down, "host": catalog}),
        "MLFLOW_RUN_CONTEXT": json.dumps({"team": "risk"}),
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "SCRIPT": SCRIPT,
    }


def test_models_name_their_tasks_and_the_dag_run(world: World) -> None:
    assert world.outcome.import_errors == {}
    assert world.outcome.runs[0]["state"] == "success", world.outcome.printed
    found = sorted(
        (custom["airflow.task_id"], custom.get("airflow.map_index"), job)
        for model in world.models
        for custom in [model["customProperties"]]
        for job in model["trainingJobs"]
    )
    job = "urn:li:dataJob:(urn:li:dataFlow:(airflow,training,prod),{})".format
    assert found == [
        ("many", "0", job("many")),
        ("many", "1", job("many")),
        ("once", None, job("once")),
    ]


def test_each_run_leads_to_the_page_of_its_task(world: World) -> None:
    assert len(world.models) == 3
    for model in world.models:
        custom = model["customProperties"]
        assert custom["airflow.dag_id"] == "training"
        assert custom["airflow.url"].startswith("https://airflow.example.com/dags/training/runs/")
        assert custom["airflow.dag_run_id"].startswith("manual__")


def test_tags_that_others_give_to_runs_stay(world: World) -> None:
    assert [model["customProperties"]["team"] for model in world.models] == ["risk"] * 3


def test_a_catalog_that_is_not_there_yet_costs_one_attempt(world: World) -> None:
    run = world.outcome.runs[1]
    assert run["state"] == "success", world.outcome.printed
    assert [(task, tries) for task, _, _, tries, _ in run["tasks"]] == [("ingest", 2)]
    assert "CatalogUnavailableError" in world.outcome.printed


def test_the_dag_of_the_readme_ingests(world: World) -> None:
    assert RECIPE in README_DAG
    assert world.outcome.runs[2]["state"] == "success", world.outcome.printed
    for model in world.models:
        assert "mlcat.applied.readme" in model["customProperties"]


def test_the_listener_is_there_since_it_was_asked_for(world: World) -> None:
    assert world.outcome.found["listeners"] == ["mlcat_ingest.airflow.listener"]
