"""The spool in one process: what is written is there once, and nothing goes without a count."""

import errno
import fcntl
import os
import resource
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from mlcat_ingest.hooks.spool import Event, EventSpool, read_lines


def anything(event: Event) -> bool:
    return bool(event)


def taken(spool: EventSpool) -> list[str]:
    with spool.drain_lock() as mine:
        assert mine
        return [one.event.run_id for one in spool.claim(1000, anything)]


def test_what_is_put_is_claimed_oldest_first_and_only_then_gone(tmp_path: Path) -> None:
    spool = EventSpool(tmp_path / "spool")
    for number in range(3):
        os.utime(tmp_path)
        assert spool.put(Event(f"r{number}"))
    with spool.drain_lock() as mine:
        assert mine
        first = spool.claim(2, anything)
        assert len(spool.waiting()) == 1
        assert spool.pending() == 3
        spool.delete([one.name for one in first])
        assert spool.pending() == 1


def test_what_a_killed_drain_had_claimed_waits_again(tmp_path: Path) -> None:
    spool = EventSpool(tmp_path)
    spool.put(Event("r"))
    assert taken(spool) == ["r"]  # and never done
    assert spool.waiting() == []
    assert taken(EventSpool(tmp_path)) == ["r"]


def test_only_one_drains_at_a_time(tmp_path: Path) -> None:
    spool = EventSpool(tmp_path)
    assert not spool.is_draining()
    with spool.drain_lock() as mine, EventSpool(tmp_path).drain_lock() as also:
        assert (mine, also) == (True, False)
        assert EventSpool(tmp_path).is_draining()
    assert not spool.is_draining()


def test_who_only_looks_hinders_no_drain(tmp_path: Path) -> None:
    spool = EventSpool(tmp_path)
    with spool.drain_lock():
        pass
    with (tmp_path / "busy.lock").open("rb") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        looked = threading.Timer(0.2, fcntl.flock, (looking, fcntl.LOCK_UN))
        looked.start()
        with spool.drain_lock() as mine:
            assert mine
        looked.join()


def test_events_of_others_and_those_that_failed_before_stay(tmp_path: Path) -> None:
    spool = EventSpool(tmp_path)
    spool.put(Event("mine", recipe="/a/recipe.yml"))
    spool.put(Event("theirs", recipe="/a/other.yml"))
    with spool.drain_lock():
        found = spool.claim(9, lambda one: one.is_for("/elsewhere/recipe.yml"))
        assert [one.event.run_id for one in found] == ["mine"]
        spool.release([one.name for one in found])
        failed = frozenset(one.name for one in found)
        assert [one.event.run_id for one in spool.claim(9, anything, failed)] == ["theirs"]


def test_a_full_spool_takes_no_more_and_counts_what_it_did_not_take(tmp_path: Path) -> None:
    spool = EventSpool(tmp_path, max_events=2)
    assert spool.put(Event("a"))
    assert EventSpool(tmp_path, max_events=2).put(Event("b"))
    full = EventSpool(tmp_path, max_events=2)
    assert not full.put(Event("c"))
    assert not full.put(Event("d"))
    dropped = read_lines(spool.dropped_file)
    assert ['"c"' in line or '"d"' in line for line in dropped] == [True, True]
    taken(spool)
    assert full.put(Event("e"))


def test_what_is_too_old_or_no_event_is_dropped_and_counted(tmp_path: Path) -> None:
    spool = EventSpool(tmp_path, max_age_s=60)
    spool.put(Event("old"))
    [name] = spool.waiting()
    (tmp_path / "new" / name).rename(tmp_path / "new" / f"1000{name[13:]}")
    (tmp_path / "new" / "0000000000001-1-torn.json").write_bytes(b'{"run_id": "t')
    assert taken(spool) == []
    assert spool.pending() == 0
    reported = read_lines(spool.dropped_file)
    assert len(reported) == 2
    assert "not an event" in reported[0]
    assert "too old" in reported[1]


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{}", b'{"run_id": 1}', b'{"run_id": "r", "at_ms": "x"}', b"\xff"]
)
def test_what_is_no_event_is_none(text: bytes) -> None:
    assert Event.from_json(text) is None


@pytest.mark.parametrize("failing", ["write", "fsync"])
def test_a_full_disk_is_an_error_that_leaves_nothing(
    failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    spool = EventSpool(tmp_path)
    spool.put(Event("before"))
    with monkeypatch.context() as patch:
        patch.setattr(os, failing, full)
        with pytest.raises(OSError, match="No space left"):
            spool.put(Event("lost"))
    assert list(tmp_path.glob(".*")) == []
    assert taken(spool) == ["before"]


def test_a_disk_that_takes_it_piece_by_piece_has_the_whole_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda handle, content: real(handle, content[:7]))
    EventSpool(tmp_path).put(Event("r" * 32))
    monkeypatch.undo()
    assert taken(EventSpool(tmp_path)) == ["r" * 32]


def test_a_limit_in_the_middle_of_an_event_is_an_error_that_leaves_nothing(tmp_path: Path) -> None:
    spool = EventSpool(tmp_path)
    spool.put(Event("before"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            spool.put(Event("lost"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.glob(".*")) == []
    assert taken(spool) == ["before"]


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"directory|exists"):
        EventSpool(tmp_path / "file" / "spool").put(Event("r"))


def test_what_killed_writers_left_is_taken_away_once_it_is_old(tmp_path: Path) -> None:
    spool = EventSpool(tmp_path)
    spool.put(Event("r"))
    young, old = tmp_path / ".young.json", tmp_path / ".old.json"
    for path in (young, old):
        path.write_text("{")
    os.utime(old, (0, 0))
    taken(spool)
    assert (young.exists(), old.exists()) == (True, False)


def test_an_event_is_the_same_after_a_round_trip() -> None:
    every: Sequence[Event] = [
        Event("r"),
        Event("r", "FAILED", "http://mlflow:5000", "team-a", "/x/r.yml", 5),
    ]
    assert [Event.from_json(one.to_json()) for one in every] == list(every)
