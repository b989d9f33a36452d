"""Filters of a recipe, and its division into shards."""

import logging
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from mlcat_ingest.errors import ProtocolMismatchError, RecipeError
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.reader import RunFilter
from mlcat_ingest.sources.mlflow.select.selection import (
    experiment_ids_of,
    is_abandoned,
    listed_runs,
    reads_changes,
    takes_every_run,
)
from mlcat_ingest.sources.mlflow.values.records import Run
from support.fake_mlflow import ALL_RUNS, FakeReader, FakeStore, a_source
from support.mlflow_records import a_run, an_experiment

HOUR_MS = 3_600_000


def a_config(**config: Any) -> MlflowConfig:
    return MlflowConfig.model_validate({"tracking_uri": "http://mlflow", **config})


@pytest.mark.parametrize(
    ("config", "every_run", "only_changes"),
    [
        ({}, True, True),
        ({"experiments": {"deny": ["x"]}}, True, True),
        ({"incremental": {"enabled": False}}, True, False),
        ({"limit": 5}, False, False),
        ({"runs": {"children": "collapse"}}, False, False),
        ({"runs": {"children": "skip"}}, False, True),
        ({"runs": {"select": "registered"}}, False, True),
        ({"runs": {"select": "with_model"}}, False, True),
        ({"runs": {"statuses": ["FINISHED"]}}, False, True),
        ({"runs": {"since": "2026-01-01"}}, False, True),
    ],
    ids=str,
)
def test_filters_decide_whether_every_run_is_taken_and_whether_changes_are_enough(
    config: dict[str, Any], *, every_run: bool, only_changes: bool
) -> None:
    assert takes_every_run(a_config(**config)) is every_run
    assert reads_changes(a_config(**config)) is only_changes


@pytest.mark.parametrize(
    ("more", "children", "select"),
    [
        ({}, "include", "registered"),
        ({}, "skip", "registered"),
        ({}, "collapse", "all"),
        ({"limit": 5}, "include", "all"),
    ],
)
def test_the_reader_leaves_out_only_what_nothing_counts(
    more: dict[str, Any], children: str, select: str
) -> None:
    config = a_config(runs={"select": "registered", "children": children}, **more)
    assert listed_runs(config, already_read=2) == RunFilter(
        select=select,  # type: ignore[arg-type]
        limit=3 if more else None,
    )


@pytest.mark.parametrize(
    ("status", "start_ms", "end_ms", "abandoned"),
    [
        ("RUNNING", 0, None, True),
        ("SCHEDULED", 0, None, True),
        ("FINISHED", 0, None, False),
        ("RUNNING", 1, None, False),
        ("RUNNING", None, None, False),
        ("RUNNING", 0, 1, False),
        ("RUNNING", -1, 0, True),
    ],
)
def test_a_run_is_abandoned_that_has_not_ended_for_too_long(
    status: str, start_ms: int | None, end_ms: int | None, *, abandoned: bool
) -> None:
    run = a_run(status=status, start_time_ms=start_ms, end_time_ms=end_ms)
    config = a_config(runs={"stale_running_after": "2h"})
    assert is_abandoned(config, run, lambda: 2 * HOUR_MS + 1) is abandoned
    assert not is_abandoned(a_config(), run, lambda: 2 * HOUR_MS + 1)


# --- shards ---------------------------------------------------------------------------------------


def a_reader(runs: int) -> FakeReader:
    store = FakeStore([an_experiment()], [a_run(f"r{n}") for n in range(runs)])
    return FakeReader({"default": store})


@pytest.mark.parametrize(
    ("runs", "sizes", "asked"),
    [
        (0, [], [0]),
        (1, [24], [0, 32]),
        (32, [24], [0, 32]),
        (33, [48], [0, 32, 64]),
        (64, [48], [0, 32, 64]),
        (65, [96], [0, 32, 64, 128]),
    ],
)
def test_the_size_of_a_shard_is_about_its_number_of_runs(
    runs: int, sizes: list[int], asked: list[int]
) -> None:
    reader = a_reader(runs)
    assert [(one.key, one.size) for one in a_source(reader).shards()] == [
        ("default/1", size) for size in sizes
    ]
    assert reader.filters == [RunFilter(limit=1, skip=skip) for skip in asked]


class Uncountable(FakeReader):
    """A server that takes no page token of ours."""

    def runs(
        self, experiment_ids: Sequence[str], *, only: RunFilter = ALL_RUNS
    ) -> Iterator[list[Run]]:
        del experiment_ids
        self.filters.append(only)
        raise ProtocolMismatchError("refused to list runs with 400: no such token")


def test_shards_have_one_size_where_runs_cannot_be_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reader = Uncountable({"default": FakeStore([an_experiment(str(n)) for n in range(3)])})
    with caplog.at_level(logging.INFO):
        assert [one.size for one in a_source(reader).shards()] == [1, 1, 1]
    assert len(reader.filters) == 1
    assert "cannot count runs; giving experiments equal size" in caplog.text


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"limit": 5}, "limit"),
        ({"runs": {"children": "collapse"}}, "runs.children: collapse"),
    ],
    ids=str,
)
def test_what_counts_over_all_experiments_cannot_be_divided(
    config: dict[str, Any], named: str
) -> None:
    with pytest.raises(RecipeError, match=f"in shards with `{named}`"):
        list(a_source(a_reader(1), **config).shards())


def test_a_shard_belongs_to_one_workspace() -> None:
    keys = ["default/1", "team%2Fa/2", "team%2Fa/3"]
    assert experiment_ids_of(keys, "team/a") == {"2", "3"}
    assert experiment_ids_of(keys, "default") == {"1"}
    assert experiment_ids_of(keys, "other") == set()
