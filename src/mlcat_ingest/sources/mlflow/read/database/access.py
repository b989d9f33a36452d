"""One MLflow database: its tables, consistent reads, filters of listings, ids ordered by time.

MLflow's tables have no index on times, so each query for the next ids walks over all of them. It
asks for many ids at once, and their rows are read by id. Columns have no types: drivers give what
is needed.

Source: `mlflow/store/tracking/dbmodels` and `mlflow/store/model_registry/dbmodels` of the
releases in `checks.REVISIONS`.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    BindParameter,
    ColumnClause,
    ColumnElement,
    Connection,
    Executable,
    Select,
    TableClause,
    and_,
    bindparam,
    column,
    false,
    func,
    literal,
    literal_column,
    make_url,
    or_,
    select,
    table,
)
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from mlcat_ingest.core.redaction import redact_url
from mlcat_ingest.errors import NotAuthorizedError, ProtocolMismatchError
from mlcat_ingest.sources.mlflow.config import RunSelect
from mlcat_ingest.sources.mlflow.read.checks import MlflowFeature
from mlcat_ingest.sources.mlflow.read.reader import MlflowConnection, ModelFilter, RunFilter
from mlcat_ingest.sources.mlflow.values.records import EXTERNAL_TAG, HISTORY_TAG
from mlcat_ingest.sql.engine import DatabaseOwner, failure
from mlcat_ingest.sql.readonly import open_readonly, schema_of, with_schema

Row = tuple[Any, ...]

Rows = Sequence[Row]

IDS: Final[BindParameter[str]] = bindparam("ids", expanding=True)
"""Stands in a statement for the ids that it is run with: built once, it costs half each time."""

# Few enough that rows are gone before the garbage collector looks at them.
_ROWS_AT_A_TIME: Final = 500

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

# Rows without a moment come last, whichever way the others are sorted.
_LAST: Final[Mapping[bool, ColumnElement[int]]] = {
    False: literal_column("9223372036854775807"),
    True: literal_column("-9223372036854775807"),
}


def _table(name: str, columns: str) -> TableClause:
    return table(name, *(column(key) for key in columns.split()))


EXPERIMENTS: Final = _table(
    "experiments",
    "experiment_id name artifact_location lifecycle_stage creation_time last_update_time workspace",
)
EXPERIMENT_TAGS: Final = _table("experiment_tags", "experiment_id key value")

RUNS: Final = _table(
    "runs",
    "run_uuid experiment_id name user_id status start_time end_time artifact_uri lifecycle_stage",
)
PARAMS: Final = _table("params", "run_uuid key value")
TAGS: Final = _table("tags", "run_uuid key value")
LATEST_METRICS: Final = _table("latest_metrics", "run_uuid key value is_nan timestamp step")

INPUTS: Final = _table(
    "inputs", "input_uuid source_type source_id destination_type destination_id step"
)
INPUT_TAGS: Final = _table("input_tags", "input_uuid name value")
DATASETS: Final = _table(
    "datasets",
    "dataset_uuid name digest dataset_source_type dataset_source dataset_schema dataset_profile",
)

LOGGED_MODELS: Final = _table(
    "logged_models",
    "model_id experiment_id name status source_run_id model_type artifact_location"
    " creation_timestamp_ms last_updated_timestamp_ms lifecycle_stage",
)
LOGGED_MODEL_PARAMS: Final = _table("logged_model_params", "model_id param_key param_value")
LOGGED_MODEL_TAGS: Final = _table("logged_model_tags", "model_id tag_key tag_value")
LOGGED_MODEL_METRICS: Final = _table(
    "logged_model_metrics",
    "model_id metric_name metric_value metric_timestamp_ms metric_step dataset_name dataset_digest"
    " run_id",
)

REGISTERED_MODELS: Final = _table(
    "registered_models", "name description creation_time last_updated_time workspace"
)
REGISTERED_MODEL_TAGS: Final = _table("registered_model_tags", "name key value workspace")
REGISTERED_MODEL_ALIASES: Final = _table("registered_model_aliases", "name alias version workspace")
MODEL_VERSIONS: Final = _table(
    "model_versions",
    "name version run_id source current_stage status description user_id creation_time"
    " last_updated_time workspace",
)
MODEL_VERSION_TAGS: Final = _table("model_version_tags", "name version key value workspace")

WORKSPACES: Final = _table("workspaces", "name")
ALEMBIC_VERSION: Final = _table("alembic_version", "version_num")

_COMMON: Final = (
    *(EXPERIMENTS, EXPERIMENT_TAGS, RUNS, PARAMS, TAGS, LATEST_METRICS),
    *(INPUTS, INPUT_TAGS, DATASETS, REGISTERED_MODELS, REGISTERED_MODEL_TAGS),
    *(REGISTERED_MODEL_ALIASES, MODEL_VERSIONS, MODEL_VERSION_TAGS),
)
_OF_LOGGED_MODELS: Final = (
    *(LOGGED_MODELS, LOGGED_MODEL_PARAMS, LOGGED_MODEL_TAGS, LOGGED_MODEL_METRICS),
)


def tables_of(version: str) -> tuple[TableClause, ...]:
    """Return the tables that are read of a database that MLflow `version` made."""
    return (
        *_COMMON,
        *(_OF_LOGGED_MODELS if MlflowFeature.LOGGED_MODELS.is_in(version) else ()),
        *((WORKSPACES,) if MlflowFeature.WORKSPACES.is_in(version) else ()),
    )


def plain(table: TableClause) -> list[ColumnClause[Any]]:
    """Return the columns that a table has in every schema: all but the workspace of its rows."""
    return [key for key in table.c if key.name != "workspace"]


def in_workspace(table: TableClause, workspace: str | None) -> list[ColumnElement[bool]]:
    """Return the condition that a row is of `workspace`; none where the schema has none."""
    return [] if workspace is None else [table.c.workspace == workspace]


def wanted_runs(
    experiment_ids: Sequence[str], only: RunFilter, *, outputs: bool
) -> Iterator[ColumnElement[bool]]:
    """Yield the conditions for the runs of some experiments that `only` wants.

    `outputs`: whether the schema has the models that runs logged.
    """
    runs = RUNS.c
    yield is_one_of(runs.experiment_id, experiment_ids)
    if only.since_ms is not None:
        yield runs.start_time >= only.since_ms
    if only.before_ms is not None:
        yield runs.start_time < only.before_ms
    if only.ended_since_ms is not None:
        yield runs.end_time >= only.ended_since_ms
    if only.statuses:
        yield runs.status.in_(only.statuses)
    if only.run_ids is not None:
        yield runs.run_uuid.in_(only.run_ids)
    if only.deleted:
        yield runs.lifecycle_stage == "deleted"
    if only.select != "all":
        yield _may_have_model(only.select, outputs=outputs)


def wanted_models(
    experiment_ids: Sequence[str], only: ModelFilter
) -> Iterator[ColumnElement[bool]]:
    """Yield the conditions for the logged models of some experiments that `only` wants."""
    models = LOGGED_MODELS.c
    yield is_one_of(models.experiment_id, experiment_ids)
    yield models.lifecycle_stage != "deleted"
    if only.updated_since_ms is not None:
        yield models.last_updated_timestamp_ms >= only.updated_since_ms
    if only.run_ids is not None:
        yield models.source_run_id.in_(only.run_ids)
    if only.model_ids is not None:
        yield models.model_id.in_(only.model_ids)
    if only.newest_external is not None:
        tags = LOGGED_MODEL_TAGS.c
        external = (tags.tag_key == EXTERNAL_TAG, tags.tag_value == "true")
        yield models.model_id.in_(select(tags.model_id).where(*external))


def _may_have_model(chosen: RunSelect, *, outputs: bool) -> ColumnElement[bool]:
    """Return a condition that holds for all runs that the recipe selects, and for some others.

    A version can name its run, or a logged model that the run made.
    """
    versions, inputs, tags = MODEL_VERSIONS.c, INPUTS.c, TAGS.c
    ids = [select(versions.run_id).where(versions.run_id.is_not(None))]
    if outputs:
        ids.append(select(inputs.source_id).where(inputs.source_type == "RUN_OUTPUT"))
    if chosen == "with_model":
        ids.append(select(tags.run_uuid).where(tags.key == HISTORY_TAG))
    return or_(*(RUNS.c.run_uuid.in_(run_ids) for run_ids in ids))


def is_one_of(column: ColumnElement[Any], ids: Sequence[str]) -> ColumnElement[bool]:
    """Return the condition that a number in a column is one of `ids`."""
    # Spelled out: SQLite takes fewer parameters than there can be experiments.
    numbers = [int(id_) for id_ in ids]
    return column.in_(bindparam(None, numbers, expanding=True, literal_execute=True))


def rows_of(table: TableClause, owner: str) -> Select[Any]:
    """Return the statement for the rows of `table` whose column `owner` is one of `IDS`."""
    return select(table).where(table.c[owner].in_(IDS))


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
        self._engine = open_readonly(uri, timeout_s=timeout_s)
        self._password = make_url(uri).password
        self._connection: Connection | None = None
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
        except SQLAlchemyError as error:
            self.close()
            raise failure(_HOLDER, self.shown, error, self._password) from None
        except self._engine.dialect.loaded_dbapi.Error as error:
            # Rows are fetched past SQLAlchemy, so the driver's errors come as they are.
            self.close()
            wrapped = DBAPIError(None, None, error)
            raise failure(_HOLDER, self.shown, wrapped, self._password) from None
        finally:
            if self._brief and self._connection is not None:
                self._connection.rollback()

    def _connect(self) -> Connection:
        if self._connection is None:
            self._connection = self._engine.connect()
            self._moment_ms = _now_ms()
            if self._engine.name == "sqlite":
                mode = self._connection.exec_driver_sql("PRAGMA journal_mode").scalar()
                self._connection.rollback()
                self._brief = mode != "wal"
            elif self._engine.name in _CLOCK:
                clock = self._connection.exec_driver_sql(_CLOCK[self._engine.name])
                self._moment_ms = int(clock.scalar_one())
        return self._connection

    def requests_made(self) -> int:
        """Return how many statements were run so far."""
        return self.statements

    def clock_ms(self) -> int:
        """Return the moment that is read, by the database's clock; for SQLite by this machine's."""
        with self.page():
            return _now_ms() if self._brief else self._moment_ms

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
            read(_nothing_of(RUNS))
            rows = read(select(ALEMBIC_VERSION.c.version_num))
        if not rows:
            self.close()
            raise ProtocolMismatchError(
                f"the MLflow database {self.shown} has no schema revision",
                hint="run `mlflow db upgrade` to complete its creation or migration",
            )
        return sorted(str(revision) for (revision,) in rows)

    def unreadable(self, tables: Sequence[TableClause]) -> list[str]:
        """Return the names of those `tables` that the user may not read."""
        names = []
        for listed in tables:
            try:
                with self.page() as read:
                    read(_nothing_of(listed))
            except NotAuthorizedError:
                names.append(listed.name)
        return names

    def close(self) -> None:
        """End the transaction and the connection; safe to call twice, reading opens anew."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class Read:
    """Runs statements inside one `Database.page`.

    Rows are the driver's own: SQLAlchemy's would take a fifth more of the time, for nothing here.
    """

    def __init__(self, database: Database, connection: Connection) -> None:
        """Count statements on `database`."""
        self._database = database
        self._connection = connection
        self.is_sqlite = connection.dialect.name == "sqlite"

    def __call__(self, statement: Executable) -> Rows:
        """Return all rows of a statement."""
        self._database.statements += 1
        result = self._connection.execute(statement)
        rows: Rows = result.cursor.fetchall()
        result.close()
        return rows

    def schema_of(self, listed: TableClause) -> str | None:
        """Return the schema in which a table is found; None where a database has no schemas."""
        self._database.statements += 1
        return schema_of(self._connection, listed.name)

    def of(self, ids: Sequence[str], statement: Executable) -> Iterator[Row]:
        """Yield the rows of a statement that has `IDS`, which are `ids`; use them up in order."""
        return self._rows(statement, {IDS.key: ids})

    def stream(self, statement: Executable) -> Iterator[Row]:
        """Yield the rows of a statement, which the database sends in parts; use them up."""
        return self._rows(statement.execution_options(stream_results=True), {})

    def _rows(self, statement: Executable, values: Mapping[str, Any]) -> Iterator[Row]:
        self._database.statements += 1
        result = self._connection.execute(statement, values)
        while rows := result.cursor.fetchmany(_ROWS_AT_A_TIME):
            yield from rows
        result.close()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _nothing_of(table: TableClause) -> Select[Any]:
    return select(literal(1)).select_from(table).where(false())


