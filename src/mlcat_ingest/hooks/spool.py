"""The spool: a folder of events, one a file, that any number of processes write and one drains.

    new/<moment>-<process>-<random>.json    events that wait, oldest first
    claimed/                                events that the one drain at work has taken
    dropped.jsonl                           events that were dropped unsent, and why
    drain.lock                              held by the running drain, released at its end
    busy.lock                               held with it, so that `status` need not take the first
    sender.lock                             held for a background drain, from before its start
    pause.json                              the time of the next try, after failed drains
    sender.log, refused.jsonl               log of background drains, and refusals

A file is written elsewhere and renamed, so it is whole or not there, and claimed by renaming, so
only one process can claim it. The catalog gets each event at least once. Standard library only.

Only the owner may use the spool; where the folder was made for a group, the group may, too.
"""

import errno
import json
import os
import secrets
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path, PurePath
from random import SystemRandom
from typing import IO, Any, Final, Self

from mlcat_ingest.core.environment import PRIVATE, make_folder, open_file, require_posix

if sys.platform != "win32":
    import fcntl

DELETED: Final = "DELETED"
"""The status of an event after which a registered model, or a version of it, may not exist."""

MAX_BYTES = 64_000
"""The most that a file may hold to be read as an event."""


@dataclass(frozen=True, slots=True)
class Event:
    """A run has ended, or a registered model has changed. A hint only: the drain reads from MLflow.

    `model` is the name of the registered model, and `run_id` then the run of its new version; the
    other one is empty. `tracking_uri` is without credentials, `workspace` empty where none was set.
    `recipe` is the path of the recipe that was named, empty where only a catalog was.

    `at_ms` is when it had happened. Of a move of an `alias`, `version` is the new one, empty for
    none; it happened at `since_ms` or later, if that is not 0.
    """

    run_id: str = ""
    status: str = ""
    tracking_uri: str = ""
    workspace: str = ""
    recipe: str = ""
    at_ms: int = 0
    model: str = ""
    alias: str = ""
    version: str = ""
    since_ms: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The run and the registered model that it is about, as far as it has them."""
        return tuple(filter(None, (self.run_id, self.model)))

    def is_for(self, recipe: str) -> bool:
        """Return whether it is for a recipe, by the name of the file, for paths differ by host."""
        return PurePath(self.recipe).name == PurePath(recipe).name

    def to_json(self) -> bytes:
        """Return it as a line of JSON."""
        return f"{json.dumps(asdict(self))}\n".encode()

    @classmethod
    def from_json(cls, text: bytes) -> Self | None:
        """Return the event that `text` is, None for anything else."""
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(data, dict):
            return None
        known = {field.name: data[field.name] for field in fields(cls) if field.name in data}
        kinds = {name: int if name in _TIMES else str for name in known}
        if not all(isinstance(value, kinds[name]) for name, value in known.items()):
            return None
        event = cls(**known)
        return event if event.names else None


_TIMES: Final = ("at_ms", "since_ms")

MAX_EVENTS: Final = 10_000
"""Events that may wait; further ones are dropped, and counted, until some are drained."""
MAX_AGE_S: Final = 7 * 86_400.0
"""Maximum age of an event: by then a scheduled run has ingested its run."""

_COUNT_EVERY: Final = 100
_DROPPED_BYTES: Final = 1 << 20
_FIRST_PAUSE_S: Final = 5.0
_LONGEST_PAUSE_S: Final = 600.0
_RANDOM: Final = SystemRandom()  # the state of `random` belongs to the training
_LEFT_BEHIND_S: Final = 3_600.0
"""Age at which the writer of a file that was never renamed must have died."""


@dataclass(frozen=True, slots=True)
class ClaimedEvent:
    """An event that this process alone has, and the name of its file."""

    name: str
    event: Event


class _Backoff:
    """The pause after drains that failed, longer each time; kept in the spool's `pause.json`."""

    def __init__(self, folder: Path) -> None:
        """Keep the pause of the spool in `folder`."""
        self._folder = folder
        self._path = folder / "pause.json"

    def record_failure(self, why: str) -> None:
        """Record that a drain failed: the next background drain waits, longer each time."""
        failures = self._read().get("failures", 0) + 1
        jitter = _RANDOM.uniform(0.5, 1)
        pause_s = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2 ** min(failures, 10)) * jitter
        until_ms = int((time.time() + pause_s) * 1000)
        pause = {"failures": failures, "until_ms": until_ms, "why": why}
        _write_whole(self._path, self._folder, json.dumps(pause).encode())

    def reset(self) -> None:
        """Record that a drain succeeded."""
        self._path.unlink(missing_ok=True)

    def remaining_s(self) -> float:
        """Return the seconds until the next try."""
        left_s: float = self._read().get("until_ms", 0) / 1000 - time.time()
        return min(max(left_s, 0.0), _LONGEST_PAUSE_S)

    def reason(self) -> str | None:
        """Return why the last drain failed, None if it did not."""
        why = self._read().get("why")
        return why if isinstance(why, str) else None

    def _read(self) -> dict[str, Any]:
        try:
            pause = json.loads(_content(self._path))
        except (OSError, ValueError):
            return {}
        whole = isinstance(pause, dict) and all(
            isinstance(pause.get(name), int) for name in ("failures", "until_ms")
        )
        return pause if whole else {}


