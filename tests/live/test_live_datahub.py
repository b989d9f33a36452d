"""The main job on a server that runs already, such as DataHub: `MLCAT_LIVE_GMS` names it.

Each test has an instance of its own, so that a server may be shared, and deletes its entities.
"""

import json
import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.cli.main import call
from mlcat_ingest.client.catalog_client import CatalogClient
from mlcat_ingest.client.rest import RestCatalog
from mlcat_ingest.metadata.naming import Naming
from mlcat_ingest.metadata.proposal import Proposal
from mlcat_ingest.testing.mlflow_store import START_MS, mlflow_client

GMS = os.environ.get("MLCAT_LIVE_GMS", "")
TOKEN = os.environ.get("MLCAT_LIVE_TOKEN", "")

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not GMS, reason="MLCAT_LIVE_GMS names no server"),
]


@dataclass
class LiveWorld:
    """An MLflow store, a recipe with an instance of its own, and what the server has of both."""

    folder: Path
    instance: str
    runs: dict[str, str] = field(default_factory=dict)

    @property
    def naming(self) -> Naming:
        return Naming(instance=self.instance)

    @cached_property
    def graph(self) -> Any:
        """The DataHub SDK's client of the server."""
        from datahub.ingestion.graph.client import DatahubClientConfig, DataHubGraph

        return DataHubGraph(DatahubClientConfig(server=GMS, token=TOKEN or None))

    @property
    def urns(self) -> list[str]:
        """The entities that the recipe makes."""
        naming = self.naming
        models = [naming.model(run) for run in self.runs.values()]
        models += [naming.version("scorer", number) for number in ("1", "2", "3")]
        groups = [naming.group("churn"), naming.group("Default"), naming.registered_group("scorer")]
        return [one.urn for one in (*models, *groups)]

    def train(self) -> None:
        from mlflow.entities import Metric, Param

        with self.store() as client:
            experiment = client.create_experiment("churn")
            client.create_registered_model("scorer", description="who leaves")
            for at, name in enumerate("abc"):
                run = client.create_run(experiment, START_MS + at, {"mlflow.user": "ada"}, name)
                self.runs[name] = run.info.run_id
                metric = Metric("auc", 0.9, START_MS, 0)
                client.log_batch(run.info.run_id, [metric], [Param("depth", str(at))])
                client.set_terminated(run.info.run_id, "FINISHED", START_MS + 900)
                client.create_model_version("scorer", "s3://bucket/model", run.info.run_id)
            client.set_registered_model_alias("scorer", "champion", "1")

    def store(self) -> Any:
        return mlflow_client(f"sqlite:///{self.folder}/mlflow.db")

    def recipe(self, more: str = "") -> str:
        path = self.folder / "recipe.yml"
        path.write_text(
            f"name: {self.instance}\n"
            "source:\n  type: mlflow\n  config:\n"
            f"    {{tracking_uri: 'sqlite:///mlflow.db', instance: {self.instance}}}\n"
            f"sink: {{type: rest, config: {{server: '{GMS}', token: '{TOKEN}'}}}}\n"
            f"report_to_catalog: false\nevaluate: {{enabled: false}}\n{more}"
        )
        return str(path)

    def ingest(self, *options: str, more: str = "") -> dict[str, Any]:
        report = self.folder / "report.json"
        code = call([self.recipe(more), "-q", "--report", str(report), *options])
        found: dict[str, Any] = json.loads(report.read_text())
        assert code == 0, (found["failure"], found["rejected_examples"])
        return found

    def read(self, urn: str, aspect: str) -> Any:
        """Return an aspect as the SDK reads it; None if there is none."""
        from datahub.metadata.schema_classes import ASPECT_NAME_MAP

        value = self.graph.get_aspect(urn, ASPECT_NAME_MAP[aspect])
        return None if value is None else value.to_obj()

    def custom(self, urn: str) -> dict[str, str]:
        kind = f"{urn.split(':')[2]}Properties"
        found: dict[str, str] = (self.read(urn, kind) or {}).get("customProperties", {})
        return found

    def is_removed(self, urn: str) -> bool:
        return bool((self.read(urn, "status") or {}).get("removed"))

    def review(self, urn: str) -> None:
        """Add a property as a person does, with the SDK."""
        from datahub.emitter.mcp import MetadataChangeProposalWrapper
        from datahub.metadata.schema_classes import MLModelPropertiesClass

        properties = self.graph.get_aspect(urn, MLModelPropertiesClass)
        properties.customProperties = {**properties.customProperties, "reviewed": "yes"}
        self.graph.emit(MetadataChangeProposalWrapper(entityUrn=urn, aspect=properties))

    def clean_up(self) -> None:
        """Delete every entity for good."""
        version = self.read(self.naming.version("scorer", "1").urn, "versionProperties")
        sets = [] if version is None else [version["versionSet"]]
        with CatalogClient(GMS, TOKEN) as client:
            for urn in (*self.urns, *sets):
                client.delete_entity(urn)


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveWorld]:
    world = LiveWorld(tmp_path, f"live-{secrets.token_hex(6)}")
    world.train()
    yield world
    world.clean_up()
    world.graph.close()


