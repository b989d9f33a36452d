"""When a drain is started, and with what; none is really started here."""

import os
import random
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from mlcat_ingest.hooks.background import main
from mlcat_ingest.hooks.sender import URI_VARIABLE, Sender, _drain_environment
from mlcat_ingest.hooks.settings import HookSettings
from mlcat_ingest.hooks.spool import Event, EventSpool
from support.ports import free_port


class Started:
    """Stands for `subprocess.Popen`: keeps what was asked for, and empties the spool."""

    def __init__(self, spool: EventSpool) -> None:
        self.spool = spool
        self.calls: list[tuple[list[str], dict[str, Any]]] = []
        self.returncode: int | None = None
        self.status = os.EX_OK

    def __call__(self, command: list[str], **options: Any) -> "Started":
        self.calls.append((command, options))
        return self

    def wait(self) -> int:
        with self.spool.drain_lock():
            self.spool.delete([one.name for one in self.spool.claim(99, bool)])
        return self.status


@pytest.fixture
def spool(tmp_path: Path) -> EventSpool:
    found = EventSpool(tmp_path)
    found.put(Event("r"))
    return found


@pytest.fixture
def started(spool: EventSpool, monkeypatch: pytest.MonkeyPatch) -> Started:
    found = Started(spool)
    monkeypatch.setattr(subprocess, "Popen", found)
    monkeypatch.setenv("MLCAT_HOOK", "1")
    return found


def a_lease(spool: EventSpool) -> str:
    """Take the lease, as a sender does before it starts a drain, and give it as an argument."""
    lease = spool.lease()
    assert lease is not None
    return str(lease)


def a_sender(spool: EventSpool, **settings: Any) -> Sender:
    given = {"server": "http://c", "debounce_s": 0.05, "flush_s": 10.0, **settings}
    return Sender(HookSettings(spool.folder, **given), spool)


def test_many_events_are_one_drain_that_is_not_hooked_itself(
    spool: EventSpool, started: Started
) -> None:
    sender = a_sender(spool, token="s3cret")
    for _ in range(50):
        sender.notify("http://user:hunter2@mlflow:5000")
    sender._flush()
    [(command, options)] = started.calls
    assert command[:2] == [sys.executable, "-P"]
    assert options["pass_fds"] == (int(command[-4]),)
    assert command[-3:] == [str(spool.folder), "", "http://c"]
    assert not any("s3cret" in word or "hunter2" in word for word in command)
    assert "MLCAT_HOOK" not in options["env"]
    assert options["env"]["MLCAT_TOKEN"] == "s3cret"
    assert options["env"][URI_VARIABLE] == "http://user:hunter2@mlflow:5000"


def test_a_drain_has_the_environment_of_the_start_of_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = {
        "PATH": "/bin",
        "HOME": "/root",
        "MLFLOW_TRACKING_URI": "http://old",
        "AWS_PROFILE": "a",
    }
    started = tmp_path / "environ"
    started.write_bytes("".join(f"{name}={value}\0" for name, value in first.items()).encode())
    recipe = tmp_path / "recipe.yml"
    recipe.write_text("token: ${OUR_TOKEN}\nserver: ${SERVER:-x}")
    for name in os.environ:
        monkeypatch.delenv(name)
    today = {
        "PATH": "/training/bin",
        "PROMETHEUS_MULTIPROCESS_DIR": "/tmp/deleted-at-the-end",
        "MLFLOW_TRACKING_URI": "http://new",
        "https_proxy": "http://proxy",
        "OUR_TOKEN": "=of the training\n",
        "MLCAT_HOOK": "1",
    }
    for name, value in today.items():
        monkeypatch.setenv(name, value)
    services = {"MLFLOW_TRACKING_URI": "http://new", "https_proxy": "http://proxy"}
    start = {"PATH": "/bin", "HOME": "/root", **services}
    assert _drain_environment("", started) == start
    assert _drain_environment(str(recipe), started) == {**start, "OUR_TOKEN": today["OUR_TOKEN"]}
    del today["MLCAT_HOOK"]
    assert _drain_environment("", tmp_path / "none") == today
    started.write_bytes(b"training: epoch 3\0\0\0\0")
    assert _drain_environment(str(recipe), started) == today


def test_who_does_not_send_starts_nothing(spool: EventSpool, started: Started) -> None:
    sender = a_sender(spool, sends=False)
    sender.notify("http://mlflow")
    sender._flush()
    assert started.calls == []


def test_at_the_end_of_a_process_a_drain_is_started_without_a_thread(
    spool: EventSpool, started: Started
) -> None:
    sender = a_sender(spool)
    sender._flush()
    sender.notify("http://mlflow")
    assert len(started.calls) == 1
    assert started.returncode == 0


def test_a_training_keeps_its_random_numbers(spool: EventSpool, started: Started) -> None:
    state = random.getstate()
    a_sender(spool)._send()
    assert len(started.calls) == 1
    spool.backoff.record_failure("the catalog is down")
    assert random.getstate() == state


