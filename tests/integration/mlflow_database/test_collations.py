"""Names of versions that MySQL's collation calls equal to the name of their model."""

import json
from collections.abc import Callable
from pathlib import Path

import requests

from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.database.reader import open_database
from mlcat_ingest.sources.mlflow.read.reader import MlflowObject, Reader
from mlcat_ingest.sources.mlflow.read.rest import RestReader
from support.cli import report_of
from support.mlflow_server import running
from support.services import mariadb_database
from support.venvs import OURS

READERS: dict[str, Callable[[MlflowConfig], Reader | None]] = {
    "database": open_database,
    "server": RestReader,
}


def names(reader: Reader) -> tuple[set[str], set[tuple[str, str]]]:
    models = {model.name for page in reader.registered_models() for model in page}
    versions = {(one.name, one.version) for page in reader.model_versions() for one in page}
    return models, versions


def test_a_version_has_the_spelling_of_its_model_and_a_failing_model_hides_no_other(
    tmp_path: Path,
) -> None:
    with (
        mariadb_database() as address,
        running(OURS, tmp_path, extra_args=["--backend-store-uri", address]) as server,
    ):

        def create(kind: str, **body: str) -> None:
            url = f"{server.url}/api/2.0/mlflow/{kind}/create"
            requests.post(url, json=body, timeout=60).raise_for_status()

        for name in ("a", "churn", "trail ", "z"):
            create("registered-models", name=name)
        for name in ("churn", "trail", "TRAIL", "Z"):
            create("model-versions", name=name, source="s3://b/x")
        versions = {("churn", "1"), ("trail ", "1"), ("trail ", "2"), ("z", "1")}
        by_sql = open_database(MlflowConfig(tracking_uri=address))
        assert by_sql is not None
        assert names(by_sql) == ({"a", "churn", "trail ", "z"}, versions)
        by_sql.connection.close()

        # MLflow's server fails at models whose versions have another spelling.
        by_rest = RestReader(MlflowConfig(tracking_uri=server.url))
        models, listed = names(by_rest)
        assert {"a", "churn"} <= models
        assert by_rest.refusals.count == 4 - len(models) > 0
        assert ("churn", "1") in listed
        assert len(listed) == 4
        assert not by_rest.is_gone(MlflowObject("registered", "z"))
        by_rest.connection.close()

        recipe = tmp_path / "recipe.yml"
        recipe.write_text(
            f"source: {{type: mlflow, config: {{tracking_uri: '{server.url}'}}}}\n"
            "sink: {type: file, config: {path: out.json}}\n"
        )
        assert "MLflow failed to list it" in json.dumps(report_of(recipe, code=4))
