"""A Feast registry through the command line into a catalog, and again after each change."""

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.client.rest.client import CatalogClient
from mlcat_ingest.sources.feast.registry import MESSAGES
from support.definitions import FeatureWorld
from support.feast import REGISTRY

ROOT = Path(__file__).parents[3]

STATS = "urn:li:mlFeatureTable:(urn:li:dataPlatform:feast,rides.driver_hourly_stats)"
SURGE = "urn:li:mlFeatureTable:(urn:li:dataPlatform:feast,rides.surge)"
FACTOR = "urn:li:mlFeature:(rides.surge,factor)"


def feature(name: str) -> str:
    return f"urn:li:mlFeature:(rides.driver_hourly_stats,{name})"


def changed(path: Path, change: Callable[[Any], None]) -> None:
    """Rewrite a registry with a change, as `feast apply` would."""
    content = MESSAGES["Registry"].FromString(path.read_bytes())
    change(content)
    path.write_bytes(content.SerializeToString())


def without_surge(registry: Any) -> None:
    kept = [view for view in registry.feature_views if view.spec.name != "surge"]
    del registry.feature_views[:]
    registry.feature_views.extend(kept)


def without_acc_rate(registry: Any) -> None:
    for view in registry.feature_views:
        if view.spec.name == "driver_hourly_stats":
            kept = [one for one in view.spec.features if one.name != "acc_rate"]
            del view.spec.features[:]
            view.spec.features.extend(kept)


def report_of(features: FeatureWorld) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((features.folder / "report.json").read_text())
    return report


def test_the_catalog_follows_the_registry(features: FeatureWorld) -> None:
    assert importlib.util.find_spec("feast") is None, "this has to work without Feast"
    registry = features.folder / "registry.db"
    registry.write_bytes(REGISTRY.read_bytes())
    recipe = features.recipe({"type": "feast", "config": {"registry": "registry.db"}})
    assert features.run(recipe) == 0
    created = {kind: counts["created"] for kind, counts in report_of(features)["entities"].items()}
    assert created == {"mlFeatureTable": 21, "mlFeature": 38, "mlPrimaryKey": 19}
    names = ("conv_rate", "acc_rate", "avg_daily_trips")
    assert features.features_of(STATS) == [feature(name) for name in names]

    for how in ((), ("--full",)):
        assert features.run(recipe, *how) == 0
        assert report_of(features)["proposals_sent"] == 0

    changed(registry, without_acc_rate)
    assert features.run(recipe) == 0
    assert features.features_of(STATS) == [feature(names[0]), feature(names[2])]
    assert not features.is_removed(feature("acc_rate")), "one pass is no proof"
    assert report_of(features)["notes"]["absent_once"] == 1
    assert features.run(recipe) == 0
    assert features.is_removed(feature("acc_rate"))

    # DataHub's source cannot be made to remove what is gone.
    changed(registry, without_surge)
    assert features.run(recipe) == 0
    assert not features.is_removed(SURGE), "one pass is no proof"
    assert features.run(recipe) == 0
    assert features.is_removed(SURGE)
    assert features.is_removed(FACTOR)
    assert not features.is_removed(STATS)

    registry.write_bytes(REGISTRY.read_bytes())
    assert features.run(recipe) == 0
    assert not features.is_removed(SURGE)
    assert not features.is_removed(feature("acc_rate"))


def test_the_recipe_that_comes_with_the_project_runs_and_graphql_shows_the_tables(
    features: FeatureWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = features.folder / "feast.yml"
    recipe.write_text((ROOT / "recipes" / "feast.yml").read_text())
    monkeypatch.setenv("FEAST_REGISTRY", str(REGISTRY))
    monkeypatch.setenv("MLCAT_SERVER", features.catalog)
    assert features.run(str(recipe)) == 0
    query = """query Table($urn: String!) {
      mlFeatureTable(urn: $urn) {
        name
        description
        platform { name }
        properties { description mlFeatures { name } }
      }
    }"""
    with CatalogClient(features.catalog, "") as client:
        found = client.graphql(query, {"urn": STATS})
    assert found["mlFeatureTable"] == {
        "name": "rides.driver_hourly_stats",
        "description": "How drivers did in each hour",
        "platform": {"name": "feast"},
        "properties": {
            "description": "How drivers did in each hour",
            "mlFeatures": [{"name": name} for name in ("conv_rate", "acc_rate", "avg_daily_trips")],
        },
    }
