"""The package's public names: complete, sorted, and loaded only when they are used."""

import ast
import inspect
import json
import subprocess
import sys
from importlib.metadata import version

import pytest

import mlcat_ingest
from mlcat_ingest import errors


@pytest.mark.parametrize("name", mlcat_ingest.__all__)
def test_every_public_name_is_there(name: str) -> None:
    mlcat_ingest.__dict__.pop(name, None)
    value = getattr(mlcat_ingest, name)
    assert value is getattr(mlcat_ingest, name)
    assert name in dir(mlcat_ingest)
    if name != "__version__":
        assert value.__name__ == name


def test_the_list_is_sorted_and_has_every_error() -> None:
    names = mlcat_ingest.__all__
    assert names == sorted(names)
    raised = {name for name, _ in inspect.getmembers(errors, inspect.isclass)}
    assert {name for name in raised if name.endswith("Error")} <= set(names)


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(inspect.getsource(mlcat_ingest))
    [guarded] = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        alias.name
        for node in guarded.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen | {"__version__"} == set(mlcat_ingest.__all__)


def test_the_version_is_that_of_the_distribution() -> None:
    assert mlcat_ingest.__version__ == version("mlcat-ingest")


def test_any_other_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = mlcat_ingest.nothing


@pytest.mark.process
def test_importing_the_package_imports_nothing_else() -> None:
    script = (
        "import sys, json; before = set(sys.modules); import mlcat_ingest; "
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert loaded - sys.stdlib_module_names == {"mlcat_ingest"}
