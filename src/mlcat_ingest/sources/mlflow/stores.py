"""Looks at a store before MLflow opens it: MLflow would make what is missing, and migrate.

Only reads. Source: `SqlAlchemyStore` and `FileStore` of MLflow 3.10 to 3.17.
"""

import os
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from mlcat_ingest.errors import ProtocolMismatchError, RecipeError
from mlcat_ingest.sources.mlflow.uris import is_database

_TIMEOUT_S: Final = 120.0
_UPGRADE: Final = "read it through its MLflow server, or migrate it with `mlflow db upgrade`"


def check_store(uri: str) -> None:
    """Return if MLflow can open `uri` without changing it; addresses of servers always pass.

    Raises:
        RecipeError: there is no such file or folder, or the database's driver is not installed.
        SourceUnavailableError, AuthenticationError, NotAuthorizedError: the database does not
            answer, or does not let us in.
        ProtocolMismatchError: it is no MLflow store, or of another MLflow version.
    """
    if is_database(uri):
        _check_database(uri)
    elif (folder := folder_of(uri)) is not None:
        _check_folder(folder)


def folder_of(uri: str) -> Path | None:
    """Return the folder that `uri` names, None for any other kind of address."""
    if uri.startswith("file:"):
        return Path(unquote(urlsplit(uri).path))
    is_path = os.sep in uri or uri.startswith(".") or Path(uri).exists()
    return Path(uri) if "://" not in uri and is_path else None


def _check_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise RecipeError(f"tracking_uri: there is no folder {folder}")
    if next(folder.glob("*/meta.yaml"), None) is None:
        raise ProtocolMismatchError(f"{folder} is no MLflow store: it holds no experiment")


def _check_database(uri: str) -> None:
    from mlcat_ingest.sources.mlflow.database.access import Database

    with closing(Database(uri, timeout_s=_TIMEOUT_S)) as database:
        _check_revision(database.shown, database.revision())


def _check_revision(shown: str, revision: str) -> None:
    from mlflow.store.db.utils import _get_latest_schema_revision
    from mlflow.version import VERSION

    newest = _get_latest_schema_revision()  # type: ignore[no-untyped-call]
    if revision != newest:
        raise ProtocolMismatchError(
            f"the database {shown} is that of another MLflow version than {VERSION}", hint=_UPGRADE
        )
