"""The embedded catalog: its server is a child process on loopback, which ends with the run.

The child gets the database and a one-run token by its standard input. That pipe stays open while
the run lives, so the child also ends when the run is killed. Where a `catalog serve` is alive on
the same file, that one is used instead.
"""

import os
import re
import secrets
import time
from collections.abc import Collection, Iterator, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Final

from mlcat_ingest.catalog.server.lock import Running, read_lock
from mlcat_ingest.client.auth import Credentials, resolve
from mlcat_ingest.client.base import Catalog, NoEntities, Searches, StoredAspect
from mlcat_ingest.client.catalog_client import CatalogClient
from mlcat_ingest.client.child import CatalogChild
from mlcat_ingest.client.config import EmbeddedSinkConfig
from mlcat_ingest.client.connection import PEER, Connection
from mlcat_ingest.client.probe import probe
from mlcat_ingest.core.extras import require_extra
from mlcat_ingest.core.findings import Finding
from mlcat_ingest.errors import (
    AuthenticationError,
    CatalogUnavailableError,
    MlcatError,
    RecipeError,
)
from mlcat_ingest.net.http import Reply
from mlcat_ingest.net.session import HttpOptions

TOKEN_VARIABLE: Final = "MLCAT_CATALOG_TOKEN"  # noqa: S105 - the name of a variable
"""The variable with the token of a `catalog serve` that asks for one, as that command takes it."""

_STARTING_S: Final = 20.0
_LEAVING_S: Final = 3.0
_PAUSE_S: Final = 0.05
_LAST_BREATH_S: Final = 1.0
_OPTIONS: Final = HttpOptions(retries=3, connections=4)


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
        self._server = _Server(config.db)
        self._absent = False
        super().__init__(connection=_ServerConnection(self._server))

    @property
    def address(self) -> str:
        """The place of the database, absolute."""
        return f"sqlite:///{self._server.file.absolute()}"

    def exists(self) -> bool:
        """Return whether there is a file of the database."""
        return self._server.file.exists()

    def open(self, *, read_only: bool = False) -> str:
        """Use the server that is alive on the database, or start one; return the database.

        With `read_only` a database that does not exist is not made.

        Raises:
            RecipeError: the database cannot be used.
            AuthenticationError: the server that is alive asks for a token we do not have.
            CatalogUnavailableError: another run holds the database, or no server would start.
        """
        self._absent = read_only and not self.exists()
        if self._absent:
            return f"the catalog in {self._server.file}, not made yet"
        where = self._server.open()
        super().open()
        return where

    def read_many(
        self, urns: Sequence[str], aspects: Collection[str]
    ) -> dict[str, dict[str, StoredAspect]]:
        """Return the stored `aspects` by URN; see `Catalog.read_many`."""
        return {} if self._absent else super().read_many(urns, aspects)

    @property
    def search(self) -> Searches:
        """What searches the catalog."""
        return NoEntities() if self._absent else super().search

    def check(self, *, write: bool = False) -> Iterator[Finding]:
        """Yield whether the database can be used; one that does not exist is not made."""
        if not self.exists():
            yield _would_make(self._server.file)
            return
        try:
            yield Finding("embedded catalog", "ok", self.open())
        except MlcatError as error:
            yield Finding("embedded catalog", "failed", error.message, error.hint)
            return
        if write:
            yield from probe(self)

    def close(self, *, complete: bool = True) -> None:
        """Close connections and end the child, if it is ours; safe to call twice."""
        super().close(complete=complete)
        self._server.close()


