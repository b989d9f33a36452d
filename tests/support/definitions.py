"""A definitions file, the catalog that it is ingested into, and what the catalog then holds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from mlcat_ingest.cli.main import call
from mlcat_ingest.client.rest.client import CatalogClient
from mlcat_ingest.metadata.proposal import Proposal
from mlcat_ingest.metadata.urn import entity_type_of

DRIVERS = "urn:li:mlFeatureTable:(urn:li:dataPlatform:custom,rides.drivers)"
RATE = "urn:li:mlFeature:(rides.drivers,rate)"
TRIPS = "urn:li:mlFeature:(rides.drivers,trips)"
DRIVER = "urn:li:mlPrimaryKey:(rides.drivers,driver)"
RIDERS = "urn:li:mlFeatureTable:(urn:li:dataPlatform:custom,rides.riders)"
AGE = "urn:li:mlFeature:(rides.riders,age)"
PROPERTIES = {
    "mlFeatureTable": "mlFeatureTableProperties",
    "mlFeature": "mlFeatureProperties",
    "mlPrimaryKey": "mlPrimaryKeyProperties",
}


def definitions(**changes: Any) -> dict[str, Any]:
    """Return two tables of a store, as a file says them."""
    drivers = {
        "name": "drivers",
        "owners": ["ann"],
        "tags": {"team": "drivers"},
        "sources": [{"platform": "snowflake", "name": "DB.S.DRIVERS"}],
        "keys": [{"name": "driver", "column": "driver_id", "type": "ORDINAL"}],
        "features": [{"name": "rate", "type": "CONTINUOUS"}, {"name": "trips", "type": "COUNT"}],
    }
    riders = {"name": "riders", "features": [{"name": "age", "type": "ORDINAL"}]}
    tables = [drivers, riders]
    return {"version": 1, "platform": "custom", "namespace": "rides", "tables": tables} | changes


@dataclass(frozen=True)
class FeatureWorld:
    """A folder with definitions and a recipe, and the address of a catalog."""

    folder: Path
    catalog: str

    def write(self, content: Any, name: str = "features.yml") -> None:
        (self.folder / name).write_text(yaml.safe_dump(content, sort_keys=False))

    def recipe(
        self,
        *sources: dict[str, Any],
        name: str = "features",
        sink: Mapping[str, Any] | None = None,
        **keys: Any,
    ) -> str:
        """Write a recipe, with more options of its `sink` and more `keys`; return its path."""
        path = self.folder / f"{name}.recipe.yml"
        config = {"server": self.catalog, "token": "", **(sink or {})}
        recipe: dict[str, Any] = {"name": name, "sources": list(sources)}
        recipe |= {"sink": {"type": "rest", "config": config}, "report_to_catalog": False, **keys}
        path.write_text(yaml.safe_dump(recipe))
        return str(path)

    def source(self, name: str = "features.yml", **config: Any) -> dict[str, Any]:
        return {"type": "definitions", "config": {"path": name, **config}}

    def run(self, *words: str) -> int:
        return call([*words, "-q", "--report", str(self.folder / "report.json")])

    def stored(self, urn: str) -> dict[str, Any]:
        names = [PROPERTIES[entity_type_of(urn)], "status", "globalTags", "ownership"]
        with CatalogClient(self.catalog, "") as client:
            found = client.read_many([urn], names).get(urn, {})
            return {name: one.value for name, one in found.items()}

    def properties(self, urn: str) -> dict[str, Any]:
        found: dict[str, Any] = self.stored(urn)[PROPERTIES[entity_type_of(urn)]]
        return found

    def features_of(self, table: str) -> Sequence[str]:
        found: Sequence[str] = self.properties(table)["mlFeatures"]
        return found

    def is_removed(self, urn: str) -> bool:
        return bool(self.stored(urn).get("status", {}).get("removed"))

    def emit(self, urn: str, aspect: dict[str, Any]) -> None:
        """Write the properties of an entity as somebody else does."""
        name = PROPERTIES[entity_type_of(urn)]
        with CatalogClient(self.catalog, "") as client:
            assert client.write([Proposal(urn, name, aspect)]) == []
