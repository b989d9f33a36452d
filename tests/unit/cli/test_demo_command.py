from pathlib import Path

import pytest

from mlcat_ingest.cli.demo import train
from support.cli import Invoke


def test_without_its_extra_the_demo_begins_nothing(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train, "find_spec", lambda name: None if name == "sklearn" else object())
    told = invoke("demo", "--dir", str(tmp_path / "demo"))
    assert (told.code, told.out) == (2, "")
    assert "pip install 'mlcat-ingest[demo]'" in told.err
    assert not (tmp_path / "demo").exists()