class EventSpool:
    """A spool in `folder`, which is made by the first event."""

    def __init__(
        self, folder: Path, *, max_events: int = MAX_EVENTS, max_age_s: float = MAX_AGE_S
    ) -> None:
        """Keep the place; nothing is touched.

        Raises:
            RecipeError: this is Windows.
        """
        require_posix()
        self.folder = folder
        self.refused_file = folder / "refused.jsonl"
        self.dropped_file = folder / "dropped.jsonl"
        self.backoff = _Backoff(folder)
        self._new, self._claimed = folder / "new", folder / "claimed"
        self._max_events, self._max_age_s = max_events, max_age_s
        self._written = 0
        self._pid = os.getpid()

    def put(self, event: Event) -> bool:
        """Write `event` so that the end of this process cannot undo it; False if the spool is full.

        Safe for any number of threads and processes.

        Raises:
            OSError: the folder cannot be written, or everybody may, or its disk is full.

        Cost: one `fsync`; a listing of the folder for each hundred events.
        """
        if self._is_full():
            self._drop(event, "the spool is full")
            return False
        name = f"{time.time_ns() // 1_000_000:013d}-{os.getpid()}-{secrets.token_hex(6)}.json"
        content = event.to_json()
        self._make_folders()
        _write_whole(self._new / name, self.folder, content)
        return True

    def _make_folders(self) -> None:
        """Make the folders that are missing.

        Raises:
            OSError: one cannot be made, is a link, or may be written by everybody.
        """
        make_folder(self.folder)
        mode = self.folder.stat().st_mode
        if mode & stat.S_IWOTH:
            cure = f"every user may write to it; run chmod o-w {self.folder}"
            raise PermissionError(errno.EPERM, cure, str(self.folder))
        for folder in (self._new, self._claimed):
            if folder.is_symlink():
                raise OSError(errno.ELOOP, f"{folder.name} is a link; delete it", str(folder))
            if not folder.is_dir():
                folder.mkdir(mode=0o700, exist_ok=True)
                if mode & stat.S_IWGRP:
                    folder.chmod(0o770)

    def _is_full(self) -> bool:
        if os.getpid() != self._pid:
            self._pid, self._written = os.getpid(), 0
        counts = self._written % _COUNT_EVERY == 0
        self._written += 1
        if counts and len(self.waiting()) >= self._max_events:
            self._written = 0  # look again at the next event
            return True
        return False

    def waiting(self) -> list[str]:
        """Return the names of the unclaimed events, oldest first."""
        return _names(self._new)

    def pending(self) -> int:
        """Return how many events there are, those that a drain has claimed among them."""
        return len(self.names())

    def names(self) -> frozenset[str]:
        """Return the names of the files of these events."""
        return frozenset(self.waiting()).union(_names(self._claimed))

    def events(self) -> Iterator[Event]:
        """Return the unclaimed events, oldest first; skip files without an event."""
        events = (_read(self._new / name) for name in self.waiting())
        return (event for event in events if event is not None)

    def oldest_ms(self) -> int | None:
        """Return when the oldest event was written, in epoch milliseconds."""
        names = self.names()
        return _moment(min(names)) if names else None

    @contextmanager
    def drain_lock(self) -> Iterator[bool]:
        """Hold the lock of the one drain at a time; give False where another process has it.

        Events that an earlier drain left claimed, since it was killed, wait again.

        Raises:
            OSError: the folder cannot be written, or its file system has no locks.
        """
        self._make_folders()
        with (
            os.fdopen(self._open("drain.lock"), "rb") as handle,
            os.fdopen(self._open("busy.lock"), "rb") as busy,
        ):
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            fcntl.flock(busy, fcntl.LOCK_EX)  # others hold it for as long as a look takes
            self.release(_names(self._claimed))
            self._sweep()
            yield True

    def lease(self) -> int | None:
        """Take the lease to start a background drain; None where another process has it.

        The result is an open file: the lease is held as long as it, or a copy of it, is open.

        Raises:
            OSError: the folder cannot be written, or its file system has no locks.
        """
        handle = self._open("sender.lock")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            if isinstance(error, BlockingIOError):
                return None
            raise
        return handle

    def is_draining(self) -> bool:
        """Return whether a drain is at work just now."""
        try:
            with os.fdopen(open_file(self.folder / "busy.lock", os.O_RDONLY), "rb") as handle:
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def open_log(self, name: str) -> IO[bytes]:
        """Open a file of the spool to append to it.

        Raises:
            OSError: it cannot be opened, or is not a regular file.
        """
        return os.fdopen(self._open(name, os.O_WRONLY | os.O_APPEND), "ab")

    def _open(self, name: str, flags: int = os.O_RDONLY) -> int:
        return open_file(self.folder / name, flags | os.O_CREAT, _mode_in(self.folder))

    def claim(
        self, most: int, accepts: Callable[[Event], bool], skip: frozenset[str] = frozenset()
    ) -> list[ClaimedEvent]:
        """Take the oldest `most` events that the filter `accepts`, but no file named in `skip`.

        Files that are too old, or hold no event at all, are dropped on the way, and counted.
        """
        claimed: list[ClaimedEvent] = []
        oldest_ms = time.time() * 1000 - self._max_age_s * 1000
        for name in self.waiting():
            if len(claimed) >= most:
                break
            if name in skip:
                continue
            event = _read(self._new / name)
            if event is not None and not accepts(event):
                continue
            try:
                (self._new / name).rename(self._claimed / name)
            except FileNotFoundError:
                continue  # another process has it
            if event is None:
                self._discard(name, Event("?"), "not an event")
            elif _moment(name) < oldest_ms:
                self._discard(name, event, "too old")
            else:
                claimed.append(ClaimedEvent(name, event))
        return claimed

    def delete(self, names: Sequence[str]) -> None:
        """Delete claimed events, which the catalog has acknowledged."""
        for name in names:
            (self._claimed / name).unlink(missing_ok=True)

    def release(self, names: Sequence[str]) -> None:
        """Let claimed events wait again."""
        for name in names:
            with suppress(FileNotFoundError):
                (self._claimed / name).rename(self._new / name)

    def _discard(self, name: str, event: Event, why: str) -> None:
        self._drop(event, why)
        self.delete([name])

    def _drop(self, event: Event, why: str) -> None:
        named = {"run_id": event.run_id} | ({"model": event.model} if event.model else {})
        line = json.dumps({**named, "why": why, "at_ms": int(time.time() * 1000)})
        with self.open_log(self.dropped_file.name) as handle:
            if handle.tell() < _DROPPED_BYTES:
                handle.write(f"{line}\n".encode())

    def _sweep(self) -> None:
        """Delete the temporary files of writers that were killed before they renamed them."""
        before_s = time.time() - _LEFT_BEHIND_S
        for path in self.folder.glob(".*.json"):
            with suppress(OSError):
                if path.stat().st_mtime < before_s:
                    path.unlink()


