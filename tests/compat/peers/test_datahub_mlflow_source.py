"""What the README's comparison says of DataHub's own mlflow source, run over a real store.

Where the peer gets better, these tests fail and the README has to change.
"""

import json
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from datahub.configuration.common import PipelineExecutionError
from datahub.ingestion.run.pipeline import Pipeline as PeerPipeline

from mlcat_ingest import Pipeline, Recipe
from mlcat_ingest.testing.mlflow_store import mlflow_client

# The peer's own warnings, and those of its libraries, are not ours to mend.
pytestmark = pytest.mark.filterwarnings("ignore")

Aspects = list[tuple[str, str, dict[str, Any]]]
"""URN, aspect name and value of each proposal."""


@dataclass(frozen=True)
class Store:
    uri: str
    run_id: str
    folder: Path

    def peers(self) -> Aspects:
        out = self.folder / "peer.json"
        pipeline = PeerPipeline.create(
            {
                "source": {"type": "mlflow", "config": {"tracking_uri": self.uri}},
                "sink": {"type": "file", "config": {"filename": str(out)}},
                "reporting": [],
            }
        )
        pipeline.run()
        pipeline.raise_from_status()
        return [(row["entityUrn"], row["aspectName"], row["aspect"]["json"]) for row in _mcps(out)]

    def ours(self) -> Aspects:
        out = self.folder / "ours.json"
        recipe = {
            "source": {"type": "mlflow", "config": {"tracking_uri": self.uri}},
            "sink": {"type": "file", "config": {"path": str(out)}},
        }
        report = Pipeline(Recipe.parse(json.dumps(recipe))).run()
        assert report.exit_code == 0
        return [(row["entityUrn"], row["aspectName"], row["aspect"]["json"]) for row in _mcps(out)]


def _mcps(path: Path) -> list[Mapping[str, Any]]:
    rows: list[Mapping[str, Any]] = json.loads(path.read_text())
    return [row for row in rows if "aspectName" in row]


@pytest.fixture(autouse=True)
def _nothing_leaves_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the peer from its look at the package index, whose sockets would outlive the run."""
    monkeypatch.setattr("datahub.ingestion.run.pipeline.retrieve_version_stats", _no_version_stats)


def _no_version_stats(*_args: object, **_kwargs: object) -> None:
    return None


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """One run with a tag, behind two versions of one registered model, the newest an alias."""
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    with warnings.catch_warnings(), mlflow_client(uri) as client:
        experiment = client.create_experiment("churn")
        run = client.create_run(experiment, tags={"team": "growth"})
        client.set_terminated(run.info.run_id, "KILLED")
        client.create_registered_model("scorer")
        for _ in range(2):
            client.create_model_version("scorer", f"{tmp_path}/model", run.info.run_id)
        client.set_registered_model_alias("scorer", "champion", "2")
        yield Store(uri, run.info.run_id, tmp_path)


def text(aspects: Aspects) -> str:
    return json.dumps(aspects)


def test_run_tags(store: Store) -> None:
    assert "growth" in text(store.ours())
    assert "growth" not in text(store.peers())


def test_aliases(store: Store) -> None:
    assert "champion" in text(store.ours())
    assert "champion" not in text(store.peers())


def test_a_run_behind_two_versions(store: Store) -> None:
    models = [value for _, name, value in store.ours() if name == "mlModelProperties"]
    run, *versions = (one["customProperties"] for one in models)
    assert run["mlflow.versions"] == '["scorer:1","scorer:2"]'
    assert {one["mlflow.run_id"] for one in versions} == {store.run_id}
    outputs = [
        value["outputEdges"] for _, name, value in store.peers() if name.endswith("InstanceOutput")
    ]
    assert [len(edges) for edges in outputs] == [1]


def test_a_killed_run(store: Store) -> None:
    assert "KILLED" in text(store.ours())
    events = [value for _, name, value in store.peers() if name.endswith("RunEvent")]
    assert [event["result"]["type"] for event in events] == ["SKIPPED"]


def test_an_apostrophe_in_a_registered_name(store: Store) -> None:
    with mlflow_client(store.uri) as client:
        client.create_registered_model("O'Brien's")
        client.create_model_version("O'Brien's", "file:///nowhere", store.run_id)
    assert "O'Brien's" in text(store.ours())
    with pytest.raises(PipelineExecutionError):
        store.peers()


def test_an_experiment_in_the_trash(store: Store) -> None:
    with mlflow_client(store.uri) as client:
        gone = client.create_experiment("abandoned")
        client.delete_experiment(gone)
    removed = {urn for urn, name, value in store.ours() if name == "status" and value["removed"]}
    assert any("abandoned" in urn for urn in removed)
    assert "abandoned" not in text(store.peers())


def test_a_dataset_without_schema_and_profile(store: Store) -> None:
    from mlflow.data.http_dataset_source import HTTPDatasetSource
    from mlflow.data.meta_dataset import MetaDataset
    from mlflow.entities import DatasetInput

    source: Any = HTTPDatasetSource  # typed by halves in MLflow
    dataset: Any = MetaDataset
    web = dataset(source("https://data.example.com/web.csv"), name="web")
    with mlflow_client(store.uri) as client:
        client.log_inputs(store.run_id, datasets=[DatasetInput(web._to_mlflow_entity(), [])])
    assert "data.example.com/web.csv" in text(store.ours())
    with pytest.raises(PipelineExecutionError, match=r"must be str, .* not NoneType"):
        store.peers()


def test_the_comparison_names_the_version_that_is_compared() -> None:
    readme = (Path(__file__).parents[3] / "README.md").read_text()
    assert readme.count(version("acryl-datahub")) == readme.count("1.7.0.")
