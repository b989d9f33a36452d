"""MLflow's stores in folders, read on if a folder is damaged: it is left out of listings.

MLflow leaves out a run, an experiment or a logged model without its `meta.yaml`. It fails for all
if a registered model or a version has none, or if a file is no YAML. The functions of MLflow that
read and list are replaced once, and act differently only in a thread inside `damage_left_out`.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, wraps
from pathlib import Path
from typing import Any, Final

_META: Final = "meta.yaml"
_READ: Final = "_read_yaml"
_REPAIR: Final = "restore the file, or delete its folder"
_READING: Final[ContextVar[set[str] | None]] = ContextVar("_READING", default=None)

log = logging.getLogger(__name__)


@contextmanager
def damage_left_out(noted: set[str]) -> Iterator[None]:
    """Leave damaged folders out of MLflow's listings meanwhile; warn of those not yet `noted`."""
    _replace_functions()
    before = _READING.set(noted)
    root, thread = logging.getLogger(), threading.get_ident()

    def is_from_elsewhere(record: logging.LogRecord) -> bool:
        return record.thread != thread or record.levelno >= logging.ERROR

    # MLflow logs the damage of an experiment with a traceback, and past its own logger.
    root.addFilter(is_from_elsewhere)
    try:
        yield
    finally:
        root.removeFilter(is_from_elsewhere)
        _READING.reset(before)


def warn_of_damage(message: str, noted: set[str]) -> None:
    """Warn once of something that MLflow cannot read."""
    if not any(earlier in message for earlier in noted):
        noted.add(message)
        log.warning("%s; its entity is kept: %s", message, _REPAIR)


@cache
def _replace_functions() -> None:
    from mlflow.store.model_registry import file_store as registry
    from mlflow.store.tracking import file_store as tracking

    for store in (tracking.FileStore, registry.FileStore):
        setattr(store, _READ, staticmethod(_reading(getattr(store, _READ))))
    read: Callable[..., object] = getattr(registry.FileStore, _READ)
    for name in ("list_subdirs", "list_all"):
        setattr(registry, name, _listing(getattr(registry, name), read))


def _reading(read: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that reads as `read`, and takes a file without YAML for a missing one."""
    from mlflow.exceptions import MissingConfigException
    from yaml import YAMLError

    @wraps(read)
    def read_whole(root: str, file_name: str, *rest: Any, **more: Any) -> Any:
        noted = _READING.get()
        try:
            value = read(root, file_name, *rest, **more)
        except (YAMLError, UnicodeDecodeError):
            if noted is None:
                raise
            value = None
        if noted is not None and (not isinstance(value, dict) or not value):
            message = f"MLflow cannot read {Path(root, file_name)}: it is no YAML of MLflow"
            warn_of_damage(message, noted)
            raise MissingConfigException(message)
        return value

    return read_whole


def _listing(
    list_folders: Callable[..., list[str]], read: Callable[..., object]
) -> Callable[..., list[str]]:
    """Return a function that lists as `list_folders`, but for models and versions with damage."""
    from mlflow.exceptions import MissingConfigException
    from mlflow.store.model_registry.file_store import FileStore

    @wraps(list_folders)
    def list_readable(*arguments: Any, **more: Any) -> list[str]:
        folders, noted = list_folders(*arguments, **more), _READING.get()
        return folders if noted is None else [one for one in folders if is_readable(one, noted)]

    def is_readable(folder: str, noted: set[str]) -> bool:
        path = Path(folder)
        if path.parent.name != FileStore.MODELS_FOLDER_NAME and not path.name.startswith(
            "version-"
        ):
            return True  # the tags and aliases of a model
        try:
            read(folder, _META)
        except MissingConfigException as error:
            warn_of_damage(error.message.removesuffix("."), noted)
            return False
        return True

    return list_readable