class IdQuery(NamedTuple):
    """A query of ids, by moment, of the rows that meet all conditions; ties go by id.

    The first `skip` ids are left out.
    """

    identity: ColumnElement[Any]
    moment: ColumnElement[Any]
    conditions: tuple[ColumnElement[bool], ...]
    newest_first: bool = False
    skip: int = 0


def pages_of_ids(
    database: Database, ordered: IdQuery, limit: int | None = None
) -> Iterator[list[str]]:
    """Yield the ids that `ordered` lists, `limit` at most, in pages of `IDS_A_PAGE`.

    A row that appears behind the place that is read comes too; none is listed twice.
    """
    moment = func.coalesce(ordered.moment, _LAST[ordered.newest_first])
    after: tuple[int, str] | None = None
    left = limit
    while left is None or left > 0:
        wanted = IDS_A_BLOCK if left is None else min(left, IDS_A_BLOCK)
        with database.page() as read:
            block = read(_next(ordered, moment, after).limit(wanted))
        ids = [row[1] for row in block]
        after = block[-1] if block else None
        del block  # the moments of thousands of rows, for nothing
        yield from (ids[at : at + IDS_A_PAGE] for at in range(0, len(ids), IDS_A_PAGE))
        if len(ids) < wanted:
            return
        left = None if left is None else left - len(ids)


def _next(
    ordered: IdQuery, moment: ColumnElement[Any], after: tuple[Any, ...] | None
) -> Select[Any]:
    identity = ordered.identity
    statement = select(moment, identity).where(*ordered.conditions)
    if after is not None:
        beyond = moment < after[0] if ordered.newest_first else moment > after[0]
        statement = statement.where(or_(beyond, and_(moment == after[0], identity > after[1])))
    elif ordered.skip:
        statement = statement.offset(ordered.skip)
    return statement.order_by(moment.desc() if ordered.newest_first else moment, identity)