def test_the_main_job(live: LiveWorld) -> None:
    created = live.ingest()["entities"]
    assert (created["mlModel"]["created"], created["mlModelGroup"]["created"]) == (6, 3)
    properties = live.read(live.naming.model(live.runs["b"]).urn, "mlModelProperties")
    assert properties["hyperParams"][0]["value"] == "1"
    assert properties["trainingMetrics"][0]["name"] == "auc"
    assert properties["groups"] == [live.naming.group("churn").urn]
    assert live.ingest()["proposals_sent"] == 0
    assert live.ingest("--full")["proposals_sent"] == 0
    assert call(["verify", live.recipe(), "-q"]) == 0


def test_an_alias_that_moves_twice(live: LiveWorld) -> None:
    live.ingest()
    for number in ("3", "2"):
        with live.store() as client:
            client.set_registered_model_alias("scorer", "champion", number)
        live.ingest()
        versions = {
            one: live.read(live.naming.version("scorer", one).urn, "versionProperties")
            for one in ("1", "2", "3")
        }
        aliases = {one: value.get("aliases") or [] for one, value in versions.items()}
        assert [one for one, found in aliases.items() if found] == [number]
        assert versions["3"]["isLatest"] is True


def test_a_second_writer_between_our_read_and_our_write(
    live: LiveWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.ingest()
    urn = live.naming.model(live.runs["b"]).urn
    write, writes = RestCatalog.write, [urn]

    def write_second(catalog: RestCatalog, proposals: Sequence[Proposal]) -> Any:
        if writes and writes[0] in {one.entity_urn for one in proposals}:
            live.review(writes.pop())
        return write(catalog, proposals)

    monkeypatch.setattr(RestCatalog, "write", write_second)
    report = live.ingest("--full", more="enrich: [{add_tags: [mlcat-live]}]\n")
    assert report["conflicts"] >= 1
    assert report["unverified"] == 0
    assert live.custom(urn)["reviewed"] == "yes"
    assert live.read(urn, "globalTags")["tags"] == [{"tag": "urn:li:tag:mlcat-live"}]


def test_retract_to_zero(live: LiveWorld) -> None:
    live.ingest()
    reviewed = live.naming.model(live.runs["b"]).urn
    live.review(reviewed)
    assert call(["retract", live.recipe(), "--yes", "-q"]) == 0
    assert live.custom(reviewed) == {"reviewed": "yes"}
    # The group of a model that somebody else wrote to is still theirs to look at.
    groups = {live.naming.group("churn").urn}
    removed = {urn for urn in live.urns if live.is_removed(urn)}
    assert {*live.urns} - {reviewed} - groups <= removed
    assert reviewed not in removed
