"""`state show` and `state reset`: what a recipe remembers, for people and programs."""

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlcat_ingest.client.base import TestOutcome
from mlcat_ingest.pipeline.state import locks, partitions, records
from mlcat_ingest.pipeline.state.database import RunDatabase
from mlcat_ingest.pipeline.state.entities import KnownEntities
from mlcat_ingest.pipeline.state.opening import open_state
from mlcat_ingest.pipeline.state.partitions import PartitionKey
from mlcat_ingest.pipeline.state.records import RecordRow
from mlcat_ingest.sql.database import Engine
from support.cli import Invoke

KEY = PartitionKey("night", "rest http://catalog", "mlflow:0123:default", "eu")
STARTED_MS = 1_760_000_000_000


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    path = tmp_path / "night.yml"
    path.write_text("source: {type: mlflow}\nsink: {type: rest, config: {server: http://c}}\n")
    return str(path)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/.mlcat/state.db"


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    engine = open_state(url)
    with engine.transaction(write=True) as connection:
        part_id = partitions.begin(connection, KEY, "s", {"run": "urn:li:mlModel:x"}).key.id
        connection.execute_many(
            records.SAVE,
            [
                RecordRow(part_id, "run", "a", "d", "urn:a", "", "", "", 1),
                RecordRow(part_id, "run", "b", "", "urn:b", "", "", "422: no", 1),
            ],
        )
        partitions.save_checkpoint(connection, KEY, {"since_ms": 5}, STARTED_MS, full=True)
    database = RunDatabase()
    database.start(engine, KEY.recipe, KEY.sink)
    KnownEntities(database).save_results({"urn:a": TestOutcome(failing=("t",))})
    yield engine
    engine.dispose()


def test_a_recipe_that_never_ran_remembers_nothing_and_gets_no_database(
    invoke: Invoke, recipe: str, tmp_path: Path
) -> None:
    shown = invoke("state", "show", recipe)
    assert shown.code == 0
    assert "night: state in" in shown.out
    assert "no state: the next run reads everything" in shown.out
    reset = invoke("state", "reset", recipe, "--yes")
    assert (reset.code, reset.out) == (0, "")
    assert "'night' has no state in" in reset.err
    assert not (tmp_path / ".mlcat").exists()


def test_what_is_remembered_is_shown_to_people(
    invoke: Invoke, recipe: str, engine: Engine, url: str
) -> None:
    held = locks.acquire(engine, url, "night")
    shown = invoke("state", "show", recipe)
    held.release()
    assert shown.code == 0
    for line in (
        "running now: process ",
        "mlflow:0123:default, instance eu into rest http://catalog",
        "records    2 run",
        "dirty      1 run: the next run merges them again",
        "last full  2025-10-09 08:53:20 UTC",
        "run as     urn:li:mlModel:x",
        "tests      1 entity failed",
    ):
        assert line in shown.out


def test_a_part_that_never_came_to_its_end_says_so(
    invoke: Invoke, recipe: str, engine: Engine
) -> None:
    with engine.transaction(write=True) as connection:
        partitions.begin(connection, PartitionKey("night", "s", "mlflow:0:w", ""), "s", {})
    shown = invoke("state", "show", recipe).out
    assert "records    none" in shown
    assert "last run   never" in shown


@pytest.mark.usefixtures("engine")
def test_what_is_remembered_is_shown_to_programs(invoke: Invoke, recipe: str) -> None:
    shown = json.loads(invoke("state", "show", recipe, "--json").out)
    assert shown["recipe"] == "night"
    assert shown["holder"] is None
    (part,) = shown["parts"]
    assert (part["source"], part["instance"]) == ("mlflow:0123:default", "eu")
    assert (part["records"], part["dirty"]) == ({"run": 2}, {"run": 1})
    assert (part["checkpoint"], part["full_at_ms"]) == ({"since_ms": 5}, STARTED_MS)


def test_a_damaged_file_is_named_and_set_aside_by_a_reset(
    invoke: Invoke, recipe: str, tmp_path: Path
) -> None:
    path = tmp_path / ".mlcat" / "state.db"
    path.parent.mkdir()
    path.write_text("no database at all\n" * 99)
    shown = invoke("state", "show", recipe)
    assert (shown.code, shown.out) == (1, "")
    assert f"the state database {path} is damaged: file is not a database (the next" in shown.err
    reset = invoke("state", "reset", recipe, "--yes")
    assert reset.code == 0
    assert f"is kept as {path}.damaged" in reset.err
    assert "no state: the next run reads everything" in invoke("state", "show", recipe).out


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1), ("\n", 1), ("", 2)])
def test_resetting_asks_first(
    invoke: Invoke,
    recipe: str,
    engine: Engine,
    answer: str,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
    reset = invoke("state", "reset", recipe)
    assert reset.code == code
    assert "the state of 'night' in" in reset.err
    assert ("use --yes" in reset.err) == (answer == "")
    with engine.transaction() as connection:
        assert bool(partitions.partitions_of(connection, "night")) == (code != 0)


def test_a_recipe_that_runs_is_not_reset(
    invoke: Invoke, recipe: str, engine: Engine, url: str
) -> None:
    held = locks.acquire(engine, url, "night")
    reset = invoke("state", "reset", recipe, "--yes")
    held.release()
    assert reset.code == 1
    assert "another run of 'night' is in progress" in reset.err
