"""Nested runs of a real MLflow: over HTTP and from its database the catalog ends the same."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from mlcat_ingest.pipeline.report.report import Report
from mlcat_ingest.pipeline.run import PipelineRun, RunOptions
from mlcat_ingest.pipeline.state.session import StateOptions, StateSession
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.source import MlflowSource
from support.fakes import FakeSink, model_urn
from support.mlflow_server import MlflowServer, running
from support.recipes import a_recipe
from support.venvs import OURS

CHILDREN = 120
"""More than a page of records has, so that the last come long after their parent."""


@dataclass
class Ingested:
    """A catalog, and the recipe that writes to it."""

    config: MlflowConfig
    state: str
    sink: FakeSink = field(default_factory=lambda: FakeSink(place="fake://catalog"))

    def ingest(self, *, full: bool = False) -> Report:
        options = RunOptions(
            a_recipe("r", evaluate={"enabled": False}),
            state=StateSession(self.state, StateOptions("r", ("r",), full=full)),
        )
        report = PipelineRun([MlflowSource(self.config)], self.sink, options).execute()
        report.raise_for_failure()
        assert report.exit_code == 0
        return report

    def aspects(self, run_id: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.sink.stored[model_urn(run_id)]
        return found

    def custom(self, run_id: str) -> Mapping[str, str]:
        found: Mapping[str, str] = self.aspects(run_id)["mlModelProperties"]["customProperties"]
        return found

    def parents(self) -> set[str]:
        return {
            urn
            for urn, aspects in self.sink.stored.items()
            if "Parent Run" in aspects.get("subTypes", {}).get("typeNames", ())
        }


@dataclass
class World:
    """A server with a sweep of runs, and two recipes that read it."""

    client: MlflowClient
    over_http: Ingested
    from_database: Ingested
    ids: dict[str, str] = field(default_factory=dict)

    def start(self, name: str, parent: str | None = None) -> None:
        tags = {} if parent is None else {"mlflow.parentRunId": self.ids[parent]}
        run = self.client.create_run("0", run_name=name, tags=tags)
        self.ids[name] = run.info.run_id
        self.client.log_param(run.info.run_id, "lr", "0.1")
        self.client.set_terminated(run.info.run_id)

    def both(self) -> Iterator[Ingested]:
        yield self.over_http
        yield self.from_database

    def ingest(self, *, full: bool = False) -> None:
        for one in self.both():
            one.ingest(full=full)
        assert self.over_http.sink.stored == self.from_database.sink.stored

    def urns(self, *names: str) -> set[str]:
        return {model_urn(self.ids[name]) for name in names}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with running(OURS, tmp_path) as server:
        made = World(
            MlflowClient(server.url),
            _ingested(server.url, server, tmp_path / "http"),
            _ingested(f"sqlite:///{server.db_path}", server, tmp_path / "database"),
        )
        made.start("sweep")
        for at in range(CHILDREN):
            made.start(f"trial {at}", "sweep")
        made.start("fold", "trial 0")
        yield made


def _ingested(uri: str, server: MlflowServer, folder: Path) -> Ingested:
    folder.mkdir()
    return Ingested(MlflowConfig(tracking_uri=uri, ui_url=server.url), f"sqlite:///{folder}/s.db")


def test_parents_and_children_name_each_other_whoever_reads_them(world: World) -> None:
    world.ingest()
    assert world.over_http.parents() == world.urns("sweep", "trial 0")
    for name, parent in (("trial 7", "sweep"), ("fold", "trial 0")):
        custom = world.over_http.custom(world.ids[name])
        assert custom["mlflow.parent_run"] == model_urn(world.ids[parent])
        assert custom["mlflow.parent_run_id"] == world.ids[parent]
        assert custom["mlflow.parent_run_name"] == parent

    # A pass over changes: the run of a new child was no parent before.
    world.start("fold 2", "trial 9")
    world.ingest()
    assert world.over_http.parents() == world.urns("sweep", "trial 0", "trial 9")
    assert world.over_http.custom(world.ids["fold 2"])["mlflow.parent_run_name"] == "trial 9"

    # The sweep is read again alone, and is a parent all the same.
    world.client.update_run(world.ids["sweep"], name="sweep 2")
    world.client.set_terminated(world.ids["sweep"])
    world.ingest()
    assert world.urns("sweep") < world.over_http.parents()
    world.ingest(full=True)
    trial = world.over_http.custom(world.ids["trial 7"])
    assert trial["mlflow.parent_run_name"] == "sweep 2"

    # In the trash a child can come back; its parent stays one.
    for name in ("fold", "fold 2"):
        world.client.delete_run(world.ids[name])
    world.ingest()
    world.ingest(full=True)
    assert world.over_http.aspects(world.ids["fold"])["status"] == {"removed": True}
    assert world.over_http.parents() == world.urns("sweep", "trial 0", "trial 9")
    for one in world.both():
        assert one.ingest(full=True).proposals_sent == 0
