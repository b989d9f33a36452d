"""Names in every script, from MLflow and a file of features to what DataHub's SDK reads back."""

import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from datahub.ingestion.graph.client import DataHubGraph
from datahub.ingestion.graph.config import DatahubClientConfig
from datahub.metadata import schema_classes as models
from datahub.metadata.urns import CorpUserUrn
from mlflow.entities import Metric, Param, RunTag
from starlette.types import ASGIApp, Receive, Scope, Send

from mlcat_ingest.cli.main import call
from mlcat_ingest.metadata.naming import Naming
from mlcat_ingest.testing.mlflow_store import mlflow_client
from oracle import differences
from support.catalog_server import RunningCatalog, running_catalog
from support.cli import report_of
from support.seeded_store import START_MS

pytestmark = pytest.mark.filterwarnings("ignore")

NAMES = (
    "modèle «préféré»",
    "نموذج التنبؤ",
    "模型训练 №1",
    "🦄 لـ👩‍🔬 unicorn",
    "e\u0301te\u0301 n\u0303o combined",
    "\U00020000\U0001f600 beyond two bytes",
    "ÿ Ärger in Latin-1",
)
KEYS = ("größe", "مفتاح", "学习率", "ключ_ю")
TABLE = "客户 🦄 é"
TEST = "größe-模型"


@dataclass
class AspectsAsBytes:
    """Passes requests on, and keeps the texts of aspects that are not one byte a character."""

    app: ASGIApp
    texts: list[str] = field(default_factory=list)
    wide: list[str] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != "/aspects":
            await self.app(scope, receive, send)
            return
        message = await receive()
        body = message["body"]
        while message.get("more_body"):
            message = await receive()
            body += message["body"]
        for proposal in json.loads(body).get("proposals", ()):
            text = proposal["aspect"]["value"]
            self.texts.append(text)
            self.wide += [] if text.isascii() else [text]
        messages = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def again() -> Any:
            return next(messages, None) or await receive()

        await self.app(scope, again, send)


@dataclass
class World:
    """A store, a file of features and one of tests, and the catalog that they are brought to."""

    folder: Path
    catalog: RunningCatalog
    wire: AspectsAsBytes
    runs: dict[str, str] = field(default_factory=dict)

    def recipe(self) -> str:
        path = self.folder / "recipe.yml"
        mlflow = {"tracking_uri": f"sqlite:///{self.folder}/mlflow.db", "alias_tags": True}
        recipe = {
            "name": "names ñ 名",
            "sources": [
                {"type": "definitions", "config": {"path": "features.yml"}},
                {"type": "mlflow", "config": mlflow},
            ],
            "sink": {"type": "rest", "config": {"server": self.catalog.url}},
            "state": {"url": f"sqlite:///{self.folder}/state.db"},
            "evaluate": {"where": "client", "test_files": ["tests.yml"]},
        }
        path.write_text(yaml.safe_dump(recipe, allow_unicode=True))
        return str(path)

    def ingest(self, *options: str) -> dict[str, Any]:
        report = report_of(self.recipe(), *options)
        assert (report["rejected"], report["dead_letters"], report["notes"]) == (0, 0, {})
        return report

    def write_files(self) -> None:
        feature = {"name": "größe 模型", "description": NAMES[3], "owners": [NAMES[0]]}
        table = {"name": TABLE, "description": NAMES[1], "features": [feature]}
        features = {"version": 1, "platform": "custom", "tables": [table]}
        rules = {"property": "mlModelProperties.description", "operator": "exists"}
        test = {
            "id": TEST,
            "name": NAMES[3],
            "category": NAMES[2],
            "definition": {"on": {"types": ["mlModel"]}, "rules": rules},
        }
        (self.folder / "features.yml").write_text(yaml.safe_dump(features, allow_unicode=True))
        (self.folder / "tests.yml").write_text(yaml.safe_dump([test], allow_unicode=True))

    def train(self) -> None:
        with mlflow_client(f"sqlite:///{self.folder}/mlflow.db") as client:
            for at, name in enumerate(NAMES):
                tags = {"mlflow.user": name, "mlflow.note.content": f"about {name}"}
                experiment = client.create_experiment(name)
                run = client.create_run(experiment, START_MS + at, tags, name).info.run_id
                self.runs[name] = run
                client.log_batch(
                    run,
                    [Metric(KEYS[0], 0.5, START_MS, 0)],
                    [Param(key, name) for key in KEYS],
                    [RunTag(key, name) for key in KEYS],
                )
                client.set_terminated(run, "FINISHED", START_MS + 900)
                client.create_registered_model(name, {KEYS[1]: name}, f"of {name}")
                client.create_model_version(
                    name, "s3://bucket/m", run, {KEYS[2]: name}, None, f"version of {name}"
                )
                client.set_registered_model_alias(name, f"champion-{at}", "1")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    wires: list[AspectsAsBytes] = []

    def around(app: ASGIApp) -> ASGIApp:
        wires.append(AspectsAsBytes(app))
        return wires[0]

    with running_catalog(tmp_path / "catalog.db", around=around) as catalog:
        made = World(tmp_path, catalog, wires[0])
        made.write_files()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made.train()
        yield made


