"""What a hook is told: by variables, and by the config that code gives."""

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mlcat_ingest.errors import RecipeError
from mlcat_ingest.hooks import HookConfig, enable, listener
from mlcat_ingest.hooks.listener import SingleWarning
from mlcat_ingest.hooks.plugin import NoRunContext
from mlcat_ingest.hooks.settings import VARIABLES, HookSettings, spool_of, with_config

SERVER = {"MLCAT_SERVER": "http://c"}


def test_without_a_sink_there_are_no_settings() -> None:
    with pytest.raises(RecipeError, match="no catalog configured"):
        HookSettings.of({})


def test_a_recipe_goes_before_a_server(tmp_path: Path) -> None:
    found = HookSettings.of({"MLCAT_RECIPE": str(tmp_path / "r.yml"), **SERVER})
    assert (found.recipe, found.server) == (str(tmp_path / "r.yml"), "")
    assert found.spool == tmp_path / ".mlcat" / "spool"


@pytest.mark.parametrize(
    ("env", "sends"),
    [
        ({}, True),
        ({"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2"}, True),
        ({"RANK": "3", "LOCAL_RANK": "0"}, False),
        ({"LOCAL_RANK": "1"}, False),
        ({"SLURM_PROCID": "1", "RANK": "0"}, False),
        ({"RANK": "3", "MLCAT_HOOK_RANKS": "all"}, True),
        ({"MLCAT_HOOK_SEND": "0"}, False),
    ],
)
def test_the_first_rank_sends(env: dict[str, str], sends: bool) -> None:  # noqa: FBT001 - a parameter
    assert HookSettings.of({**SERVER, **env}).sends is sends


@pytest.mark.usefixtures("unlistened")
@pytest.mark.parametrize(
    ("texts", "on"),
    [
        (("1", "true", "True", "YES", "on", " t "), True),
        (("0", "false", "FALSE", "no", "Off"), False),
        (("2", "enabled", "maybe"), None),
    ],
)
def test_a_switch_is_on_or_off_or_a_warning(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    texts: tuple[str, ...],
    on: bool | None,  # noqa: FBT001 - a parameter
) -> None:
    enabled: list[str] = []
    for text in texts:
        monkeypatch.setattr(listener, "enable", lambda text=text: enabled.append(text))
        monkeypatch.setenv("MLCAT_HOOK", text)
        assert not NoRunContext().in_context()
        found = HookSettings.of({**SERVER, "MLCAT_HOOK_SEND": text})
        assert (found.sends, found.problem is None) == (bool(on), on is not None)
    assert enabled == (list(texts) if on else [])
    warnings = [one.message for one in caplog.records]
    assert len(warnings) == (on is None)
    assert all("MLCAT_HOOK is neither on nor off; set it to 1 or 0" in one for one in warnings)


