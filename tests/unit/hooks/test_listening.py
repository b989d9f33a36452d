"""What the listener does to a store and its registry, whatever these turn out to be."""

import errno
import logging
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mlcat_ingest import hooks
from mlcat_ingest.hooks import listening
from mlcat_ingest.hooks.listening import Listener, Once, attach, guarded, listen
from mlcat_ingest.hooks.plugin import RunContext
from mlcat_ingest.hooks.settings import Settings, public_uri, spool_of


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
    monkeypatch.setattr(listening, "_warn_of_errors", Once())


def test_each_end_of_a_run_is_told_once_however_often_the_store_is_asked_for() -> None:
    told: list[tuple[str, ...]] = []
    registry = Registry(Store())
    for _ in range(2):
        assert listen(registry, lambda *args: told.append(args), lambda given: given or "default")
    store: Any = registry.get_store("http://mlflow:5000")
    assert registry.get_store("http://mlflow:5000") is store
    assert isinstance(store, Store)
    assert store.update_run_info("r1", 3, end_time=5, run_name=None).run_id == "r1"
    assert told == [("r1", "FINISHED", "http://mlflow:5000")]


@pytest.mark.parametrize(("status", "events"), [("RUNNING", 0), ("SCHEDULED", 0), ("KILLED", 1)])
def test_only_ends_are_told(status: str, events: int) -> None:
    told: list[str] = []
    store = Store(status)
    attach(store, lambda run_id, *_: told.append(run_id), lambda: "")
    store.update_run_info("r1")
    assert len(told) == events


def test_an_error_of_the_store_is_the_callers_and_nothing_is_told() -> None:
    told: list[str] = []

    class Broken(Store):
        def update_run_info(self, run_id: str, *args: object, **options: object) -> Any:
            raise LookupError(run_id, args, options)

    store = Broken()
    attach(store, lambda run_id, *_: told.append(run_id), lambda: "")
    with pytest.raises(LookupError, match="r1"):
        store.update_run_info("r1")
    assert told == []


@pytest.mark.parametrize("registry", [None, object(), SimpleNamespace(get_store=3)])
def test_what_is_no_registry_is_left_alone(registry: object) -> None:
    assert not listen(registry, lambda *_: None, str)


@pytest.mark.parametrize("store", [None, 3, object(), SimpleNamespace(update_run_info=None)])
def test_what_is_no_store_is_given_as_it_is(store: object) -> None:
    registry = Registry(store)
    assert listen(registry, lambda *_: None, str)
    assert registry.get_store() is store


def test_errors_of_ours_are_told_once_and_stop_nobody(caplog: pytest.LogCaptureFixture) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("ours")

    store = Store()
    attach(store, broken, lambda: "")
    for _ in range(3):
        assert store.update_run_info("r").run_id == "r"
    assert [record.message for record in caplog.records] == [
        "mlcat-ingest: the catalog hears of runs by its scheduled run only: ZeroDivisionError: ours"
    ]


def test_ctrl_c_is_not_swallowed() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        guarded(interrupted)


def test_a_spool_that_cannot_be_written_is_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    listener = Listener(Settings(tmp_path / "file" / "spool", server="http://c", sends=False))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            listener("r", "FINISHED", "http://mlflow")
    [record] = caplog.records
    assert os.strerror(errno.ENOTDIR) in record.message


def test_credentials_never_reach_the_spool(tmp_path: Path) -> None:
    listener = Listener(Settings(tmp_path, server="http://c", token="s3cret", sends=False))
    listener("r", "FINISHED", "http://user:s3cret@mlflow:5000/x?key=s3cret")
    [path] = (tmp_path / "new").iterdir()
    assert b"s3cret" not in path.read_bytes()
    assert b"http://mlflow:5000/x" in path.read_bytes()


def test_without_a_sink_there_are_no_settings() -> None:
    assert Settings.of(environ={}) is None
    assert Settings.of(environ={"MLCAT_SERVER": "http://c"}) is not None


def test_a_recipe_goes_before_a_server_and_what_is_given_before_both(tmp_path: Path) -> None:
    env = {"MLCAT_RECIPE": str(tmp_path / "r.yml"), "MLCAT_SERVER": "http://c"}
    found = Settings.of(environ=env)
    assert found is not None
    assert (found.recipe, found.server) == (str(tmp_path / "r.yml"), "")
    assert found.spool == tmp_path / ".mlcat" / "spool"
    given = Settings.of(server="http://d", environ=env)
    assert given is not None
    assert (given.recipe, given.server) == ("", "http://d")


@pytest.mark.parametrize(
    ("env", "sends"),
    [
        ({}, True),
        ({"RANK": "0"}, True),
        ({"RANK": "3"}, False),
        ({"SLURM_PROCID": "1", "RANK": "0"}, False),
        ({"RANK": "3", "MLCAT_HOOK_RANKS": "all"}, True),
        ({"MLCAT_HOOK_SEND": "0"}, False),
    ],
)
def test_the_first_rank_sends(env: dict[str, str], sends: bool) -> None:  # noqa: FBT001 - a parameter
    found = Settings.of(server="http://c", environ=env)
    assert found is not None
    assert found.sends is sends


@pytest.mark.parametrize("text", ["", "soon", "-1", "nan", "1e9"])
def test_waits_that_are_none_are_the_default(text: str) -> None:
    found = Settings.of(server="http://c", environ={"MLCAT_HOOK_FLUSH_S": text})
    assert found is not None
    assert found.flush_s == 2.0


def test_the_spool_is_where_it_is_said_to_be(tmp_path: Path) -> None:
    assert spool_of("/a/r.yml", environ={}) == Path("/a/.mlcat/spool")
    assert spool_of("/a/r.yml", environ={"MLCAT_SPOOL": "/b"}) == Path("/b")
    assert spool_of("/a/r.yml", str(tmp_path), environ={"MLCAT_SPOOL": "/b"}) == tmp_path
    assert spool_of("http://mlflow:5000", environ={}).parts[-2:] == (".mlcat", "spool")


@pytest.mark.parametrize(
    ("uri", "public"),
    [
        ("postgresql://u:p@h/db", "postgresql://h/db"),
        ("sqlite:////x/m.db", "sqlite:////x/m.db"),
        ("http://[broken", ""),
        ("./mlruns", "./mlruns"),
    ],
)
def test_public_uris(uri: str, public: str) -> None:
    assert public_uri(uri) == public


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


def test_what_mlflow_loads_of_us_at_its_import_is_next_to_nothing() -> None:
    loaded = loaded_by("from mlcat_ingest.hooks.plugin import RunContext; RunContext()")
    ours = {name for name in loaded if name.startswith("mlcat_ingest")}
    assert ours == {"mlcat_ingest", "mlcat_ingest.hooks", "mlcat_ingest.hooks.plugin"}
    assert "subprocess" not in loaded


def test_what_listens_is_the_standard_library_alone() -> None:
    loaded = loaded_by(
        "from mlcat_ingest.hooks import enable; import mlcat_ingest.hooks.background"
    )
    tops = {name.partition(".")[0] for name in loaded}
    assert tops - set(sys.stdlib_module_names) == {"mlcat_ingest"}


def test_the_plugin_never_applies_and_has_no_tags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLCAT_HOOK", raising=False)
    assert not RunContext().in_context()
    assert RunContext().tags() == {}


def test_the_package_has_no_other_name() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = hooks.nothing
