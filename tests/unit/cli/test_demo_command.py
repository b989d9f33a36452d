import sys
from pathlib import Path

import pytest

from support.cli import Invoke


def test_without_its_extra_the_demo_begins_nothing(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    told = invoke("demo", "--dir", str(tmp_path / "demo"))
    assert (told.code, told.out) == (2, "")
    assert "pip install 'mlcat-ingest[demo]'" in told.err
    assert not (tmp_path / "demo").exists()


def test_a_folder_that_cannot_be_made_is_said(invoke: Invoke, tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    pytest.importorskip("sklearn")
    (tmp_path / "file").write_text("")
    told = invoke("demo", "--dir", str(tmp_path / "file" / "demo"))
    assert told.code == 2
    assert f"{tmp_path / 'file' / 'demo'} cannot be made: Not a directory" in told.err
