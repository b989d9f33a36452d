"""Whether the tables still hold one thing, in the trash or not."""

import re
from collections.abc import Iterator
from typing import Final

from sqlalchemy import ColumnElement, TableClause, literal, select

from mlcat_ingest.sources.mlflow.read.database.access import Database
from mlcat_ingest.sources.mlflow.read.database.registry import DELETED_STAGE
from mlcat_ingest.sources.mlflow.read.database.tables import (
    EXPERIMENTS,
    MODEL_VERSIONS,
    REGISTERED_MODELS,
    RUNS,
    in_workspace,
)
from mlcat_ingest.sources.mlflow.read.reader import Thing

_NUMBER: Final = re.compile(r"[0-9]{1,18}")

_TABLES: Final = {
    "run": (RUNS, RUNS.c.run_uuid),
    "experiment": (EXPERIMENTS, EXPERIMENTS.c.experiment_id),
    "registered": (REGISTERED_MODELS, REGISTERED_MODELS.c.name),
    "version": (MODEL_VERSIONS, MODEL_VERSIONS.c.name),
}


def is_there(database: Database, thing: Thing, workspace: str | None) -> bool:
    """Return whether `thing` has a row; a run's workspace is that of its experiment.

    Cost: one statement.
    """
    table, name = _TABLES[thing.kind]
    conditions = [name == (_number(thing.name) if thing.kind == "experiment" else thing.name)]
    if thing.version:
        versions = MODEL_VERSIONS.c
        conditions.append(versions.version == _number(thing.version))
        conditions.append(versions.current_stage != DELETED_STAGE)
    conditions.extend(_scoped(table, workspace))
    with database.page() as read:
        return bool(read(select(literal(1)).select_from(table).where(*conditions)))


def _scoped(table: TableClause, workspace: str | None) -> Iterator[ColumnElement[bool]]:
    if "workspace" in table.c:
        yield from in_workspace(table, workspace)


def _number(text: str) -> int:
    """Return an id as the number it is stored as; -1, which nothing has, for any other text."""
    return int(text) if _NUMBER.fullmatch(text) else -1
