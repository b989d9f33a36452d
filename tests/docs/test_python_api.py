"""The page of the Python API has every name that other pages use, and its examples run."""

import ast
import doctest
import re
from importlib import import_module
from pathlib import Path

import pytest

import mlcat_ingest
from mlcat_ingest import errors
from mlcat_ingest.cli import demo

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "python-api.md").read_text()
NAMES = set(re.findall(r"(?m)^<!-- api ([\w.]+)\.(\w+)", PAGE)) - {("mlcat_ingest", "errors")}
NAMES |= {(errors.__name__, name) for name in vars(errors) if name.endswith("Error")}
CONSTANTS = {("mlcat_ingest.metadata.reserved", "SOURCE_KEY"), ("mlcat_ingest", "__version__")}


def imported(code: str) -> set[tuple[str, str]]:
    """Return the names of the package that code imports, each with its module."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mlcat_ingest"):
            found |= {(node.module or "", one.name) for one in node.names}
    return found


def resolved(names: set[tuple[str, str]]) -> set[object]:
    return {getattr(import_module(module), name) for module, name in names}


def test_the_page_has_every_name_of_the_package() -> None:
    listed = {name for _, name in NAMES | CONSTANTS}
    assert set(mlcat_ingest.__all__) <= listed


def test_the_page_has_every_name_that_other_pages_import() -> None:
    pages = [*ROOT.glob("docs/**/*.md"), ROOT / "README.md"]
    blocks = [
        block
        for page in pages
        for block in re.findall(r"(?ms)^```python\n(.*?)^```", page.read_text())
        if page.name != "python-api.md" and "import" in block
    ]
    used = set().union(*map(imported, blocks))
    assert len(used) > 10
    airflow = {one for one in used if one[0].startswith("mlcat_ingest.airflow")}
    assert airflow <= NAMES
    known = {one for one in NAMES if not one[0].startswith("mlcat_ingest.airflow")}
    assert resolved(used - airflow) <= resolved(known | CONSTANTS)


EXAMPLES = [
    test
    for module in (
        "mlcat_ingest",
        "mlcat_ingest.recipe.model",
        "mlcat_ingest.workflows.ingest",
        "mlcat_ingest.workflows.shard",
        "mlcat_ingest.testing.conformance",
    )
    for test in doctest.DocTestFinder().find(import_module(module))
    if test.examples
]


def test_the_main_names_have_examples() -> None:
    named = {test.name.rpartition(".")[2] for test in EXAMPLES}
    assert named == {"mlcat_ingest", "load", "Pipeline", "Sharding", "check_source"}


@pytest.mark.parametrize("test", EXAMPLES, ids=lambda test: test.name)
def test_an_example_of_a_docstring_runs(
    test: doctest.DocTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo.unpack_store(tmp_path)
    source = "{type: mlflow, config: {tracking_uri: 'sqlite:///mlflow.db'}}"
    sinks = {
        "recipe": "{type: file, config: {path: proposals.json}}",
        "sharded": "{type: rest, config: {server: 'http://catalog.example.com'}}",
    }
    for name, sink in sinks.items():
        (tmp_path / f"{name}.yml").write_text(f"source: {source}\nsink: {sink}\n")
    tables = (ROOT / "recipes" / "definitions" / "ride_hailing.yml").read_text()
    (tmp_path / "features.yml").write_text(tables)
    monkeypatch.chdir(tmp_path)
    assert doctest.DocTestRunner(verbose=False).run(test).failed == 0
