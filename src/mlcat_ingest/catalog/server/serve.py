"""The catalog as a process that listens: `catalog serve`, and the child of the embedded sink.

uvicorn has no limits of connections for clients that are slow, or too many. It closes a connection
that is idle between two requests. Its protocols, that of h11 and that of httptools, show what else
a connection waits for: `cycle` is the last request, None before the first.
"""

import asyncio
import errno
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mlcat_ingest.catalog.limits import BODY_TAIL_SECONDS, HEAD_SECONDS
from mlcat_ingest.catalog.server.lock import Running, ServerLock, log_new_file, read_lock
from mlcat_ingest.core.environment import require_extra
from mlcat_ingest.core.resources import Pace, collecting_every
from mlcat_ingest.errors import RecipeError

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp


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


class _SlowConnections:
    """Closes connections whose client does not send its request, or does not take the answer."""

    def __init__(self) -> None:
        self._waits: dict[Any, tuple[_Wait, float]] = {}

    def close(self, connections: Collection[Any]) -> None:
        """Close those of `connections`, uvicorn's protocols, that have waited for too long."""
        now_s = time.monotonic()
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


class _AcceptErrors:
    """Handles errors of the event loop; of those without a free file descriptor one line a minute.

    asyncio tries again by itself, and logs each try.
    """

    def __init__(self) -> None:
        self._pace = Pace(_LINE_S)

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in _NO_RESOURCES:
            loop.default_exception_handler(context)
        elif self._pace.allows():
            _log.error(
                "cannot accept connections: %s (close some, or raise the limit of open files, "
                "`ulimit -n`)",
                error.strerror,
            )


__all__ = ["Running", "listen", "make_server", "read_lock", "serve"]

# Longer than clients keep an idle connection, so that it is they who close it.
_KEEP_ALIVE_S: Final = 75
_SHUTDOWN_S: Final = 10
_TICKS_A_SECOND: Final = 10
# What passes `TARGET_BYTES` has to arrive, or it could not be answered.
_HEAD_BYTES: Final = 1_048_576
_TERMINATED: Final = 128 + signal.SIGTERM

# More than the batches of several connections have at a time.
_OBJECTS_BETWEEN_COLLECTIONS: Final = 200_000


def serve(
    database: str | Path,
    host: str = "127.0.0.1",
    port: int = 8080,
    *,
    token: str | None = None,
    read_token: str | None = None,
    ready: Callable[[Running], None] | None = None,
    die_with_parent: bool = False,
) -> None:
    """Serve the catalog in `database` until Ctrl-C, SIGTERM, or the end of the parent.

    With a `token` requests need it, or, to read, the `read_token` if there is one. `port` 0 takes
    a free one. `ready` is called once connections are answered. With
    `die_with_parent` the process also ends when its standard input does: the parent holds the
    other end of that pipe, and its death closes it.

    Raises:
        RecipeError: the address is not loopback and there is no token, the tokens do not go
            together, the address cannot be bound, another server has the database, or the
            database cannot be used.
        MissingExtraError: the packages of the catalog are not installed.
    """
    require_extra("catalog", "the embedded catalog")
    from mlcat_ingest.catalog.store.store import Store
    from mlcat_ingest.catalog.tasks import Tasks
    from mlcat_ingest.catalog.web.app import create_app
    from mlcat_ingest.catalog.web.auth import is_loopback

    if not token and not is_loopback(host):
        raise RecipeError(
            f"cannot listen on {host} without a token, only on loopback addresses",
            hint="set MLCAT_CATALOG_TOKEN, give --token-file, or listen on 127.0.0.1",
        )
    _check_tokens(token, read_token)
    with ExitStack() as stack:
        lock = stack.enter_context(ServerLock.acquire(database))
        if not die_with_parent:
            log_new_file(database)  # of a child it is the parent's to say
        store = stack.enter_context(closing(Store.open(database)))
        tasks = stack.enter_context(closing(Tasks(store)))
        listener = stack.enter_context(closing(listen(host, port)))
        running = Running(os.getpid(), _address(listener), bool(token), die_with_parent)

        def announce() -> None:
            lock.announce(running)
            if ready is not None:
                ready(running)

        app = create_app(store, token=token, read_token=read_token, tasks=tasks, host=host)
        server = make_server(app, announce)
        stack.enter_context(collecting_every(_OBJECTS_BETWEEN_COLLECTIONS))
        if die_with_parent:
            threading.Thread(target=_end_with_input, args=(server,), daemon=True).start()
        with _terminating_cleanly():
            server.run(sockets=[listener])


def _check_tokens(token: str | None, read_token: str | None) -> None:
    if read_token and not token:
        raise RecipeError(
            "a reading token requires a writing token",
            hint="set MLCAT_CATALOG_TOKEN; without it every local user could write",
        )
    if read_token and read_token == token:
        raise RecipeError(
            "the reading token equals the writing token", hint="set a different reading token"
        )


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on `host` and `port`; port 0 takes a free one.

    Raises:
        RecipeError: the address is taken, not allowed, or not of this machine.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise RecipeError(f"cannot listen on {host}: {error.strerror}") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise RecipeError(
            f"cannot listen on {host}, port {port}: {error.strerror}", hint="choose another port"
        ) from error
    return listener


def make_server(app: "ASGIApp", started: Callable[[], None]) -> "uvicorn.Server":
    """Return a server of `app` that calls `started` as soon as it answers."""
    import uvicorn

    slow = _SlowConnections()

    class CatalogServer(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            asyncio.get_running_loop().set_exception_handler(_AcceptErrors())
            await super().startup(sockets)
            started()

        async def on_tick(self, counter: int) -> bool:
            if counter % _TICKS_A_SECOND == 0:
                slow.close(self.server_state.connections)
            return await super().on_tick(counter)

    return CatalogServer(
        uvicorn.Config(
            app,
            access_log=False,
            backlog=BACKLOG,
            h11_max_incomplete_event_size=_HEAD_BYTES,
            lifespan="off",
            log_config=None,
            log_level="warning",
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=_SHUTDOWN_S,
            timeout_keep_alive=_KEEP_ALIVE_S,
            ws="none",
        )
    )


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    # Who listens everywhere is reached from this machine by its loopback address.
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _end_with_input(server: "uvicorn.Server") -> None:
    # Not through `sys.stdin`: its buffer's lock, held here for ever, would abort the exit.
    while os.read(0, 4096):
        pass
    server.should_exit = True


@contextmanager
def _terminating_cleanly() -> Iterator[None]:
    """Make a SIGTERM, which the server passes on once it has stopped, end us through `finally`."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(_signal: int, _frame: FrameType | None) -> None:
        raise SystemExit(_TERMINATED)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
