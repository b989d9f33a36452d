"""A registry in a database: Feast's own tables, read by SQL and never written.

Source: `SqlRegistry` of feast 0.67. Older versions lack some of its tables.
"""

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Any, Final

from sqlalchemy import BigInteger, LargeBinary, Unicode, column, inspect, select, table
from sqlalchemy.engine import Connection, make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.sql.expression import TableClause
from sqlalchemy.types import NullType, TypeEngine

from mlcat_ingest.core.redaction import redact_url
from mlcat_ingest.errors import ProtocolMismatchError
from mlcat_ingest.sources.feast.config import FeastConfig
from mlcat_ingest.sources.feast.registry import (
    MESSAGES,
    PLURALS,
    RawObject,
    RegistryTransport,
    bounded,
    raw_object,
)
from mlcat_ingest.sql.database import readable_file
from mlcat_ingest.sql.engine import TextConnection, readonly_engine
from mlcat_ingest.sql.readonly import DatabaseOwner, failure, schema_of, with_schema

_HOLDER: Final = DatabaseOwner("Feast", "Feast registry")
_ROWS_AT_ONCE: Final = 200
_PORTS: Final = {"postgresql": 5432, "mysql": 3306, "mariadb": 3306}
_NEEDED: Final = ("feature_views", "entities", "data_sources")


def _table_of(kind: str, schema: str | None) -> TableClause:
    """Return the table of the objects of a kind, with the columns that are read."""
    prefix = "feature_view" if kind.endswith("view") else kind
    name, proto = column(f"{prefix}_name", Unicode), column(f"{prefix}_proto", LargeBinary)
    return table(PLURALS[kind], name, column("project_id", Unicode), proto, schema=schema)


def _metadata_table(schema: str | None) -> TableClause:
    return table(
        "feast_metadata",
        *(column(name, Unicode) for name in ("project_id", "metadata_key", "metadata_value")),
        column("last_updated_timestamp", BigInteger),
        schema=schema,
    )


class DatabaseRegistry(RegistryTransport):
    """Reads a registry database."""

    def __init__(self, address: str, config: FeastConfig) -> None:
        """Prepare the engine; no statement is run."""
        self.shown = redact_url(address)
        self._address = address
        self._config = config
        self._engine = readonly_engine(address, timeout_s=config.timeout_s)
        self._url = make_url(address)

    def server_id(self) -> str:
        """Return kind, host, port and name of the database, and a schema that is not the default.

        Cost: a statement for PostgreSQL.
        """
        url, backend = self._url, self._url.get_backend_name()
        if backend == "sqlite":
            return f"sqlite{readable_file(url.database or ':memory:').resolve()}"
        backend = "postgresql" if backend == "postgres" else backend
        port = url.port or _PORTS.get(backend)
        database = f"{backend}/{(url.host or '').lower()}:{port}/{url.database or ''}"
        if backend != "postgresql":
            return database
        with self._connection() as connection:
            return with_schema(database, self._schema(connection))

    def _schema(self, connection: Connection) -> str | None:
        self.requests += 1
        return schema_of(TextConnection(connection), _NEEDED[0])

    def objects(self) -> Iterator[RawObject]:
        """Yield every object, all of one moment; one that was cut off is yielded as it is.

        Cost: a statement for each kind of objects and one more, and some for the columns of its
        table; memory for 200 objects, and for SQLite, where a reader may keep writers waiting, for
        all.
        """
        with self._connection() as connection:
            objects = bounded(self._all_objects(connection), self.shown, self._config.max_bytes)
            if self._engine.name != "sqlite":
                yield from objects
                return
            registry = list(objects)
        yield from registry

    def _all_objects(self, connection: Connection) -> Iterator[RawObject]:
        schema = self._schema(connection)
        tables = set(inspect(connection).get_table_names(schema))
        if missing := set(_NEEDED) - tables:
            raise ProtocolMismatchError(
                f"the database {self.shown} is not a Feast registry; missing tables: "
                f"{', '.join(sorted(missing))}",
                hint="check that `feast apply` writes to this database and schema",
            )
        stored = {kind: _table_of(kind, schema) for kind in PLURALS if PLURALS[kind] in tables}
        metadata = [one for one in (_metadata_table(schema),) if one.name in tables]
        self._check_columns(connection, [*stored.values(), *metadata])
        streamed = {"yield_per": _ROWS_AT_ONCE}
        for kind, listed in stored.items():
            self.requests += 1
            statement = select(*listed.columns)
            with closing(connection.execute(statement, execution_options=streamed)) as rows:
                for name, project, proto in rows:
                    yield RawObject(kind, project or "", name or "", bytes(proto or b""))
        for listed in metadata:
            yield from self._metadata(connection, listed)

    def _check_columns(self, connection: Connection, tables: Iterable[TableClause]) -> None:
        inspector = inspect(connection)
        for listed in tables:
            columns = inspector.get_columns(listed.name, listed.schema)
            types = {one["name"]: one["type"] for one in columns}
            for wanted in listed.columns:
                found = types.get(wanted.name)
                where = f"{listed.name}.{wanted.name}"
                if found is None or not _fits(found, wanted.type):
                    problem = f"{where} is of type {found}" if found else f"no column {where}"
                    raise ProtocolMismatchError(
                        f"the Feast registry {self.shown} cannot be read by SQL: {problem}",
                        hint="read it through a server of Feast (`feast serve_registry`)",
                    )

    def _metadata(self, connection: Connection, stored: TableClause) -> Iterator[RawObject]:
        self.requests += 1
        columns = stored.columns
        statement = (
            select(columns.project_id, columns.metadata_value)
            .where(columns.metadata_key == "project_uuid")
            .order_by(columns.last_updated_timestamp, columns.project_id)
        )
        for project, uuid in connection.execute(statement):
            metadata = MESSAGES["ProjectMetadata"](project=project, project_uuid=uuid)
            yield raw_object("project_metadata", metadata.SerializeToString())

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        try:
            with self._engine.connect() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise failure(_HOLDER, self._address, error) from None

    def close(self) -> None:
        """Close connections; safe to call twice."""
        self._engine.dispose()


def _fits(found: TypeEngine[Any], wanted: TypeEngine[Any]) -> bool:
    """Return whether values of a type are those of `wanted`, also where SQLAlchemy cannot tell."""
    try:
        return isinstance(found, NullType) or found.python_type is wanted.python_type
    except NotImplementedError:
        return True
