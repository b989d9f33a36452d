"""A recipe inside `datahub ingest`, by each release of DataHub's command line that we support."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.catalog_server import RunningCatalog, running_catalog
from support.datahub_cli import DataHubCli
from support.small_store import GROUP, A, B, SmallStore, make
from support.venvs import OURS, REPOSITORY, install_metadata, venv_for

TOKEN = "secret-token"


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("packages")
    install_metadata(folder)
    return os.pathsep.join(map(str, (REPOSITORY / "src", folder)))


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[RunningCatalog]:
    with running_catalog(tmp_path / "c.db", token=TOKEN) as running:
        yield running


@pytest.fixture
def store(tmp_path: Path) -> SmallStore:
    return make(tmp_path)


@pytest.fixture(params=["1.4", "1.5", "1.6", "1.7"])
def cli(
    request: pytest.FixtureRequest, catalog: RunningCatalog, tmp_path: Path, packages: str
) -> DataHubCli:
    if request.param == "1.7":
        return DataHubCli(catalog.url, tmp_path, TOKEN, OURS)
    return DataHubCli(catalog.url, tmp_path, TOKEN, venv_for(f"datahub-{request.param}"), packages)


def write(cli: DataHubCli, config: dict[str, Any], **more: Any) -> str:
    recipe = {
        "pipeline_name": "models-in-datahub",
        "source": {"type": "mlcat", "config": config},
        "sink": {"type": "datahub-rest", "config": {"server": cli.server, "token": cli.token}},
    }
    path = cli.home / "recipe.yml"
    path.write_text(yaml.safe_dump(recipe | more))
    return str(path)


MLFLOW = {"source": {"type": "mlflow", "config": {"tracking_uri": "sqlite:///mlflow.db"}}}


def test_two_runs(cli: DataHubCli, catalog: RunningCatalog, store: SmallStore) -> None:
    recipe = write(cli, MLFLOW, run_id="first")
    done = cli.run("ingest", "-c", recipe, "--no-spinner")
    printed = done.stdout + done.stderr
    assert "models-in-datahub: everything arrived" in printed
    assert "Pipeline finished successfully" in printed
    assert "No metadata was produced" not in printed
    stored = catalog.store.get_many([A, B, GROUP], ["mlModelProperties", "mlModelGroupProperties"])
    model = stored[A]["mlModelProperties"]
    assert model.value["name"] == "run a"
    assert "mlcat.applied.models-in-datahub" in model.value["customProperties"]
    assert model.system_metadata["runId"] == "first"
    # DataHub lists the run, and we do not list it again.
    assert catalog.store.list_urns("dataHubExecutionRequest").total == 1

    again = write(cli, MLFLOW, run_id="second")
    cli.run("ingest", "-c", again, "--no-spinner")
    assert catalog.store.get_many([A, B, GROUP], [*stored[A], *stored[GROUP]]) == stored

    store.add_run("c")
    store.change("DELETE FROM params WHERE run_uuid = 'a'")
    cli.run("ingest", "-c", again, "--no-spinner", "--dry-run")
    assert catalog.store.list_urns("mlModel").total == 2


def test_what_is_wrong_ends_the_command(cli: DataHubCli, store: SmallStore) -> None:
    assert store.mlflow.exists()
    wrong = {"source": {"type": "mlflow", "config": {"tracking_url": "sqlite:///mlflow.db"}}}
    refused = cli.run("ingest", "-c", write(cli, wrong), "--no-spinner", check=False)
    assert refused.returncode == 1
    printed = refused.stdout + refused.stderr
    assert "source.config.tracking_url: is not a known key; did you mean `tracking_uri`?" in printed

    away = {"source": {"type": "mlflow", "config": {"tracking_uri": "sqlite:///away.db"}}}
    failed = cli.run("ingest", "-c", write(cli, away), "--no-spinner", check=False)
    assert failed.returncode == 1
    assert "Pipeline finished with at least 1 failures" in failed.stdout


def test_connection(cli: DataHubCli, store: SmallStore) -> None:
    assert store.mlflow.exists()
    report = cli.home / "report.json"
    asked = ("--test-source-connection", "--report-to", str(report))
    cli.run("ingest", "-c", write(cli, MLFLOW), *asked)
    found = json.loads(report.read_text())
    assert found["basic_connectivity"] == {"capable": True}
    runs = found["capability_report"]["source mlflow: MLflow permission: read runs"]
    assert runs == {"capable": True}

    away = {"source": {"type": "mlflow", "config": {"tracking_uri": "sqlite:///away.db"}}}
    cli.run("ingest", "-c", write(cli, away), *asked)
    found = json.loads(report.read_text())
    assert not found["basic_connectivity"]["capable"]
    assert "away.db" in found["basic_connectivity"]["failure_reason"]
