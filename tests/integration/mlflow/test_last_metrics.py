"""The metrics of runs and logged models, beside what MLflow's own client says of them."""

import math
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.client import ClientReader
from mlcat_ingest.sources.mlflow.read.reader import Reader
from mlcat_ingest.sources.mlflow.read.rest import RestReader
from mlcat_ingest.testing.mlflow_store import mlflow_client
from support.mlflow_readings import entities_of
from support.mlflow_server import running
from support.mlflow_tables import reader_of
from support.seeded_store import START_MS, new_seeded_database
from support.venvs import OURS

HISTORIES = 12
VALUES = (0.5, -0.5, 0.0, -0.0, 1.0, math.nan, math.inf, -math.inf, 5e-324)


def a_history(client: Any, chance: random.Random) -> str:
    """Log metrics of a run and of the models that it made, in any order, at a few moments."""
    from mlflow.entities import LoggedModelOutput, Metric

    run_id = str(client.create_run("0").info.run_id)
    models = [
        client.create_logged_model("0", name=f"net{at}", source_run_id=run_id).model_id
        for at in range(chance.randint(0, 2))
    ]
    client.log_outputs(run_id, [LoggedModelOutput(model, step=0) for model in models])
    for _ in range(chance.randint(1, 25)):
        key, value = chance.choice(("acc", "loss")), chance.choice(VALUES)
        at_ms, step = START_MS + chance.randint(0, 2), chance.randint(-2, 2)
        of_model = chance.choice([None, *models])
        taken = {(one.key, one.timestamp, one.step) for one in metrics_of(client, of_model)}
        if (key, at_ms, step) not in taken:
            client.log_batch(run_id, [Metric(key, value, at_ms, step, model_id=of_model)])
    return run_id


def metrics_of(client: Any, model_id: str | None) -> list[Any]:
    return (client.get_logged_model(model_id).metrics or []) if model_id else []


@pytest.fixture(scope="module")
def readings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Give MLflow's client and, for each reader, the metrics of the models of the catalog."""
    folder = tmp_path_factory.mktemp("last")
    new_seeded_database(folder / "mlflow.db")
    database = f"sqlite:///{folder}/mlflow.db"
    chance = random.Random(20_261)
    with running(OURS, folder) as server, mlflow_client(database) as client:
        for _ in range(HISTORIES):
            a_history(client, chance)
        readers: dict[str, Reader] = {
            "rest": RestReader(MlflowConfig(tracking_uri=server.url)),
            "client": ClientReader(MlflowConfig(tracking_uri=database)),
            "database": reader_of(database),
        }
        found = {}
        for name, reader in readers.items():
            with closing(reader.connection):
                found[name] = dict(map(metrics_by_urn, entities_of(reader)))
        yield client, found


def metrics_by_urn(entity: Entity) -> tuple[str, dict[str, str]]:
    held = entity.aspects.get("mlModelProperties", {}).get("trainingMetrics", ())
    return entity.urn, {one["name"]: one["value"] for one in held}


def same(text: str, value: float) -> bool:
    if abs(value) >= 1.7976931348623157e308:
        return float(text) == math.copysign(math.inf, value)
    return math.isnan(float(text)) if math.isnan(value) else float(text) == value


def test_three_readers_say_what_mlflows_client_says_of_each_run(
    readings: tuple[Any, dict[str, Any]],
) -> None:
    client, found = readings
    runs = client.search_runs(["0"])
    assert len(runs) == HISTORIES
    for run in runs:
        urn = f"urn:li:mlModel:(urn:li:dataPlatform:mlflow,{run.info.run_id},PROD)"
        for reader, models in found.items():
            for key, value in client.get_run(run.info.run_id).data.metrics.items():
                if not key.startswith("system/"):
                    assert same(models[urn][key], value), (reader, key)
    assert found["rest"] == found["client"] == found["database"]


def test_the_metrics_of_each_model_of_several_are_its_last(
    readings: tuple[Any, dict[str, Any]],
) -> None:
    client, found = readings
    looked_at = 0
    for model in client.search_logged_models(["0"]):
        urn = f"urn:li:mlModel:(urn:li:dataPlatform:mlflow,{model.source_run_id},PROD)"
        held = found["rest"].get(urn, {})
        for key in {one.key for one in model.metrics or ()}:
            of_key = [one for one in model.metrics if one.key == key]
            last = max(of_key, key=lambda one: (one.step, one.timestamp, one.value))
            name = f"{model.name}/{key}"
            # NaN is 0 in the tables of logged models.
            if name in held and last.value != 0:
                assert same(held[name], last.value)
                looked_at += 1
    assert looked_at > 0


TRAINING = """
import sys
import mlflow

mlflow.set_tracking_uri(sys.argv[1])
with mlflow.start_run():
    for epoch in range(3):
        mlflow.log_metric("acc", 0.5 + epoch / 8, step=epoch)
        if epoch:
            mlflow.log_metric("val_acc", 0.25 + epoch / 8, step=epoch)
    mlflow.pyfunc.log_model(
        name="net", python_model=lambda rows: rows, registered_model_name="net",
        pip_requirements=[],
    )
"""
"""A training of three epochs, after which its model is logged."""


def test_a_version_has_the_metrics_at_the_end_of_its_training(tmp_path: Path) -> None:
    new_seeded_database(tmp_path / "mlflow.db")
    database = f"sqlite:///{tmp_path}/mlflow.db"
    # MLflow tells child processes of the experiment that another test has set.
    env = {name: value for name, value in os.environ.items() if name != "MLFLOW_EXPERIMENT_ID"}
    command = [sys.executable, "-c", TRAINING, database]
    subprocess.run(command, cwd=tmp_path, env=env, check=True)
    with mlflow_client(database) as client:
        [model] = client.search_logged_models(["0"])
        assert [(one.key, one.value) for one in model.metrics] == [("acc", 0.5)]
    with closing((reader := reader_of(database)).connection):
        found = dict(map(metrics_by_urn, entities_of(reader)))
    version = found["urn:li:mlModel:(urn:li:dataPlatform:mlflow,net_1,PROD)"]
    assert version == {"acc": "0.75", "val_acc": "0.5"}
