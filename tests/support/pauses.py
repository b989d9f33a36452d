"""A clock in place of the one that bounds the retries of requests: tests do not wait."""

import threading
from typing import Self

import pytest


class Clock:
    """A clock that only pauses move, and all of the pauses."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.pauses: list[float] = []

    def wait(self, ended: threading.Event, seconds: float) -> bool:
        self.pauses.append(seconds)
        self.now_s += seconds
        return ended.is_set()

    @classmethod
    def installed(cls, monkeypatch: pytest.MonkeyPatch) -> Self:
        clock = cls()
        monkeypatch.setattr("mlcat_ingest.net.session.wait", clock.wait)
        monkeypatch.setattr("mlcat_ingest.net.session.monotonic", lambda: clock.now_s)
        return clock
