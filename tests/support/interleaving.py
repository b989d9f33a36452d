"""Threads that take turns in an order that a seed decides, so that a race can be told again."""

import random
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from mlcat_ingest.client.base import StoredEntity
from mlcat_ingest.errors import AspectRejectedError
from mlcat_ingest.metadata.proposal import Proposal
from support.fakes import FakeSink

TIMEOUT_S = 60


class Turns:
    """Lets one thread go on at a time, from one `step` to its next."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._condition = threading.Condition()
        self._waiting: set[str] = set()
        self._alive = 0
        self._turn: str | None = None

    def step(self) -> None:
        """Wait until it is this thread's turn."""
        me = threading.current_thread().name
        with self._condition:
            self._waiting.add(me)
            self._next()
            assert self._condition.wait_for(lambda: self._turn == me, TIMEOUT_S)
            self._turn = None
            self._waiting.discard(me)

    def run(self, works: Mapping[str, Callable[[], None]]) -> None:
        """Run each of `works` in a thread of its own to the end."""

        def run_one(name: str, work: Callable[[], None]) -> None:
            threading.current_thread().name = name
            try:
                work()
            finally:
                with self._condition:
                    self._alive -= 1
                    self._next()

        self._alive = len(works)
        with ThreadPoolExecutor(len(works)) as pool:
            for one in [pool.submit(run_one, *work) for work in works.items()]:
                one.result(TIMEOUT_S)

    def _next(self) -> None:
        """Choose who goes on, once everybody waits."""
        if self._turn is None and self._waiting and len(self._waiting) == self._alive:
            self._turn = self._random.choice(sorted(self._waiting))
            self._condition.notify_all()


@dataclass
class SteppedSink(FakeSink):
    """A catalog that checks no versions, whose reads and writes wait for their turns."""

    turns: Turns | None = None
    place: str | None = "the stepped catalog"
    checks_versions: bool = False

    def _step(self) -> None:
        if self.turns is not None:
            self.turns.step()

    def read_many(
        self, urns: Sequence[str], aspects: Collection[str]
    ) -> Mapping[str, StoredEntity]:
        self._step()
        return super().read_many(urns, aspects)

    def write(self, proposals: Sequence[Proposal]) -> Sequence[AspectRejectedError]:
        self._step()
        return super().write(proposals)

    def add(self, urn: str, aspect: str, field: str, entry: object) -> None:
        """Add an entry as a person does, who sees what is there and changes it at once."""
        held = self.stored[urn][aspect]
        self.put(urn, aspect, {**held, field: [*held[field], entry]})
