"""The rules that keep the code readable: sizes, the error tree, one word for one thing."""

import ast
import inspect
import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlcat_ingest import errors
from support.source_code import nodes

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
BROAD_BORDERS = {
    "catalog/web/app.py",  # the HTTP handler
    "catalog/store/store.py",  # a job: its error is raised where its result is asked for
    "cli/main.py",  # the command line: whatever comes is one message and a status
    "hooks/listener.py",  # training: nothing of ours may stop it
    "pipeline/read/pages.py",  # the per-record loop
    "sources/mlflow/read/client.py",  # an entity of a plug-in of MLflow, one record
    "sources/mlflow/read/signin.py",  # a plug-in of MLflow that a recipe names
    "pipeline/run.py",  # the run: whatever ends it is in its report
    "testing/conformance/rules.py",  # what a source under test raises: a rule judges it
    "core/resources.py",  # every thread: its error is raised where its result is asked for
}


def functions() -> Iterator[tuple[Path, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for path in SOURCES:
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield path, node


def test_a_class_name_is_used_once() -> None:
    found: dict[str, list[str]] = {}
    for path in SOURCES:
        for node in nodes(path):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert {name: places for name, places in found.items() if len(places) > 1} == {}


def test_no_function_is_longer_than_60_lines() -> None:
    long = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path, node in functions()
        if _body_lines(node) > 60
    ]
    assert long == []


def _body_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from the first statement after the docstring to the end."""
    body = node.body[1:] if ast.get_docstring(node) and len(node.body) > 1 else node.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1


def test_broad_excepts_stand_at_the_borders_only() -> None:
    found = {
        str(path.relative_to(ROOT / "src" / "mlcat_ingest"))
        for path in SOURCES
        for node in nodes(path)
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or ast.unparse(node.type) in {"Exception", "BaseException"})
    }
    assert found <= BROAD_BORDERS


def test_kinds_of_notes_are_keys_of_the_report() -> None:
    kinds = {
        (path.name, ast.unparse(node.args[0]))
        for path in SOURCES
        for node in nodes(path)
        if isinstance(node, ast.Call)
        and node.args
        and ast.unparse(node.func).rpartition(".")[2] in {"Note", "note"}
    }
    assert ("run.py", "'run_not_listed'") in kinds
    of_values = {(name, "note.kind") for name in ("tally.py", "run.py", "unlisted.py")}
    passed_on = {*of_values, ("text.py", "kind")}
    assert {kind for kind in kinds - passed_on if not re.match(r"'[a-z_]+'\Z", kind[1])} == set()


def test_the_drawn_error_tree_is_the_real_one() -> None:
    drawn: dict[str, str] = {}
    parents: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"    ((?:    )*)([A-Z][A-Za-z]+Error)\b", line)
        if match:
            depth = len(match[1]) // 4
            drawn[match[2]] = parents[depth - 1] if depth else "Exception"
            parents[depth:] = [match[2]]
    real = {
        name: kind.__bases__[0].__name__
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if kind.__module__ == errors.__name__
    }
    assert drawn == real


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_every_path_a_page_names_exists(page: str) -> None:
    text = (ROOT / page).read_text()
    named = re.findall(r"`((?:src|tests|docs|recipes|\.ci)/[\w./-]+)`", text)
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_error_that_contributing_names_exists() -> None:
    named = set(re.findall(r"`(\w+Error)`", (ROOT / "CONTRIBUTING.md").read_text()))
    assert {name for name in named if not hasattr(errors, name)} == set()


def test_pages_name_the_versions_of_python_that_the_package_declares() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert project["requires-python"] == f">={declared[0]}"
    named = {
        page.name: found
        for page in (ROOT / "README.md", *ROOT.glob("docs/*/*.md"))
        if (found := re.findall(r"with Python (3\.\d+) to (3\.\d+)", page.read_text()))
    }
    assert len(named) > 4
    assert set(map(tuple, named.values())) == {((declared[0], declared[-1]),)}


def test_a_finding_is_a_script_that_says_what_it_shows() -> None:
    for path in ROOT.glob("findings/*"):
        assert path.suffix == ".sh"
        assert os.access(path, os.X_OK)
        assert re.match(r"#!/\S+.*\n# \S", path.read_text())