@pytest.mark.parametrize("name", ["~/r.yml", "file:///home/jane/r.yml", "file:/home/jane/r.yml"])
def test_paths_of_variables_are_those_that_are_meant(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("HOME", "/home/jane")
    found = HookSettings.of({"MLCAT_RECIPE": name})
    assert (found.recipe, found.spool) == ("/home/jane/r.yml", Path("/home/jane/.mlcat/spool"))
    assert HookSettings.of({**SERVER, "MLCAT_SPOOL": name}).spool == Path("/home/jane/r.yml")


@pytest.mark.usefixtures("unlistened")
@pytest.mark.parametrize("send", ["1", "0"])
def test_a_missing_recipe_is_a_warning_whether_events_are_sent_or_kept(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, send: str
) -> None:
    monkeypatch.setenv("MLCAT_HOOK_SEND", send)
    an_mlflow(monkeypatch)
    enable("/none/r.yml")
    assert "no recipe at /none/r.yml" in caplog.records[0].message


@pytest.mark.usefixtures("unlistened")
@pytest.mark.parametrize(
    ("environ", "cure"),
    [
        ({"MLCAT_SERVER": "http://c"}, "set MLCAT_SPOOL"),
        ({"MLCAT_SERVER": "http://c", "MLCAT_SPOOL": "~/spool"}, "the home folder in ~/spool"),
        ({"MLCAT_RECIPE": "~/r.yml"}, "the home folder in ~/r.yml"),
    ],
)
def test_an_unknown_home_folder_is_a_message_and_no_folder(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
    environ: dict[str, str],
    cure: str,
) -> None:
    def unknown(_: int) -> None:
        raise KeyError("uid not found")

    monkeypatch.setattr("pwd.getpwuid", unknown)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert not enable()
    [record] = caplog.records
    assert cure in record.message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        *(("FLUSH_S", text, "seconds from 0 to 3600") for text in ("soon", "-1", "nan", "1e9")),
        ("DEBOUNCE_S", "2s", "seconds from 0 to 3600"),
        ("RANKS", "every", "'first' or 'all'"),
    ],
)
def test_a_variable_that_cannot_be_meant_is_named(name: str, text: str, expected: str) -> None:
    with pytest.raises(RecipeError, match=f"MLCAT_HOOK_{name} must be {expected}"):
        HookSettings.of({**SERVER, f"MLCAT_HOOK_{name}": text})
    assert HookSettings.of({**SERVER, f"MLCAT_HOOK_{name}": ""}).flush_s == 2.0


def test_the_spool_is_where_it_is_reported_to_be(tmp_path: Path) -> None:
    assert spool_of("/a/r.yml", environ={}) == Path("/a/.mlcat/spool")
    assert spool_of("/a/r.yml", environ={"MLCAT_SPOOL": "/b"}) == Path("/b")
    assert spool_of("/a/r.yml", str(tmp_path), environ={"MLCAT_SPOOL": "/b"}) == tmp_path
    assert spool_of("http://mlflow:5000", environ={}).parts[-2:] == (".mlcat", "spool")


def test_a_config_says_all_that_variables_say(tmp_path: Path) -> None:
    config: HookConfig = {
        "server": "http://d",
        "token": "s3cret",
        "spool": tmp_path,
        "send": False,
        "ranks": "all",
        "debounce_s": 0,
        "flush_s": 1.5,
    }
    env = {"MLCAT_RECIPE": "/a/r.yml", "RANK": "3", "MLCAT_HOOK_FLUSH_S": "9"}
    assert HookSettings.of(with_config(config, env)) == HookSettings(
        tmp_path, "", "http://d", "s3cret", sends=False, debounce_s=0.0, flush_s=1.5
    )
    assert HookSettings.of(with_config({**config, "send": True}, env)).sends
    assert HookConfig.__annotations__.keys() == VARIABLES.keys()


def test_what_a_config_leaves_out_the_environment_says() -> None:
    found = HookSettings.of(with_config({"token": "", "recipe": None, "spool": "/s"}, SERVER))
    assert (found.server, found.spool) == ("http://c", Path("/s"))


def test_every_problem_of_a_config_is_reported_and_no_value() -> None:
    config: Any = {"recipe": 3, "server": b"http://s3cret", "token": ["s3cret"], "debounce": 1}
    config |= {"send": "s3cret", "ranks": "s3cret", "flush_s": -1, "debounce_s": True, 7: 7}
    with pytest.raises(RecipeError, match="invalid hook config: ") as caught:
        with_config(config, {})
    reported = str(caught.value)
    assert "s3cret" not in reported
    for problem in (
        "'recipe' must be a path, not int",
        "'server' must be a string, not bytes",
        "'token' must be a string, not list",
        "unknown key 'debounce', did you mean 'debounce_s'?",
        "'send' must be true or false, not str",
        "'ranks' must be 'first' or 'all', not str",
        "'flush_s' must be seconds from 0 to 3600, not int",
        "'debounce_s' must be seconds from 0 to 3600, not bool",
        "unknown key 7;",
        "'recipe' and 'server' cannot be combined",
    ):
        assert problem in f"{reported};"


