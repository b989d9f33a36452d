"""The embedded catalog: its server is a child process on loopback, which ends with the run.

A `catalog serve` that is alive on the same file is used instead.
"""

import os
import re
import secrets
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from mlcat_ingest.catalog.server.lock import Running, log_new_file, read_lock
from mlcat_ingest.client.base import Catalog, CatalogFacts, StoredAspect
from mlcat_ingest.client.child import CatalogChild
from mlcat_ingest.client.config import EmbeddedSinkConfig
from mlcat_ingest.client.rest.checks import check_writes
from mlcat_ingest.client.rest.client import CatalogClient
from mlcat_ingest.client.rest.connection import PEER, Connection
from mlcat_ingest.client.rest.credentials import Credentials, resolve
from mlcat_ingest.core.environment import require_extra
from mlcat_ingest.core.findings import Finding, UnansweredRequest
from mlcat_ingest.errors import (
    AuthenticationError,
    CatalogUnavailableError,
    MlcatError,
    RecipeError,
)
from mlcat_ingest.net.http import Reply
from mlcat_ingest.net.session import HttpOptions
from mlcat_ingest.sql.database import sqlite_name

TOKEN_VARIABLE: Final = "MLCAT_CATALOG_TOKEN"  # noqa: S105 - the name of a variable
"""The variable with the token of a `catalog serve` that asks for one, as that command takes it."""

_STARTING_S: Final = 20.0
_LEAVING_S: Final = 3.0
_PAUSE_S: Final = 0.05
_EXIT_WAIT_S: Final = 1.0
_OPTIONS: Final = HttpOptions(retries=3, retry_for_s=5.0, connections=4)


class EmbeddedCatalog(CatalogClient, Catalog):
    """The client of the embedded catalog, which starts and ends its server.

    Safe to use from several threads once it is open.
    """

    def __init__(self, config: EmbeddedSinkConfig) -> None:
        """Keep the database's place; nothing is started yet.

        Raises:
            MissingExtraError: the packages of the catalog are not installed.
        """
        require_extra("catalog", "the embedded catalog")
        self._server = _ServerConnection(config.db)
        self._absent = False
        super().__init__(connection=self._server)

    @property
    def address(self) -> str:
        """The place of the database, absolute."""
        return f"sqlite:///{self._server.file.absolute()}"

    @property
    def facts(self) -> CatalogFacts:
        """The facts of the catalog; it exists if the database has a file."""
        return replace(super().facts, exists=self._server.file.exists(), group_page="")

    def open(self, *, read_only: bool = False) -> str:
        """Use the server that is alive on the database, or start one; return the database.

        With `read_only` a database that does not exist is not made.

        Raises:
            RecipeError: the database cannot be used.
            AuthenticationError: the server that is alive requires a token we do not have.
            CatalogUnavailableError: another run holds the database, or no server would start.
        """
        self._absent = read_only and not self.facts.exists
        if self._absent:
            return f"the catalog in {self._server.file}, not created yet"
        where = self._server.open()
        super().open()
        return where

    def _read(
        self, urns: Sequence[str], aspects: Collection[str], *, values: bool
    ) -> dict[str, dict[str, StoredAspect]]:
        return {} if self._absent else super()._read(urns, aspects, values=values)

    def graphql(self, *args: Any, **options: Any) -> dict[str, Any]:
        """Return the `data` of a GraphQL query; a database that does not exist has no entities."""
        if self._absent:
            return {"scrollAcrossEntities": {"total": 0}}
        return super().graphql(*args, **options)

    def check(self, *, write: bool = False) -> Iterator[Finding]:
        """Yield whether the database can be used; one that does not exist is not made."""
        file = self._server.file
        if not self.facts.exists and os.access(file.parent, os.W_OK | os.X_OK):
            yield Finding("embedded catalog", "ok", f"the first run creates {file}")
            return
        if not self.facts.exists:
            yield Finding(
                "embedded catalog",
                "failed",
                f"cannot create {file}: no writable folder {file.parent}",
                "create the folder, or set the sink's `db` to another file",
            )
            return
        try:
            yield Finding("embedded catalog", "ok", self.open())
        except MlcatError as error:
            yield Finding("embedded catalog", "failed", error.message, error.hint)
            return
        if write:
            yield from check_writes(self)


