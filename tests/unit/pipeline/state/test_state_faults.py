"""State that cannot be kept: every fault is one sentence with its cure, and no secret in it."""

import errno
import fcntl
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlcat_ingest.errors import RecipeError, RecipeLockedError, StateUnavailableError
from mlcat_ingest.pipeline.state import locks, opening
from mlcat_ingest.pipeline.state.inspection import state_findings
from mlcat_ingest.pipeline.state.opening import open_state
from mlcat_ingest.pipeline.state.partitions import PartitionKey, copy_recipe
from mlcat_ingest.sql import filelock
from mlcat_ingest.sql.database import Engine

KEY = PartitionKey("r", "s", "mlflow:0:default", "")


def url_of(path: Path) -> str:
    return f"sqlite:///{path}"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://user:verysecret@h/db", r"state cannot be kept in mysql://user:\*\*\*@h/db"),
        ("sqlite://", "state in memory would be lost"),
        ("sqlite:///:memory:", "state in memory would be lost"),
        ("nonsense://user:verysecret@h", "cannot be kept"),
    ],
)
def test_databases_that_cannot_hold_state_are_refused(
    engine: Engine, url: str, message: str
) -> None:
    with pytest.raises(RecipeError, match=message):
        copy_recipe(url, "r", engine)
    (found,) = state_findings(url, "r")
    assert re.search(message, found.detail)
    with pytest.raises(RecipeError, match=message) as caught:
        open_state(url)
    assert "verysecret" not in str(caught.value)


def test_a_folder_that_cannot_be_made_is_no_mistake_of_the_recipe(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StateUnavailableError, match=r"the folder .*file/deep .* cannot be created"):
        open_state(url_of(tmp_path / "file" / "deep" / "state.db"))


def test_a_postgresql_server_that_does_not_answer_is_reported_without_the_password() -> None:
    pytest.importorskip("psycopg", reason="the driver of the extra `postgres`")
    url = "postgresql://user:verysecret@127.0.0.1:1/db?connect_timeout=5"
    with pytest.raises(StateUnavailableError, match=r"user:\*\*\*@127") as caught:
        open_state(url)
    assert "verysecret" not in str(caught.value)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = open_state(url_of(tmp_path / "state.db"))
    yield engine
    engine.dispose()


def test_each_recipe_has_a_lock_file_that_a_file_system_takes(tmp_path: Path) -> None:
    url = url_of(tmp_path / "state.db")
    plain = opening.lock_file(url, "mlflow-prod")
    assert plain == tmp_path / "state.db.mlflow-prod.lock"
    hostile = [opening.lock_file(url, name) for name in ("a/../b", "a.b", "a b", "a\tb", "x" * 200)]
    assert len({str(path) for path in hostile}) == 5
    assert {path.parent for path in hostile if path} == {tmp_path}
    assert all(len(path.name) < 120 for path in hostile if path)


def test_a_holder_that_says_nothing_holds_it_still(
    tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = url_of(tmp_path / "state.db")
    path = opening.lock_file(url, "r")
    assert path is not None
    for message in ("", '["no", "object"]', '{"pid": "text"}'):
        with path.open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            handle.write(message)
            handle.flush()
            monkeypatch.setattr(filelock, "_PAUSE_S", 0.3)
            with pytest.raises(RecipeLockedError, match=r"run of 'r' is in progress \(wait"):
                locks.acquire(engine, url, "r")
    locks.acquire(engine, url, "r").release()
    engine.dispose()


def test_a_file_system_without_locks_is_reported(
    tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_handle: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(StateUnavailableError, match=r"lock file .* No locks available"):
        locks.acquire(engine, url_of(tmp_path / "state.db"), "r")
    engine.dispose()