@pytest.fixture
def unlistened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin as a process that was never told to listen."""
    monkeypatch.setattr(listener, "warn", SingleWarning())
    monkeypatch.setattr(listener, "_enabled", False)
    for name in VARIABLES.values():
        monkeypatch.delenv(name, raising=False)


def an_mlflow(monkeypatch: pytest.MonkeyPatch, **names: Any) -> None:
    """Let an MLflow be installed whose module of stores has these names alone."""
    path = "mlflow.tracking._tracking_service.utils"
    module = ModuleType(path)
    for name, value in names.items():
        setattr(module, name, value)
    parts = path.split(".")
    for end in range(1, len(parts)):
        package = ModuleType(".".join(parts[:end]))
        package.__path__ = []
        monkeypatch.setitem(sys.modules, package.__name__, package)
    monkeypatch.setitem(sys.modules, path, module)
    monkeypatch.setattr(
        sys.modules["mlflow.tracking._tracking_service"], "utils", module, raising=False
    )


@pytest.mark.parametrize(
    "names",
    [
        {},
        {"_tracking_store_registry": None, "get_tracking_uri": str},
        {"_tracking_store_registry": object(), "get_tracking_uri": str},
        {"_tracking_store_registry": ModuleType("registry"), "get_tracking_uri": "http://m"},
    ],
)
@pytest.mark.usefixtures("unlistened")
def test_an_unknown_mlflow_is_left_alone_with_one_warning(
    names: dict[str, Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    an_mlflow(monkeypatch, **names)
    assert [enable(server="http://c") for _ in range(2)] == [False, False]
    [record] = caplog.records
    assert "this version of MLflow is not supported by the hook" in record.message


@pytest.mark.usefixtures("unlistened")
def test_a_wrong_config_stops_nobody_and_is_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    wrong: Any = {"recpie": "r.yml", "token": 5}
    assert [enable(wrong) for _ in range(2)] == [False, False]
    [record] = caplog.records
    assert "did you mean 'recipe'?; 'token' must be a string" in record.message


@pytest.mark.parametrize("named", ["argument", "config", "environment"])
@pytest.mark.usefixtures("unlistened")
def test_a_recipe_that_is_not_there_is_not_listened_for(
    named: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    registry = type("Registry", (), {"get_store": lambda self: self})()
    an_mlflow(monkeypatch, _tracking_store_registry=registry, get_tracking_uri=lambda: "http://m")
    path = str(tmp_path / "nope.yml")
    given: Any = {"argument": path, "config": {"recipe": path}, "environment": None}[named]
    if named == "environment":
        monkeypatch.setenv("MLCAT_RECIPE", path)
    assert [enable(given) for _ in range(2)] == [False, False]
    [record] = caplog.records
    assert f"no recipe at {path}" in record.message
    # Whoever keeps events for a drain elsewhere needs no recipe here.
    assert enable({"recipe": path, "send": False})


@pytest.mark.usefixtures("unlistened")
def test_enable_listens_as_its_config_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Registry:
        def get_store(self, *_: object) -> Any:
            return type("Store", (), {"update_run_info": staticmethod(lambda _: ended)})()

    ended = type("Info", (), {"run_id": "r1", "status": "FINISHED"})()
    registry = Registry()
    an_mlflow(monkeypatch, _tracking_store_registry=registry, get_tracking_uri=lambda: "http://m")
    spool = tmp_path / "spool"
    assert enable({"server": "http://c", "send": False}, spool=spool)
    assert enable()  # a second call changes nothing
    registry.get_store().update_run_info("r1")
    [path] = (spool / "new").iterdir()
    assert json.loads(path.read_text())["tracking_uri"] == "http://m"