def test_after_a_drain_that_failed_the_next_waits(spool: EventSpool, started: Started) -> None:
    spool.backoff.record_failure("the catalog is down")
    first_s = spool.backoff.remaining_s()
    assert 0 < first_s <= 10
    sender = a_sender(spool)
    sender.notify("http://mlflow")
    sender._flush()
    sender.notify("http://mlflow")
    assert started.calls == []
    for _ in range(30):
        spool.backoff.record_failure("still down")
    assert 290 < spool.backoff.remaining_s() <= 600
    spool.backoff.reset()
    assert spool.backoff.remaining_s() == 0


@pytest.mark.parametrize(("status", "waits"), [(1, True), (-9, True), (os.EX_TEMPFAIL, False)])
def test_a_drain_that_is_killed_or_cannot_begin_is_not_followed_at_once(
    spool: EventSpool, started: Started, *, status: int, waits: bool
) -> None:
    started.status = status
    assert not a_sender(spool)._send()
    assert (spool.backoff.remaining_s() > 0) is waits
    assert (str(status) in (spool.backoff.reason() or "")) is waits


def test_a_process_without_room_for_a_thread_ends_as_any_other(
    spool: EventSpool, started: Started
) -> None:
    sender = a_sender(spool)
    no_room = patch.object(threading.Thread, "start", side_effect=RuntimeError)
    with no_room, pytest.raises(RuntimeError):
        sender.notify("http://mlflow")
    sender.notify("http://mlflow")
    sender._flush()
    assert len(started.calls) == 1


@pytest.mark.parametrize("text", ["", "[]", '{"failures": "x", "until_ms": 1}', "\x00"])
def test_a_pause_that_cannot_be_read_is_none(text: str, spool: EventSpool) -> None:
    (spool.folder / "pause.json").write_text(text)
    assert (spool.backoff.remaining_s(), spool.backoff.reason()) == (0.0, None)


@pytest.mark.process
def test_a_background_drain_that_fails_says_why_and_keeps_the_event(
    spool: EventSpool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "nice", int)
    monkeypatch.chdir(tmp_path)
    nobody = f"http://127.0.0.1:{free_port()}"
    spool.put(Event("s", tracking_uri=nobody))
    assert main([a_lease(spool), str(spool.folder), "", nobody]) == os.EX_TEMPFAIL
    assert "127.0.0.1" in (spool.backoff.reason() or "")
    assert len(spool.waiting()) == 2
    none = str(tmp_path / "none.yml")
    assert main([a_lease(spool), str(spool.folder), none, ""]) == os.EX_TEMPFAIL
    assert "none.yml" in (spool.backoff.reason() or "")


def test_a_background_drain_beside_another_leaves_it_to_a_later_one(spool: EventSpool) -> None:
    with spool.drain_lock():
        assert main([a_lease(spool), str(spool.folder), "/none.yml", ""]) == os.EX_TEMPFAIL
    assert spool.backoff.reason() is None


def test_a_background_drain_looks_again_once_it_has_given_its_turn_away(
    spool: EventSpool, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases: list[list[str]] = []

    def drain_all(spool: EventSpool, recipe: str, server: str) -> None:
        assert (recipe, server) == ("r.yml", "")
        leases.append(spool.waiting())
        assert spool.lease() is None
        if len(leases) == 1:  # right after the drain's last look, by a process that ends
            spool.put(Event("late"))
        else:
            with spool.drain_lock():
                spool.delete([one.name for one in spool.claim(99, bool)])

    monkeypatch.setattr(os, "nice", int)
    monkeypatch.setattr("mlcat_ingest.hooks.drain.drain_all", drain_all)
    assert main([a_lease(spool), str(spool.folder), "r.yml", ""]) == 0
    assert [len(one) for one in leases] == [1, 2]
    os.close(int(a_lease(spool)))


def test_what_was_refused_is_no_reason_to_try_again_at_once(
    spool: EventSpool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "nice", int)
    monkeypatch.setattr("mlcat_ingest.hooks.drain.drain_all", lambda *_: None)
    spool.backoff.record_failure("before")
    assert main([a_lease(spool), str(spool.folder), "r.yml", ""]) == 0
    assert (len(spool.waiting()), spool.backoff.reason()) == (1, None)


def test_only_one_process_has_the_turn_and_a_copy_of_it_keeps_it(spool: EventSpool) -> None:
    lease = spool.lease()
    assert lease is not None
    copy = os.dup(lease)
    os.close(lease)
    assert spool.lease() is None
    os.close(copy)
    again = spool.lease()
    assert again is not None
    os.close(again)


def test_while_another_process_starts_a_drain_none_is_started(
    spool: EventSpool, started: Started
) -> None:
    lease = int(a_lease(spool))
    sender = a_sender(spool)
    sender._flush()
    sender.notify("http://mlflow")
    assert started.calls == []
    os.close(lease)
    sender.notify("http://mlflow")
    assert len(started.calls) == 1


def test_what_forked_children_leave_is_sent_at_the_end_of_their_parent(
    spool: EventSpool, started: Started
) -> None:
    sender = a_sender(spool)
    sender._flush()
    assert started.calls == []  # events of other jobs are none of its business
    other = a_sender(spool)
    other._note_fork()
    other._flush()
    assert len(started.calls) == 1
