"""Which schema revisions of MLflow's database are known, and what each has.

Taken from the migration folders (`mlflow/store/db_migrations/versions`) of the releases named here,
not guessed: the newest revision of each. `tests/compat/mlflow_versions` looks at them again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sqlalchemy import TableClause

from mlcat_ingest.sources.mlflow.database.tables import COMMON, OF_LOGGED_MODELS, WORKSPACES


@dataclass(frozen=True, slots=True)
class Schema:
    """The tables that one revision has; `mlflow` names the releases that make it."""

    mlflow: str
    logged_models: bool = True
    workspaces: bool = True

    @property
    def tables(self) -> tuple[TableClause, ...]:
        """The tables that are read."""
        return (
            *COMMON,
            *(OF_LOGGED_MODELS if self.logged_models else ()),
            *((WORKSPACES,) if self.workspaces else ()),
        )


SCHEMAS: Final[Mapping[str, Schema]] = {
    "0584bdc529eb": Schema("2.18 to 2.22", logged_models=False, workspaces=False),
    "6953534de441": Schema("3.0.0 and 3.1.0", workspaces=False),
    "bda7b8c39065": Schema("3.0.1 and 3.1.1 to 3.1.4", workspaces=False),
    "770bee3ae1dd": Schema("3.2", workspaces=False),
    "1a0cddfcaa16": Schema("3.3", workspaces=False),
    "71994744cf8e": Schema("3.4", workspaces=False),
    "bf29a5ff90ea": Schema("3.5 to 3.7", workspaces=False),
    "1bd49d398cd23": Schema("3.8", workspaces=False),
    "d3e4f5a6b7c8": Schema("3.9", workspaces=False),
    "1b5f0d9ad7c1": Schema("3.10"),
    "c3d6457b6d8a": Schema("3.11"),
    "7d34483879f0": Schema("3.12"),
    "da6fb0208061": Schema("3.13"),
    "b7e4c1a90f23": Schema("3.14"),
    "6f8d9c3b2a1e": Schema("3.15"),
    "b7e2c1a4d9f3": Schema("3.16"),
    "dc11669786a5": Schema("3.17"),
}
"""The revision that `alembic_version` holds, for MLflow 2.18 to 2.22 and 3.0 to 3.17."""
