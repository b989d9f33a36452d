"""The limits of the spool: bytes, events, ages and pauses, on both sides of each."""

import errno
import fcntl
import json
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from mlcat_ingest.hooks import spool as spool_module
from mlcat_ingest.hooks.spool import Event, EventSpool, read_lines

WEEK_MS = 7 * 24 * 3_600_000


@dataclass
class Clock:
    """Stands for the module `time`."""

    now_s: float = 1_700_000_000.0

    def time(self) -> float:
        return self.now_s

    def time_ns(self) -> int:
        return round(self.now_s * 1000) * 1_000_000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(spool_module, "time", clock)
    return clock


@pytest.fixture
def spool(tmp_path: Path) -> EventSpool:
    return EventSpool(tmp_path)


def put_as(spool: EventSpool, moment_ms: int, event: Event) -> str:
    """Write an event as if at another moment; return the name of its file."""
    before = set(spool.waiting())
    assert spool.put(event)
    [name] = set(spool.waiting()) - before
    new = f"{moment_ms:013d}{name[13:]}"
    (spool.folder / "new" / name).rename(spool.folder / "new" / new)
    return new


def claimed(spool: EventSpool, most: int = 1000) -> list[str]:
    with spool.drain_lock() as mine:
        assert mine
        return [one.event.run_id for one in spool.claim(most, bool)]


# --- events --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "ids"), [(64_000, 1), (64_001, 0)])
def test_a_file_longer_than_the_limit_is_no_event(spool: EventSpool, size: int, ids: int) -> None:
    frame = len(Event("").to_json())
    spool.put(Event("r" * (size - frame)))
    [name] = spool.waiting()
    assert (spool.folder / "new" / name).stat().st_size == size
    assert len(claimed(spool)) == ids
    assert len(read_lines(spool.dropped_file)) == 1 - ids


def test_an_event_of_another_version_is_read_as_far_as_it_is_known() -> None:
    assert Event.from_json(b'{"run_id": "r", "later": [1]}') == Event("r", "", "", "", "", 0)
    assert Event.from_json(b'{"run_id": "r", "at_ms": 7}') == Event("r", at_ms=7)


def test_an_event_is_for_the_recipe_of_the_same_file_name() -> None:
    assert Event("r", recipe="/a/x.yml").is_for("/b/x.yml")
    assert not Event("r", recipe="/a/x.yml").is_for("/a/y.yml")


def test_files_that_hold_no_event_are_skipped_by_who_looks(spool: EventSpool) -> None:
    put_as(spool, 2, Event("b"))
    put_as(spool, 1, Event("a"))
    (spool.folder / "new" / "0.json").write_bytes(b"[]")
    (spool.folder / "new" / "x.tmp").write_bytes(Event("c").to_json())
    assert [one.run_id for one in spool.events()] == ["a", "b"]


@pytest.mark.parametrize(("mode", "file_mode"), [(0o755, 0o600), (0o2775, 0o660)])
def test_a_folder_that_was_made_for_a_group_is_for_the_group(
    spool: EventSpool, mode: int, file_mode: int
) -> None:
    spool.folder.mkdir(exist_ok=True)
    spool.folder.chmod(mode)
    spool.put(Event("r"))
    spool.open_log("sender.log").close()
    [event] = (spool.folder / "new").iterdir()
    assert event.stat().st_mode & 0o007 == 0
    assert (spool.folder / "sender.log").stat().st_mode & 0o777 == file_mode
    assert event.parent.stat().st_mode & 0o777 == (0o770 if mode & 0o020 else 0o700)


def as_link(path: Path) -> None:
    folder = path.parent.parent if path.parent.name == "new" else path.parent
    path.symlink_to(folder / "victim")


def as_device(path: Path) -> None:
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))  # /dev/zero


def as_socket(path: Path) -> None:
    os.mknod(path, stat.S_IFSOCK | 0o600)


@pytest.mark.parametrize("make", [as_link, as_device, as_socket, os.mkfifo])
def test_what_is_no_regular_file_is_neither_read_nor_written(
    spool: EventSpool, make: Callable[[Path], None]
) -> None:
    victim = spool.folder / "victim"
    victim.write_bytes(Event("stolen").to_json())
    spool.put(Event("r"))
    try:
        make(spool.folder / "new" / "0000000000001-x.json")
    except PermissionError:
        pytest.skip("only root makes devices")
    (spool.folder / "new" / "folder.json").mkdir()
    assert [one.run_id for one in spool.events()] == ["r"]
    assert claimed(spool) == ["r"]
    assert "not an event" in (spool.folder / "dropped.jsonl").read_text()
    for name in ("drain.lock", "busy.lock", "sender.lock", "sender.log", "pause.json"):
        path = spool.folder / name
        path.unlink(missing_ok=True)
        make(path)
    for use in (lambda: claimed(spool), spool.lease, lambda: spool.open_log("sender.log")):
        with pytest.raises(OSError, match=r"regular file|symbolic links|No such device"):
            use()
    assert not spool.is_draining()
    assert spool.backoff.reason() is None
    assert Event.from_json(victim.read_bytes()) == Event("stolen")