class _Server:
    """What serves a database: a child of ours, or the `catalog serve` that is alive on it."""

    def __init__(self, db: str) -> None:
        """Keep the database's place."""
        self.file = Path(_shown(db))
        self._db = db
        self._child: CatalogChild | None = None
        self._credentials: Credentials | None = None

    def open(self) -> str:
        """Find or start what serves the database; see `EmbeddedCatalog.open`."""
        running = _alive(self._db) or self._start()
        if running is None:
            return f"the catalog in {self.file}"
        self._credentials = _credentials_of(self._db, running)
        return f"the catalog in {self.file}, served at {running.url}"

    def _start(self) -> Running | None:
        """Start a child; return who was faster instead, if somebody was."""
        token = secrets.token_urlsafe(32)
        try:
            self._child = CatalogChild.start(self._db, token)
        except RecipeError:
            running = _alive(self._db)
            if running is None:
                raise
            return running
        self._credentials = Credentials(self._child.url, token)
        return None

    def credentials(self) -> Credentials:
        """Return where the server listens, and its token.

        Raises:
            CatalogUnavailableError: it was not opened.
        """
        if self._credentials is None:
            raise CatalogUnavailableError("the embedded catalog is not open")
        return self._credentials

    def explained(self, error: CatalogUnavailableError) -> CatalogUnavailableError:
        """Return an error that names the file: nobody knows the address of our child."""
        child = self._child
        if child is None:
            return error
        ended = child.ended(_LAST_BREATH_S)
        if ended is not None:
            return CatalogUnavailableError(ended)
        words = re.sub(
            rf"{re.escape(PEER)} at {re.escape(child.url)}[^\s:]*",
            f"the catalog in {self.file}",
            error.message,
        )
        full = error.context.get("status") == HTTPStatus.INSUFFICIENT_STORAGE
        hint = "free space on its disk, or name another file in the sink's `db`" if full else None
        return CatalogUnavailableError(words, hint=hint, context=error.context)

    def close(self) -> None:
        """End the child, if there is one; safe to call twice."""
        child, self._child = self._child, None
        if child is not None:
            child.stop()


class _ServerConnection(Connection):
    """The connection to a server of a database, in whose errors the child explains itself."""

    def __init__(self, server: _Server) -> None:
        """Ask `server` for its address."""
        super().__init__(lambda: (server.credentials(), _OPTIONS))
        self._explained = server.explained

    def request(self, method: str, path: str, body: bytes | None) -> Reply:
        """Return the reply to a request; see `Connection.request`."""
        try:
            return super().request(method, path, body)
        except CatalogUnavailableError as error:
            explained = self._explained(error)
            if explained is error:
                raise
            raise explained from error

    def refusal(self, reply: Reply, *, what: str, urn: str | None = None) -> MlcatError:
        """Return the error for a reply that refuses `what`; see `Connection.refusal`."""
        error = super().refusal(reply, what=what, urn=urn)
        return self._explained(error) if isinstance(error, CatalogUnavailableError) else error


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
                f"another catalog holds {_shown(db)} but does not answer",
                hint=f"is process {running.pid} stuck?",
            )
        time.sleep(_PAUSE_S)


def _credentials_of(db: str, running: Running) -> Credentials:
    if running.dies_with_parent:
        raise CatalogUnavailableError(
            f"another run is writing to {_shown(db)} (its catalog is process {running.pid})",
            hint=f"wait for it, or let both use one `mlcat-ingest catalog serve --db {_shown(db)}`",
        )
    token = os.environ.get(TOKEN_VARIABLE, "") if running.needs_token else ""
    if running.needs_token and not token:
        raise AuthenticationError(
            f"the catalog that serves {_shown(db)} at {running.url} asks for a token",
            hint=f"set {TOKEN_VARIABLE} to it",
        )
    return resolve(running.url, token)


def _shown(db: str) -> str:
    """Return the path of the database's file for a line to the user."""
    scheme, separator, rest = db.partition(":///")
    return rest.partition("?")[0] if separator and scheme.startswith("sqlite") else db


def _would_make(path: Path) -> Finding:
    folder = path.parent if str(path.parent) else Path()
    if os.access(folder, os.W_OK | os.X_OK):
        return Finding("embedded catalog", "ok", f"{path} will be made by the first run")
    return Finding(
        "embedded catalog",
        "failed",
        f"cannot make {path}: no writable folder {folder}",
        "make the folder, or name another file in the sink's `db`",
    )
