"""One MLflow database: consistent reads, ids ordered by time.

MLflow's tables have no index on times, so each query for the next ids walks over all of them. It
asks for many ids at once, and their rows are read by id.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from itertools import chain
from typing import Any, Final, NamedTuple

from mlcat_ingest.core.clock import now_ms
from mlcat_ingest.core.redaction import redact_url
from mlcat_ingest.errors import NotAuthorizedError, ProtocolMismatchError
from mlcat_ingest.metadata.proposal import Note
from mlcat_ingest.sources.mlflow.read.database.schema import (
    COLUMNS,
    EXPERIMENTS,
    READ,
    RUNS,
    Schema,
    Table,
    plain,
)
from mlcat_ingest.sources.mlflow.read.reader import MlflowConnection
from mlcat_ingest.sql.database import SqlConnection
from mlcat_ingest.sql.readonly import DatabaseOwner, failure, open_readonly, schema_of, with_schema

Row = tuple[Any, ...]

_HOLDER: Final = DatabaseOwner("MLflow", "MLflow database")

# The clock at the beginning of the transaction, in milliseconds since 1970.
_CLOCK: Final = {
    "postgresql": "SELECT floor(extract(epoch FROM now()) * 1000)",
    "mysql": "SELECT floor(unix_timestamp(now(3)) * 1000)",
}

IDS_A_BLOCK: Final = 10_000
"""Ids held at a time: 1 MiB."""

IDS_A_PAGE: Final = 100
"""Ids named in one statement. 200 take a tenth less CPU, and 3 MiB more: their records wait."""

_SHOWN: Final = 3
"""Problems of a schema that its error names."""

# Rows without a moment come last, whichever way the others are sorted.
_LAST: Final = {False: 9223372036854775807, True: -9223372036854775807}


class Sql(NamedTuple):
    """A part of a statement, with the values of its question marks."""

    text: str
    values: tuple[Any, ...] = ()


def where(conditions: Iterable[Sql]) -> Sql:
    """Return the clause of a statement whose rows meet all conditions."""
    every = list(conditions)
    text = " AND ".join(one.text for one in every)
    values = chain.from_iterable(one.values for one in every)
    return Sql(f" WHERE {text}" if text else "", tuple(values))


def in_workspace(table: Table, workspace: str | None) -> list[Sql]:
    """Return the condition that a row is of `workspace`; none where the schema has none."""
    return [] if workspace is None else [Sql(f"{table.name}.workspace = ?", (workspace,))]


def rows_of(table: Table, owner: str) -> str:
    """Return the statement for the rows of `table` whose column `owner` is one of a list."""
    return f"SELECT {plain(table)} FROM {table.name} WHERE {owner} IN ?"


class Database(MlflowConnection):
    """Reads one database, connecting when first needed; not for several threads at once.

    All that is read until `close` is of one moment, but on SQLite outside WAL mode: there a reader
    keeps MLflow from writing, so a moment lasts for one `page`.
    """

    def __init__(self, uri: str, *, timeout_s: float) -> None:
        """Make the engine; the first read connects.

        Raises:
            RecipeError, MissingExtraError, NotAuthorizedError: see `open_readonly`.
        """
        self.shown = redact_url(uri)
        self.statements = 0
        self._uri = uri
        self._engine = open_readonly(uri, timeout_s=timeout_s)
        self._open = ExitStack()
        self._connection: SqlConnection | None = None
        self._brief = False
        self._moment_ms = 0

    @contextmanager
    def page(self) -> Iterator["Read"]:
        """Give what reads; all that it reads, inside the block, is of one moment.

        Raises:
            SourceUnavailableError, AuthenticationError, NotAuthorizedError: the database does not
                answer, or denies the connection or the reading.
            ProtocolMismatchError: it lacks a table or a column of MLflow's.
            RecipeError: there is no database of that name.
        """
        try:
            yield Read(self, self._connect())
        except self._engine.errors as error:
            self.close()
            raise failure(_HOLDER, self._uri, error) from None
        finally:
            if self._brief:
                self._end_moment()

    def _connect(self) -> SqlConnection:
        if self._connection is None:
            connection = self._open.enter_context(self._engine.transaction())
            self._connection = connection
            self._moment_ms = now_ms()
            if connection.dialect == "sqlite":
                self._brief = connection.scalar("PRAGMA journal_mode") != "wal"
            elif connection.dialect in _CLOCK:
                self._moment_ms = int(connection.scalar(_CLOCK[connection.dialect]))
        return self._connection

    def _end_moment(self) -> None:
        self._connection = None
        # The connection can be what failed.
        with suppress(*self._engine.errors):
            self._open.close()

    def requests_made(self) -> int:
        """Return how many statements were run so far."""
        return self.statements

    def clock_ms(self) -> int:
        """Return the moment that is read, by the database's clock; for SQLite by this machine's."""
        with self.page():
            return now_ms() if self._brief else self._moment_ms

    def in_schema(self, address: str) -> str:
        """Return `address` with the schema of the tables, if it is not the default one."""
        with self.page() as read:
            return with_schema(address, read.schema_of(EXPERIMENTS))

    def revisions(self) -> list[str]:
        """Return the revisions of schemas: MLflow's, and those of programs that share its table.

        Raises:
            ProtocolMismatchError: it is no MLflow database; and what `page` raises.
        """
        with self.page() as read:
            # Other programs have a table of that name too.
            read(_nothing_of(RUNS.name))
            rows = list(read("SELECT version_num FROM alembic_version"))
        if not rows:
            self.close()
            raise ProtocolMismatchError(
                f"the MLflow database {self.shown} has no schema revision",
                hint="run `mlflow db upgrade` to complete its creation or migration",
            )
        return sorted(str(revision) for (revision,) in rows)

    @cached_property
    def schema(self) -> Schema:
        """The schema, in which all that is read has been found.

        Raises:
            ProtocolMismatchError: it is no MLflow database, or lacks what is read, or has it with
                another type; and what `page` raises.
        """
        revisions = self.revisions()
        with self.page() as read:
            rows = read(COLUMNS[read.dialect], sorted({table for table, _ in READ}))
            columns = {(table, name): type_ for table, name, type_ in rows}
        schema = Schema(revisions, columns)
        problems = [problem for table, problem in schema.problems() if not self._is_denied(table)]
        if problems:
            self.close()
            raise ProtocolMismatchError(
                f"the MLflow database {self.shown} of schema revision {', '.join(revisions)} cannot"
                f" be read by SQL: {', '.join(problems[:_SHOWN])}",
                hint="read it through its MLflow server, or with `reader: client` by the MLflow "
                "version that made it",
            )
        return schema

    def _is_denied(self, table: str) -> bool:
        try:
            return bool(self.unreadable([table]))
        except ProtocolMismatchError:
            return False

    def notes(self) -> Iterator[Note]:
        """Yield that the revision of the schema is not known."""
        if self.schema.releases is None:
            yield Note("schema_unknown", f"{self.shown}: {self.schema.label}")

    def unreadable(self, tables: Iterable[str]) -> list[str]:
        """Return the names of those `tables` that the user may not read."""
        names = []
        for name in tables:
            try:
                with self.page() as read:
                    read(_nothing_of(name))
            except NotAuthorizedError:
                names.append(name)
        return names

    def close(self) -> None:
        """End the transaction and the connection; safe to call twice, reading opens anew."""
        self._end_moment()
        self._engine.dispose()


class Read:
    """Runs statements inside one `Database.page`."""

    def __init__(self, database: Database, connection: SqlConnection) -> None:
        """Count statements on `database`."""
        self._database = database
        self._connection = connection
        self.dialect = connection.dialect

    def __call__(self, statement: str, *values: Any, stream: bool = False) -> Iterable[Row]:
        """Return the rows of a statement; with `stream` the database sends them in parts."""
        self._database.statements += 1
        return self._connection.execute(statement, *values, stream=stream)

    def schema_of(self, listed: Table) -> str | None:
        """Return the schema in which a table is found; None where a database has no schemas."""
        self._database.statements += 1
        return schema_of(self._connection, listed.name)


def _nothing_of(table: str) -> str:
    return f"SELECT 1 FROM {table} WHERE 1 = 0"


class IdQuery(NamedTuple):
    """A query of ids, by moment, of the rows of a table that meet all conditions; ties go by id.

    The first `skip` ids are left out.
    """

    table: Table
    identity: str
    moment: str
    conditions: tuple[Sql, ...]
    newest_first: bool = False
    skip: int = 0


def pages_of_ids(
    database: Database, ordered: IdQuery, limit: int | None = None
) -> Iterator[list[str]]:
    """Yield the ids that `ordered` lists, `limit` at most, in pages of `IDS_A_PAGE`.

    A row that appears behind the place that is read comes too; none is listed twice.
    """
    after: Row | None = None
    left = limit
    while left is None or left > 0:
        wanted = IDS_A_BLOCK if left is None else min(left, IDS_A_BLOCK)
        statement, values = _next(ordered, after, wanted)
        with database.page() as read:
            block = list(read(statement, *values))
        ids = [row[1] for row in block]
        after = block[-1] if block else None
        del block  # the moments of thousands of rows, for nothing
        yield from (ids[at : at + IDS_A_PAGE] for at in range(0, len(ids), IDS_A_PAGE))
        if len(ids) < wanted:
            return
        left = None if left is None else left - len(ids)


def _next(ordered: IdQuery, after: Row | None, wanted: int) -> Sql:
    table, identity, column, conditions, newest_first, skip = ordered
    moment = f"coalesce({column}, {_LAST[newest_first]})"
    if after is not None:
        beyond = f"{moment} {'<' if newest_first else '>'} ?"
        beyond = f"({beyond} OR {moment} = ? AND {identity} > ?)"
        conditions = (*conditions, Sql(beyond, (after[0], *after)))
    listed, values = where(conditions)
    order = f"{moment}{' DESC' if newest_first else ''}, {identity}"
    page = f"LIMIT {wanted} OFFSET {0 if after else skip}"
    text = f"SELECT {moment}, {identity} FROM {table.name}{listed} ORDER BY {order} {page}"
    return Sql(text, values)
