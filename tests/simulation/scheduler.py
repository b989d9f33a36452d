"""A seeded scheduler with virtual time: the threads of several processes take turns in one thread.

The modules of the product find their threads, locks, clocks, pauses and chance here while a
simulation runs. A task goes on until it waits or comes to a `step`; there the seed decides who goes
on, so a seed always gives the same history. A process that is killed goes on nowhere.
"""

import random
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent import futures
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from types import ModuleType
from typing import Any, Final

from greenlet import getcurrent, greenlet

from mlcat_ingest.pipeline.write import delivery
from mlcat_ingest.sql.database import Engine, Migration, SqlConnection, SqliteEngine, migrate

MAX_STEPS: Final = 60_000
"""Steps of one seed at most: a history that takes more is one that never ends."""

STEP_S: Final = 0.003


class Killed(BaseException):
    """The process of this task was killed."""


class StuckError(Exception):
    """Every task waits for another one, or none comes to its end."""


@dataclass(eq=False)
class Process:
    """A process of the simulated world, that can be killed."""

    name: str
    is_dead: bool = False


class Task:
    """One thread of a process."""

    def __init__(
        self, work: Callable[[], object], name: str, process: Process, hub: greenlet
    ) -> None:
        self._do = work
        self._hub = hub
        self._greenlet = greenlet(self._work, hub)
        self.name = name
        self.process = process
        self.ready: Callable[[], object] | None = None
        self.deadline_s: float | None = None

    def _work(self) -> None:
        with suppress(Killed):
            self._do()

    def go_on(self) -> bool:
        """Run until the task waits or comes to a step; return whether it wants an event there."""
        return self._greenlet.switch() is True

    def pause(self, *, for_event: bool = False) -> None:
        """Let the scheduler choose who goes on; to be called by the task itself."""
        self._hub.switch(for_event)

    def end(self) -> None:
        """End the task where it is, unless it was never started."""
        if self._greenlet:
            self._greenlet.throw(Killed)
            assert self.is_over, f"{self.name} goes on although it was killed"

    @property
    def is_over(self) -> bool:
        return bool(self._greenlet.dead)

    def can_run(self, now_s: float) -> bool:
        if self.ready is None or self.ready():
            return True
        return self.deadline_s is not None and self.deadline_s <= now_s


@dataclass(eq=False)
class Scheduler:
    """Runs tasks by turns; `events` is called between two steps, as often as the seed says."""

    seed: int
    now_s: float = 1_760_000_000.0
    switching: float = 0.0
    """How likely another task goes on at a step; without it a task goes on until it waits."""
    events: Callable[[], None] | None = None
    event_rate: float = 0.0
    steps: int = 0
    trace: list[str] = field(default_factory=list)
    chance: random.Random = field(init=False)
    tasks: list[Task] = field(default_factory=list)
    hub: greenlet = field(default_factory=getcurrent)
    running: Task | None = None

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)

    def log(self, text: str) -> None:
        """Add a line to the history of this seed."""
        task = self.running
        who = f"{task.process.name}/{task.name}: " if task is not None else ""
        self.trace.append(f"{self.steps:5} {self.now_s:.3f} {who}{text}")

    def spawn(self, work: Callable[[], object], name: str, process: Process) -> None:
        """Start a thread of `process`."""
        self.tasks.append(Task(work, name.removeprefix("mlcat-"), process, self.hub))

    def step(self, label: str) -> None:
        """Let others go on, if the seed says so; outside of tasks, nothing happens."""
        task = self.running
        if task is None:
            return
        if task.process.is_dead:
            raise Killed
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise StuckError(f"more than {MAX_STEPS} steps")
        self.now_s += STEP_S
        self.log(label)
        is_event = self.events is not None and self.chance.random() < self.event_rate
        if is_event or (self.switching and self.chance.random() < self.switching):
            task.ready, task.deadline_s = None, None
            task.pause(for_event=is_event)

    def block(self, ready: Callable[[], object], timeout_s: float | None = None) -> bool:
        """Wait until `ready`, or until the time is over; return which."""
        task = self.running
        if task is not None and task.process.is_dead:
            raise Killed
        if ready():
            return True
        if task is None:
            raise StuckError("something waits outside of every task")
        task.ready = ready
        task.deadline_s = None if timeout_s is None else self.now_s + timeout_s
        task.pause()
        return bool(ready())

    def run(self) -> None:
        """Run all tasks to their ends.

        Raises:
            StuckError: none can go on.
        """
        while self.tasks:
            able = [task for task in self.tasks if task.can_run(self.now_s)]
            if not able:
                self._pass_time()
                continue
            task = self.chance.choice(able) if self.switching else able[0]
            self.running = task
            is_event = task.go_on()
            self.running = None
            if task.is_over:
                self.tasks.remove(task)
            elif is_event and self.events is not None:
                self.events()

    def _pass_time(self) -> None:
        """Let the time come that the first task waits for."""
        deadlines = [task.deadline_s for task in self.tasks if task.deadline_s is not None]
        if not deadlines:
            raise StuckError(", ".join(f"{one.process.name}/{one.name}" for one in self.tasks))
        self.now_s = max(self.now_s, min(deadlines))

    def kill(self, process: Process) -> None:
        """Kill a process: what its threads were about to do, they do not."""
        process.is_dead = True
        for task in [one for one in self.tasks if one.process is process]:
            self.tasks.remove(task)
            self.running = task
            task.end()
            self.running = None


