"""The latest version in a default search, from the recipe: removals, returns, other writers."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from mlcat_ingest.catalog.schema.values import Write
from mlcat_ingest.cli.main import call
from mlcat_ingest.metadata.naming import Naming
from mlcat_ingest.testing.mlflow_store import mlflow_client
from support.catalog_server import RunningCatalog, running_catalog

pytestmark = pytest.mark.integration

SEARCH = """{searchAcrossEntities(input: {types: [MLMODEL], query: "*", start: 0, count: 50,
  orFilters: [{and: [{field: "platform", values: ["urn:li:dataPlatform:mlflow"]}]}]})
  {searchResults {entity {urn}}}}"""


def urn(version: int, name: str = "scorer") -> str:
    return Naming().version(name, str(version)).urn


@dataclass
class World:
    """A registry, a recipe of it, and a catalog that only REST requests reach."""

    folder: Path
    catalog: RunningCatalog
    client: Any

    def recipe(self, name: str = "night") -> str:
        path = self.folder / f"{name}.yml"
        path.write_text(
            f"name: {name}\n"
            f"source: {{type: mlflow, config: {{tracking_uri: 'sqlite:///{self.folder}/m.db'}}}}\n"
            f"sink: {{type: rest, config: {{server: '{self.catalog.url}'}}}}\n"
            "report_to_catalog: false\n"
            "limits: {max_removed_ratio: 1.0}\n"
        )
        return str(path)

    def ingest(self, *options: str, name: str = "night") -> int:
        """Run the recipe, and return how many proposals it sent."""
        report = self.folder / "report.json"
        assert call([self.recipe(name), "-q", "--report", str(report), *options]) == 0
        sent: int = json.loads(report.read_text())["proposals_sent"]
        return sent

    def plan(self) -> int:
        return call(["plan", self.recipe(), "--full", "--exit-code", "-q"])

    def found(self) -> list[str]:
        """Return the models that a search finds as DataHub's pages search, without flags."""
        answer = requests.post(
            f"{self.catalog.url}/api/graphql", json={"query": SEARCH}, timeout=30
        ).json()
        results = answer["data"]["searchAcrossEntities"]["searchResults"]
        return sorted(one["entity"]["urn"] for one in results)

    def replace_versions(self, *versions: int) -> None:
        """Upsert versions as DataHub's own source does: without what the server computed."""
        for one in versions:
            stored = self.catalog.store.get_many([urn(one)], ["versionProperties"])
            value = stored[urn(one)]["versionProperties"].value
            left = {name: entry for name, entry in value.items() if name != "isLatest"}
            self.catalog.store.write([Write(urn(one), "versionProperties", left)])


@contextmanager
def world(folder: Path, versions: int) -> Iterator[World]:
    with (
        mlflow_client(f"sqlite:///{folder}/m.db") as client,
        running_catalog(folder / "catalog.db") as catalog,
    ):
        client.create_registered_model("scorer")
        for number in range(1, versions + 1):
            client.create_model_version("scorer", f"s3://b/{number}")
        made = World(folder, catalog, client)
        made.ingest()
        assert made.found() == [urn(versions)]
        yield made


def test_a_search_finds_the_newest_version_that_is_left(tmp_path: Path) -> None:
    with world(tmp_path, 4) as there:
        there.client.delete_model_version("scorer", "4")
        assert there.plan() == 5
        assert there.ingest("--full") == 3, "the status, the group's newest, and the set"
        assert there.found() == [urn(3)]
        assert (there.plan(), there.ingest("--full")) == (0, 0)

        there.client.delete_model_version("scorer", "3")
        there.client.delete_model_version("scorer", "2")
        there.ingest("--full")
        assert there.found() == [urn(1)]

        there.client.create_model_version("scorer", "s3://b/5")
        there.ingest()
        assert there.found() == [urn(5)]
        assert (there.plan(), there.ingest("--full")) == (0, 0)


def test_versions_that_come_back_and_models_that_are_renamed(tmp_path: Path) -> None:
    with world(tmp_path, 3) as there:
        removed = Write(urn(3), "status", {"removed": True})
        there.client.rename_registered_model("scorer", "ranker")
        there.ingest("--full")
        assert there.found() == [urn(3, "ranker")]
        there.client.rename_registered_model("ranker", "scorer")
        there.ingest("--full")
        assert there.found() == [urn(3)]
        there.catalog.store.write([removed])
        assert there.found() == []
        there.ingest("--full")
        assert there.found() == [urn(3)]
        assert (there.plan(), there.ingest("--full")) == (0, 0)


def test_another_writer_that_drops_what_is_computed_is_repaired(tmp_path: Path) -> None:
    with world(tmp_path, 3) as there:
        there.replace_versions(1, 2, 3)
        assert there.found() == [urn(1), urn(2), urn(3)]
        assert there.plan() == 5
        there.ingest("--full")
        assert there.found() == [urn(3)]
        assert (there.plan(), there.ingest("--full")) == (0, 0)


def test_what_one_recipe_takes_back_leaves_the_newest_of_another(tmp_path: Path) -> None:
    with world(tmp_path, 3) as there:
        there.client.delete_model_version("scorer", "3")
        there.ingest(name="day")
        assert there.found() == [urn(3)]
        assert call(["retract", there.recipe(), "--yes", "-q"]) == 0
        assert there.found() == [urn(2)]
        assert call(["retract", there.recipe("day"), "--yes", "-q"]) == 0
        assert there.found() == []
