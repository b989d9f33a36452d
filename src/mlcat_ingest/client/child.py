"""The process that serves the embedded catalog, a child of the run.

It gets the database and a one-run token by its standard input. That pipe stays open while the run
lives, so the child also ends when the run is killed.
"""

import json
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import IO, Final, Self, cast

from mlcat_ingest.errors import CatalogUnavailableError, RecipeError

# -P: a file in the working directory must not stand in for a module of the child.
COMMAND: Final = (sys.executable, "-P", "-m", "mlcat_ingest.catalog.server.child")

_LAST_LINES: Final = 5
_LONGEST_LINE: Final = 300
_START_S: Final = 60.0
_STOP_S: Final = 15.0
_DRAIN_S: Final = 1.0


class CatalogChild:
    """A child process that serves a catalog at `url`."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.url = ""
        self._process = process
        # All three are pipes: `start` asks for them.
        self._stdin = cast("IO[bytes]", process.stdin)
        self._stdout = cast("IO[bytes]", process.stdout)
        self._stderr = cast("IO[bytes]", process.stderr)
        self._last: deque[str] = deque(maxlen=_LAST_LINES)
        self._listening = threading.Thread(target=self._listen, daemon=True)
        self._listening.start()

    @classmethod
    def start(
        cls,
        database: str,
        token: str,
        *,
        command: Sequence[str] = COMMAND,
        start_s: float = _START_S,
    ) -> Self:
        """Return a child that serves `database` on a free loopback port to who has `token`.

        Raises:
            RecipeError: the database cannot be used.
            CatalogUnavailableError: the child ended, or did not answer within `start_s`.
        """
        child = cls(
            subprocess.Popen(  # noqa: S603 - our own interpreter and module
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                # Ctrl-C is for us: what is under way is still to be written.
                start_new_session=True,
            )
        )
        with ExitStack() as on_failure:
            on_failure.callback(child.stop)
            child.url = child._request_url({"database": database, "token": token}, start_s)
            on_failure.pop_all()
        return child

    def _request_url(self, order: dict[str, str], start_s: float) -> str:
        watch = threading.Timer(start_s, self._process.kill)
        watch.start()
        try:
            self._stdin.write(json.dumps(order).encode() + b"\n")
            self._stdin.flush()
            line = self._stdout.readline()
        except OSError:
            line = b""  # it ended before it read its order
        finally:
            watch.cancel()
        with suppress(ValueError):
            match json.loads(line):
                case {"error": error, "hint": hint}:
                    raise RecipeError(error, hint=hint)
                case {"url": str(url)}:
                    return url
                case _:
                    pass
        self._process.kill()
        self._process.wait()
        raise CatalogUnavailableError(f"the embedded catalog did not start{self._stderr_tail()}")

    def exit_reason(self, wait_s: float = 0.0) -> str | None:
        """Return how the child ended and its last words; None while it lives.

        A child that is just about to end is given `wait_s` for it.
        """
        try:
            code = self._process.wait(wait_s)
        except subprocess.TimeoutExpired:
            return None
        how = f"exit code {code}" if code >= 0 else f"signal {-code}"
        return f"the embedded catalog ended with {how}{self._stderr_tail()}"

    def stop(self) -> None:
        """End the child, gently if it can be; safe to call twice."""
        with suppress(OSError):  # it may be gone already, with its order still unread
            self._stdin.close()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listening.join(_DRAIN_S)
        self._stdout.close()

    def _listen(self) -> None:
        with self._stderr:
            for line in self._stderr:
                self._last.append(line.decode("utf-8", "replace").rstrip()[:_LONGEST_LINE])

    def _stderr_tail(self) -> str:
        self._listening.join(_DRAIN_S)
        words = "; ".join(line for line in self._last if line)
        return f": {words}" if words else ""
