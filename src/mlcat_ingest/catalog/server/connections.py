"""Limits of connections that uvicorn does not have: clients that are slow, and too many of them.

uvicorn closes a connection that is idle between two requests. Its protocols, that of h11 and that
of httptools, show what else a connection waits for: `cycle` is the last request, None before the
first.
"""

import asyncio
import errno
import logging
import time
from collections.abc import Callable, Collection
from typing import Any, Final, NamedTuple

from mlcat_ingest.catalog.limits import BODY_TAIL_SECONDS, HEAD_SECONDS
from mlcat_ingest.core.pacing import Pace

_log = logging.getLogger(__name__)

BACKLOG: Final = 128
"""Most connections that wait to be accepted."""

_LINE_S: Final = 60.0
_NO_RESOURCES: Final = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class _Wait(NamedTuple):
    """What a connection waits for, for `limit_s` at most: nothing of it has changed meanwhile."""

    limit_s: float
    cycle: object
    unsent_bytes: int


class SlowConnections:
    """Closes connections whose client does not send its request, or does not take the answer."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin without a connection."""
        self._clock = clock
        self._waits: dict[Any, tuple[_Wait, float]] = {}

    def close(self, connections: Collection[Any]) -> None:
        """Close those of `connections`, uvicorn's protocols, that have waited for too long."""
        now_s = self._clock()
        before, self._waits = self._waits, {}
        for connection in connections:
            wait = _wait_of(connection)
            if wait is None:
                continue
            known, since_s = before.get(connection, (None, now_s))
            self._waits[connection] = (wait, since_s if known == wait else now_s)
            if known == wait and now_s - since_s >= wait.limit_s:
                connection.transport.abort()


def _wait_of(connection: Any) -> _Wait | None:
    """Return what a connection waits for; None where others limit the time."""
    cycle = connection.cycle
    unsent_bytes = connection.transport.get_write_buffer_size()
    if unsent_bytes:
        return _Wait(BODY_TAIL_SECONDS, cycle, unsent_bytes)
    if cycle is not None and not cycle.response_complete:
        return None
    if connection.timeout_keep_alive_task is not None:
        return None
    # After an early answer the rest of the body comes before the next request.
    has_tail = cycle is not None and cycle.more_body
    return _Wait(BODY_TAIL_SECONDS if has_tail else HEAD_SECONDS, cycle, 0)


class AcceptErrors:
    """Handles errors of the event loop; of those without a free file descriptor one line a minute.

    asyncio tries again by itself, and logs each try.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin without an error."""
        self._pace = Pace(_LINE_S, clock)

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log an error."""
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in _NO_RESOURCES:
            loop.default_exception_handler(context)
        elif self._pace.allows():
            _log.error(
                "cannot accept connections: %s (close some, or raise the limit of open files, "
                "`ulimit -n`)",
                error.strerror,
            )
