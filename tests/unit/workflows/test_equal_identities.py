"""Two sources of one recipe with one identity: refused by a run and by `check`."""

from pathlib import Path

import pytest

from mlcat_ingest.errors import RecipeError
from mlcat_ingest.metadata.codec import dumps
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.workflows.check import examine
from mlcat_ingest.workflows.ingest import Pipeline
from mlcat_ingest.workflows.resolve import resolve
from mlcat_ingest.workflows.shard import Sharding
from support.definitions import definitions
from support.feast import REGISTRY, SQL_REGISTRY
from support.mlflow_tables import make_database


def recipe(first: str, second: str) -> Recipe:
    return Recipe.parse(f"""\
name: test
sources:
  - {{type: definitions, config: {{path: other.yml}}}}
  - {first}
  - {second}
sink: {{type: file, config: {{path: out.json}}}}
""")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("other", "features"):
        Path(f"{name}.yml").write_text(dumps(definitions(namespace=name)).decode())
    Path("registry.db").symlink_to(REGISTRY)
    default = {"experiment_id": 0, "name": "Default", "creation_time": 5}
    make_database(tmp_path / "mlflow.db", experiments=[default])


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        ("definitions", "path: features.yml", "path: features.yml, namespace_prefix: b"),
        ("feast", "registry: registry.db", f"registry: '{REGISTRY}', instance: b"),
        ("feast", f"registry: 'sqlite:///{SQL_REGISTRY}'", f"registry: 'sqlite:///{SQL_REGISTRY}'"),
        ("mlflow", "tracking_uri: 'sqlite:///mlflow.db'", "tracking_uri: 'sqlite:///mlflow.db'"),
    ],
)
def test_equal_identities_are_refused_with_their_places(kind: str, first: str, second: str) -> None:
    both = [f"{{type: {kind}, config: {{{options}}}}}" for options in (first, second)]
    same = resolve(recipe(*both))
    report = Pipeline(same).run()
    assert report.exit_code == 2
    sentence = f"sources[1] and sources[2] have the same identity, {kind}:"
    assert sentence in str(report.error)
    [failed] = [found for found in examine(same) if found.outcome == "failed"]
    assert sentence in failed.detail
    others = [both[0].replace("}}", f", server_id: s{i}, instance: s{i}}}}}") for i in range(2)]
    assert Pipeline(resolve(recipe(*others))).run().exit_code == 0


def test_equal_identities_are_refused_before_there_are_shards() -> None:
    one = "{type: mlflow, config: {tracking_uri: 'sqlite:///mlflow.db'}}"
    text = f"{{sources: [{one}, {one}], sink: {{type: rest, config: {{server: 'http://h'}}}}}}"
    with pytest.raises(RecipeError, match=r"sources\[0\] and sources\[1\] have the same identity"):
        Sharding(Recipe.parse(text)).shards()
