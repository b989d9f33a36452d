"""The source in `docs/source-plugins.md` works, and its tables name what there is."""

import re
from pathlib import Path
from typing import Any, get_args

from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.pipeline.run import PipelineRun, RunOptions
from mlcat_ingest.sources.base import Capability, ReadScope, Source
from support.fakes import FakeSink, model_urn
from support.recipes import a_recipe

PAGE = (Path(__file__).parents[2] / "docs" / "source-plugins.md").read_text()


def test_the_source_on_the_page_fills_a_catalog() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {"__name__": "my_package"}
    exec(code, names)  # noqa: S102  # it is ours
    source = names["MyRegistrySource"](names["MyRegistryConfig"](models={"fraud": "Finds fraud"}))
    assert isinstance(source, Source)
    sink = FakeSink()
    assert PipelineRun([source], sink, RunOptions(a_recipe("r"))).execute().exit_code == 0
    urn = model_urn("fraud").replace("mlflow", "my-registry")
    assert sink.stored[urn]["mlModelProperties"]["description"] == "Finds fraud"
    assert isinstance(next(iter(source.map(names["MyModel"]("a", "b")))), Entity)


def test_required_methods_and_capabilities_are_those_on_the_page() -> None:
    assert Source.__abstractmethods__ == {"read", "map", "close"}
    rows = re.findall(r"^\| `Capability\.(\w+)` .*\| (.*?) \|$", PAGE, re.MULTILINE)
    on_the_page = {name: set(re.findall(r"`(\w+)`", scopes)) for name, scopes in rows}
    there: dict[str, set[str]] = {one.name: set() for one in Capability}
    for scope in get_args(ReadScope):
        if scope.needs is not None:
            there[scope.needs.name].add(scope.__name__)
    assert on_the_page == there
