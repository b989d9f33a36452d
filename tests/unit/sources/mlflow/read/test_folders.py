"""A folder store with damage: its other objects are listed, and what is damaged is not gone."""

import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.client import ClientReader
from mlcat_ingest.sources.mlflow.read.reader import MlflowObject

# MLflow 3.10 warns of folder stores, and Python 3.14 of how MLflow opens their files.
pytestmark = [
    pytest.mark.process,
    pytest.mark.filterwarnings("ignore:.*:FutureWarning"),
    pytest.mark.filterwarnings("ignore:codecs.open:DeprecationWarning"),
]

KINDS = ("experiment", "run", "logged_model", "registered", "version")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A store with two objects of each kind; the folders and names of the first ones."""
    root = tmp_path_factory.mktemp("mlruns")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        patch.setenv("MLFLOW_TRACKING_URI", root.as_uri())
        from mlflow import MlflowClient

        client = MlflowClient(root.as_uri(), root.as_uri())
        experiment, run, model = "", "", ""
        for name in ("whole", "damaged"):
            experiment = client.create_experiment(name)
            run = client.create_run(experiment).info.run_id
            model = client.create_logged_model(experiment, name=name).model_id
            client.create_registered_model(name)
            client.create_model_version(name, "s3://bucket/model", run)
    folders = {
        "experiment": (root / experiment, experiment, ""),
        "run": (root / experiment / run, run, ""),
        "logged_model": (root / experiment / "models" / model, model, ""),
        "registered": (root / "models" / "damaged", "damaged", ""),
        "version": (root / "models" / "damaged" / "version-1", "damaged", "1"),
    }
    return root, folders


def names(reader: ClientReader) -> dict[str, set[str]]:
    """Return what is listed, by kind."""
    experiments = [one for page in reader.experiments() for one in page]
    ids = [one.experiment_id for one in experiments]
    return {
        "experiment": set(ids),
        "run": {one.run_id for page in reader.runs(ids) for one in page},
        "logged_model": {one.model_id for page in reader.logged_models(ids) for one in page},
        "registered": {one.name for page in reader.registered_models() for one in page},
        "version": {one.name for page in reader.model_versions() for one in page},
    }


@pytest.mark.parametrize("content", [None, "", "{{{: no yaml", "[a list]"], ids=repr)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_damaged_is_kept_and_all_else_is_listed(
    made: tuple[Path, dict[str, Any]],
    kind: Any,
    content: str | None,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    root, folders = made
    store = tmp_path / "store"
    shutil.copytree(root, store)
    folder, name, version = folders[kind]
    meta = store / folder.relative_to(root) / "meta.yaml"
    if content is None:
        meta.unlink()
    else:
        meta.write_text(content)
    reader = ClientReader(MlflowConfig(tracking_uri=store.as_uri()))
    with caplog.at_level(logging.WARNING):
        listed = names(reader)
        assert not reader.is_gone(MlflowObject(kind, name, version))
        assert {finding.outcome for finding in reader.check()} <= {"ok", "warning"}
    assert name not in listed[kind]
    assert all(len(found) >= 1 for found in listed.values())
    [message] = {record.getMessage() for record in caplog.records}
    assert str(meta) in message
    assert "restore the file, or delete its folder" in message
    assert not any(record.exc_info for record in caplog.records)


@pytest.mark.parametrize("folder", ["", "tags", "params", "metrics"])
def test_a_run_without_its_folder_is_gone_and_one_without_a_folder_of_it_is_listed(
    made: tuple[Path, dict[str, Any]], folder: str, tmp_path: Path
) -> None:
    root, folders = made
    shutil.copytree(root, tmp_path / "store")
    run, name, _ = folders["run"]
    shutil.rmtree(tmp_path / "store" / run.relative_to(root) / folder)
    reader = ClientReader(MlflowConfig(tracking_uri=(tmp_path / "store").as_uri()))
    assert folder or reader.is_gone(MlflowObject("run", name))
    assert (name in names(reader)["run"]) is bool(folder)
