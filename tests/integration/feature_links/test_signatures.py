"""Signatures and evaluations of a real MLflow store: HTTP and SQL give the same."""

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.cli.main import call
from mlcat_ingest.metadata.naming import Naming
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.testing.mlflow_store import mlflow_client
from support.catalog_checks import everything
from support.catalog_server import running_catalog
from support.cli import report_of
from support.evaluations import COLUMNS, evaluated_store
from support.mlflow_server import running
from support.venvs import OURS

ON = "features: {from_signature: true}"
FILES = "features: {from_signature: true, model_files: true}"


@dataclass(frozen=True)
class Place:
    """A store with its runs by name, and a catalog."""

    folder: Path
    catalog: str
    store: Store
    runs: Mapping[str, str]

    @property
    def database(self) -> str:
        return f"sqlite:///{self.folder / 'mlflow.db'}"

    def ingest(self, *options: str, more: str = ON, uri: str | None = None) -> dict[str, Any]:
        return report_of(self.recipe(more, uri), *options)

    def recipe(self, more: str = ON, uri: str | None = None) -> str:
        path = self.folder / "flowers.yml"
        source = f"tracking_uri: '{uri or self.database}', server_id: here, {more}"
        path.write_text(
            "writer_id: flowers\n"
            f"source: {{type: mlflow, config: {{{source}}}}}\n"
            f"sink: {{type: rest, config: {{server: '{self.catalog}'}}}}\n"
            f"state: {{url: 'sqlite:///{self.folder}/state.db'}}\n"
        )
        return str(path)

    def aspects(self, urn: str) -> dict[str, Any]:
        found = self.store.get_many([urn]).get(urn, {})
        return {name: dict(one.value) for name, one in found.items()}

    def run(self, name: str) -> dict[str, Any]:
        return self.aspects(Naming().model(self.runs[name]).urn)

    def properties(self, aspects: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = aspects["mlModelProperties"]
        return found

    def live_tables(self) -> list[str]:
        kinds = {"mlFeatureTable", "mlFeature"}
        urns = [urn for urn in everything(self.store) if entity_type_of(urn) in kinds]
        return sorted(urn for urn in urns if not self.aspects(urn).get("status", {}).get("removed"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Mapping[str, str]]:
    folder = tmp_path_factory.mktemp("evaluated")
    return folder, evaluated_store(folder / "mlflow.db", folder / "artifacts")


@pytest.fixture
def place(made: tuple[Path, Mapping[str, str]], tmp_path: Path) -> Iterator[Place]:
    shutil.copy(made[0] / "mlflow.db", tmp_path)
    with running_catalog(tmp_path / "catalog.db") as catalog:
        yield Place(tmp_path, catalog.url, catalog.store, made[1])


def test_inputs_of_models_become_features_that_go_with_the_models(place: Place) -> None:
    place.ingest()
    trained = place.properties(place.run("train"))
    custom = trained["customProperties"]
    assert {one["name"] for one in json.loads(custom["signature.inputs"])} == set(COLUMNS)
    [threshold] = json.loads(custom["signature.parameters"])
    assert threshold["name"] == "threshold"
    assert custom["mlflow.model_flavors"] == "python_function,sklearn"
    made_with = custom["mlflow.framework_versions"].split(",")
    assert {f"mlflow {version('mlflow')}", f"sklearn {version('scikit-learn')}"} <= {*made_with}
    assert int(custom["mlflow.model_size_bytes"]) > 0
    assert custom["mlflow.model_uri"].startswith("models:/m-")
    registered = place.properties(place.aspects(Naming().version("iris", "1").urn))
    own = {"model_uri", "model_flavors", "model_size_bytes", "framework_versions"}
    for key in ("signature.inputs", *(f"mlflow.{one}" for one in own)):
        assert registered["customProperties"][key] == custom[key]
    assert registered["mlFeatures"] == trained["mlFeatures"]
    assert len(trained["mlFeatures"]) == len(COLUMNS)
    table = next(one for one in place.live_tables() if ":iris:" in one and "Table" in one)
    assert place.aspects(table)["subTypes"] == {"typeNames": ["Model Signature"]}
    held = place.aspects(table)["mlFeatureTableProperties"]["mlFeatures"]
    assert sorted(held) == trained["mlFeatures"]
    for feature in held:
        assert place.aspects(feature)["mlFeatureProperties"]["dataType"] == "CONTINUOUS"
    assert len(place.live_tables()) == 2 * (1 + len(COLUMNS))

    before = everything(place.store)
    place.ingest("--full")
    assert everything(place.store) == before

    with mlflow_client(place.database) as client:
        client.delete_run(place.runs["alone"])
    place.ingest("--full")
    assert len(place.live_tables()) == 2 * (1 + len(COLUMNS)), "a second pass has to lack it"
    place.ingest("--full")
    assert len(place.live_tables()) == 1 + len(COLUMNS)

    place.ingest(more="features: {from_signature: false}")
    assert place.live_tables() == []
    assert not place.properties(place.run("train")).get("mlFeatures")
    assert call(["verify", place.recipe("")]) == 0


def test_evaluations_are_marked_and_their_scores_are_metrics(place: Place) -> None:
    place.ingest(more="")
    for name in ("classic", "genai"):
        assert place.run(name)["subTypes"] == {"typeNames": ["Evaluation Run"]}
        assert not place.run(name).get("mlModelTrainingData", {}).get("trainingData")
    assert "subTypes" not in place.run("train")
    metrics = place.properties(place.run("genai"))["trainingMetrics"]
    assert {one["name"]: one["value"] for one in metrics} == {"length/mean": "2.0"}
    accuracy = [
        one["name"]
        for one in place.properties(place.run("classic"))["trainingMetrics"]
        if one["name"].endswith("accuracy_score")
    ]
    assert accuracy


def test_over_http_the_catalog_is_the_same(
    made: tuple[Path, Mapping[str, str]], tmp_path: Path
) -> None:
    found = []
    with running(OURS, Path(shutil.copytree(made[0], tmp_path / "store"))) as server:
        for name, uri in (("http", server.url), ("sql", None), ("files", server.url)):
            folder = tmp_path / name
            folder.mkdir()
            shutil.copy(server.db_path, folder)
            with running_catalog(folder / "catalog.db") as catalog:
                place = Place(folder, catalog.url, catalog.store, made[1])
                ui = "ui_url: 'http://mlflow'"
                place.ingest(more=f"{FILES if name == 'files' else ON}, {ui}", uri=uri)
                found.append(everything(catalog.store))
    assert found[0] == found[1] == found[2]


def test_retract_takes_the_tables_back(place: Place) -> None:
    place.ingest()
    assert place.live_tables()
    assert call(["retract", place.recipe(), "--yes"]) == 0
    assert place.live_tables() == []
