"""The DAG files that come with us, run by each Airflow 3, in an environment as of its release."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
import requests

from support.airflow_home import make_airflow
from support.bulk_runs import insert_runs
from support.catalog_server import running_catalog
from support.mlflow_server import MlflowServer, running
from support.venvs import OURS, REPOSITORY

pytestmark = pytest.mark.timeout(900)


DEFINITIONS = REPOSITORY / "recipes" / "definitions"


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
        test = ("dags", "test")
        shards = json.dumps({"shards": 2, "least_size": 1})
        printed = airflow.run_all(
            # By this alone assets become active in 3.0.
            *([(("dags", "reserialize"), {})] if release == "3.0" else []),
            ((*test, "mlcat_simple"), {"MLCAT_RECIPE": recipe(tmp_path, "PROD")}),
            ((*test, "mlcat_ingest", "--conf", shards), {"MLCAT_RECIPE": recipe(tmp_path, "QA")}),
        )
        urns = catalog.store.list_urns("mlModel").urns
        assert Counter(urn.rpartition(",")[2] for urn in urns) == {"PROD)": 12, "QA)": 12}
    for failure in ("Failed to import plugin", "error calling listener"):
        assert failure not in printed


def test_a_task_links_to_the_changed_groups_and_names_them_as_lineage(
    mlflow: MlflowServer, tmp_path: Path
) -> None:
    events = tmp_path / "events.jsonl"
    transport = {"type": "file", "log_file_path": str(events), "append": True}
    with running_catalog(tmp_path / "catalog.db", token="of-the-catalog") as catalog:
        connection = {"conn_type": "mlcat", "host": catalog.url, "password": "of-the-catalog"}
        airflow = make_airflow(
            tmp_path,
            AIRFLOW__OPENLINEAGE__TRANSPORT=json.dumps(transport),
            AIRFLOW_CONN_MLCAT_DEFAULT=json.dumps(connection),
            MLFLOW_TRACKING_URI=mlflow.url.replace("//", "//someone:of-mlflow@"),
        )
        path = tmp_path / "both.yml"
        path.write_text(
            "name: both\nsources:\n"
            "  - {type: mlflow, config: {tracking_uri: '${MLFLOW_TRACKING_URI}'}}\n"
            f"  - {{type: definitions, config: {{path: '{DEFINITIONS}'}}}}\n"
        )
        printed = airflow.run("dags", "test", "mlcat_simple", MLCAT_RECIPE=str(path))
        groups = catalog.store.list_urns("mlModelGroup").urns
        links = re.findall(rf"{catalog.url}/entity/(\S+)", printed)
        assert sorted(map(unquote, links)) == sorted(groups)
        headers = {"Authorization": "Bearer of-the-catalog"}
        page = requests.get(f"{catalog.url}/entity/{links[0]}", headers=headers, timeout=30)
        assert page.ok
    assert "both: everything arrived after" in printed
    assert "\x1b" not in printed
    written = events.read_text()
    [ended] = [
        event
        for event in map(json.loads, written.splitlines())
        if event["eventType"] == "COMPLETE" and event["job"]["name"] == "mlcat_simple.ingest"
    ]

    def named(side: str) -> list[tuple[str, str]]:
        return sorted((one["namespace"], one["name"]) for one in ended[side])

    assert named("inputs") == [(str(DEFINITIONS), "features"), (mlflow.url, "experiments")]
    assert named("outputs") == sorted((catalog.url, urn) for urn in groups)
    assert "of-mlflow" not in written
    assert "of-the-catalog" not in written
