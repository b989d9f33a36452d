"""On Windows each way in ends with one sentence, and training goes on."""

import logging
import sys
from collections.abc import Callable
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

from mlcat_ingest.cli.main import call
from mlcat_ingest.core.environment import require_posix
from mlcat_ingest.errors import RecipeError
from mlcat_ingest.hooks import listener
from mlcat_ingest.hooks.plugin import NoRunContext
from mlcat_ingest.hooks.spool import EventSpool
from mlcat_ingest.sql.filelock import FileLock

SENTENCE = "mlcat-ingest runs on Linux and macOS, not on Windows"


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setitem(sys.modules, "fcntl", None)


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_other_systems_pass(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    require_posix()


@pytest.mark.usefixtures("windows")
@pytest.mark.parametrize("args", [["recipe.yml"], ["--help"], ["catalog", "serve"]])
def test_the_command_ends_with_one_sentence(
    args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(args) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1
    assert SENTENCE in printed.err


@pytest.mark.usefixtures("windows")
@pytest.mark.parametrize(
    "use",
    [
        lambda folder: FileLock.take(folder / "lock", {}),
        EventSpool,
    ],
    ids=["lock", "spool"],
)
def test_code_that_needs_a_lock_raises_the_sentence(
    use: Callable[[Path], object], tmp_path: Path
) -> None:
    with pytest.raises(RecipeError, match=SENTENCE):
        use(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("windows")
@pytest.mark.parametrize("name", ["mlcat_ingest.sql.filelock", "mlcat_ingest.hooks.spool"])
def test_a_module_with_locks_is_imported_without_them(name: str) -> None:
    spec = find_spec(name)
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(module_from_spec(spec))


@pytest.mark.usefixtures("windows")
def test_training_with_the_hook_goes_on_with_one_warning(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "recipe.yml").write_text("source: {type: mlflow}\n")
    registry = SimpleNamespace(get_store=lambda *_: None)
    utils = SimpleNamespace(_tracking_store_registry=registry, get_tracking_uri=lambda: "")
    mlflow = SimpleNamespace(utils=utils)
    monkeypatch.setitem(sys.modules, "mlflow.tracking._tracking_service", mlflow)
    monkeypatch.setenv("MLCAT_HOOK", "1")
    monkeypatch.setenv("MLCAT_RECIPE", str(tmp_path / "recipe.yml"))
    monkeypatch.setattr(listener, "_warn_of_errors", listener.SingleWarning())
    with caplog.at_level(logging.WARNING):
        assert NoRunContext().in_context() is False
        assert NoRunContext().in_context() is False
    assert [SENTENCE in record.getMessage() for record in caplog.records] == [True]