class _ServerConnection(Connection):
    """The connection to the server of a database: a child, or the `catalog serve` alive on it.

    In its errors the child explains itself.
    """

    def __init__(self, db: str) -> None:
        super().__init__(lambda: (self._credentials(), _OPTIONS))
        self.file = Path(sqlite_name(db) or db)
        self._db = db
        self._child: CatalogChild | None = None
        self._served: Credentials | None = None
        self._starts_since_s: float | None = None

    def open(self) -> str:
        """Find or start what serves the database; see `EmbeddedCatalog.open`."""
        self._starts_since_s = time.monotonic()
        try:
            running = _alive(self._db) or self._start()
        finally:
            self._starts_since_s = None
        if running is None:
            return f"the catalog in {self.file}"
        self._served = _credentials_of(self._db, running)
        return f"the catalog in {self.file}, served at {running.url}"

    def _start(self) -> Running | None:
        """Start a child; return who was faster instead, if somebody was."""
        token = secrets.token_urlsafe(32)
        log_new_file(self._db)
        try:
            self._child = CatalogChild.start(self._db, token)
        except RecipeError:
            running = _alive(self._db)
            if running is None:
                raise
            return running
        self._served = Credentials(self._child.url, token)
        return None

    def _credentials(self) -> Credentials:
        if self._served is None:
            raise CatalogUnavailableError("the embedded catalog is not open")
        return self._served

    def pending_request(self) -> UnansweredRequest | None:
        """Return the request that waits longest, or the start of the server."""
        since_s = self._starts_since_s
        if since_s is None:
            return super().pending_request()
        seconds = time.monotonic() - since_s
        return UnansweredRequest(str(self.file), seconds, peer="the embedded catalog", what="start")

    def request(self, *args: Any, **options: Any) -> Reply:
        """Return the reply to a request; see `Connection.request`."""
        try:
            return super().request(*args, **options)
        except CatalogUnavailableError as error:
            explained = self._explain_exit(error)
            if explained is error:
                raise
            raise explained from error

    def refusal(self, *args: Any, **options: Any) -> MlcatError:
        """Return the error for a reply that refuses something; see `Connection.refusal`."""
        error = super().refusal(*args, **options)
        return self._explain_exit(error) if isinstance(error, CatalogUnavailableError) else error

    def _explain_exit(self, error: CatalogUnavailableError) -> CatalogUnavailableError:
        """Return how the child exited, or the error with the file in place of its address."""
        child = self._child
        if child is None:
            return error
        exit_reason = child.exit_reason(_EXIT_WAIT_S)
        if exit_reason is not None:
            return CatalogUnavailableError(exit_reason)
        words = re.sub(
            rf"{re.escape(PEER)} at {re.escape(child.url)}[^\s:]*",
            f"the catalog in {self.file}",
            error.message,
        )
        full = error.context.get("status") == HTTPStatus.INSUFFICIENT_STORAGE
        hint = "free space on its disk, or set the sink's `db` to another file" if full else None
        return CatalogUnavailableError(words, hint=hint, context=error.context)

    def close(self) -> None:
        """Close connections and end the child, if there is one; safe to call twice."""
        super().close()
        child, self._child = self._child, None
        if child is not None:
            child.stop()


def serving_address(db: str | Path) -> str | None:
    """Return the address of the `catalog serve` that is alive on a database, if there is one."""
    running = read_lock(db)
    return None if running is None or running.dies_with_parent else running.url


def _alive(db: str) -> Running | None:
    """Return the server that is alive on a database, waiting for one that starts or leaves.

    The catalog of a run that was killed a moment ago still finishes its last request.
    """
    began = time.monotonic()
    while True:
        running = read_lock(db)
        waited_s = time.monotonic() - began
        if running is None or (running.url is not None and not running.dies_with_parent):
            return running
        if running.dies_with_parent and waited_s > _LEAVING_S:
            return running
        if waited_s > _STARTING_S:
            raise CatalogUnavailableError(
                f"another catalog has locked {sqlite_name(db) or db} and does not answer",
                hint=f"check process {running.pid}; it may hang",
            )
        time.sleep(_PAUSE_S)


def _credentials_of(db: str, running: Running) -> Credentials:
    path = sqlite_name(db) or db
    if running.dies_with_parent:
        raise CatalogUnavailableError(
            f"another run is writing to {path} (its catalog is process {running.pid})",
            hint=f"wait for it, or run `mlcat-ingest catalog serve --db {path}` and point both "
            "recipes to it",
        )
    token = os.environ.get(TOKEN_VARIABLE, "") if running.needs_token else ""
    if running.needs_token and not token:
        raise AuthenticationError(
            f"the catalog that serves {path} at {running.url} requires a token",
            hint=f"set {TOKEN_VARIABLE}",
        )
    return resolve(running.url, token)
