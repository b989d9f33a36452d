import socket
import sys
from pathlib import Path

import pytest

from mlcat_ingest.cli import demo
from support.cli import Invoke


@pytest.mark.parametrize(
    ("options", "module", "extra"),
    [((), "starlette", "demo"), (("--train",), "sklearn", "demo-train")],
)
def test_without_its_extra_the_demo_begins_nothing(
    invoke: Invoke,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    module: str,
    extra: str,
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    reported = invoke("demo", "--dir", str(tmp_path / "demo"), *options)
    assert (reported.code, reported.out) == (2, "")
    assert f"pip install 'mlcat-ingest[{extra}]'" in reported.err
    assert not (tmp_path / "demo").exists()


def test_a_folder_that_cannot_be_made_is_reported(invoke: Invoke, tmp_path: Path) -> None:
    pytest.importorskip("starlette")
    (tmp_path / "file").write_text("")
    reported = invoke("demo", "--dir", str(tmp_path / "file" / "demo"))
    assert reported.code == 2
    assert f"{tmp_path / 'file' / 'demo'} cannot be created: Not a directory" in reported.err


@pytest.mark.process
def test_the_port_is_always_the_same_but_where_it_is_in_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        monkeypatch.setattr(demo, "PORT", other.getsockname()[1])
        assert demo._default_port() == 0
    assert demo._default_port() == demo.PORT
