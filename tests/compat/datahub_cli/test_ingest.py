"""`datahub ingest` into the catalog: every mode of its sink."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.catalog_server import RunningCatalog
from support.datahub_cli import DataHubCli

PLATFORM = "urn:li:dataPlatform:mlflow"


def urns(count: int) -> list[str]:
    return [f"urn:li:mlModel:({PLATFORM},run-{at},PROD)" for at in range(count)]


@pytest.fixture
def cli(catalog: RunningCatalog, tmp_path: Path) -> DataHubCli:
    return DataHubCli(catalog.url, tmp_path)


def ingest(cli: DataHubCli, models: Sequence[str], run_id: str, **sink: Any) -> str:
    """Ingest one properties aspect a model, and return what the command printed."""
    proposals = [
        {
            "entityType": "mlModel",
            "entityUrn": urn,
            "changeType": "UPSERT",
            "aspectName": "mlModelProperties",
            "aspect": {"json": {"description": f"by {run_id}", "customProperties": {"é": "ü"}}},
        }
        for urn in models
    ]
    (cli.home / "mcps.json").write_text(json.dumps(proposals))
    recipe = {
        "run_id": run_id,
        "pipeline_name": "models-of-a-file",
        "source": {"type": "file", "config": {"path": str(cli.home / "mcps.json")}},
        "sink": {"type": "datahub-rest", "config": {"server": cli.server, **sink}},
    }
    path = cli.home / "recipe.yml"
    path.write_text(yaml.safe_dump(recipe))
    done = cli.run("ingest", "-c", str(path), "--no-spinner")
    return done.stdout + done.stderr


def described(catalog: RunningCatalog, models: Sequence[str]) -> set[str]:
    found = catalog.store.get_many(models, ["mlModelProperties"])
    return {found[urn]["mlModelProperties"].value["description"] for urn in models if urn in found}


@pytest.mark.parametrize("endpoint", ["RESTLI", "OPENAPI"])
@pytest.mark.parametrize("mode", ["SYNC", "ASYNC", "ASYNC_BATCH"])
def test_every_mode_of_the_sink(
    cli: DataHubCli, catalog: RunningCatalog, mode: str, endpoint: str
) -> None:
    models = urns(30)
    ingest(cli, models, "first", mode=mode, endpoint=endpoint)
    assert described(catalog, models) == {"by first"}
    for reported in ("dataHubIngestionSource", "dataHubExecutionRequest"):
        assert catalog.store.list_urns(reported).total == 1
