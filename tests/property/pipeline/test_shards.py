"""Whatever the shards and their order, the catalog ends as one run of the recipe leaves it."""

import tempfile
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from mlcat_ingest.sources.base import Shard
from mlcat_ingest.workflows.shard import _balance
from support.examples import examples
from support.mlflow_history import REPORTED, Recipe, Server
from support.shards import ShardedRecipe

PURGES = ("purge_run", "purge_experiment", "purge_model", "vanish", "rename", "delete")

steps = st.lists(
    st.tuples(st.sampled_from((*REPORTED, *PURGES, *PURGES)), st.integers(0, 11)), max_size=6
)
filters = st.sampled_from([{}, {"experiments": {"deny": ["fraud"]}}, {"compat": "datahub"}])


@settings(max_examples=examples(12))
@given(history=st.lists(steps, min_size=1, max_size=3), config=filters, seed=st.integers(0, 99))
@example(
    # A child run that is removed with its experiment, or alone, keeps the name of its parent.
    history=[[("start_child", 0)], [("delete_experiment", 0)], [("restore_experiment", 0)]],
    config={},
    seed=0,
)
@example(
    history=[[("start_child", 0), ("start_child", 10)], [("delete", 10)]],
    config={},
    seed=0,
)
def test_shards_end_as_one_run_does(
    history: list[list[tuple[str, int]]], config: dict[str, object], seed: int
) -> None:
    server = Server.in_use()
    sharded = ShardedRecipe(server, config=config)
    with tempfile.TemporaryDirectory(dir=_fast_folder()) as folder:
        whole = Recipe(server, f"sqlite:///{folder}/state.db", config=config)
        for step in [[], *history]:
            for change, at in step:
                getattr(server, change)(at)
            whole.ingest(full=True)
            sharded.ingest(seed)
            assert sharded.sink.stored == whole.sink.stored
    sharded.sink.writes.clear()
    sharded.ingest(seed)
    assert sharded.sink.writes == []


sizes = st.lists(st.integers(1, 2_000), max_size=40)


@given(sizes=sizes, most=st.integers(1, 12), least=st.integers(1, 1_000))
def test_every_shard_is_in_one_group_and_no_group_is_much_larger_than_the_others(
    sizes: list[int], most: int, least: int
) -> None:
    shards = [Shard(f"{at:03}", "", size) for at, size in enumerate(sizes)]
    parts = _balance(shards, most, least)
    assert sorted(shard.key for part in parts for shard in part) == [shard.key for shard in shards]
    assert len(parts) <= most
    loads = [sum(shard.size for shard in part) for part in parts]
    assert loads == sorted(loads, reverse=True)
    if loads:
        assert loads[0] <= sum(sizes) / len(parts) + max(sizes)
    assert parts == _balance(shards[::-1], most, least)


def _fast_folder() -> str | None:
    """Return a folder in memory where there is one: each pass writes durably."""
    memory = Path("/dev/shm")
    return str(memory) if memory.is_dir() else None
