"""Takes an MLflow database through several revisions of its schema, keeping a copy of each.

    python tests/support/mlflow_upgrade.py mlflow.db folder REVISION...

A program of its own: Alembic and MLflow's migrations change the logging of their process.
"""

import shutil
import sys
from pathlib import Path

from alembic import command
from mlflow.store.db.utils import _get_alembic_config
from sqlalchemy import create_engine


def upgrade(database: Path, folder: Path, revisions: list[str]) -> None:
    """Upgrade `database` to each of `revisions` in turn, and copy it to `folder/<revision>.db`."""
    config = _get_alembic_config(f"sqlite:///{database}")  # type: ignore[no-untyped-call]
    engine = create_engine(f"sqlite:///{database}")
    for revision in revisions:
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, revision)
        shutil.copy(database, folder / f"{revision}.db")


if __name__ == "__main__":
    upgrade(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
