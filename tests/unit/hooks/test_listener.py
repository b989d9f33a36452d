"""What the listener does to a store and its registry, whatever these turn out to be."""

import copy
import errno
import json
import logging
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mlflow.utils.workspace_context import (
    clear_server_request_workspace,
    set_server_request_workspace,
)

from mlcat_ingest import hooks
from mlcat_ingest.hooks import listener as listener_module
from mlcat_ingest.hooks.listener import (
    Listener,
    SingleWarning,
    attach_models,
    attach_runs,
    listen,
    run_guarded,
)
from mlcat_ingest.hooks.plugin import NoRunContext
from mlcat_ingest.hooks.settings import HookSettings


class Store:
    """A store as MLflow's are, as far as a listener looks at it."""

    def __init__(self, status: str = "FINISHED") -> None:
        self.status = status

    def update_run_info(self, run_id: str, *args: object, **options: object) -> Any:
        del args, options
        return SimpleNamespace(run_id=run_id, status=self.status)


class Registry:
    def __init__(self, store: object) -> None:
        self.store = store

    def get_store(self, store_uri: str | None = None, artifact_uri: str | None = None) -> object:
        del store_uri, artifact_uri
        return self.store


@pytest.fixture(autouse=True)
def warn_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_module, "_warn_of_errors", SingleWarning())


def test_each_end_of_a_run_is_reported_once_however_often_the_store_is_asked_for() -> None:
    reported: list[tuple[str, ...]] = []
    registry = Registry(Store())
    for _ in range(2):
        assert listen(
            registry,
            lambda *args: reported.append(args),
            lambda given: given or "default",
            attach_runs,
        )
    store: Any = registry.get_store("http://mlflow:5000")
    assert registry.get_store("http://mlflow:5000") is store
    assert isinstance(store, Store)
    assert store.update_run_info("r1", 3, end_time=5, run_name=None).run_id == "r1"
    assert reported == [("r1", "FINISHED", "http://mlflow:5000")]


def through_pickle(store: Store) -> Store:
    found: Store = pickle.loads(pickle.dumps(store))  # noqa: S301 - its own text
    return found


@pytest.mark.parametrize("copied", [copy.deepcopy, through_pickle])
def test_a_store_can_be_copied_as_before(copied: Callable[[Store], Store]) -> None:
    """Training that sends a store to its workers goes on; only the store itself is listened to."""
    reported: list[str] = []
    store = Store()
    attach_runs(store, lambda run_id, *_: reported.append(run_id), lambda: "")
    assert copied(store).update_run_info("r1").run_id == "r1"
    assert reported == []
    store.update_run_info("r2")
    assert reported == ["r2"]


def test_only_ends_are_reported() -> None:
    reported: list[str] = []
    for store in map(Store, ("RUNNING", "SCHEDULED", "KILLED")):
        attach_runs(store, lambda _, status, __: reported.append(status), lambda: "")
        store.update_run_info("r1")
    assert reported == ["KILLED"]


class ModelStore:
    """A store of registered models, as far as a listener looks at it."""

    def create_model_version(self, name: str, source: str, run_id: str | None = None) -> Any:
        return SimpleNamespace(name=name, source=source, run_id=run_id)

    def rename_registered_model(self, name: str, new_name: str) -> Any:
        return SimpleNamespace(name=new_name, was=name)

    def set_model_version_tag(self, name: str, version: str, tag: Any) -> None:
        if not name:
            raise LookupError(version, tag)

    def delete_registered_model_tag(self, name: str, key: str) -> None:
        del name, key


def test_each_change_of_a_registered_model_is_reported_with_its_names() -> None:
    reported: list[tuple[str, ...]] = []
    store: Any = ModelStore()
    registry = Registry(store)
    for _ in range(2):
        listen(registry, lambda *args: reported.append(args), lambda _: "uri", attach_models)
        registry.get_store()
    assert store.create_model_version("m", source="s", run_id="r").run_id == "r"
    store.create_model_version(name="m", source="s")
    store.rename_registered_model("m", new_name="n")
    store.set_model_version_tag("m", "1", SimpleNamespace(key="team"))
    store.delete_registered_model_tag(name="m", key="mlcat.features")  # a person's
    assert reported == [
        ("r", "", "uri", "m"),
        ("", "", "uri", "m"),
        ("", "DELETED", "uri", "m"),
        ("", "DELETED", "uri", "n"),
        ("", "", "uri", "m"),
        ("", "", "uri", "m"),
    ]


