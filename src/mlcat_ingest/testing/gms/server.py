"""The profile as a server on loopback."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starlette.types import ASGIApp

from mlcat_ingest.catalog.search.request import Criterion, SearchRequest
from mlcat_ingest.catalog.server.serve import listen, make_server
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.tasks.tasks import Tasks
from mlcat_ingest.catalog.web.app import create_app
from mlcat_ingest.errors import CatalogUnavailableError
from mlcat_ingest.testing.gms.app import GmsApp
from mlcat_ingest.testing.gms.events import Events
from mlcat_ingest.testing.gms.profile import V1_6, GmsProfile
from mlcat_ingest.testing.gms.requests import SeenRequest
from mlcat_ingest.testing.gms.store import LaggingCopy, LimitedStore

_START_S: Final = 30


@dataclass(frozen=True, slots=True)
class RunningGms:
    """A server at `url`, and the `store` behind it, which shows what has really arrived."""

    url: str
    store: Store
    profile: GmsProfile
    _events: Events
    _copies: Sequence[LaggingCopy]

    def seen(self, path: str = "", action: str | None = None) -> list[SeenRequest]:
        """Return the requests so far whose path begins with `path`, of one action or of all."""
        return [
            one
            for one in tuple(self._events.requests)
            if one.path.startswith(path) and action in {None, one.query.get("action")}
        ]

    def fail_writes(self, count: int, retry_after_s: float = 0) -> None:
        """Answer the next `count` writes as after exhausted database retries.

        Source: AspectResource.java; v1.7 answers 503 with `Retry-After`, earlier releases 500.
        """
        self._events.retry_after_s = retry_after_s
        self._events.expect("unavailable", count)

    def limit_requests(self, count: int, retry_after_s: float = 60) -> None:
        """Answer the next `count` requests, `/config` excepted, as a rate limit does: 429.

        Source: APIThrottle.java.
        """
        self._events.retry_after_s = retry_after_s
        self._events.expect("limited", count)

    def refuse_versions(self, count: int) -> None:
        """Refuse the next `count` writes of versions for a computed field that they do not hold.

        v1.1.0 to v1.4 do so after a database retry. Source: VersionPropertiesSideEffect.java,
        VersionPropertiesValidator.java.
        """
        self._events.expect("versions", count)

    def collect_garbage(self) -> None:
        """Delete what is marked as removed, as the server's own ingestion does after ten days.

        Source: `datahub-gc` in the server's bootstrap ingestion sources.
        """
        removed = Criterion("removed", ("true",))
        while found := self.store.search(
            SearchRequest(any_of=((removed,),), count=1_000, include_removed=True)
        ).hits:
            for hit in found:
                self.store.delete(hit.urn)

    def catch_up(self) -> None:
        """Let the search index and the replica show what is stored now."""
        for copy in self._copies:
            copy.refresh()


@contextmanager
def running_gms(
    database: Path,
    profile: GmsProfile = V1_6,
    *,
    token: str | None = None,
    around: Callable[[ASGIApp], ASGIApp] = lambda app: app,
) -> Iterator[RunningGms]:
    """Serve the catalog in `database`, made where missing, on a free loopback port.

    `around` wraps the service in another application, which sees each request first.

    Raises:
        CatalogUnavailableError: the server did not start.
    """
    events = Events(profile.unavailable_status)
    started = threading.Event()
    with ExitStack() as stack:
        store = stack.enter_context(closing(LimitedStore.open_for(database, profile)))
        tasks = stack.enter_context(closing(Tasks(store)))
        copies = [
            stack.enter_context(closing(LaggingCopy(database, name, lag_s, profile)))
            if lag_s
            else None
            for name, lag_s in (("index", profile.index_refresh_s), ("replica", profile.replica_s))
        ]
        app = GmsApp(
            create_app(store, token=token, tasks=tasks),
            store,
            profile,
            events,
            index=copies[0],
            replica=copies[1],
        )
        listener = stack.enter_context(closing(listen("127.0.0.1", 0)))
        port = listener.getsockname()[1]
        server = make_server(around(app), started.set)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            if not started.wait(_START_S):
                raise CatalogUnavailableError("the server did not start")
            yield RunningGms(
                f"http://127.0.0.1:{port}", store, profile, events, [c for c in copies if c]
            )
        finally:
            server.should_exit = True
            thread.join(_START_S)
