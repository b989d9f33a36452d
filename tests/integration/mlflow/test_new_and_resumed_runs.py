"""Passes over changes on real servers: new runs with old dates, and runs that were resumed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.entities import ViewType

from mlcat_ingest.pipeline.report.report import Report
from mlcat_ingest.pipeline.run import PipelineRun, RunOptions
from mlcat_ingest.pipeline.state.session import StateOptions, StateSession
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.source import MlflowSource
from support.fakes import FakeSink
from support.mlflow_databases import seeded_server
from support.mlflow_server import MlflowServer
from support.recipes import a_recipe
from support.seeded_store import START_MS


@pytest.fixture(scope="module", params=["ours", "mlflow-2"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MlflowServer]:
    version = str(request.param)
    with seeded_server(version, tmp_path_factory.mktemp(version)) as (server, _):
        yield server


@dataclass
class Passes:
    """A recipe that is run again and again, into a catalog of its own."""

    config: dict[str, Any]
    state: Path
    sink: FakeSink = field(default_factory=lambda: FakeSink(place="fake://catalog"))
    requests: int = 0

    def ingest(self) -> Report:
        source = MlflowSource(MlflowConfig.model_validate(self.config))
        options = RunOptions(
            a_recipe("r", evaluate={"enabled": False}),
            state=StateSession(f"sqlite:///{self.state}", StateOptions("r")),
        )
        report = PipelineRun([source], self.sink, options).execute()
        report.raise_for_failure()
        self.requests = source.traffic.requests_made()
        return report

    def model(self, run_id: str) -> Mapping[str, Any]:
        urn = f"urn:li:mlModel:(urn:li:dataPlatform:mlflow,{run_id},PROD)"
        return self.sink.stored[urn]["mlModelProperties"]


@pytest.fixture(params=["rest", "client", "database"])
def passes(request: pytest.FixtureRequest, server: MlflowServer, tmp_path: Path) -> Passes:
    uri = f"sqlite:///{server.db_path}" if request.param == "database" else server.url
    config = {"tracking_uri": uri, "reader": request.param}
    return Passes(config, tmp_path / "state.db")


def test_imported_and_resumed_runs_arrive_with_the_next_pass(
    passes: Passes, server: MlflowServer
) -> None:
    client = MlflowClient(server.url)
    run = client.search_runs(
        [one.experiment_id for one in client.search_experiments()],
        "attributes.status = 'FINISHED'",
        ViewType.ACTIVE_ONLY,
        max_results=1,
        order_by=["attributes.start_time ASC"],
    )[0].info
    passes.ingest()
    imported = client.create_run(run.experiment_id, start_time=START_MS - 9).info.run_id
    client.set_terminated(imported, end_time=START_MS - 8)
    client.update_run(run.run_id, status="RUNNING")
    client.log_metric(run.run_id, "resumed", 0.5)
    [second] = passes.ingest().passes
    assert not second.full
    assert passes.model(imported)["customProperties"]["mlflow.status"] == "FINISHED"
    model = passes.model(run.run_id)
    assert model["customProperties"]["mlflow.status"] == "RUNNING"
    assert "mlflow.duration_ms" not in model["customProperties"]
    assert model["lastModified"]["time"] == run.start_time
    assert "resumed" in {metric["name"] for metric in model["trainingMetrics"]}
    client.set_terminated(run.run_id)
    passes.ingest()
    assert passes.model(run.run_id)["customProperties"]["mlflow.status"] == "FINISHED"
    passes.ingest()
    assert "database" in passes.config["reader"] or passes.requests <= 13
