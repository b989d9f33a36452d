"""MLflow stores without a server, made by MLflow's own client.

They need MLflow, of any version from 2.9 on: the one that is installed, or that of the extra
`mlflow`::

    with mlflow_client(f"sqlite:///{tmp_path / 'mlflow.db'}") as client:
        run = client.create_run(client.create_experiment("churn"))
"""

import atexit
import functools
import os
import shutil
import sqlite3
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

_ROOT: Final = "mlruns/"
"""The root of artifacts that MLflow's client chooses."""

_ENVIRONMENT: Final = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}


def new_database(path: Path) -> None:
    """Make an empty MLflow store in SQLite at `path`.

    Cost: a second of CPU the first time, a copied file after it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(_empty_database(), path)
    move_artifacts(path)


def move_artifacts(path: Path) -> None:
    """Put artifacts beside the database; MLflow's client puts them under the working directory."""
    folder = f"{path.parent / 'artifacts'}{os.sep}"
    places = {
        "experiments": "artifact_location",
        "runs": "artifact_uri",
        "logged_models": "artifact_location",
    }
    with closing(sqlite3.connect(path)) as connection, connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
        # MLflow 2 has no logged models.
        for table in places.keys() & tables:
            column = places[table]
            connection.execute(
                f"UPDATE {table} SET {column} = ? || substr({column}, instr({column}, ?) + ?)"  # noqa: S608
                f" WHERE instr({column}, ?) > 0",
                (folder, _ROOT, len(_ROOT), _ROOT),
            )


@functools.cache
def _empty_database() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="mlflow-store-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "mlflow.db"
    with _client(f"sqlite:///{path}") as client:
        client.search_experiments()
        client.search_registered_models()
    return path


@contextmanager
def mlflow_client(uri: str) -> Iterator[Any]:
    """Give an `MlflowClient` of the MLflow that is installed, its warnings silenced.

    A SQLite database that is not there is made. `uri` is the process's tracking URI meanwhile, or
    MLflow would make a store in the working directory; its telemetry is off.
    """
    path = Path(uri.removeprefix("sqlite:///"))
    if uri.startswith("sqlite:///") and not path.exists():
        new_database(path)
    with _client(uri) as client:
        yield client


@contextmanager
def _client(uri: str) -> Iterator[Any]:
    settings = {**_ENVIRONMENT, "MLFLOW_TRACKING_URI": uri}
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from mlflow import MlflowClient

            yield MlflowClient(tracking_uri=uri, registry_uri=uri)
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
