"""When a drain is started, and with what; none is really started here."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.hooks.background import main
from mlcat_ingest.hooks.event import Event
from mlcat_ingest.hooks.sender import URI_VARIABLE, Sender
from mlcat_ingest.hooks.settings import Settings
from mlcat_ingest.hooks.spool import Spool
from support.ports import free_port


class Started:
    """Stands for `subprocess.Popen`: keeps what was asked for, and empties the spool."""

    def __init__(self, spool: Spool) -> None:
        self.spool = spool
        self.calls: list[tuple[list[str], dict[str, Any]]] = []
        self.returncode: int | None = None

    def __call__(self, command: list[str], **options: Any) -> "Started":
        self.calls.append((command, options))
        return self

    def wait(self) -> int:
        with self.spool.draining():
            self.spool.done([one.name for one in self.spool.claim(99, bool)])
        return 0


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    found = Spool(tmp_path)
    found.put(Event("r"))
    return found


@pytest.fixture
def started(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> Started:
    found = Started(spool)
    monkeypatch.setattr(subprocess, "Popen", found)
    monkeypatch.setenv("MLCAT_HOOK", "1")
    return found


def a_sender(spool: Spool, **settings: Any) -> Sender:
    given = {"server": "http://c", "debounce_s": 0.05, "flush_s": 10.0, **settings}
    return Sender(Settings(spool.folder, **given), spool)


def test_many_events_are_one_drain_that_is_not_hooked_itself(
    spool: Spool, started: Started
) -> None:
    sender = a_sender(spool, token="s3cret")
    for _ in range(50):
        sender.poke("http://user:word@mlflow:5000")
    sender._flush()
    [(command, options)] = started.calls
    assert command[:2] == [sys.executable, "-P"]
    assert command[-3:] == [str(spool.folder), "", "http://c"]
    assert not any("s3cret" in word or "word" in word for word in command)
    assert "MLCAT_HOOK" not in options["env"]
    assert options["env"]["MLCAT_TOKEN"] == "s3cret"
    assert options["env"][URI_VARIABLE] == "http://user:word@mlflow:5000"


def test_who_does_not_send_starts_nothing(spool: Spool, started: Started) -> None:
    sender = a_sender(spool, sends=False)
    sender.poke("http://mlflow")
    sender._flush()
    assert started.calls == []


def test_at_the_end_of_a_process_a_drain_is_started_without_a_thread(
    spool: Spool, started: Started
) -> None:
    sender = a_sender(spool)
    sender._flush()
    sender.poke("http://mlflow")
    assert len(started.calls) == 1
    assert started.returncode == 0


def test_after_a_drain_that_failed_the_next_waits(spool: Spool, started: Started) -> None:
    spool.pause("the catalog is down")
    first_s = spool.pause_s()
    assert 0 < first_s <= 10
    sender = a_sender(spool)
    sender.poke("http://mlflow")
    sender._flush()
    sender.poke("http://mlflow")
    assert started.calls == []
    for _ in range(30):
        spool.pause("still down")
    assert 290 < spool.pause_s() <= 600
    spool.resume()
    assert spool.pause_s() == 0


@pytest.mark.parametrize("text", ["", "[]", '{"failures": "x", "until_ms": 1}', "\x00"])
def test_a_pause_that_cannot_be_read_is_none(text: str, spool: Spool) -> None:
    (spool.folder / "pause.json").write_text(text)
    assert (spool.pause_s(), spool.why_paused()) == (0.0, None)


def test_a_background_drain_that_fails_says_why_and_keeps_the_event(
    spool: Spool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "nice", int)
    monkeypatch.chdir(tmp_path)
    nobody = f"http://127.0.0.1:{free_port()}"
    spool.put(Event("s", tracking_uri=nobody))
    assert main([str(spool.folder), "", nobody]) == 1
    assert "127.0.0.1" in (spool.why_paused() or "")
    assert len(spool.waiting()) == 2
    assert main([str(spool.folder), str(tmp_path / "none.yml"), ""]) == 1
    assert "none.yml" in (spool.why_paused() or "")


def test_a_background_drain_beside_another_does_nothing(spool: Spool) -> None:
    with spool.draining():
        assert main([str(spool.folder), "/none.yml", ""]) == 0
    assert spool.why_paused() is None
