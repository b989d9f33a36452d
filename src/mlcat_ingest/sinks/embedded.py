"""The sink that brings its own catalog: a child process on loopback, which ends with the run.

The child gets the database and a one-run token by its standard input. That pipe stays open while
the run lives, so the child also ends when the run is killed. Where a `catalog serve` is alive on
the same file, that one is used instead.
"""

import os
import re
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Final, TypeVar

from mlcat_ingest.catalog.lock import Running, read_lock
from mlcat_ingest.client.connection import PEER
from mlcat_ingest.client.results import Evaluation, StoredEntity
from mlcat_ingest.client.search import Owned
from mlcat_ingest.errors import (
    AspectRejectedError,
    AuthenticationError,
    CatalogUnavailableError,
    MlcatError,
    RecipeError,
)
from mlcat_ingest.extras import require_extra
from mlcat_ingest.findings import Finding
from mlcat_ingest.metadata.proposal import Aspect, Proposal
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS
from mlcat_ingest.sinks.child import CatalogChild
from mlcat_ingest.sinks.config import EmbeddedSinkConfig, RestSinkConfig
from mlcat_ingest.sinks.rest import RestSink

T = TypeVar("T")

TOKEN_VARIABLE: Final = "MLCAT_CATALOG_TOKEN"  # noqa: S105 - the name of a variable
"""The variable with the token of a `catalog serve` that asks for one, as that command takes it."""

_STARTING_S: Final = 20.0
_LEAVING_S: Final = 3.0
_PAUSE_S: Final = 0.05
_LAST_BREATH_S: Final = 1.0
_RETRIES: Final = 3


class EmbeddedSink:
    """Writes to the embedded catalog. Safe to use from several threads once it is open."""

    def __init__(self, config: EmbeddedSinkConfig) -> None:
        """Keep the database's place; nothing is started yet.

        Raises:
            MissingExtraError: the packages of the catalog are not installed.
        """
        require_extra("catalog", "the embedded catalog")
        self._db = config.db
        self._absent = False
        self._child: CatalogChild | None = None
        self._sink: RestSink | None = None

    @property
    def batch_size(self) -> int:
        """Proposals in one write request at most."""
        return MAX_REQUEST_ITEMS

    def address(self) -> str:
        """Return the place of the database, absolute."""
        return f"sqlite:///{Path(_shown(self._db)).absolute()}"

    def exists(self) -> bool:
        """Return whether there is a file of the database."""
        return Path(_shown(self._db)).exists()

    def open(self) -> str:
        """Use the server that is alive on the database, or start one; return the database.

        Raises:
            RecipeError: the database cannot be used.
            AuthenticationError: the server that is alive asks for a token we do not have.
            CatalogUnavailableError: another run holds the database, or no server would start.
        """
        running = _alive(self._db)
        if running is None:
            running = self._start()
        if running is not None:
            self._sink = _served(self._db, running)
        self._asked(lambda sink: sink.open())
        where = "" if running is None else f", served at {running.url}"
        return f"the catalog in {_shown(self._db)}{where}"

    def open_to_read(self) -> str:
        """Do what `open` does where there is a database; one that does not exist is not made."""
        self._absent = not self.exists()
        return f"the catalog in {_shown(self._db)}, not made yet" if self._absent else self.open()

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
        self._sink = _rest_sink(self._child.url, token)
        return None

    def read_many(
        self, urns: Sequence[str], aspects: Collection[str]
    ) -> Mapping[str, StoredEntity]:
        """Return the stored `aspects` of each of `urns`; see `Sink.read_many`."""
        if self._absent:
            return {}
        return self._asked(lambda sink: sink.read_many(urns, aspects))

    def read_version(self, urn: str, aspect: str, version: int) -> Aspect | None:
        """Return an earlier version of an aspect; see `Sink.read_version`."""
        return self._asked(lambda sink: sink.read_version(urn, aspect, version))

    def owned(self, entity_type: str, source: str) -> Owned:
        """Return the entities of a type that a source wrote; see `Sink.owned`."""
        if self._absent:
            return Owned(0, iter(()))
        return self._asked(lambda sink: sink.owned(entity_type, source))

    def members(self, group: str) -> Iterator[list[str]]:
        """Yield the URNs of the models in a group; see `Sink.members`."""
        return iter(()) if self._absent else self._asked(lambda sink: sink.members(group))

    def datasets_like(self, texts: Sequence[str]) -> Sequence[Sequence[str]]:
        """Return a few datasets that a search for each text finds; see `Sink.datasets_like`."""
        if self._absent:
            return [() for _ in texts]
        return self._asked(lambda sink: sink.datasets_like(texts))

    def write(self, proposals: Sequence[Proposal]) -> Sequence[AspectRejectedError]:
        """Write `proposals` durably and return those refused; see `Sink.write`."""
        return self._asked(lambda sink: sink.write(proposals))

    def evaluate(
        self, urns: Sequence[str], *, should_push: bool, test_urns: Sequence[str]
    ) -> Evaluation:
        """Evaluate the metadata tests of `urns`; see `Sink.evaluate`."""
        return self._asked(
            lambda sink: sink.evaluate(urns, should_push=should_push, test_urns=test_urns)
        )

    def _asked(self, verb: Callable[[RestSink], T]) -> T:
        if self._sink is None:
            raise CatalogUnavailableError("the embedded catalog is not open")
        try:
            return verb(self._sink)
        except CatalogUnavailableError as error:
            child = self._child
            if child is None:
                raise
            raise self._failure(error, child.url, child.ended(_LAST_BREATH_S)) from error

    def _failure(
        self, error: CatalogUnavailableError, url: str, ended: str | None
    ) -> CatalogUnavailableError:
        """Return an error that names the file: nobody knows the address of our child."""
        if ended is not None:
            return CatalogUnavailableError(ended)
        words = re.sub(
            rf"{re.escape(PEER)} at {re.escape(url)}[^\s:]*",
            f"the catalog in {_shown(self._db)}",
            error.message,
        )
        full = error.context.get("status") == HTTPStatus.INSUFFICIENT_STORAGE
        hint = "free space on its disk, or name another file in the sink's `db`" if full else None
        return CatalogUnavailableError(words, hint=hint, context=error.context)

    def requests_made(self) -> int:
        """Return how many requests were sent so far, retries included."""
        return self._sink.requests_made() if self._sink is not None else 0

    def check(self, *, write: bool = False) -> Iterator[Finding]:
        """Yield whether the database can be used; one that does not exist is not made."""
        if not self.exists():
            yield _would_make(Path(_shown(self._db)))
            return
        try:
            yield Finding("embedded catalog", "ok", self.open())
        except MlcatError as error:
            yield Finding("embedded catalog", "failed", error.message, error.hint)
            return
        if write and self._sink is not None:
            yield from self._sink.probe()

    def close(self, *, complete: bool = True) -> None:
        """Close connections and end the child, if it is ours; safe to call twice."""
        del complete  # what was written is acknowledged and stays
        if self._sink is not None:
            self._sink.close()
        child, self._child = self._child, None
        if child is not None:
            child.stop()


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


def _served(db: str, running: Running) -> RestSink:
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
    return _rest_sink(str(running.url), token)


def _rest_sink(url: str, token: str) -> RestSink:
    config = RestSinkConfig.model_validate({"server": url, "token": token, "retries": _RETRIES})
    return RestSink(config)


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
