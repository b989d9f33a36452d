import math
from typing import Any

import pytest

from mlcat_ingest.sources.mlflow.read import decode
from mlcat_ingest.sources.mlflow.read.decode import Refusals
from mlcat_ingest.sources.mlflow.values.joined import RUN
from mlcat_ingest.sources.mlflow.values.records import (
    DatasetInput,
    Metric,
    ModelOutput,
    RegisteredModel,
    Run,
    name_of,
)


def test_a_bare_run() -> None:
    assert decode.run({"info": {"run_id": "r", "experiment_id": 7}}) == Run("r", "7")


def test_a_full_run_with_integers_as_text() -> None:
    run = decode.run(
        {
            "info": {
                "run_id": "r",
                "experiment_id": "7",
                "run_name": "",
                "user_id": "ada",
                "status": "FINISHED",
                "start_time": "1700000000000",
                "end_time": 1700000001000,
                "artifact_uri": "s3://a",
                "lifecycle_stage": "deleted",
            },
            "data": {
                "metrics": [
                    {"key": "z", "value": "NaN", "timestamp": "5", "step": "3", "model_id": "m"},
                    {"key": "b", "value": "-Infinity"},
                    {"key": "a", "value": "Infinity", "dataset_name": "d", "dataset_digest": "x"},
                    {"key": "c", "value": 2, "timestamp": 0, "step": -1},
                    {"key": "d"},
                ],
                "params": [{"key": "p", "value": "1"}, {"key": "empty"}],
                "tags": [{"key": "mlflow.runName", "value": "named by tag"}],
            },
            "inputs": {
                "dataset_inputs": [
                    {"dataset": {"name": "z"}},
                    {
                        "tags": [{"key": "mlflow.data.context", "value": "training"}],
                        "dataset": {
                            "name": "a",
                            "digest": "1",
                            "source_type": "s3",
                            "source": "{}",
                            "schema": "{}",
                            "profile": "{}",
                        },
                    },
                ],
                "model_inputs": [{"model_id": "m-2"}, {"model_id": "m-1"}],
            },
            "outputs": {"model_outputs": [{"model_id": "m-4", "step": "2"}, {"model_id": "m-3"}]},
        }
    )
    assert (name_of(run), run.start_time_ms, run.end_time_ms) == (
        "named by tag",
        1_700_000_000_000,
        1_700_000_001_000,
    )
    assert run.metrics[0] == Metric("a", math.inf, None, 0, None, "d", "x")
    assert run.metrics[1] == Metric("b", -math.inf, None, 0)
    assert run.metrics[2] == Metric("c", 2.0, None, -1)
    assert run.metrics[3].value == 0.0
    assert math.isnan(run.metrics[4].value)
    assert run.metrics[4][2:5] == (5, 3, "m")
    assert run.params == {"p": "1", "empty": ""}
    assert run.datasets == (
        DatasetInput("a", "1", "s3", "{}", "{}", "{}", {"mlflow.data.context": "training"}),
        DatasetInput("z", "", "", ""),
    )
    assert run.model_inputs == ("m-1", "m-2")
    assert run.model_outputs == (ModelOutput("m-3", 0), ModelOutput("m-4", 2))


def of_run(**more: Any) -> dict[str, Any]:
    return {"info": {"run_id": "r", "experiment_id": "1", **more.pop("info", {})}, **more}


STRANGE_RUNS = [
    (3, "run without a usable id", "'int' object is not subscriptable"),
    ({}, "run without a usable id", "info is missing"),
    ({"info": None}, "run without a usable id", "info is no object"),
    ({"info": {}}, "run without a usable id", "run_id: no value"),
    (of_run(info={"run_id": {"a": 1}}), "run without a usable id", "run_id: dict is no text"),
    (of_run(info={"start_time": "12x"}), "run r", "start_time_ms: '12x' is no number"),
    (of_run(info={"end_time": []}), "run r", "end_time_ms: list is no number"),
    (of_run(info={"run_name": 7}), "run r", "name: 7 is no text"),
    (of_run(info={"experiment_id": ["1"]}), "run r", "experiment_id: list is no text"),
    (of_run(data={"tags": {"a": "b"}}), "run r", "tags: string indices must be integers"),
    (of_run(data={"params": [{"key": "a", "value": 1}]}), "run r", "params: 1 is no text"),
    (of_run(data={"params": [{"value": "1"}]}), "run r", "params: key is missing"),
    (of_run(data={"metrics": [{"key": "a", "value": "x"}]}), "run r", "metrics: could not convert"),
    (of_run(data={"metrics": [{"key": 5, "value": 1}]}), "run r", "metrics: 5 is no text"),
    (of_run(inputs={"dataset_inputs": [{}]}), "run r", "inputs: dataset is missing"),
    (of_run(outputs={"model_outputs": [{"model_id": 1}]}), "run r", "model_outputs: 1 is no text"),
]