def test_the_move_of_an_alias_is_reported_with_the_time_of_the_call() -> None:
    moves: list[dict[str, Any]] = []
    store = SimpleNamespace(
        set_registered_model_alias=lambda name, alias, version: (name, alias, version),
        delete_registered_model_alias=lambda name, alias: (name, alias),
    )
    attach_models(store, lambda *_, **move: moves.append(move), lambda: "")
    began_ms = time.time_ns() // 1_000_000
    store.set_registered_model_alias("m", "champion", version=3)
    store.delete_registered_model_alias("m", "champion")
    assert [one["alias"] for one in moves] == ["champion", "champion"]
    assert [one["version"] for one in moves] == ["3", ""]
    for one in moves:
        assert began_ms <= one["since_ms"] < one["at_ms"] <= time.time_ns() // 1_000_000 + 1


def test_tags_that_the_catalog_writes_back_and_failed_changes_are_not_reported() -> None:
    reported: list[object] = []
    store: Any = ModelStore()
    attach_models(store, lambda *args: reported.append(args), lambda: "")
    store.set_model_version_tag("m", "1", tag=SimpleNamespace(key="mlcat.tests"))
    store.delete_registered_model_tag("m", "mlcat.tests_at")
    with pytest.raises(LookupError):
        store.set_model_version_tag("", "1", SimpleNamespace(key="team"))
    assert reported == []


@pytest.mark.parametrize("registry", [None, object(), SimpleNamespace(get_store=3)])
def test_what_is_no_registry_is_left_alone(registry: object) -> None:
    assert not listen(registry, lambda *_: None, str, attach_runs)


@pytest.mark.parametrize("store", [None, 3, object(), SimpleNamespace(update_run_info=None)])
def test_what_is_no_store_is_given_as_it_is(store: object) -> None:
    registry = Registry(store)
    assert listen(registry, lambda *_: None, str, attach_runs)
    assert registry.get_store() is store


def test_errors_of_ours_are_reported_once_and_stop_nobody(caplog: pytest.LogCaptureFixture) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("ours")

    store = Store()
    attach_runs(store, broken, lambda: "")
    for _ in range(3):
        assert store.update_run_info("r").run_id == "r"
    (warning,) = caplog.messages
    assert "ZeroDivisionError: ours" in warning


def test_ctrl_c_is_not_swallowed() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_guarded(interrupted)


def test_a_spool_that_cannot_be_written_is_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    listener = Listener(HookSettings(tmp_path / "file" / "spool", server="http://c", sends=False))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            listener("r", "FINISHED", "http://mlflow")
    [record] = caplog.records
    assert os.strerror(errno.ENOTDIR) in record.message


def test_a_recipe_that_is_not_there_is_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Listener(HookSettings.of({"MLCAT_RECIPE": str(tmp_path / "none.yml")}))
    [record] = caplog.records
    assert f"no recipe at {tmp_path / 'none.yml'}" in record.message


def test_an_event_has_its_workspace_and_no_credentials(tmp_path: Path) -> None:
    listener = Listener(HookSettings(tmp_path, server="http://c", token="s3cret", sends=False))
    set_server_request_workspace("team")
    try:
        listener("r", "FINISHED", "http://user:s3cret@mlflow:5000/x?key=s3cret")
    finally:
        clear_server_request_workspace()
    [path] = (tmp_path / "new").iterdir()
    assert b"s3cret" not in path.read_bytes()
    event = json.loads(path.read_bytes())
    assert (event["tracking_uri"], event["workspace"]) == ("http://mlflow:5000/x", "team")


def loaded_by(script: str) -> set[str]:
    """Return the modules that `script` loads in a Python without installed packages."""
    before = f"import sys; sys.path[:0] = {sys.path!r}; before = set(sys.modules)"
    after = "print(' '.join(set(sys.modules) - before))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"{before}\n{script}\n{after}"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


@pytest.mark.process
def test_what_mlflow_loads_of_us_at_its_import_is_next_to_nothing() -> None:
    loaded = loaded_by("from mlcat_ingest.hooks.plugin import NoRunContext; NoRunContext()")
    ours = {name for name in loaded if name.startswith("mlcat_ingest")}
    assert ours == {"mlcat_ingest", "mlcat_ingest.hooks", "mlcat_ingest.hooks.plugin"}
    assert "subprocess" not in loaded


@pytest.mark.process
def test_what_listens_is_the_standard_library_alone() -> None:
    loaded = loaded_by(
        "from mlcat_ingest.hooks import enable; import mlcat_ingest.hooks.background"
    )
    tops = {name.partition(".")[0] for name in loaded}
    assert tops - set(sys.stdlib_module_names) == {"mlcat_ingest"}


def test_the_plugin_never_applies_and_has_no_tags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLCAT_HOOK", raising=False)
    assert not NoRunContext().in_context()
    assert NoRunContext().tags() == {}


def test_the_package_has_no_other_name() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = hooks.nothing
