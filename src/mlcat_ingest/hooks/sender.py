"""The sender of a process: it starts a drain soon after events were written.

The drain is a process of its own, so that training shares neither its memory nor its interpreter
with it, and so that it outlives the end of training. Of all processes that share a spool one at a
time starts a drain: it takes the turn, and leaves it to the drain. Standard library only.
"""

import atexit
import os
import random
import subprocess
import sys
import threading
from typing import IO, Final

from mlcat_ingest.core.redaction import redact_url
from mlcat_ingest.hooks.event import Event
from mlcat_ingest.hooks.settings import HookSettings
from mlcat_ingest.hooks.spool import EventSpool

URI_VARIABLE: Final = "MLCAT_HOOK_TRACKING_URI"
"""What a drain is told a tracking URI by that has credentials in it: events have none."""
LOG_BYTES: Final = 1 << 20

_DONE: Final = 0


class Sender:
    """Starts a drain some seconds after `poke`, one at a time; again after a pause if it failed."""

    def __init__(self, settings: HookSettings, spool: EventSpool) -> None:
        """Start nothing yet."""
        self._settings = settings
        self._spool = spool
        self._uri = ""
        self._turn: int | None = None
        self._reset()
        os.register_at_fork(after_in_parent=self._note_fork, after_in_child=self._reset)
        atexit.register(self._flush)

    def _reset(self) -> None:
        """Begin anew: threads, children and turns are those of the process that was forked."""
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._poked = self._forked = self._ends_by_finalizer = False
        self._hurry = threading.Event()
        self._give_turn()

    def _note_fork(self) -> None:
        self._forked = True

    def poke(self, tracking_uri: str) -> None:
        """Let a drain begin soon: there is a new event of the store at `tracking_uri`."""
        if not self._settings.sends:
            return
        self._uri = tracking_uri
        if self._hurry.is_set():
            # At the end of a process no thread can be started.
            if not self._spool.is_draining() and not self._spool.pause_s():
                self._begin()
            return
        with self._lock:
            self._poked = True
            self._flush_by_finalizer()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="mlcat-hook", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while True:
            self._poked = False
            failed = not self._send()
            with self._lock:
                if self._hurry.is_set() or not (failed or self._poked):
                    self._thread = None
                    return

    def _send(self) -> bool:
        """Wait, start a drain, and wait for its end; return whether nothing is left to do."""
        jitter = random.uniform(0.5, 1.5)  # noqa: S311 - so that many processes do not start at once
        self._hurry.wait(max(self._settings.debounce_s * jitter, self._spool.pause_s()))
        if not self._spool.has(self._is_ours):
            return True
        if self._spool.is_draining() or self._spool.pause_s():
            return False
        drain = self._begin()
        return drain is not None and drain.wait() == _DONE

    def _is_ours(self, event: Event) -> bool:
        return event.is_for(self._settings.recipe)

    def _flush(self) -> None:
        """Start what waits to be started, and wait for it, but not for long; once a process."""
        if self._hurry.is_set():
            return
        thread = self._thread
        self._hurry.set()
        if thread is not None:
            thread.join(self._settings.flush_s)
        elif self._forked and self._settings.sends and self._spool.has(self._is_ours):
            self.poke(self._uri)  # children that leave by os._exit start nothing themselves

    def _flush_by_finalizer(self) -> None:
        """See to a flush in a child of `multiprocessing`, which leaves without `atexit`."""
        loaded = sys.modules.get("multiprocessing.util")
        if loaded is None or self._ends_by_finalizer:
            return
        self._ends_by_finalizer = True
        from multiprocessing import parent_process, util

        if parent_process() is not None:
            util.Finalize(None, self._flush, exitpriority=0)

    def _begin(self) -> "subprocess.Popen[bytes] | None":
        if not sys.executable:
            return None  # embedded in another program: events wait for a drain
        try:
            turn = self._spool.turn()
            if turn is None:
                return None
            self._turn = turn
            try:
                with (self._spool.folder / "sender.log").open("ab") as log:
                    if log.tell() > LOG_BYTES:
                        log.truncate(0)
                    drain = self._drain(turn, log)
            finally:
                self._give_turn()
        except OSError:
            return None
        if self._hurry.is_set():
            drain.returncode = _DONE  # nobody will wait for it, which is no reason to warn
        return drain

    def _give_turn(self) -> None:
        """Close this process's copy of the turn: from now on the drain alone has it."""
        turn, self._turn = self._turn, None
        if turn is not None:
            os.close(turn)

    def _drain(self, turn: int, log: IO[bytes]) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(  # noqa: S603 - this interpreter, our module
            [
                *(sys.executable, "-P", "-m", "mlcat_ingest.hooks.background", str(turn)),
                *(str(self._spool.folder), self._settings.recipe, self._settings.server),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=self._environment(),
            start_new_session=True,
            pass_fds=(turn,),
        )

    def _environment(self) -> dict[str, str]:
        env = {name: value for name, value in os.environ.items() if name != "MLCAT_HOOK"}
        if self._settings.token:
            env["MLCAT_TOKEN"] = self._settings.token
        if self._settings.server:
            env["MLCAT_SERVER"] = self._settings.server
        if self._uri != redact_url(self._uri):
            env[URI_VARIABLE] = self._uri
        return env
