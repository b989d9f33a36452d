"""NaN and infinity as MLflow's own stores keep them: of a run, of a logged model, of a version."""

import json
from math import inf, nan
from pathlib import Path
from typing import Any

from support.cli import report_of
from support.mlflow_server import running
from support.seeded_store import new_seeded_database
from support.venvs import OURS

VALUES = {"diverged": nan, "up": inf, "down": -inf, "zero": 0.0, "fine": 0.25}


def metrics(entities: list[Any], name: str) -> dict[str, str]:
    [found] = [
        one["aspect"]["json"]["trainingMetrics"]
        for one in entities
        if one["aspectName"] == "mlModelProperties" and name in one["entityUrn"]
    ]
    return {metric["name"]: metric["value"] for metric in found if metric["name"] in VALUES}


def test_a_version_has_the_nan_of_its_run(tmp_path: Path) -> None:
    from mlflow import MlflowClient

    new_seeded_database(tmp_path / "mlflow.db")
    with running(OURS, tmp_path) as server:
        client: Any = MlflowClient(server.url)
        run = client.create_run("0")
        model = client.create_logged_model("0", name="net", source_run_id=run.info.run_id)
        client.log_outputs(run.info.run_id, [_output(model.model_id)])
        for key, value in VALUES.items():
            client.log_metric(run.info.run_id, key, value, step=3, model_id=model.model_id)
        client.create_registered_model("diverged_net")
        client.create_model_version(
            "diverged_net", f"models:/{model.model_id}", run.info.run_id, model_id=model.model_id
        )
        found = {}
        for name, uri in (("server", server.url), ("database", f"sqlite:///{tmp_path}/mlflow.db")):
            recipe = tmp_path / f"{name}.yml"
            recipe.write_text(
                f"name: {name}\nsource: {{type: mlflow, config: {{tracking_uri: '{uri}'}}}}\n"
                f"sink: {{type: file, config: {{path: {name}.json}}}}\n"
            )
            report = report_of(recipe)
            entities = json.loads((tmp_path / f"{name}.json").read_text())
            for what in ("diverged_net_1", run.info.run_id):
                found[name, what] = metrics(entities, what)
            assert report["notes"]["model_metric_nan"] == 2
    expected = {"diverged": "NaN", "up": "Infinity", "down": "-Infinity", "zero": "0.0"}
    for values in found.values():
        assert values == {**expected, "fine": "0.25"}


def _output(model_id: str) -> Any:
    from mlflow.entities import LoggedModelOutput

    return LoggedModelOutput(model_id, step=0)
