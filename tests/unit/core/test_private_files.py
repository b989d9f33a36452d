"""What is written for the program itself is for its owner alone, whatever the umask is."""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mlcat_ingest.catalog.server.lock import ServerLock
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.hooks.spool import Event, EventSpool
from mlcat_ingest.pipeline.report.dead_letters import DeadLetters
from mlcat_ingest.pipeline.state.locks import held_state
from mlcat_ingest.sql.filelock import FileLock, holder_of


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def use_state(folder: Path) -> None:
    with held_state(f"sqlite:///{folder}/state.db", "r") as engine, engine.transaction():
        check(folder)


def use_catalog(folder: Path) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    with ServerLock.acquire(folder / "catalog.db"):
        store = Store.open(folder / "catalog.db")
        check(folder)
        store.close()


def use_spool(folder: Path) -> None:
    spool = EventSpool(folder / "spool")
    spool.put(Event("r1"))
    spool.backoff.record_failure("why")
    with spool.drain_lock() as acquired:
        assert acquired
        spool.open_log("sender.log").close()
    os.close(spool.lease() or 0)


def use_dead_letters(folder: Path) -> None:
    letters = DeadLetters(folder / "dead_letters.jsonl")
    letters.write("run", "why")
    letters.close(complete=False)


def check(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        assert not path.stat().st_mode & 0o077, path


USES = [use_state, use_catalog, use_spool, use_dead_letters]


@pytest.mark.parametrize("use", USES)
def test_files_and_folders_are_their_owners(tmp_path: Path, use: Callable[[Path], None]) -> None:
    folder = tmp_path / "made" / ".mlcat"
    (tmp_path / "made").mkdir()
    use(folder)
    check(folder)
    assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == 0o755


@pytest.mark.parametrize("use", USES)
def test_files_of_an_earlier_release_become_their_owners(
    tmp_path: Path, use: Callable[[Path], None]
) -> None:
    use(tmp_path)
    kept = [
        path
        for path in tmp_path.rglob("*")
        # An event is written once, and a pause is replaced.
        if path.is_file() and path.suffix != ".json"
    ]
    for path in kept:
        path.chmod(0o644)
    use(tmp_path)
    assert {path: stat.S_IMODE(path.stat().st_mode) for path in kept} == dict.fromkeys(kept, 0o600)


def as_link(path: Path) -> None:
    path.symlink_to(path.parent / "victim")


@pytest.mark.parametrize("make", [as_link, os.mkfifo])
def test_a_lock_is_neither_a_link_nor_a_pipe(tmp_path: Path, make: Callable[[Path], None]) -> None:
    (tmp_path / "victim").write_text("precious")
    make(tmp_path / "x.lock")
    with pytest.raises(OSError, match=r"regular file|symbolic links"):
        FileLock.take(tmp_path / "x.lock", {"pid": 1})
    assert holder_of(tmp_path / "x.lock") is None
    assert (tmp_path / "victim").read_text() == "precious"
