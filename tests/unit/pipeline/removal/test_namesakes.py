"""Two experiments of one name share a group, which is there as long as one of them is."""

from pathlib import Path

import pytest

from mlcat_ingest.pipeline.report.report import Report
from mlcat_ingest.sources.mlflow.values.records import Experiment, Run
from support.fakes import group_urn, model_urn
from support.mlflow_history import Recipe, Server

ONE, TWO = "a" * 32, "b" * 32
IRIS = group_urn("iris")


@pytest.fixture
def server() -> Server:
    server = Server()
    server.store.experiments = [Experiment("1", "iris"), Experiment("2", "iris")]
    server.store.runs = [Run(ONE, "1", start_time_ms=1), Run(TWO, "2", start_time_ms=2)]
    return server


@pytest.fixture
def recipe(server: Server, tmp_path: Path) -> Recipe:
    recipe = Recipe(server, f"sqlite:///{tmp_path}/state.db", max_removed_ratio=1.0)
    noted(recipe.ingest())
    return recipe


def noted(report: Report) -> None:
    [detail] = report.note_examples["experiments_of_one_name"]
    assert detail.startswith(IRIS)
    assert detail.endswith(("experiments 1 and 2 have this name", "2 and 1 have this name"))


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("at", [0, 1])
def test_the_group_goes_with_the_last_of_them(
    server: Server, recipe: Recipe, at: int, *, full: bool
) -> None:
    left = model_urn((TWO, ONE)[at])
    server.delete_experiment(at)
    noted(recipe.ingest(full=full))
    assert recipe.sink.live("urn:li:mlModel") == {IRIS, left}
    server.delete_experiment(1 - at)
    noted(recipe.ingest(full=full))
    assert recipe.sink.live("urn:li:mlModel") == set()
    server.restore_experiment(at)
    noted(recipe.ingest(full=full))
    assert recipe.sink.live("urn:li:mlModel") == {IRIS, model_urn((ONE, TWO)[at])}


@pytest.mark.parametrize("at", [0, 1])
def test_one_of_them_is_deleted_for_good(server: Server, recipe: Recipe, at: int) -> None:
    del server.store.experiments[at], server.store.runs[at]
    report = recipe.ingest(full=True)
    assert recipe.sink.live("urn:li:mlModel") == {IRIS, model_urn((TWO, ONE)[at])}
    assert "experiments_of_one_name" not in report.notes


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("at", [0, 1])
def test_one_of_them_gets_another_name_and_its_old_one_again(
    server: Server, recipe: Recipe, at: int, *, full: bool
) -> None:
    server.experiment(at, name="other")
    recipe.ingest(full=full)
    assert recipe.sink.live("urn:li:mlModel") == {
        IRIS,
        group_urn("other"),
        *map(model_urn, (ONE, TWO)),
    }
    tags = {"tags": [{"tag": "urn:li:tag:theirs"}]}
    recipe.sink.put(group_urn("other"), "globalTags", tags)
    server.experiment(at, name="iris")
    noted(recipe.ingest(full=full))
    assert recipe.sink.live("urn:li:mlModel") == {IRIS, *map(model_urn, (ONE, TWO))}
    assert recipe.sink.stored[IRIS]["globalTags"] == tags