@pytest.mark.parametrize("mode", [0o777, 0o1777])
def test_a_folder_that_everybody_may_write_is_refused_with_the_cure(
    spool: EventSpool, mode: int
) -> None:
    spool.folder.mkdir(exist_ok=True)
    spool.folder.chmod(mode)
    cure = rf"every user may write to it; run chmod o-w {spool.folder}"
    for use in (lambda: spool.put(Event("r")), lambda: claimed(spool)):
        with pytest.raises(PermissionError, match=cure):
            use()
    spool.folder.chmod(0o700)
    (spool.folder / "new").symlink_to(spool.folder.parent)
    with pytest.raises(OSError, match="new is a link; delete it"):
        spool.put(Event("r"))


# --- how many ------------------------------------------------------------------------------------


def test_a_spool_holds_ten_thousand_events(spool: EventSpool) -> None:
    (spool.folder / "new").mkdir()
    for number in range(9_999):
        os.mknod(spool.folder / "new" / f"{number}.json")
    assert spool.put(Event("last"))
    assert not EventSpool(spool.folder).put(Event("one more"))


def test_the_folder_is_listed_at_each_hundredth_event(tmp_path: Path) -> None:
    spool = EventSpool(tmp_path, max_events=2)
    assert [spool.put(Event("r")) for _ in range(102)] == [True] * 100 + [False] * 2


def test_a_forked_process_lists_the_folder_at_its_first_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = EventSpool(tmp_path, max_events=1)
    assert spool.put(Event("parent"))
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert not spool.put(Event("child"))


def test_a_claim_is_of_the_oldest_events(spool: EventSpool, clock: Clock) -> None:
    now_ms = int(clock.now_s * 1000)
    for age_ms in (1, 3, 2):
        put_as(spool, now_ms - age_ms, Event(f"{age_ms} ms old"))
    assert claimed(spool, 2) == ["3 ms old", "2 ms old"]


def test_an_event_that_another_process_took_meanwhile_is_not_claimed(spool: EventSpool) -> None:
    put_as(spool, 1_000_000_000_000, Event("old"))
    spool.put(Event("taken"))
    spool.put(Event("left"))

    def others_take(event: Event) -> bool:
        if event.run_id == "taken":
            [path] = [
                path
                for path in (spool.folder / "new").iterdir()
                if Event.from_json(path.read_bytes()) == event
            ]
            path.unlink()
        return True

    with spool.drain_lock():
        found = spool.claim(9, others_take)
        assert [one.event.run_id for one in found] == ["left"]
        spool.release(["unknown.json", *(one.name for one in found)])
        spool.delete(["unknown.json"])
    assert [one.run_id for one in spool.events()] == ["left"]


# --- how old -------------------------------------------------------------------------------------


def test_an_event_older_than_a_week_is_dropped(spool: EventSpool, clock: Clock) -> None:
    week_ago_ms = int(clock.now_s * 1000) - WEEK_MS
    put_as(spool, week_ago_ms, Event("a week old"))
    put_as(spool, week_ago_ms - 1, Event("older"))
    assert claimed(spool) == ["a week old"]
    [line] = read_lines(spool.dropped_file)
    assert json.loads(line) == {
        "run_id": "older", "why": "too old", "at_ms": int(clock.now_s * 1000),
    }  # fmt: skip


def test_the_moment_of_the_oldest_event_is_in_its_name(spool: EventSpool, clock: Clock) -> None:
    assert spool.oldest_ms() is None
    clock.now_s += 0.001
    spool.put(Event("first"))
    assert spool.oldest_ms() == 1_700_000_000_001
    claimed(spool)
    clock.now_s += 5
    spool.put(Event("second"))
    assert spool.oldest_ms() == 1_700_000_000_001
    (spool.folder / "new" / "a.json").write_bytes(b"")
    (spool.folder / "new" / "0-a.json").write_bytes(b"")
    assert spool.oldest_ms() == 0
    (spool.folder / "new" / "0-a.json").unlink()
    for path in (spool.folder / "claimed").iterdir():
        path.unlink()
    assert spool.oldest_ms() == 1_700_000_005_001
    for name in spool.waiting()[:-1]:
        (spool.folder / "new" / name).unlink()
    assert spool.waiting() == ["a.json"]
    assert spool.oldest_ms() == 0


