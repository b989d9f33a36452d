"""A store of many features costs requests by the page, never by the feature or the table."""

import json
from math import ceil
from typing import Any

from support.definitions import FeatureWorld
from support.feast_store import write_registry

VIEWS, FEATURES = 250, 12
PAGE, LISTED = 200, 1_000


def entities(report: dict[str, Any]) -> int:
    return sum(counts["read"] for counts in report["entities"].values())


def budget(report: dict[str, Any]) -> float:
    """Return the requests that design allows; there are no models, so no features are linked."""
    evaluated = report["evaluation"]["evaluated"]
    amounts = (report["proposals_sent"], entities(report), evaluated)
    return 1.1 * sum(ceil(amount / PAGE) for amount in amounts) + 10


def ingest(features: FeatureWorld, *how: str) -> dict[str, Any]:
    recipe = features.recipe({"type": "feast", "config": {"registry": "registry.db"}})
    assert features.run(recipe, *how) == 0
    report: dict[str, Any] = json.loads((features.folder / "report.json").read_text())
    assert report["entities"]["mlFeature"]["read"] == VIEWS * FEATURES
    assert report["entities"]["mlFeatureTable"]["read"] == VIEWS
    return report


def test_the_catalog_sees_no_more_requests_than_the_budget(features: FeatureWorld) -> None:
    write_registry(features.folder / "registry.db", views=VIEWS, features=FEATURES)
    first = ingest(features)
    assert first["proposals_sent"] > VIEWS * FEATURES
    assert first["catalog_requests"] <= budget(first)

    again = ingest(features)
    assert again["proposals_sent"] == 0
    assert again["catalog_requests"] <= budget(again)

    full = ingest(features, "--full")
    assert full["proposals_sent"] == 0
    # Beside what is stored it lists what the catalog has from this store, to find what is gone.
    assert full["catalog_requests"] <= budget(full) + ceil(entities(full) / LISTED)
