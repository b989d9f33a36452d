"""Probes that are kept: the answers of a catalog, its version, and when it was asked."""

import json
from collections.abc import Sequence
from dataclasses import asdict

from sqlalchemy import Connection, delete, insert, select

from mlcat_ingest.client.behaviour import ProbedBehaviour, ProbeRow
from mlcat_ingest.pipeline.state.database import (
    is_missing,
    open_state,
    read_only,
    translate_errors,
)
from mlcat_ingest.pipeline.state.tables import probe
from mlcat_ingest.sql.engine import write_transaction

_TIMEOUT_S = 10.0


def save(
    url: str, recipe: str, sink: str, version: str, probed_at_ms: int, rows: Sequence[ProbeRow]
) -> None:
    """Keep the answers of the catalog `sink` for later runs of a recipe, in place of earlier ones.

    The recipe's lock is not taken: a run at work goes on with those that it began with.

    Raises:
        RecipeError: the database is damaged, or a newer version made it.
        StateUnavailableError: it cannot be made, written or reached.
    """
    engine = open_state(url)
    try:
        with translate_errors(url), write_transaction(engine) as connection:
            connection.execute(delete(probe).where(probe.c.recipe == recipe, probe.c.sink == sink))
            connection.execute(
                insert(probe).values(
                    recipe=recipe,
                    sink=sink,
                    version=version,
                    probed_at_ms=probed_at_ms,
                    answers=json.dumps([asdict(row) for row in rows]),
                )
            )
    finally:
        engine.dispose()


def read(connection: Connection, recipe: str, sink: str) -> ProbedBehaviour | None:
    """Return what the last probe of the catalog `sink` found, None where nothing is kept."""
    row = connection.execute(
        select(probe).where(probe.c.recipe == recipe, probe.c.sink == sink)
    ).first()
    if row is None:
        return None
    rows = [ProbeRow(**answer) for answer in json.loads(row.answers)]
    return ProbedBehaviour.of(row.version, row.probed_at_ms, rows)


def look_up(url: str, recipe: str, sink: str) -> ProbedBehaviour | None:
    """Return what `read` does from the database at `url`; nothing is made or changed.

    Raises:
        NotAuthorizedError, RecipeError, StateUnavailableError: as `read_only`.
    """
    if is_missing(url):
        return None
    with read_only(url, timeout_s=_TIMEOUT_S) as connection:
        return None if connection is None else read(connection, recipe, sink)