def test_a_file_that_was_never_renamed_goes_after_an_hour(spool: EventSpool, clock: Clock) -> None:
    left = {age_s: spool.folder / f".{age_s}.json" for age_s in (3_600, 3_601)}
    for age_s, path in left.items():
        path.write_text("{")
        os.utime(path, (clock.now_s - age_s,) * 2)
    claimed(spool)
    assert [path.exists() for path in left.values()] == [True, False]


@pytest.mark.parametrize(("size", "lines"), [((1 << 20) - 1, 1), (1 << 20, 0)])
def test_the_list_of_dropped_events_is_bounded(tmp_path: Path, size: int, lines: int) -> None:
    spool = EventSpool(tmp_path, max_events=0)
    spool.dropped_file.write_bytes(b"\n" * size)
    assert not spool.put(Event("r"))
    assert len(spool.dropped_file.read_text().strip().splitlines()) == lines


# --- pauses --------------------------------------------------------------------------------------


def test_pauses_double_up_to_ten_minutes(
    spool: EventSpool, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for share, pauses_s in (
        (max, [10, 20, 40, 80, 160, 320, 600, 600]),
        (min, [5, 10, 20, 40, 80, 160, 300, 300]),
    ):
        monkeypatch.setattr(spool_module._RANDOM, "uniform", share)
        found = []
        for _ in pauses_s:
            spool.backoff.record_failure("down")
            found.append(spool.backoff.remaining_s())
        assert found == pauses_s
        spool.backoff.reset()
    spool.backoff.record_failure("down")
    assert spool.backoff.reason() == "down"
    clock.now_s += 4
    assert spool.backoff.remaining_s() == 1
    clock.now_s += 4
    assert spool.backoff.remaining_s() == 0


def test_many_failures_make_no_longer_pause(spool: EventSpool, clock: Clock) -> None:
    pause = {"failures": 5_000, "until_ms": 0}
    (spool.folder / "pause.json").write_text(json.dumps(pause))
    spool.backoff.record_failure("down")
    assert 300 <= spool.backoff.remaining_s() <= 600
    clock.now_s -= 1_000_000  # set back
    assert spool.backoff.remaining_s() == 600


@pytest.mark.parametrize("pause", [{"failures": 1}, {"failures": 1, "until_ms": "x"}])
def test_a_pause_without_its_end_is_none(spool: EventSpool, pause: dict[str, object]) -> None:
    (spool.folder / "pause.json").write_text(json.dumps({**pause, "why": "down"}))
    assert (spool.backoff.remaining_s(), spool.backoff.reason()) == (0.0, None)


def test_a_reason_that_is_no_text_is_none(spool: EventSpool) -> None:
    (spool.folder / "pause.json").write_text('{"failures": 1, "until_ms": 1, "why": 5}')
    assert spool.backoff.reason() is None


# --- locks ---------------------------------------------------------------------------------------


def test_one_process_has_the_lease(spool: EventSpool) -> None:
    lease = spool.lease()
    assert lease is not None
    assert spool.lease() is None
    os.close(lease)
    again = spool.lease()
    assert again is not None
    os.close(again)


def test_a_file_system_without_locks_is_an_error(
    spool: EventSpool, monkeypatch: pytest.MonkeyPatch
) -> None:
    handles: list[int] = []

    def no_locks(handle: int, operation: int) -> None:
        del operation
        handles.append(handle)
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(OSError, match="No locks"):
        spool.lease()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(handles[0])


def test_a_spool_that_nobody_drained_yet_is_not_draining(tmp_path: Path) -> None:
    spool = EventSpool(tmp_path / "none")
    assert not spool.is_draining()
    assert (spool.waiting(), read_lines(spool.dropped_file)) == ([], [])


# --- folders and files that are not as they were -------------------------------------------------


def test_a_claimed_event_waits_again_though_the_folder_was_deleted(spool: EventSpool) -> None:
    spool.put(Event("r"))
    assert claimed(spool) == ["r"]
    (spool.folder / "new").rmdir()
    assert claimed(spool) == ["r"]


def test_a_file_that_cannot_be_read_is_no_event(spool: EventSpool) -> None:
    spool.put(Event("r"))
    (spool.folder / "new" / "0.json").symlink_to(spool.folder / "nothing")
    assert [one.run_id for one in spool.events()] == ["r"]


def test_an_event_leaves_no_file_open(spool: EventSpool) -> None:
    spool.put(Event("first"))
    before = sorted(Path("/proc/self/fd").iterdir())
    spool.put(Event("second"))
    assert sorted(Path("/proc/self/fd").iterdir()) == before


def test_refusals_stand_beside_the_events(spool: EventSpool) -> None:
    assert spool.refused_file == spool.folder / "refused.jsonl"
