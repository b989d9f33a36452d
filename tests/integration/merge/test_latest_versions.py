"""The latest version in a default search, where two recipes share the versions of a model."""

from pathlib import Path

import requests

from mlcat_ingest.cli.main import call
from mlcat_ingest.metadata.naming import Naming
from mlcat_ingest.testing.mlflow_store import mlflow_client
from support.catalog_server import running_catalog

SEARCH = """{searchAcrossEntities(input: {types: [MLMODEL], query: "*", start: 0, count: 50,
  orFilters: [{and: [{field: "platform", values: ["urn:li:dataPlatform:mlflow"]}]}]})
  {searchResults {entity {urn}}}}"""


def write_recipe(folder: Path, name: str, server: str) -> str:
    path = folder / f"{name}.yml"
    path.write_text(
        f"name: {name}\n"
        f"source: {{type: mlflow, config: {{tracking_uri: 'sqlite:///{folder}/m.db'}}}}\n"
        f"sink: {{type: rest, config: {{server: '{server}'}}}}\n"
        "limits: {max_removed_ratio: 1.0}\n"
    )
    return str(path)


def found(server: str) -> list[str]:
    """Return the models that a search finds as DataHub's pages search, without flags."""
    answer = requests.post(f"{server}/api/graphql", json={"query": SEARCH}, timeout=30).json()
    results = answer["data"]["searchAcrossEntities"]["searchResults"]
    return sorted(hit["entity"]["urn"] for hit in results)


def test_what_one_recipe_takes_back_leaves_the_newest_of_another(tmp_path: Path) -> None:
    versions = [Naming().version("scorer", number).urn for number in "123"]
    with (
        mlflow_client(f"sqlite:///{tmp_path}/m.db") as client,
        running_catalog(tmp_path / "catalog.db") as catalog,
    ):
        night, day = (write_recipe(tmp_path, name, catalog.url) for name in ("night", "day"))
        client.create_registered_model("scorer")
        for number in "123":
            client.create_model_version("scorer", f"s3://b/{number}")
        assert call([night, "-q"]) == 0
        client.delete_model_version("scorer", "3")
        assert call([day, "-q"]) == 0
        assert found(catalog.url) == [versions[2]]
        assert call(["retract", night, "--yes", "-q"]) == 0
        assert found(catalog.url) == [versions[1]]
        assert call(["retract", day, "--yes", "-q"]) == 0
        assert found(catalog.url) == []
