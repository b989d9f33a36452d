"""`from-datahub.md`, gone through as it stands: both recipes, the steps, the clean-up."""

import os
import shlex
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.workflows.resolve import resolve
from support.commands import ended
from support.page_blocks import marked, table_rows

PAGE = (Path(__file__).parents[2] / "docs" / "tutorials" / "from-datahub.md").read_text()
PLATFORM = "urn:li:dataPlatform:mlflow"


def commands(name: str) -> list[list[str]]:
    lines = marked(PAGE, name).splitlines()
    return [shlex.split(line) for line in lines if not line.startswith("#")]


def test_our_recipe_resolves() -> None:
    [source] = resolve(Recipe.parse(marked(PAGE, "recipe: ours"))).sources
    assert isinstance(source.config, MlflowConfig)
    assert source.config.compat == "datahub"


def test_their_recipe_loads_as_it_is() -> None:
    assert resolve(Recipe.parse(marked(PAGE, "recipe: theirs"))).sink is not None


@dataclass(frozen=True)
class Place:
    """A folder with both recipes, set to a real store and a real catalog."""

    folder: Path
    run_id: str
    catalog: Any
    datahub: Any

    def ours(self, words: list[str]) -> None:
        command = [sys.executable, "-m", "mlcat_ingest", *words[1:]]
        ended(command, cwd=self.folder, env={**os.environ, "HOME": str(self.folder)})

    def count(self, kind: str) -> int:
        return int(self.catalog.store.list_urns(kind).total)

    def urns(self) -> set[str]:
        kinds = ("mlModel", "mlModelGroup")
        return {urn for kind in kinds for urn in self.catalog.store.list_urns(kind).urns}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    pytest.importorskip("mlflow")
    pytest.importorskip("datahub")
    from mlcat_ingest.testing.mlflow_store import mlflow_client
    from support.catalog_server import running_catalog
    from support.datahub_cli import DataHubCli

    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    with warnings.catch_warnings(), mlflow_client(uri) as client:
        warnings.simplefilter("ignore")
        run = client.create_run(client.create_experiment("churn"))
        client.set_terminated(run.info.run_id)
        client.create_registered_model("scorer")
        client.create_model_version("scorer", "file:///model", run.info.run_id)
    with running_catalog(tmp_path / "catalog.db") as catalog:
        hosts = {
            "http://mlflow.example.com:5000": uri,
            "http://datahub.example.com:8080": catalog.url,
        }
        for name, file in (("recipe: theirs", "theirs.yml"), ("recipe: ours", "recipe.yml")):
            text = marked(PAGE, name)
            for example, real in hosts.items():
                text = text.replace(example, real)
            (tmp_path / file).write_text(text)
        yield Place(tmp_path, run.info.run_id, catalog, DataHubCli(catalog.url, tmp_path))


@pytest.mark.compat
@pytest.mark.filterwarnings("ignore")
def test_the_page_from_its_beginning_to_its_end(place: Place) -> None:
    place.datahub.run("ingest", "-c", str(place.folder / "theirs.yml"), "--no-spinner")
    group = f"urn:li:mlModelGroup:({PLATFORM},scorer,PROD)"
    version = f"urn:li:mlModel:({PLATFORM},scorer_1,PROD)"
    assert place.urns() == {group, version}
    for words in commands("steps"):
        place.ours(words)
    ours = {
        f"urn:li:mlModel:({PLATFORM},{place.run_id},PROD)",
        f"urn:li:mlModelGroup:({PLATFORM},experiment:churn,PROD)",
        f"urn:li:mlModelGroup:({PLATFORM},experiment:Default,PROD)",
    }
    assert place.urns() == {group, version, *ours}
    left = [row[0] for row in table_rows(PAGE, "## Clean-up")]
    assert {f"`{kind}`" for kind in ("container", "dataProcessInstance")} < set(left)
    assert (place.count("container"), place.count("dataProcessInstance")) == (2, 1)
    for words in commands("clean-up"):
        place.datahub.run(*words[1:], "--force")
    assert (place.count("container"), place.count("dataProcessInstance")) == (0, 0)
    assert place.urns() == {group, version, *ours}
