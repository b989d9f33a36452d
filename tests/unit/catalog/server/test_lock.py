import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mlcat_ingest.catalog.server.lock import Running, ServerLock, read_lock
from mlcat_ingest.errors import RecipeError
from mlcat_ingest.sql import filelock


def test_who_holds_the_lock_is_known_until_it_is_released(tmp_path: Path) -> None:
    database = tmp_path / "c.db"
    assert read_lock(database) is None
    held = ServerLock.acquire(database)
    assert read_lock(database) == Running(os.getpid())
    running = Running(os.getpid(), "http://127.0.0.1:1", needs_token=True, dies_with_parent=True)
    held.announce(running)
    assert read_lock(f"sqlite:///{database}?timeout=3") == running
    held.announce(Running(1))
    assert read_lock(str(database)) == Running(1)
    held.close()
    held.close()
    assert read_lock(database) is None


def test_a_second_server_is_reported_where_the_first_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filelock, "PATIENCE_S", 0.0)
    database = tmp_path / "c.db"
    (tmp_path / "link.db").symlink_to(database)
    with ServerLock.acquire(database) as held:
        with pytest.raises(RecipeError, match=f"c.db: process {os.getpid()} "):
            ServerLock.acquire(database)
        held.announce(Running(17, "http://127.0.0.1:99"))
        with pytest.raises(
            RecipeError, match=r"another .*c\.db: http://127.0.0.1:99 \(process 17\)"
        ):
            ServerLock.acquire(tmp_path / "link.db")
    ServerLock.acquire(database).close()


def test_a_lock_that_says_nothing_is_a_lock_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filelock, "PATIENCE_S", 0.0)
    path = tmp_path / "c.db.lock"
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        assert read_lock(tmp_path / "c.db") == Running(0)
        handle.write('{"from": "the future"}')
        handle.flush()
        with pytest.raises(RecipeError, match=r"another catalog process serves .*c\.db \("):
            ServerLock.acquire(tmp_path / "c.db")


def test_a_lock_just_taken_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "c.db.lock"
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        monkeypatch.setattr("time.sleep", lambda _s: path.write_text('{"pid": 5}'))
        assert read_lock(tmp_path / "c.db") == Running(5)


@pytest.mark.process
def test_the_lock_of_a_dead_process_is_gone(tmp_path: Path) -> None:
    code = (
        "import os, sys; from mlcat_ingest.catalog.server.lock import ServerLock;"
        "lock = ServerLock.acquire(sys.argv[1]); os._exit(9)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "c.db")]
    assert subprocess.run(command, check=False).returncode == 9
    assert (tmp_path / "c.db.lock").stat().st_size > 0
    assert read_lock(tmp_path / "c.db") is None
    ServerLock.acquire(tmp_path / "c.db").close()


def test_a_folder_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(
        RecipeError, match=r"cannot create the lock file .*: No such file"
    ) as raised:
        ServerLock.acquire(tmp_path / "no" / "c.db")
    assert "existing, writable folder" in str(raised.value.hint)


def test_only_files_have_locks() -> None:
    with pytest.raises(RecipeError, match="SQLite file"):
        read_lock("postgresql://host/db")
