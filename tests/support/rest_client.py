"""A client of the catalog's REST endpoints that calls the application in the test's own process."""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.applications import Starlette

from mlcat_ingest.catalog.limits import DEFAULT_LIMITS, Limits
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.tasks import Tasks
from mlcat_ingest.catalog.web.app import create_app
from support.asgi import Answer, call
from support.catalog_store import open_store
from support.refusals import refusal_message


@dataclass(frozen=True, slots=True)
class RestClient:
    """Sends requests to `app`, whose data are in `store`."""

    app: Starlette
    store: Store
    tasks: Tasks

    def send(self, method: str, target: str, body: Any = ...) -> Answer:
        """Send one request; a body that is not bytes goes as JSON."""
        if body is ...:
            data = b""
        else:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return call(self.app, method, target, data)

    def ok(self, method: str, target: str, body: Any = ..., status: int = 200) -> Any:
        """Send one request that has to succeed, and return its answer as JSON, None if empty."""
        answer = self.send(method, target, body)
        assert answer.status == status, answer.text
        return answer.json() if answer.body else None

    def refused(self, method: str, target: str, body: Any = ..., status: int = 400) -> str:
        """Send one request that has to be refused, and return the sentence."""
        answer = self.send(method, target, body)
        assert answer.status == status, answer.text
        assert answer.headers["content-type"] == "application/json"
        return refusal_message(target, status, answer.json())


@contextmanager
def rest_client(db_path: Path, limits: Limits = DEFAULT_LIMITS) -> Iterator[RestClient]:
    """Open the catalog in `db_path` until the block ends."""
    with closing(open_store(db_path)) as store, closing(Tasks(store)) as tasks:
        yield RestClient(create_app(store, limits=limits, tasks=tasks), store, tasks)
