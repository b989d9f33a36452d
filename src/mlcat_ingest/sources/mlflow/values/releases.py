"""Releases of MLflow: which are tested, the schema of their database, and what older ones lack.

No reader asks for a version to find out whether a feature is there: a server or store without it
says so when it is asked. The schema of a database tells by its revision.
"""

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final, Literal

ReadBy = Literal["server", "MlflowClient", "database", "Databricks"]

TESTED: Final[Mapping[ReadBy, Sequence[str]]] = {
    "server": ("2.9", "2.22", "3.0", "3.10", "3.17"),
    "MlflowClient": ("3.10", "3.17"),
}
"""The minor versions that are tested; a database is read only if its schema is a tested one."""

REVISIONS: Final[Mapping[str, str]] = {
    "0584bdc529eb": "2.18 to 2.22",
    "6953534de441": "3.0.0 and 3.1.0",
    "bda7b8c39065": "3.0.1 and 3.1.1 to 3.1.4",
    "770bee3ae1dd": "3.2",
    "1a0cddfcaa16": "3.3",
    "71994744cf8e": "3.4",
    "bf29a5ff90ea": "3.5 to 3.7",
    "1bd49d398cd23": "3.8",
    "d3e4f5a6b7c8": "3.9",
    "1b5f0d9ad7c1": "3.10",
    "c3d6457b6d8a": "3.11",
    "7d34483879f0": "3.12",
    "da6fb0208061": "3.13",
    "b7e4c1a90f23": "3.14",
    "6f8d9c3b2a1e": "3.15",
    "b7e2c1a4d9f3": "3.16",
    "dc11669786a5": "3.17",
}
"""The known revisions that `alembic_version` holds, and the releases that make each.

Source: the newest migration (`mlflow/store/db_migrations/versions`) of every release named here;
`tests/compat/mlflow_versions` compares some of them.
"""


class MlflowFeature(Enum):
    """A feature that older releases lack, with the first minor version that has it."""

    LOGGED_MODELS = (3, 0)
    OUTPUTS_IN_LISTINGS = (3, 6)
    """The models that a run logged, where a server lists runs; a database has them since 3.0."""
    WORKSPACES = (3, 10)

    def is_in(self, version: str) -> bool:
        """Return whether the release that `version` begins with has it."""
        return numbers_of(version) >= self.value


def numbers_of(version: str) -> tuple[int, ...]:
    """Return the first two numbers of a version, none where it does not begin with them."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return () if found is None else (int(found[1]), int(found[2]))


def support_warning(version: str, read_by: ReadBy) -> str | None:
    """Return a sentence about a version that is not tested, None for one that is."""
    tested = TESTED.get(read_by)
    if tested is None or ".".join(map(str, numbers_of(version))) in tested:
        return None
    return f"{version} is not a tested version; tested: {', '.join(tested)}"
