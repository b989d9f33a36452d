"""A run whose MLflow, or whose catalog, does not answer: progress says so."""

import json
import socket
from pathlib import Path

import pytest

from mlcat_ingest.pipeline.report.progress import Progress
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.workflows.ingest import Pipeline
from support import small_store


@pytest.mark.parametrize("silent", ["mlflow", "catalog"])
def test_progress_names_the_side_that_does_not_answer(tmp_path: Path, silent: str) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        mlflow = {"tracking_uri": address, "retries": 1, "timeout_s": 0.4}
        catalog = {"server": address, "token": "", "retries": 1, "timeout_s": 0.4}
        rest = {"type": "rest", "config": catalog}
        file = {"type": "file", "config": {"path": str(tmp_path / "out.jsonl")}}
        recipe = {
            "name": "r",
            "state": {"url": f"sqlite:///{tmp_path}/state.db"},
            "sources": [{"type": "mlflow", "config": mlflow}],
            "sink": rest if silent == "catalog" else file,
        }
        seen: list[Progress] = []
        report = Pipeline(Recipe.parse(json.dumps(recipe))).run(seen.append)
    assert report.exit_code == 1
    waiting = [one.pending_request for one in seen if one.pending_request is not None]
    assert {one.address.startswith(address) for one in waiting} == {True}
    assert waiting[-1].failure.startswith("does not answer: ")


def test_progress_names_the_start_of_the_embedded_catalog(tmp_path: Path) -> None:
    seen: list[Progress] = []
    recipe = Recipe.load(small_store.make(tmp_path).recipe())
    assert Pipeline(recipe).run(seen.append).exit_code == 0
    started = [str(one.pending_request) for one in seen if one.pending_request is not None]
    assert started[0] == "waiting for the embedded catalog (start, 0 s)"
