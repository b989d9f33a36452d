"""A proxy in front of a real server that answers a third of all requests wrongly, or not at all.

It is a script for `failing_service`. Which requests, and how, follows from a seed: of every three
requests one meets a fault, and every kind of fault comes up before any comes again.
"""

import http.client
import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from mlcat_ingest.testing.service import ServiceAnswer, ServiceRequest

BEFORE = ("429", "503", "reset", "hang up")
"""Faults in place of the server: the request never reaches it."""
AFTER = ("lost", "503 late", "cut")
"""Faults after the server has done what it was asked: only its answer is lost."""
STALLS = ("silent", "stalled body")
"""Faults that last until the client gives up, before and after; each comes up once only."""

WAIT_S = 120

_NOT_PASSED_ON = frozenset({"host", "connection", "content-length", "accept-encoding"})
_KEPT = frozenset({"content-type", "retry-after"})


def forward(upstream: str, request: ServiceRequest) -> ServiceAnswer:
    """Return the upstream server's own answer; one that does not answer hangs up."""
    address = urlsplit(upstream)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
    headers = {k: v for k, v in request.headers.items() if k.lower() not in _NOT_PASSED_ON}
    try:
        connection.request(request.method, request.path, request.body or None, headers)
        reply = connection.getresponse()
        body = reply.read()
    except (OSError, http.client.HTTPException):
        return ServiceAnswer(hang_up=True)
    finally:
        connection.close()
    kept = {k: v for k, v in reply.getheaders() if k.lower() in _KEPT}
    return ServiceAnswer(reply.status, body, kept)


@dataclass
class Faults:
    """The script: faults by `seed` in front of `upstream`, which a test may change at any time.

    Without a seed there are none. A write that names `refused` is refused for good, as by a
    service that does not like what it says. `met` counts the faults by kind.
    """

    upstream: str
    seed: int | None = None
    stalls: bool = False
    refused: bytes | None = None
    met: Counter[str] = field(default_factory=Counter)
    seen: int = 0
    before: Callable[[int], bool] = lambda _: True
    """Called with the number of each request; where it returns False the request is not passed on,
    and the connection closed. `after` is called once the server has answered."""
    after: Callable[[int], None] = lambda _: None

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way = 0
        self._idle = threading.Condition(self._lock)
        self._planned = self._plan() if self.seed is not None else None

    def _plan(self) -> Iterator[str | None]:
        chosen = random.Random(self.seed)
        kinds = [*BEFORE, *AFTER]
        deck = [*kinds, *(STALLS if self.stalls else ())]
        chosen.shuffle(deck)
        while True:
            three = [deck.pop(), None, None]
            chosen.shuffle(three)
            yield from three
            if not deck:
                deck = list(kinds)
                chosen.shuffle(deck)

    def __call__(self, request: ServiceRequest) -> ServiceAnswer:
        with self._lock:
            self.seen += 1
            number = self.seen
            kind = next(self._planned) if self._planned is not None else None
            if kind is not None:
                self.met[kind] += 1
        if not self.before(number):
            return ServiceAnswer(hang_up=True)
        if kind in BEFORE or kind == "silent":
            return _instead(kind)
        with self._passing():
            answer = self._answered(request)
        self.after(number)
        return answer if kind is None else _spoiled(kind, answer)

    @contextmanager
    def _passing(self) -> Iterator[None]:
        with self._idle:
            self._under_way += 1
        try:
            yield
        finally:
            with self._idle:
                self._under_way -= 1
                self._idle.notify_all()

    def wait_until_idle(self) -> None:
        """Return once the server has answered all that was passed on."""
        with self._idle:
            assert self._idle.wait_for(lambda: not self._under_way, WAIT_S), "it never answers"

    def _answered(self, request: ServiceRequest) -> ServiceAnswer:
        is_write = request.method == "POST" and "action=ingestProposal" in request.path
        if self.refused is not None and is_write and self.refused in request.body:
            words = {"message": "the service does not like this", "status": 422}
            return ServiceAnswer(422, json.dumps(words).encode())
        return forward(self.upstream, request)


def _instead(kind: str | None) -> ServiceAnswer:
    match kind:
        case "429":
            return ServiceAnswer(429, b'{"message": "slow down"}', {"Retry-After": "0"})
        case "503":
            return ServiceAnswer(503, b"", {"Content-Type": "text/plain"})
        case "reset":
            return ServiceAnswer(reset=True)
        case "hang up":
            return ServiceAnswer(hang_up=True)
        case _:
            return ServiceAnswer(silent=True)


def _spoiled(kind: str, answer: ServiceAnswer) -> ServiceAnswer:
    match kind:
        case "lost":
            return ServiceAnswer(reset=True)
        case "503 late":
            return ServiceAnswer(503, b'{"message": "the gateway gave up"}')
        case _:
            half = len(answer.body) // 2
            stall = kind == "stalled body"
            return ServiceAnswer(answer.status, answer.body, answer.headers, cut=half, stall=stall)
