"""Runs that Feast tagged, in a real MLflow store, with its registry: features in the catalog."""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.cli.main import call
from mlcat_ingest.client.rest.client import CatalogClient
from mlcat_ingest.testing.mlflow_store import mlflow_client
from support.catalog_server import running_catalog
from support.cli import report_of
from support.feast_runs import FOLDER, WIDE, WIDE_VIEW, feature_urn, put_recorded_runs

STATS = "driver_hourly_stats"
FEAST = f"{{type: feast, config: {{registry: '{FOLDER / 'registry.db'}'}}}}"
MODEL = """
query($urn: String!) { mlModel(urn: $urn) {
  properties { mlFeatures customProperties { key value } }
  relationships(input: {types: ["Consumes"], direction: OUTGOING, count: 300}) {
    total relationships { entity { urn ... on MLFeature { name } } } } } }
"""


@dataclass
class World:
    folder: Path
    store: str
    client: CatalogClient
    runs: Mapping[str, str]

    def ingest(self, sources: Sequence[str], *how: str) -> dict[str, Any]:
        recipe = self.folder / "rides.yml"
        recipe.write_text(
            f"sources: [{', '.join(sources)}]\n"
            f"sink: {{type: rest, config: {{server: '{self.client.server}'}}}}\n"
        )
        return report_of(recipe, *how)

    def mlflow(self, more: str = "") -> str:
        return f"{{type: mlflow, config: {{tracking_uri: '{self.store}'{more}}}}}"

    def model(self, name: str) -> tuple[list[str], dict[str, str]]:
        """Return the features of a run's model, and what is said of them."""
        return self.of(f"urn:li:mlModel:(urn:li:dataPlatform:mlflow,{self.runs[name]},PROD)")

    def of(self, urn: str) -> tuple[list[str], dict[str, str]]:
        found = self.client.graphql(MODEL, {"urn": urn})["mlModel"]
        features = found["properties"]["mlFeatures"] or []
        consumed = found["relationships"]["relationships"]
        assert sorted(one["entity"]["urn"] for one in consumed) == features
        assert all(one["entity"]["name"] for one in consumed)
        custom = {one["key"]: one["value"] for one in found["properties"]["customProperties"]}
        prefix = "mlcat.features."
        message = {key: text for key, text in custom.items() if key.startswith(prefix)}
        return features, {key.removeprefix(prefix): text for key, text in message.items()}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Mapping[str, str]]:
    """Give a store with the recorded runs, and their ids."""
    folder = tmp_path_factory.mktemp("filled")
    store = folder / "mlflow.db"
    with mlflow_client(f"sqlite:///{store}") as client:
        runs = put_recorded_runs(client, folder / "artifacts")
        client.create_registered_model("ranker")
        client.create_model_version("ranker", "/nowhere", runs["service"])
    return store, runs


@pytest.fixture
def world(tmp_path: Path, filled: tuple[Path, Mapping[str, str]]) -> Iterator[World]:
    store, runs = filled
    own = Path(shutil.copy(store, tmp_path))
    with running_catalog(tmp_path / "catalog.db") as catalog, CatalogClient(catalog.url) as client:
        yield World(tmp_path, f"sqlite:///{own}", client, runs)


def test_each_run_has_the_features_that_it_used(world: World) -> None:
    report = world.ingest([world.mlflow(), FEAST])
    by_refs = {"resolvedBy": "feast.feature_refs"}
    rate, trips = feature_urn(STATS, "acc_rate"), feature_urn(STATS, "avg_daily_trips")
    conv, doubled = feature_urn(STATS, "conv_rate"), feature_urn("transformed", "conv_rate_doubled")
    fresh = feature_urn(f"{STATS}_fresh", "conv_rate")
    for name, urns in {
        "guessed_service": [rate],
        "last_retrieval_wins": [trips, conv],
        "stale_service": [fresh, feature_urn(WIDE_VIEW, WIDE[0])],
        "service": [rate, conv, doubled],
        "on_demand": [doubled],
        "full_feature_names": [rate, conv],
    }.items():
        assert world.model(name) == (urns, by_refs)
    assert len(world.model("alias")[0]) == 6
    for name in ("online", "prediction", "no_feast", "apply_rides", "materialize_rides"):
        assert world.model(name) == ([], {})
    features, message = world.model("cut")
    assert features == [feature_urn(WIDE_VIEW, name) for name in WIDE]
    assert message["resolvedBy"] == "feast.feature_service"
    assert message["approximate"].startswith("its references are truncated")
    features, message = world.model("cut_without_service")
    assert (len(features), message["resolvedBy"]) == (57, "feast.feature_refs")
    # The version of the registered model has the features of its run.
    assert report["features"] == {
        "models": 11,
        "linked": {"feast.feature_refs": 10, "feast.feature_service": 1},
        "approximate": 2,
        "unknown": 0,
        "ambiguous": 0,
        "not_looked_up": 0,
    }
    assert report["lineage"]["datasets"] == 0
    assert world.ingest([world.mlflow(), FEAST], "--full")["proposals_sent"] == 0


def test_a_plan_has_the_links_to_features_that_are_planned_themselves(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = world.folder / "rides.yml"
    recipe.write_text(
        f"sources: [{world.mlflow()}, {FEAST}]\n"
        f"sink: {{type: rest, config: {{server: '{world.client.server}'}}}}\n"
    )
    assert call(["plan", str(recipe), "--json", "-q"]) == 0
    reported = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    rate, run_id = feature_urn(STATS, "acc_rate"), world.runs["guessed_service"]
    of_model = [one for one in reported if one.get("urn", "").endswith(f",{run_id},PROD)")]
    assert [one["after"] for one in of_model if one["field"] == "mlFeatures"] == [rate]
    assert "mlcat.features.resolvedBy" in [one.get("entry") for one in of_model]
    assert world.client.get_aspect(rate, "mlFeatureProperties") is None
