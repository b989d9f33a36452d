"""Stores that MlflowClient opens: checked before, so that nothing is made or migrated."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from mlcat_ingest.errors import ProtocolMismatchError, RecipeError
from mlcat_ingest.sources.mlflow.values.uris import folder_of, is_database

_TIMEOUT_S: Final = 120.0
_UPGRADE: Final = "read it through its MLflow server, or migrate it with `mlflow db upgrade`"
_ANSWERS: Final[ContextVar[Mapping[str, Any]]] = ContextVar(
    "_ANSWERS", default=MappingProxyType({})
)
"""The values that MLflow's variables have in this thread, whatever the environment says."""


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


@contextmanager
def default_store(tracking_uri: str, registry_uri: str | None) -> Iterator[None]:
    """Let MLflow take an address for its default in this thread meanwhile, a folder too.

    Plug-ins that sign requests ask for the default address, and so does a registry in a folder,
    which would make a store in the working directory; MLflow refuses folders since 3.13. Only
    variables of the environment change that, and all threads of the host would see them. So
    MLflow's own objects for these variables answer otherwise while this thread is in here; the
    environment stays as it is.
    """
    answers: dict[str, Any] = {"MLFLOW_TRACKING_URI": tracking_uri}
    if folder_of(tracking_uri) is not None or (registry_uri and folder_of(registry_uri)):
        answers["MLFLOW_ALLOW_FILE_STORE"] = True
    for name in answers:
        _let_answer(name)
    before = _ANSWERS.set(answers)
    try:
        yield
    finally:
        _ANSWERS.reset(before)


@cache
def _let_answer(name: str) -> None:
    """Let MLflow's variable `name` answer as `_ANSWERS` does, and else as it would."""
    from mlflow import environment_variables

    variable: Any = getattr(environment_variables, name, None)
    if variable is None:
        return  # an MLflow that does not refuse folders
    read = variable.get

    def get() -> Any:
        answers = _ANSWERS.get()
        return answers[name] if name in answers else read()

    variable.get = get


def _check_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise RecipeError(f"tracking_uri: no folder {folder}")
    if next(folder.glob("*/meta.yaml"), None) is None:
        raise ProtocolMismatchError(f"{folder} is not an MLflow store: it contains no experiment")


def _check_database(uri: str) -> None:
    from mlcat_ingest.sources.mlflow.read.database.access import Database

    with closing(Database(uri, timeout_s=_TIMEOUT_S)) as database:
        _check_revision(database.shown, database.revision())


def _check_revision(shown: str, revision: str) -> None:
    from mlflow.store.db.utils import _get_latest_schema_revision
    from mlflow.version import VERSION

    newest = _get_latest_schema_revision()  # type: ignore[no-untyped-call]
    if revision != newest:
        raise ProtocolMismatchError(
            f"the database {shown} has a schema of another MLflow version than {VERSION}",
            hint=_UPGRADE,
        )
