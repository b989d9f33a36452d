from pathlib import Path

import pytest

from mlcat_ingest.errors import ProtocolMismatchError, RecipeError
from mlcat_ingest.sql.database import (
    Engine,
    Migration,
    SqliteEngine,
    migrate,
)

FIRST = Migration("first", ["CREATE TABLE a (x)"])
SECOND = Migration("second", ["CREATE TABLE b (x)", "CREATE TABLE c (x)"])


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    path = str(tmp_path / "x.db")
    return SqliteEngine(path, path)


def tables(engine: Engine) -> set[str]:
    with engine.transaction() as connection:
        return set(connection.scalars("SELECT name FROM sqlite_master WHERE type = 'table'"))


def test_steps_are_taken_once_and_in_order(engine: Engine) -> None:
    assert migrate(engine, "catalog", [FIRST]) == ["first"]
    assert migrate(engine, "catalog", [FIRST, SECOND]) == ["second"]
    assert migrate(engine, "catalog", [FIRST, SECOND]) == []
    assert {"a", "b", "c"} < tables(engine)
    engine.dispose()


def test_components_of_one_database_do_not_meet(engine: Engine) -> None:
    migrate(engine, "catalog", [FIRST])
    assert migrate(engine, "state", [SECOND]) == ["second"]
    engine.dispose()


@pytest.mark.parametrize(
    ("known", "error", "words"),
    [
        ([FIRST], RecipeError, r"newer version .*: it has 'second'.*upgrade"),
        ([SECOND, FIRST], ProtocolMismatchError, "are those of no version"),
    ],
)
def test_a_database_of_other_steps_is_refused(
    engine: Engine, known: list[Migration], error: type[Exception], words: str
) -> None:
    migrate(engine, "catalog", [FIRST, SECOND])
    with pytest.raises(error, match=words):
        migrate(engine, "catalog", known)
    engine.dispose()


def test_a_step_that_fails_takes_the_steps_before_it_back(engine: Engine) -> None:
    failing = Migration("failing", ["CREATE TABLE d (x)", "broken step"])
    with pytest.raises(engine.errors, match="syntax error"):
        migrate(engine, "catalog", [FIRST, failing])
    assert tables(engine) == set()
    assert migrate(engine, "catalog", [FIRST]) == ["first"]
    engine.dispose()
