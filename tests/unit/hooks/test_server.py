"""What the server's hook does where there is nothing to listen for, or nothing to listen to."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from mlcat_ingest.hooks import listener, server
from mlcat_ingest.hooks.listener import SingleWarning
from mlcat_ingest.hooks.spool import EventSpool

FLASK, ASGI, WITH_AUTH = object(), object(), object()


class Registry:
    def __init__(self, store: object) -> None:
        self.store = store

    def get_store(self, *_: object) -> object:
        return self.store


@pytest.fixture(autouse=True)
def handlers(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Let an MLflow be installed whose handlers have nothing yet."""
    monkeypatch.setattr(server, "warn", SingleWarning())
    monkeypatch.setattr(listener, "warn", SingleWarning())
    for name in ("MLCAT_RECIPE", "MLCAT_SERVER", "MLCAT_SPOOL", "_MLFLOW_SGI_NAME"):
        monkeypatch.delenv(name, raising=False)
    found = {
        name: ModuleType(name)
        for name in (
            *("mlflow", "mlflow.server", "mlflow.server.handlers"),
            *("mlflow.server.auth", "mlflow.server.fastapi_app"),
        )
    }
    for name, module in found.items():
        module.__path__ = []
        monkeypatch.setitem(sys.modules, name, module)
    sentence: Any = found
    sentence["mlflow.server"].handlers = found["mlflow.server.handlers"]
    sentence["mlflow.server"].app = FLASK
    sentence["mlflow.server.fastapi_app"].app = ASGI
    sentence["mlflow.server.auth"].create_app = lambda: WITH_AUTH
    return found["mlflow.server.handlers"]


def test_without_a_sink_mlflow_serves_and_it_is_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for _ in range(2):
        assert server.create_app() is FLASK
    assert server.create_app_with_auth() is WITH_AUTH
    [record] = caplog.records
    assert "no catalog configured; set MLCAT_RECIPE or MLCAT_SERVER" in record.message


def test_uvicorn_is_given_the_application_that_it_can_serve(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("_MLFLOW_SGI_NAME", "uvicorn")
    assert server.create_app() is ASGI


@pytest.mark.parametrize("registry", [None, object()])
def test_an_unknown_mlflow_serves_all_the_same(
    registry: object,
    handlers: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("MLCAT_SERVER", "http://c")
    handlers._tracking_store_registry = registry
    assert server.create_app() is FLASK
    [record] = caplog.records
    assert "this version of MLflow is not supported by the hook" in record.message


def test_a_store_that_is_there_already_is_heard(
    handlers: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ended = SimpleNamespace(run_id="r", status="FINISHED")
    store = SimpleNamespace(update_run_info=lambda *_: ended)

    def delete_registered_model(name: str) -> None:
        assert name == "m"

    models = SimpleNamespace(delete_registered_model=delete_registered_model)
    handlers._tracking_store = store
    handlers._tracking_store_registry = Registry(store)
    handlers._model_registry_store = models
    handlers._model_registry_store_registry = Registry(models)
    monkeypatch.setenv("MLCAT_SERVER", "http://c")
    monkeypatch.setenv("MLCAT_SPOOL", str(tmp_path))
    monkeypatch.setenv("MLCAT_HOOK_SEND", "0")
    monkeypatch.setenv("_MLFLOW_SERVER_FILE_STORE", "sqlite:///m.db")
    assert server.create_app() is FLASK
    handlers._tracking_store_registry.get_store().update_run_info("r")
    handlers._model_registry_store.delete_registered_model(name="m")
    events = list(EventSpool(tmp_path).events())
    assert {event.names for event in events} == {("r",), ("m",)}
    assert [event.tracking_uri for event in events] == ["sqlite:///m.db"] * 2
