"""Feedback on the traces of evaluation runs: a metric of each run, the same whoever reads it."""

import json
import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.reader import Reader, open_reader
from mlcat_ingest.sources.mlflow.values.feedback import FeedbackMean, evaluation_runs, means_of
from mlcat_ingest.testing.mlflow_store import mlflow_client
from support.mlflow_readings import entities_of
from support.mlflow_server import MlflowServer, running
from support.traces import judge, start_trace
from support.venvs import OURS

pytestmark = pytest.mark.integration

RUNS = 3


@dataclass(frozen=True)
class Evaluations:
    """A server with evaluation runs whose traces were judged, and the ids of these runs."""

    server: MlflowServer
    runs: list[str]

    def reader(self, how: str) -> Reader:
        uri = self.server.url if how == "rest" else f"sqlite:///{self.server.db_path}"
        chosen = "client" if how == "client" else "auto"
        return open_reader(MlflowConfig.model_validate({"tracking_uri": uri, "reader": chosen}))


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Evaluations]:
    with running(OURS, tmp_path_factory.mktemp("mlflow")) as server:
        with mlflow_client(server.url) as client:
            experiment = client.create_experiment("judged")
            tags = {"mlflow.runType": "genai_evaluate"}
            runs = [client.create_run(experiment, tags=tags).info.run_id for _ in range(RUNS)]
            client.log_metric(runs[0], "tone/mean", 0.125)
            other = client.create_run(experiment).info.run_id
        for number, run in enumerate((*runs, *runs, other)):
            start_trace(server.url, experiment, number, run)
        first, second, third = runs
        values: dict[tuple[int, str], list[Any]] = {
            (0, "correct"): ["yes", "NO", "Yes", "perhaps", True, 3, [1], {"a": 1}, None],
            (3, "correct"): [0.25],
            (0, "tone"): [5],
            (0, "fluent"): ["maybe"],
            (1, "correct"): [1e308, 1e308],
            (6, "correct"): [1],
        }
        for (trace, name), listed in values.items():
            for value in listed:
                judge(server.url, trace, name, value)
        judge(server.url, 1, "own", 1, {"mlflow.assessment.sourceRunId": second})
        judge(server.url, 1, "other's", 1, {"mlflow.assessment.sourceRunId": first})
        judge(server.url, 2, "with metadata", 0.5, {"why": third})
        old = judge(server.url, 2, "revised", 0)
        judge(server.url, 2, "revised", 1, overrides=old)
        judge(server.url, 2, "expected", 4, kind="expectation")
        yield Evaluations(server, runs)


@pytest.mark.parametrize("how", ["rest", "database", "client"])
def test_feedback_is_read(judged: Evaluations, how: str) -> None:
    with closing(judged.reader(how)) as reader:
        ids = [one.experiment_id for page in reader.experiments() for one in page]
        runs = [run for page in reader.runs(ids) for run in page]
        before = reader.requests_made()
        found = reader.feedback(evaluation_runs(runs))
        assert reader.requests_made() - before == 1
    first, second, third = judged.runs
    assert found == {
        first: [
            FeedbackMean("correct", (1 + 0 + 1 + 1 + 3 + 0.25) / 6, 6),
            FeedbackMean("tone", 5, 1),
        ],
        second: [FeedbackMean("own", 1, 1)],
        third: [FeedbackMean("revised", 1, 1), FeedbackMean("with metadata", 0.5, 1)],
    }


def test_it_becomes_metrics_beside_those_of_the_run(judged: Evaluations) -> None:
    by_reader: dict[str, list[Entity]] = {}
    for how in "rest", "database", "client":
        with closing(judged.reader(how)) as reader:
            by_reader[how] = entities_of(reader)
    assert by_reader["rest"] == by_reader["database"] == by_reader["client"]
    models = {one.urn: one.aspects.get("mlModelProperties") for one in by_reader["rest"]}
    model: Any = next(found for urn, found in models.items() if judged.runs[0] in urn)
    metrics = {one["name"]: float(one["value"]) for one in model["trainingMetrics"]}
    assert metrics == {"correct/mean": 6.25 / 6, "tone/mean": 0.125}
    counts = model["customProperties"]["mlflow.feedback_counts"]
    assert json.loads(counts) == {"correct": 6}


VALUES = (
    st.floats(-1e300, 1e300)
    | st.integers(-(10**9), 10**9)
    | st.booleans()
    | st.sampled_from(["yes", "No", "YES", "unknown", "y", ""])
    | st.none()
    | st.lists(st.integers(), max_size=1)
)


@given(st.lists(st.tuples(st.sampled_from("ab"), VALUES), max_size=6))
def test_the_means_are_those_that_mlflow_logs(feedback: list[tuple[str, Any]]) -> None:
    from mlflow.entities import Feedback
    from mlflow.genai.scorers.aggregation import compute_aggregated_metrics

    judged: Any = [SimpleNamespace(assessments=[Feedback(name, value)]) for name, value in feedback]
    expected = compute_aggregated_metrics(judged, [])
    means = means_of(("r", name, value) for name, value in feedback).get("r", ())
    found = {one.metric.key: one.metric.value for one in means}
    assert found.keys() == expected.keys()
    for key, mean in expected.items():
        assert math.isclose(found[key], mean, rel_tol=1e-9, abs_tol=1e290)