def test_names_in_every_script_are_read_back_as_they_are(world: World) -> None:
    report = world.ingest()
    assert world.wire.texts
    assert world.wire.wide == []
    naming = Naming()
    with DataHubGraph(DatahubClientConfig(server=world.catalog.url)) as graph:
        for name, run in world.runs.items():
            of_a_run(graph, naming.model(run).urn, name, report["run_id"])
            of_a_version(graph, naming.version(name, "1").urn, name)
            for group in (naming.group(name), naming.registered_group(name)):
                properties = graph.get_aspect(group.urn, models.MLModelGroupPropertiesClass)
                assert properties is not None
                assert properties.name == name
        of_features(graph)
        test = graph.get_aspect(f"urn:li:test:{TEST}", models.TestInfoClass)
        assert test is not None
        assert (test.name, test.category) == (NAMES[3], NAMES[2])
        of_the_report(graph, report["run_id"])


def of_a_run(graph: DataHubGraph, urn: str, name: str, run_id: str) -> None:
    properties = graph.get_aspect(urn, models.MLModelPropertiesClass)
    assert properties is not None
    assert (properties.name, properties.description) == (name, f"about {name}")
    assert {one.name: one.value for one in properties.hyperParams or ()} == dict.fromkeys(
        KEYS, name
    )
    assert [one.name for one in properties.trainingMetrics or ()] == [KEYS[0]]
    assert {key: properties.customProperties[key] for key in KEYS} == dict.fromkeys(KEYS, name)
    owners = graph.get_aspect(urn, models.OwnershipClass)
    assert owners is not None
    assert [CorpUserUrn.from_string(one.owner).username for one in owners.owners] == [name]
    results = graph.get_aspect(urn, models.TestResultsClass)
    assert results is not None
    assert [one.test for one in results.passing] == [f"urn:li:test:{TEST}"]
    aspect = models.MLModelPropertiesClass.ASPECT_NAME
    [written] = (one for one in graph.get_entity_as_mcps(urn, [aspect]) if one.aspectName == aspect)
    assert written.systemMetadata is not None
    assert written.systemMetadata.runId == run_id


def of_a_version(graph: DataHubGraph, urn: str, name: str) -> None:
    properties = graph.get_aspect(urn, models.MLModelPropertiesClass)
    assert properties is not None
    assert (properties.name, properties.description) == (f"{name}_1", f"version of {name}")
    assert name in properties.customProperties.values()
    version = graph.get_aspect(urn, models.VersionPropertiesClass)
    assert version is not None
    assert version.comment == f"version of {name}"


def of_features(graph: DataHubGraph) -> None:
    table = f"urn:li:mlFeatureTable:(urn:li:dataPlatform:custom,{TABLE})"
    properties = graph.get_aspect(table, models.MLFeatureTablePropertiesClass)
    assert properties is not None
    assert properties.description == NAMES[1]
    feature = f"urn:li:mlFeature:({TABLE},größe 模型)"
    assert properties.mlFeatures == [feature]
    found = graph.get_aspect(feature, models.MLFeaturePropertiesClass)
    assert found is not None
    assert found.description == NAMES[3]


def of_the_report(graph: DataHubGraph, run_id: str) -> None:
    urn = f"urn:li:dataHubExecutionRequest:{run_id}"
    result = graph.get_aspect(urn, models.ExecutionRequestResultClass)
    assert result is not None
    assert result.report is not None
    assert "names ñ 名: everything arrived" in result.report


def test_equal_values_of_another_run_are_not_sent_again(world: World) -> None:
    first = world.ingest()
    assert first["proposals_sent"] > 0
    second, whole = world.ingest(), world.ingest("--full")
    assert (second["proposals_sent"], whole["proposals_sent"]) == (0, 0)
    assert len({one["run_id"] for one in (first, second, whole)}) == 3
    assert call(["verify", world.recipe(), "-q"]) == 0
    database = f"sqlite:///{world.folder}/mlflow.db"
    with mlflow_client(database):
        assert differences(database, world.catalog.url) == []


def test_all_of_it_is_retracted(world: World) -> None:
    world.ingest()
    assert call(["retract", world.recipe(), "--yes", "-q"]) == 0
    store = world.catalog.store
    for kind in ("mlModel", "mlModelGroup", "mlFeatureTable", "mlFeature"):
        urns = store.list_urns(kind).urns
        found = store.get_many(urns, ["status"])
        assert urns
        assert all(found[urn]["status"].value["removed"] for urn in urns)
