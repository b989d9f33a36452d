"""What can be read in shards, and how a recipe is cut into them."""

import json

import pytest

from mlcat_ingest.errors import ProtocolMismatchError, RecipeError
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.sources.base import Shard
from mlcat_ingest.sources.mlflow.source import MlflowSource
from mlcat_ingest.workflows.resolve import resolve
from mlcat_ingest.workflows.shard import ShardGroup, Sharding
from support.fake_mlflow import FakeReader, FakeStore, a_source
from support.mlflow_history import Server
from support.mlflow_records import a_run, an_experiment
from support.shards import ShardedRecipe

SOURCE = "{type: mlflow, config: {tracking_uri: 'http://mlflow'}}"
REST = "{type: rest, config: {server: 'http://catalog'}}"


def shards(source: MlflowSource) -> list[Shard]:
    return list(source.shards())


def a_store(**sizes: int) -> FakeStore:
    experiments = [an_experiment(str(at), name) for at, name in enumerate(sizes)]
    runs = [
        a_run(f"{name}{number}", str(at))
        for at, (name, size) in enumerate(sizes.items())
        for number in range(size)
    ]
    return FakeStore(experiments, runs)


def test_experiments_with_runs_are_units_of_about_their_size() -> None:
    reader = FakeReader({"default": a_store(none=0, few=3, some=40, many=300)})
    found = shards(a_source(reader, experiments={"deny": ["hidden"]}))
    assert found == [
        Shard("default/1", "few", 24),
        Shard("default/2", "some", 48),
        Shard("default/3", "many", 384),
    ]


def test_only_what_the_recipe_asks_for_is_a_unit() -> None:
    reader = FakeReader({"default": a_store(a=1, b=1), "team x": a_store(a=1, b=1)})
    found = shards(a_source(reader, experiments={"allow": ["a"]}, workspaces={"deny": ["default"]}))
    assert [unit.key for unit in found] == ["team%20x/0"]


def test_where_runs_cannot_be_counted_experiments_are_equal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object, **__: object) -> bool:
        raise ProtocolMismatchError("no such token")

    reader = FakeReader({"default": a_store(none=0, many=300)})
    monkeypatch.setattr(reader, "runs", refuse)
    assert [unit.size for unit in shards(a_source(reader))] == [1, 1]


@pytest.mark.parametrize("config", [{"limit": 5}, {"runs": {"children": "collapse"}}])
def test_what_counts_over_all_experiments_is_not_split(config: dict[str, object]) -> None:
    source = a_source(FakeReader({"default": a_store(a=1)}), **config)
    with pytest.raises(RecipeError, match="spans experiments"):
        shards(source)


def test_shards_of_a_small_source_are_one() -> None:
    recipe = ShardedRecipe(Server.in_use())
    assert len(recipe.sharding().shards()) == 1
    assert len(recipe.sharding().shards(least_size=1)) == 3
    assert len(recipe.sharding().shards(most=2, least_size=1)) == 2


def test_a_shard_is_reported_in_json() -> None:
    shard = ShardGroup(1, "fraud and 2 more", 700, ("default/1", "default/2", "default/7"))
    assert ShardGroup.of_data(json.loads(json.dumps(shard.as_data()))) == shard


def test_a_shard_that_is_read_again_is_evaluated_again() -> None:
    recipe = ShardedRecipe(Server.in_use(), evaluates=True)
    [shard] = recipe.sharding().shards()
    models = recipe.sharding().read(shard).evaluation.evaluated
    assert recipe.sharding().read(shard).evaluation.evaluated == 0
    assert recipe.sharding().read(shard, again=True).evaluation.evaluated == models > 0


@pytest.mark.parametrize(
    "sink", ["", ", sink: {type: embedded}", ", sink: {type: file, config: {path: x}}"]
)
def test_shards_need_a_catalog_that_many_can_write_to(sink: str) -> None:
    with pytest.raises(RecipeError, match="needs a sink of type `rest`"):
        Sharding(Recipe.parse(f"{{sources: [{SOURCE}]{sink}}}"))


def test_a_source_that_cannot_be_split_is_refused_by_its_place() -> None:
    feast = "{type: feast, config: {registry: registry.db}}"
    text = f"{{name: both, sources: [{SOURCE}, {feast}], sink: {REST}}}"
    with pytest.raises(RecipeError, match=r"sources\[1\] .* of type feast"):
        Sharding(resolve(Recipe.parse(text)))
