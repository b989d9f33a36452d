"""Runs and versions in states that libraries and operators leave behind, by MLflow's client."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.cli.main import call
from mlcat_ingest.testing.mlflow_store import mlflow_client

Entities = dict[str, dict[str, Any]]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Any]:
    with mlflow_client(f"sqlite:///{tmp_path}/mlflow.db") as client:
        yield client


def ingested(folder: Path, limit: str = "null") -> Entities:
    """Return the aspects of each model after a run of a recipe that reads everything."""
    recipe = folder / "recipe.yml"
    config = f"{{tracking_uri: 'sqlite:///{folder}/mlflow.db', limit: {limit}}}"
    recipe.write_text(
        f"name: states\nsource: {{type: mlflow, config: {config}}}\n"
        "sink: {type: file, config: {path: out.json}}\n"
    )
    assert call([str(recipe), "--full", "-q"]) == 0
    models: Entities = {}
    for one in json.loads((folder / "out.json").read_text()):
        if one["entityType"] == "mlModel":
            name = one["entityUrn"].split(",")[1]
            models.setdefault(name, {})[one["aspectName"]] = one["aspect"]["json"]
    return models


def metrics_of(model: dict[str, Any]) -> dict[str, str]:
    found = model["mlModelProperties"].get("trainingMetrics", ())
    return {metric["name"]: metric["value"] for metric in found}


def logged_model(client: Any, run_id: str, name: str, **metrics: float) -> Any:
    from mlflow.entities import LoggedModelOutput

    model = client.create_logged_model("0", name=name, source_run_id=run_id)
    client.log_outputs(run_id, [LoggedModelOutput(model.model_id, step=0)])
    for key, value in metrics.items():
        client.log_metric(run_id, key, value, model_id=model.model_id)
    return model


def registered(client: Any, model: Any, name: str) -> None:
    client.create_registered_model(name)
    source = f"models:/{model.model_id}"
    client.create_model_version(name, source, model.source_run_id, model_id=model.model_id)


def test_each_of_two_fits_of_one_run_has_its_own_metrics(tmp_path: Path, client: Any) -> None:
    run_id = client.create_run("0").info.run_id
    for name, value in (("first", 0.25), ("second", 0.75)):
        registered(client, logged_model(client, run_id, "model", rsquared=value), name)
    client.set_terminated(run_id)
    models = ingested(tmp_path)
    assert metrics_of(models["first_1"]) == {"rsquared": "0.25"}
    assert metrics_of(models["second_1"]) == {"rsquared": "0.75"}


# With a limit the models of the runs are asked for, instead of all.
@pytest.mark.parametrize("limit", ["null", "2", "1"])
def test_a_model_that_two_runs_name_is_on_both(tmp_path: Path, client: Any, limit: str) -> None:
    from mlflow.entities import LoggedModelOutput

    first, second = (client.create_run("0", start_time=at).info.run_id for at in (1, 2))
    model = logged_model(client, first, "net", auc=0.5)
    client.log_outputs(second, [LoggedModelOutput(model.model_id, step=3)])
    models = ingested(tmp_path, limit)
    assert models.keys() == ({second} if limit == "1" else {first, second})
    for run in models.values():
        assert run["mlModelProperties"]["customProperties"]["mlflow.model_id"] == model.model_id
        assert metrics_of(run) == {"auc": "0.5"}


def test_a_metric_logged_for_all_models_of_a_run_is_on_each(tmp_path: Path, client: Any) -> None:
    from mlflow.entities import Metric

    run_id = client.create_run("0").info.run_id
    made = [logged_model(client, run_id, name) for name in ("first", "second")]
    late_ms = made[-1].creation_timestamp + 1
    auc = [Metric("auc", 0.5, late_ms, 0, model_id=one.model_id, run_id=run_id) for one in made]
    client.log_batch(run_id, auc)  # as `mlflow.log_metrics` does
    for model in made:
        registered(client, model, model.name)
    models = ingested(tmp_path)
    assert metrics_of(models["first_1"]) == metrics_of(models["second_1"]) == {"auc": "0.5"}
    assert metrics_of(models[run_id]) == {"auc": "0.5", "first/auc": "0.5", "second/auc": "0.5"}


def test_what_a_run_measures_of_an_older_model_hides_nothing_of_its_own(
    tmp_path: Path, client: Any
) -> None:
    first, second = (client.create_run("0").info.run_id for _ in range(2))
    champion = logged_model(client, first, "net", auc=0.7)
    registered(client, logged_model(client, second, "net", auc=0.9), "churn")
    client.log_metric(second, "auc", 0.8, model_id=champion.model_id)
    models = ingested(tmp_path)
    assert client.get_run(second).data.metrics == {"auc": 0.8}
    assert metrics_of(models[second]) == {"auc": "0.8", "net/auc": "0.9"}
    assert metrics_of(models["churn_1"]) == {"auc": "0.9"}
    assert metrics_of(models[first]) == {"auc": "0.7", "net/auc": "0.8"}


def test_a_run_that_failed_after_its_training_keeps_its_model(tmp_path: Path, client: Any) -> None:
    run_id = client.create_run("0").info.run_id
    registered(client, logged_model(client, run_id, "booster", logloss=0.5), "churn")
    client.set_terminated(run_id, "FAILED")
    models = ingested(tmp_path)
    properties = models[run_id]["mlModelProperties"]
    assert properties["customProperties"]["mlflow.status"] == "FAILED"
    assert metrics_of(models[run_id]) == metrics_of(models["churn_1"]) == {"logloss": "0.5"}


def test_what_is_measured_after_the_end_of_a_run_arrives(tmp_path: Path, client: Any) -> None:
    run_id = client.create_run("0").info.run_id
    client.set_terminated(run_id, end_time=2_000)
    ingested(tmp_path)
    client.log_metric(run_id, "late", 0.5)
    properties = ingested(tmp_path)[run_id]["mlModelProperties"]
    assert [metric["name"] for metric in properties["trainingMetrics"]] == ["late"]
    assert properties["lastModified"]["time"] == 2_000


def test_a_version_stays_when_its_run_is_deleted_for_good(tmp_path: Path, client: Any) -> None:
    run_id = client.create_run("0").info.run_id
    model = logged_model(client, run_id, "net", auc=0.5)
    registered(client, model, "churn")
    client.set_terminated(run_id)
    client.delete_run(run_id)
    client._tracking_client.store._hard_delete_run(run_id)  # as `mlflow gc` does
    models = ingested(tmp_path)
    assert run_id not in models
    assert models["churn_1"]["mlModelProperties"]["customProperties"]["mlflow.run_id"] == run_id
