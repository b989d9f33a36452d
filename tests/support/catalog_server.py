"""The embedded catalog on a socket of its own, in a thread of the test process."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from starlette.types import ASGIApp

from mlcat_ingest.catalog.limits import DEFAULT_LIMITS, Limits
from mlcat_ingest.catalog.server.serve import listen, make_server
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.tasks import Tasks
from mlcat_ingest.catalog.web.app import create_app
from support.catalog_store import open_store


@dataclass(frozen=True, slots=True)
class RunningCatalog:
    """A catalog that answers at `url`, and the store behind it."""

    url: str
    store: Store
    tasks: Tasks


@contextmanager
def running_catalog(
    db_path: Path,
    token: str | None = None,
    limits: Limits = DEFAULT_LIMITS,
    port: int = 0,
    around: Callable[[ASGIApp], ASGIApp] = lambda app: app,
    read_token: str | None = None,
) -> Iterator[RunningCatalog]:
    """Serve the catalog in `db_path` until the block ends, on a free loopback port or on `port`.

    `around` makes another application of it, one that changes some of its answers.
    """
    started = threading.Event()
    with (
        closing(open_store(db_path)) as store,
        closing(Tasks(store)) as tasks,
        closing(listen("127.0.0.1", port)) as listener,
    ):
        app = create_app(store, token=token, read_token=read_token, limits=limits, tasks=tasks)
        server = make_server(around(app), started.set)
        port = listener.getsockname()[1]
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            assert started.wait(30), "the catalog did not start"
            yield RunningCatalog(f"http://127.0.0.1:{port}", store, tasks)
        finally:
            server.should_exit = True
            thread.join(30)
