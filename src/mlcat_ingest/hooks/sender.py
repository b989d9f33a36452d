"""The sender of a process: it starts a drain soon after events were written.

The drain is a process of its own, so that training shares neither its memory nor its interpreter
with it, and so that it outlives the end of training. Of all processes that share a spool one at a
time starts a drain: it takes the lease, and leaves it to the drain. Standard library only.
"""

import atexit
import os
import re
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from random import SystemRandom
from typing import IO, Final

from mlcat_ingest.core.redaction import redact_url
from mlcat_ingest.hooks.settings import HookSettings
from mlcat_ingest.hooks.spool import EventSpool

URI_VARIABLE: Final = "MLCAT_HOOK_TRACKING_URI"
"""Tells a drain the tracking URI with its credentials: events have none."""
LOG_BYTES: Final = 1 << 20

_VARIABLE: Final = re.compile(r"\$\{(\w+)")
_OF_SERVICES: Final = re.compile(
    r"(MLCAT|MLFLOW|DATAHUB|DATABRICKS|AWS|AZURE|GOOGLE|SSL|REQUESTS)_|\w+_PROXY$", re.IGNORECASE
)
"""Variables that say how services are reached."""
_RANDOM: Final = SystemRandom()  # the state of `random` belongs to the training


def _drain_environment(recipe: str, started: Path = Path("/proc/self/environ")) -> dict[str, str]:
    """Return the environment of this process at its start, and what a drain reads of today's.

    Libraries of a training change the environment, to folders that they delete at its end too.
    Today's are the variables of services, and those that the recipe names. Without `started`, the
    file of the first environment, all are today's.
    """
    today = dict(os.environ)
    try:
        lines = [os.fsdecode(line) for line in started.read_bytes().split(b"\0") if line]
        wanted = {*_VARIABLE.findall(Path(recipe).read_text("utf-8") if recipe else "")}
    except (OSError, ValueError):
        lines, wanted = [], set()
    # A process that changes its title overwrites this memory.
    first = dict(line.split("=", 1) for line in lines if "=" in line)
    if not first or len(first) < len(lines):
        first, wanted = {}, set(today)
    wanted |= {name for name in {*first, *today} if _OF_SERVICES.match(name)}
    env = {name: value for name, value in first.items() if name not in wanted}
    env |= {name: value for name, value in today.items() if name in wanted}
    env.pop("MLCAT_HOOK", None)
    return env


class Sender:
    """Starts a drain some seconds after `notify`, one at a time; later after one that failed."""

    def __init__(self, settings: HookSettings, spool: EventSpool) -> None:
        self._settings = settings
        self._spool = spool
        self._uri = ""
        self._lease: int | None = None
        self._reset()
        os.register_at_fork(after_in_parent=self._note_fork, after_in_child=self._reset)
        atexit.register(self._flush)

    def _reset(self) -> None:
        """Begin anew: threads, children and leases are those of the process that was forked."""
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._notified = self._forked = self._ends_by_finalizer = False
        self._ending = threading.Event()
        self._close_lease()

    def _note_fork(self) -> None:
        self._forked = True

    def notify(self, tracking_uri: str) -> None:
        """Let a drain begin soon: there is a new event of the store at `tracking_uri`."""
        if not self._settings.sends:
            return
        self._uri = tracking_uri
        if self._ending.is_set():
            # At the end of a process no thread can be started.
            if not self._spool.is_draining() and not self._spool.backoff.remaining_s():
                self._start_drain()
            return
        with self._lock:
            self._notified = True
            self._flush_by_finalizer()
            if self._thread is None:
                thread = threading.Thread(target=self._work, name="mlcat-hook", daemon=True)
                thread.start()  # fails where there are too many
                self._thread = thread

    def _work(self) -> None:
        while True:
            self._notified = False
            failed = not self._send()
            with self._lock:
                if self._ending.is_set() or not (failed or self._notified):
                    self._thread = None
                    return

    def _send(self) -> bool:
        """Wait, start a drain, and wait for its end; return whether nothing is left to do."""
        jitter = _RANDOM.uniform(0.5, 1.5)  # many processes do not start at once
        debounce_s = self._settings.debounce_s * jitter
        self._ending.wait(max(debounce_s, self._spool.backoff.remaining_s()))
        if not self._has_events():
            return True
        if self._spool.is_draining() or self._spool.backoff.remaining_s():
            return False
        drain = self._start_drain()
        if drain is None:
            return False
        status = drain.wait()
        if status not in {os.EX_OK, os.EX_TEMPFAIL}:
            with suppress(OSError):
                why = f"the drain ended with status {status}; see sender.log"
                self._spool.backoff.record_failure(why)
        return status == os.EX_OK

    def _has_events(self) -> bool:
        return any(event.is_for(self._settings.recipe) for event in self._spool.events())

    def _flush(self) -> None:
        """Start what waits to be started, and wait for it, but not for long; once a process."""
        if self._ending.is_set():
            return
        thread = self._thread
        self._ending.set()
        if thread is not None:
            thread.join(self._settings.flush_s)
        elif self._forked and self._settings.sends and self._has_events():
            self.notify(self._uri)  # children that leave by os._exit start nothing themselves

    def _flush_by_finalizer(self) -> None:
        """See to a flush in a child of `multiprocessing`, which leaves without `atexit`."""
        loaded = sys.modules.get("multiprocessing.util")
        if loaded is None or self._ends_by_finalizer:
            return
        self._ends_by_finalizer = True
        from multiprocessing import parent_process, util

        if parent_process() is not None:
            util.Finalize(None, self._flush, exitpriority=0)

    def _start_drain(self) -> "subprocess.Popen[bytes] | None":
        if not sys.executable:
            return None  # embedded in another program: events wait for a drain
        try:
            self._lease = lease = self._spool.lease()
            if lease is None:
                return None
            try:
                with self._spool.open_log("sender.log") as log:
                    if log.tell() > LOG_BYTES:
                        log.truncate(0)
                    drain = self._spawn(lease, log)
            finally:
                self._close_lease()
        except OSError:
            return None
        if self._ending.is_set():
            drain.returncode = os.EX_OK  # the process is not waited for, on purpose: no warning
        return drain

    def _close_lease(self) -> None:
        """Close this process's copy of the lease: from now on the drain alone has it."""
        lease, self._lease = self._lease, None
        if lease is not None:
            os.close(lease)

    def _spawn(self, lease: int, log: IO[bytes]) -> "subprocess.Popen[bytes]":
        env = _drain_environment(self._settings.recipe)
        if self._settings.token:
            env["MLCAT_TOKEN"] = self._settings.token
        if self._settings.server:
            env["MLCAT_SERVER"] = self._settings.server
        if self._uri != redact_url(self._uri):
            env[URI_VARIABLE] = self._uri
        return subprocess.Popen(  # noqa: S603 - this interpreter, our module
            [
                *(sys.executable, "-P", "-m", "mlcat_ingest.hooks.background", str(lease)),
                *(str(self._spool.folder), self._settings.recipe, self._settings.server),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=env,
            start_new_session=True,
            pass_fds=(lease,),
        )