@pytest.mark.parametrize(("item", "reference", "reason"), STRANGE_RUNS)
def test_a_record_that_cannot_be_read_is_refused_and_the_others_are_read(
    item: Any, reference: str, reason: str
) -> None:
    refusals, good = Refusals(), [of_run(info={"run_id": id_}) for id_ in ("a", "b")]
    for _ in range(2):
        runs = refusals.usable(RUN, decode.run, [good[0], item, good[1]])
        assert [run.run_id for run in runs] == ["a", "b"]
    ids = decode.run_ids([*good, item, item])
    assert ids[:2] == ["a", "b"]
    assert len(set(ids)) == (3 if reference == "run r" else 4)
    (refused,) = refusals.take()[:1]
    assert refused.reference == reference
    assert refused.reason.startswith(reason)
    assert not refusals.take()
    assert refusals.count == (1 if reference == "run r" else 2)


def test_aliases_come_from_the_registered_models() -> None:
    model = decode.registered_model(
        {
            "name": "m",
            "description": "",
            "creation_timestamp": "1",
            "tags": [{"key": "k", "value": "v"}],
            "aliases": [{"alias": "b", "version": 2}, {"alias": "a", "version": "2"}],
        }
    )
    assert model == RegisteredModel("m", None, 1, None, {"k": "v"}, {"b": "2", "a": "2"})
    aliases = decode.Aliases([model, RegisteredModel("n")])
    # Its own list is what SQL stores leave empty, and others out of date.
    version = decode.model_version({"name": "m", "version": 2, "aliases": ["stale"]}, aliases)
    assert version.aliases == ("a", "b")
    assert decode.model_version({"name": "n", "version": "2"}, aliases).aliases == ()


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"source": f"models:/m-{'a' * 32}"}, f"m-{'a' * 32}"),
        ({"source": f"models:/m-{'a' * 32}", "model_id": "m-1"}, "m-1"),
        ({"source": "models:/churn/3"}, None),
        ({"source": f"s3://bucket/models:/m-{'a' * 32}"}, None),
        ({"source": f"mlflow-artifacts:/4/models/m-{'a' * 32}/artifacts"}, f"m-{'a' * 32}"),
        ({"source": f"models:/m-{'a' * 32}/1"}, None),
        ({}, None),
    ],
)
def test_the_logged_model_of_a_version(item: dict[str, Any], expected: str | None) -> None:
    version = decode.model_version({"name": "m", "version": "1", **item}, decode.Aliases([]))
    assert version.model_id == expected


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"source": "runs:/r1/net"}, "r1"),
        ({"source": "runs:/r1/net", "run_id": "r2"}, "r2"),
        ({"source": "s3://b/runs:/r1/net"}, None),
    ],
)
def test_the_run_of_a_version(item: dict[str, Any], expected: str | None) -> None:
    version = decode.model_version({"name": "m", "version": "1", **item}, decode.Aliases([]))
    assert version.run_id == expected


@pytest.mark.parametrize(
    ("stage", "expected"),
    [("None", None), (None, None), ("", None), ("Production", "Production")],
)
def test_no_stage_is_spelled_in_three_ways(stage: str | None, expected: str | None) -> None:
    item = {"name": "m", "version": "1", "current_stage": stage}
    assert decode.model_version(item, decode.Aliases([])).stage == expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("LOGGED_MODEL_READY", "READY"),
        ("LOGGED_MODEL_UPLOAD_FAILED", "FAILED"),
        ("LOGGED_MODEL_PENDING", "PENDING"),
        (None, "UNSPECIFIED"),
    ],
)
def test_a_logged_model(status: str | None, expected: str) -> None:
    model = decode.logged_model(
        {
            "info": {
                "model_id": "m-1",
                "experiment_id": 3,
                "status": status,
                "tags": [{"key": "a", "value": "b"}],
            },
            "data": {"params": [{"key": "p", "value": "1"}], "metrics": [{"key": "x", "value": 1}]},
        }
    )
    assert (model.experiment_id, model.name, model.status) == ("3", "", expected)
    assert (model.tags, model.params, len(model.metrics)) == ({"a": "b"}, {"p": "1"}, 1)


def test_an_experiment_with_only_its_name() -> None:
    experiment = decode.experiment({"experiment_id": 0, "name": "Default"})
    assert (experiment.experiment_id, experiment.lifecycle_stage) == ("0", "active")
    assert experiment.created_at_ms is None


@pytest.mark.parametrize(("value", "expected"), [("true", True), ("True", True), ("false", False)])
def test_prompts_are_reported_by_a_tag(value: str, *, expected: bool) -> None:
    assert decode.is_prompt({"mlflow.prompt.is_prompt": value}) is expected
    assert not decode.is_prompt({})
