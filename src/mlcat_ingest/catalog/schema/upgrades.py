"""What databases of an earlier version have to be told anew, in SQL of that version's tables."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection

from mlcat_ingest.catalog.errors import InvalidProposalError
from mlcat_ingest.catalog.schema.series import moment_of
from mlcat_ingest.catalog.schema.values import DEFAULT_RUN
from mlcat_ingest.catalog.schema.virtual import key_edges
from mlcat_ingest.metadata.codec import loads
from mlcat_ingest.metadata.registry import key_aspect_name

_SERIES = (
    "'dataProcessInstanceRunEvent', 'datasetProfile', 'datasetUsageStatistics', 'operation', "
    "'datahubIngestionRunSummary', 'datahubIngestionCheckpoint'"
)
_KEYED = "'mlFeatureTable', 'dataJob'"


def fill_in(connection: Connection) -> None:
    """Name the run of each row, move events to their table, add the edges that keys imply."""
    for table in ("aspect_history", "aspect"):
        connection.exec_driver_sql(
            f"""UPDATE {table} SET run_id = json_extract(system_metadata, '$.runId')
                WHERE json_type(system_metadata, '$.runId') = 'text'
                AND json_extract(system_metadata, '$.runId') NOT IN ('', ?)""",  # noqa: S608
            (DEFAULT_RUN,),
        )
        _insert(
            connection,
            "INSERT OR REPLACE INTO timeseries VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            _events(connection, table),
        )
        connection.exec_driver_sql(f"DELETE FROM {table} WHERE aspect IN ({_SERIES})")  # noqa: S608
    _insert(connection, "INSERT OR IGNORE INTO edge VALUES (?, ?, ?, ?)", _key_edges(connection))


def _insert(connection: Connection, statement: str, rows: Iterator[tuple[Any, ...]]) -> None:
    found = list(rows)
    if found:
        connection.exec_driver_sql(statement, found)


def _events(connection: Connection, table: str) -> Iterator[tuple[Any, ...]]:
    rows = connection.exec_driver_sql(
        f"""SELECT entity_id, aspect, value, system_metadata, modified_ms, run_id FROM {table}
            WHERE aspect IN ({_SERIES})"""  # noqa: S608
    )
    for entity_id, aspect, value, *rest in rows:
        try:
            moment = moment_of(aspect, loads(value))
        except InvalidProposalError:
            continue  # what has no time is no event
        if moment is not None:
            yield entity_id, aspect, *moment, value, *rest


def _key_edges(connection: Connection) -> Iterator[tuple[Any, ...]]:
    rows = connection.exec_driver_sql(
        f"SELECT id, urn, entity_type FROM entity WHERE entity_type IN ({_KEYED})"  # noqa: S608
    )
    for entity_id, urn, entity_type in rows:
        for relationship, destination in key_edges(urn, entity_type):
            yield destination, relationship, entity_id, key_aspect_name(entity_type)
