"""`enable`: from now on, the catalog hears of runs as they end. Standard library only."""

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlcat_ingest.errors import RecipeError
from mlcat_ingest.hooks.config import HookConfig, with_config
from mlcat_ingest.hooks.listening import Listener, Once, guarded, listen
from mlcat_ingest.hooks.settings import HookSettings

_lock = threading.Lock()
warn = Once()
"""Tells why nothing is listened to, once a process."""
_enabled = False


def enable(
    recipe_or_config: str | Path | HookConfig | None = None,
    *,
    server: str | None = None,
    token: str | None = None,
    spool: str | Path | None = None,
) -> bool:
    """Let the catalog hear within seconds of each MLflow run that ends in this process.

    The runs are brought in as the recipe, a file, would bring them in; or without one as
    `mlcat-ingest <tracking URI> --to <server>` would. A `HookConfig` says that and more; what is
    not given, the variables of the same meaning say, such as MLCAT_RECIPE.

    It never raises, and a second call changes nothing. Where it can do nothing, for there is no
    sink, the recipe is not there, the config is wrong, or this MLflow is not known, it says so once
    and returns False.
    """
    given = {"server": server, "token": token, "spool": spool}
    found: list[bool] = []
    guarded(lambda: found.append(_enable(recipe_or_config, given)))
    return bool(found and found[0])


def _enable(recipe_or_config: str | Path | HookConfig | None, given: Mapping[str, Any]) -> bool:
    global _enabled  # noqa: PLW0603 - one listener a process
    with _lock:
        if _enabled:
            return True
        config: dict[str, Any] = {name: one for name, one in given.items() if one is not None}
        if isinstance(recipe_or_config, Mapping):
            config = {**recipe_or_config, **config}
        else:
            config["recipe"] = recipe_or_config
        try:
            settings = HookSettings.of(with_config(config, os.environ))
        except RecipeError as error:
            warn(str(error))
            return False
        if settings is None:
            warn("neither MLCAT_RECIPE nor MLCAT_SERVER says where to write")
            return False
        if (problem := settings.missing_recipe) is not None:
            warn(problem)
            return False
        _enabled = _listen(settings)
        if not _enabled:
            warn("this version of MLflow cannot be listened to")
        return _enabled


def _listen(settings: HookSettings) -> bool:
    try:
        from mlflow.tracking._tracking_service import utils
    except ImportError:
        return False
    registry = getattr(utils, "_tracking_store_registry", None)
    get_uri = getattr(utils, "get_tracking_uri", None)
    if registry is None or not callable(get_uri):
        return False

    def uri_of(given: Any) -> str:
        return str(given or get_uri())

    return listen(registry, Listener(settings), uri_of)
