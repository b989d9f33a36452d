"""A registry in a database: Feast's own tables, read by SQL and never written.

Source: `SqlRegistry` of feast 0.67. Older versions lack some of its tables.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from sqlalchemy import (
    Connection,
    LargeBinary,
    Unicode,
    column,
    inspect,
    make_url,
    select,
    table,
)
from sqlalchemy.exc import SQLAlchemyError

from mlcat_ingest.core.awaiting import Awaits
from mlcat_ingest.core.findings import Finding
from mlcat_ingest.core.redaction import redact_url
from mlcat_ingest.errors import ProtocolMismatchError
from mlcat_ingest.sources.feast.config import FeastConfig
from mlcat_ingest.sources.feast.raw import Kind, RawObject
from mlcat_ingest.sources.feast.transport.checks import findings
from mlcat_ingest.sources.feast.transport.whole import too_large
from mlcat_ingest.sql.failures import DatabaseOwner, failure
from mlcat_ingest.sql.readonly import open_readonly, sqlite_file

_HOLDER: Final = DatabaseOwner("Feast", "Feast registry")
_ROWS_AT_ONCE: Final = 200
_PORTS: Final = {"postgresql": 5432, "mysql": 3306, "mariadb": 3306}
_NEEDED: Final = frozenset({"entities", "data_sources", "feature_views"})


class _Rows(NamedTuple):
    """Where the objects of one kind are: table, column of their name, column of their message."""

    kind: Kind
    table: str
    name: str
    proto: str


_TABLES: Final = (
    _Rows("project", "projects", "project_name", "project_proto"),
    _Rows("entity", "entities", "entity_name", "entity_proto"),
    _Rows("data_source", "data_sources", "data_source_name", "data_source_proto"),
    _Rows("feature_view", "feature_views", "feature_view_name", "feature_view_proto"),
    _Rows("stream_feature_view", "stream_feature_views", "feature_view_name", "feature_view_proto"),
    _Rows(
        *("on_demand_feature_view", "on_demand_feature_views"),
        *("feature_view_name", "feature_view_proto"),
    ),
    _Rows("label_view", "label_views", "feature_view_name", "feature_view_proto"),
    _Rows(
        *("feature_service", "feature_services"), *("feature_service_name", "feature_service_proto")
    ),
)


class DatabaseRegistry(Awaits):
    """Reads a registry database; see `raw.Transport`."""

    def __init__(self, address: str, config: FeastConfig) -> None:
        """Contact nothing yet.

        Raises:
            RecipeError, MissingExtraError, NotAuthorizedError: see `open_readonly`.
        """
        self.shown = redact_url(address)
        self._config = config
        self._engine = open_readonly(address, timeout_s=config.timeout_s)
        self._url = make_url(address)
        self._statements = 0

    def server_id(self) -> str:
        """Return kind, host, port and name of the database, without who reads it."""
        url, backend = self._url, self._url.get_backend_name()
        if backend == "sqlite":
            return f"sqlite{sqlite_file(url).resolve()}"
        backend = "postgresql" if backend == "postgres" else backend
        port = url.port or _PORTS.get(backend)
        return f"{backend}/{(url.host or '').lower()}:{port}/{url.database or ''}"

    def objects(self) -> Iterator[RawObject]:
        """Yield every object, all of one moment; one that was cut off is yielded as it is.

        Raises:
            SourceUnavailableError, AuthenticationError, NotAuthorizedError: the database does not
                answer, or does not let us in, or not read.
            ProtocolMismatchError: it has none of Feast's tables.
            RecipeError: there is no database of that name, or it holds too much.

        Cost: a statement for each kind of objects and one more; memory for 200 objects, and for
        SQLite, where a reader may keep writers waiting, for all.
        """
        with self._connected() as connection:
            found = self._found(connection)
            if self._engine.name != "sqlite":
                yield from found
                return
            held = list(found)
        yield from held

    def _found(self, connection: Connection) -> Iterator[RawObject]:
        there = set(inspect(connection).get_table_names())
        self._statements += 1
        if missing := _NEEDED - there:
            raise ProtocolMismatchError(
                f"the database {self.shown} is no Feast registry: it lacks the tables "
                f"{', '.join(sorted(missing))}",
                hint="is it the database, and the schema, that `feast apply` writes to?",
            )
        total = 0
        for rows in _TABLES:
            if rows.table not in there:
                continue
            for raw in self._objects(connection, rows):
                total += len(raw.proto)
                if total > self._config.max_bytes:
                    raise too_large(self.shown, None, self._config.max_bytes)
                yield raw

    def _objects(self, connection: Connection, rows: _Rows) -> Iterator[RawObject]:
        self._statements += 1
        wanted = (
            *(column(rows.name, Unicode), column("project_id", Unicode)),
            column(rows.proto, LargeBinary),
        )
        statement = select(*wanted).select_from(table(rows.table))
        streamed = {"yield_per": _ROWS_AT_ONCE}
        with connection.execute(statement, execution_options=streamed) as found:
            for name, project, proto in found:
                yield RawObject(rows.kind, project or "", name or "", bytes(proto or b""))

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        try:
            with self._engine.connect() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise failure(_HOLDER, self.shown, error, self._url.password) from None

    def requests_made(self) -> int:
        """Return how many statements were run."""
        return self._statements

    def check(self) -> Iterator[Finding]:
        """Yield whether the registry can be read, and what it holds."""
        return findings(self, self.shown)

    def close(self) -> None:
        """Close connections; safe to call twice."""
        self._engine.dispose()