_current: Scheduler | None = None


def current() -> Scheduler:
    """Return the scheduler of the simulation that runs."""
    assert _current is not None
    return _current


class _Lock:
    """A lock for tasks."""

    def __init__(self) -> None:
        self._held = False

    def __enter__(self) -> bool:
        current().block(lambda: not self._held)
        self._held = True
        return True

    def __exit__(self, *_: object) -> None:
        self._held = False


class _Condition:
    """A condition for tasks. Its lock needs no holder: nobody else runs until a task waits."""

    def __enter__(self) -> bool:
        return True

    def __exit__(self, *_: object) -> None:
        pass

    def wait_for(self, predicate: Callable[[], object], timeout: float | None = None) -> bool:
        return current().block(predicate, timeout)

    def notify_all(self) -> None:
        pass


class _Thread:
    """A thread that is a task of the process that starts it."""

    def __init__(self, *, target: Callable[[], object], name: str, daemon: bool) -> None:
        assert daemon
        self._target = target
        self.name = name

    def start(self) -> None:
        task = current().running
        assert task is not None, "a thread outside of every process"
        current().spawn(self._target, self.name, task.process)


class _Future(futures.Future[Any]):
    """What a task will return, for which others wait as tasks do."""

    def result(self, timeout: float | None = None) -> Any:
        current().block(self.done, timeout)
        return super().result(0)


def _sleep(seconds: float) -> None:
    current().block(lambda: False, seconds)


def _uniform(low: float, high: float) -> float:
    return current().chance.uniform(low, high)


def _wait(some: Iterable["futures.Future[Any]"], timeout: float | None = None) -> None:
    awaited = list(some)
    current().block(lambda: all(one.done() for one in awaited), timeout)


_begin: Final = SqliteEngine.transaction


@contextmanager
def _transaction(engine: SqliteEngine, *, write: bool = False) -> Iterator[SqlConnection]:
    """A transaction of the state; one that writes has a step before and one after it."""
    if write:
        current().step("state: begin")
    with _begin(engine, write=write) as connection:
        yield connection
    if write:
        current().step("state: committed")


def _migrate(engine: Engine, component: str, migrations: Sequence[Migration]) -> list[str]:
    """Make the tables without a step: nobody else has the database yet."""
    setattr(SqliteEngine, "transaction", _begin)  # noqa: B010 - mypy refuses a method
    try:
        return migrate(engine, component, migrations)
    finally:
        setattr(SqliteEngine, "transaction", _transaction)  # noqa: B010


def _like(module: ModuleType, **instead: object) -> ModuleType:
    copy = ModuleType(module.__name__)
    vars(copy).update({**vars(module), **instead})
    return copy


_INSTEAD: Final[dict[int, object]] = {
    id(threading): _like(threading, Thread=_Thread, Lock=_Lock, Condition=_Condition),
    id(time): _like(
        time,
        time=lambda: current().now_s,
        time_ns=lambda: int(current().now_s * 1e9),
        monotonic=lambda: current().now_s,
        sleep=_sleep,
    ),
    id(random): _like(random, uniform=_uniform),
    id(delivery._RANDOM): _like(random, uniform=_uniform),
    id(secrets): _like(secrets, token_hex=lambda count: current().chance.randbytes(count).hex()),
    id(futures.wait): _wait,
    id(futures.Future): _Future,
    id(migrate): _migrate,
    id(version): cache(version),
}
"""Modules and functions of the standard library, and the simulation's in their place."""

_ROOMS: Final = ("pipeline", "sources", "sql.filelock", "core", "workflows", "links")


@contextmanager
def simulated_threads() -> Iterator[None]:
    """Let the product's modules use the scheduler inside the block."""
    undone: list[tuple[object, str, object]] = [(SqliteEngine, "transaction", _begin)]
    setattr(SqliteEngine, "transaction", _transaction)  # noqa: B010 - mypy refuses a method
    for module in list(sys.modules.values()):
        if not module.__name__.startswith(tuple(f"mlcat_ingest.{room}" for room in _ROOMS)):
            continue
        for name, value in list(vars(module).items()):
            if id(value) in _INSTEAD:
                undone.append((module, name, value))
                setattr(module, name, _INSTEAD[id(value)])
    try:
        yield
    finally:
        for changed, name, value in undone:
            setattr(changed, name, value)


@contextmanager
def scheduled(seed: int) -> Iterator[Scheduler]:
    """Give the scheduler of a seed, which decides inside the block."""
    global _current  # noqa: PLW0603 - the product asks for time and threads without a parameter
    before, _current = _current, Scheduler(seed)
    try:
        yield _current
    finally:
        _current = before
