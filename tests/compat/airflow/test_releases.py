"""The DAG files that come with us, run by each Airflow 3, in an environment as of its release."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.airflow_home import make_airflow
from support.bulk_runs import insert_runs
from support.catalog_server import running_catalog
from support.mlflow_server import MlflowServer, running
from support.venvs import OURS

pytestmark = [pytest.mark.compat, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def mlflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MlflowServer]:
    with running(OURS, tmp_path_factory.mktemp("releases")) as mlflow:
        insert_runs(mlflow.db_path, 12, experiments=3)
        yield mlflow


def recipe(folder: Path, env: str) -> str:
    """Return the path of a recipe that gives each run a model of its own in `env`."""
    path = folder / f"{env}.yml"
    config = f"{{tracking_uri: '${{MLFLOW_TRACKING_URI}}', env: {env}}}"
    path.write_text(f"name: {env.lower()}\nsource: {{type: mlflow, config: {config}}}\n")
    return str(path)


@pytest.mark.parametrize("release", ["3.0", "3.1", "3.2", "3.3"])
def test_the_dags_run_on_each_release(release: str, mlflow: MlflowServer, tmp_path: Path) -> None:
    with running_catalog(tmp_path / "catalog.db") as catalog:
        airflow = make_airflow(
            tmp_path,
            release,
            AIRFLOW__MLCAT__LISTENER="True",
            AIRFLOW_CONN_MLCAT_DEFAULT=json.dumps({"conn_type": "mlcat", "host": catalog.url}),
            MLFLOW_TRACKING_URI=mlflow.url,
        )
        if release == "3.0":
            # By this alone assets become active there.
            airflow.run("dags", "reserialize")
        test = ("dags", "test")
        printed = airflow.run(*test, "mlcat_simple", MLCAT_RECIPE=recipe(tmp_path, "PROD"))
        assert catalog.store.list_urns("mlModel").total == 12
        shards = json.dumps({"shards": 2, "least_size": 1})
        printed += airflow.run(
            *(*test, "mlcat_ingest", "--conf", shards), MLCAT_RECIPE=recipe(tmp_path, "QA")
        )
        assert catalog.store.list_urns("mlModel").total == 24
    for failure in ("Failed to import plugin", "error calling listener"):
        assert failure not in printed