def _mode_in(folder: Path) -> int:
    """Return the mode of a file in `folder`: where its group may write, it may write the file."""
    return PRIVATE | (0o060 if folder.stat().st_mode & stat.S_IWGRP else 0)


def _names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(
                entry.name
                for entry in entries
                if entry.name.endswith(".json") and not entry.is_dir(follow_symlinks=False)
            )
    except OSError:
        return []


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file of the spool, the oldest first; none where there is no file."""
    try:
        return _content(path).decode(errors="replace").splitlines()
    except OSError:
        return []


def _moment(name: str) -> int:
    digits = name.partition("-")[0]
    return int(digits) if digits.isdecimal() else 0


def _read(path: Path) -> Event | None:
    try:
        content = _content(path, MAX_BYTES + 1)
    except OSError:
        return None
    return Event.from_json(content) if len(content) <= MAX_BYTES else None


def _content(path: Path, most: int = -1) -> bytes:
    with os.fdopen(open_file(path, os.O_RDONLY), "rb") as handle:
        return handle.read(most)


def _write_whole(path: Path, folder: Path, content: bytes) -> None:
    """Write a file down to the disk, first as a temporary one in `folder`; all of it or nothing."""
    temporary = folder / f".{secrets.token_hex(8)}.json"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    handle = open_file(temporary, flags, _mode_in(folder))
    try:
        try:
            while content:  # a disk that is nearly full takes a part
                content = content[os.write(handle, content) :]
            os.fsync(handle)
        finally:
            os.close(handle)
        temporary.rename(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
