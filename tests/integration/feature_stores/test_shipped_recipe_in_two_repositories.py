"""The recipe of this repository, copied with its name and its path into two others."""

import shutil
from pathlib import Path

import pytest
import yaml

from mlcat_ingest.cli.main import call
from mlcat_ingest.client.config import EmbeddedSinkConfig
from mlcat_ingest.client.embedded import EmbeddedCatalog
from mlcat_ingest.pipeline.merge.provenance import is_removed
from support.venvs import REPOSITORY


def table(namespace: str, name: str) -> str:
    return f"urn:li:mlFeatureTable:(urn:li:dataPlatform:custom,{namespace}.{name})"


def copied(folder: Path, namespace: str) -> str:
    """Copy the recipe into a repository that defines two tables; return its path."""
    (folder / "definitions").mkdir(parents=True)
    shutil.copy(REPOSITORY / "recipes" / "definitions.yml", folder)
    for name in ("orders", "gone"):
        tables = [{"name": name, "features": [{"name": "count", "type": "COUNT"}]}]
        file = {"version": 1, "platform": "custom", "namespace": namespace, "tables": tables}
        (folder / "definitions" / f"{name}.yml").write_text(yaml.safe_dump(file))
    return str(folder / "definitions.yml")


def test_each_repository_removes_only_the_tables_that_it_had_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = tmp_path / "catalog.db"
    monkeypatch.setenv("MLCAT_DB", str(database))
    recipes = [copied(tmp_path / team, team) for team in ("shop", "bank")]
    for _ in range(2):
        for recipe in recipes:
            assert call([recipe, "--full", "-q"]) == 0
    (tmp_path / "shop" / "definitions" / "gone.yml").unlink()
    for _ in range(2):
        for recipe in recipes:
            assert call([recipe, "--full", "-q"]) == 0
    urns = [table(team, name) for team in ("shop", "bank") for name in ("orders", "gone")]
    catalog = EmbeddedCatalog(EmbeddedSinkConfig(db=f"sqlite:///{database}"))
    try:
        catalog.open(read_only=True)
        stored = catalog.read_many(urns, ["mlFeatureTableProperties", "status"])
    finally:
        catalog.close()
    assert [urn for urn in urns if is_removed(stored[urn])] == [table("shop", "gone")]
