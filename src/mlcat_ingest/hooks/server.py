"""MLflow's own server with the hook: `mlflow server --app-name mlcat`, or `mlcat-basic-auth`.

It hears of runs and registered models from every client in every language. The applications are
MLflow's; only the stores behind them are listened to. An MLflow that is not known starts its server
all the same.
"""

import os
from typing import Any

from mlcat_ingest.errors import RecipeError
from mlcat_ingest.hooks.listener import (
    Listener,
    attach_models,
    attach_runs,
    listen,
    run_guarded,
    warn,
)
from mlcat_ingest.hooks.settings import HookSettings


def create_app() -> Any:
    """Return MLflow's application, listened to."""
    run_guarded(_listen)
    # MLflow starts uvicorn by default since 3.5; its other servers take a Flask app.
    if os.environ.get("_MLFLOW_SGI_NAME") == "uvicorn":
        from mlflow.server.fastapi_app import app as asgi

        return asgi
    from mlflow.server import app

    return app


def create_app_with_auth() -> Any:
    """Return MLflow's application with basic authentication, listened to."""
    run_guarded(_listen)
    from mlflow.server.auth import create_app as with_auth

    return with_auth()


def _listen() -> None:
    try:
        settings = HookSettings.of()
    except RecipeError as error:
        warn(str(error))
        return
    from mlflow.server import handlers

    listener = Listener(settings)

    def uri_of(given: Any) -> str:
        return str(given or os.environ.get("_MLFLOW_SERVER_FILE_STORE", ""))

    def tracking_uri(_: Any = None) -> str:
        return uri_of(None)  # the recipe reads registered models by it, wherever they are stored

    for name, attach, uri in (
        ("_tracking_store", attach_runs, uri_of),
        ("_model_registry_store", attach_models, tracking_uri),
    ):
        registry = getattr(handlers, f"{name}_registry", None)
        if not listen(registry, listener, uri, attach):
            warn("this version of MLflow is not supported by the hook")
        # It may be there already, for the application asks for it when it is imported.
        store = getattr(handlers, name, None)
        if store is not None:
            attach(store, listener, tracking_uri)
