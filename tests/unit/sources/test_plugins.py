from importlib.metadata import EntryPoint
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel

from mlcat_ingest.errors import UnknownPluginError
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.workflows import resolve
from support.fakes import FakeSource


class PluginConfig(BaseModel):
    size: int = 1


class PluginSource(FakeSource):
    config_class: ClassVar = PluginConfig


class Unconfigured:
    config_class = None


@pytest.fixture(autouse=True)
def _entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    here = __name__
    points = [
        EntryPoint("good", "builtins:object", resolve.GROUP),
        EntryPoint("unconfigured", "builtins:int", resolve.GROUP),
        EntryPoint("no-module", "mlcat_no_such_module:X", resolve.GROUP),
        EntryPoint("no-name", "json:NoSuchName", resolve.GROUP),
    ]
    loaded: dict[str, Any] = {"good": PluginSource, "unconfigured": Unconfigured}

    def entry_points(*, group: str, name: str | None = None) -> list[EntryPoint]:
        assert group == resolve.GROUP, here
        return [point for point in points if name in {None, point.name}]

    real = EntryPoint.load
    monkeypatch.setattr(resolve, "entry_points", entry_points)
    monkeypatch.setattr(EntryPoint, "load", lambda point: loaded.get(point.name) or real(point))


def test_every_installed_source_is_listed() -> None:
    known = {"good", "no-module", "no-name", "unconfigured", *resolve.SOURCES}
    assert resolve.source_types() == sorted(known)


def test_a_built_in() -> None:
    assert resolve.config_class("mlflow") is MlflowConfig


def test_a_plug_in() -> None:
    assert resolve.config_class("good") is PluginConfig
    assert resolve.source_class("good") is PluginSource


def test_a_plug_in_is_a_source() -> None:
    with pytest.raises(UnknownPluginError) as caught:
        resolve.source_class("unconfigured")
    assert str(caught.value) == (
        "the source plug-in 'unconfigured' is not a source "
        "(make its class a subclass of `mlcat_ingest.sources.base.Source`)"
    )


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nope", "no source 'nope' is installed"),
        (
            "unconfigured",
            (
                "the source plug-in 'unconfigured' has no valid `config_class` "
                "(set `config_class` of its class to a pydantic model)"
            ),
        ),
        (
            "no-module",
            (
                "the source plug-in 'no-module' cannot be imported: ModuleNotFoundError "
                "(check that its dependencies are installed)"
            ),
        ),
        (
            "no-name",
            (
                "the source plug-in 'no-name' cannot be imported: AttributeError "
                "(check that its dependencies are installed)"
            ),
        ),
    ],
)
def test_plug_ins_that_cannot_be_used(name: str, sentence: str) -> None:
    with pytest.raises(UnknownPluginError) as caught:
        resolve.config_class(name)
    assert str(caught.value) == sentence
