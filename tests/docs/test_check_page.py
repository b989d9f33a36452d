"""`docs/reference/check.md` names every finding there is, and no other."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from mlcat_ingest.client.rest.behaviour import SMALLEST_RELEASE
from mlcat_ingest.sources.mlflow.read.checks import TESTED

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "check.md").read_text()
SIDES = ("MLflow", "catalog", "Feast")
"""What a finding of the network is about: its name is put together from one of these."""

NAME = re.compile(
    r"(\{\}|MLflow|Feast|SageMaker|catalog|definitions|state|dead-letter|metadata|overlapping)"
    r" [A-Za-z ]+?(: .*)?"
)


def modules() -> Iterator[ast.Module]:
    """Yield the modules that make findings."""
    for path in (ROOT / "src" / "mlcat_ingest").rglob("*.py"):
        text = path.read_text()
        if "Finding(" in text:
            yield ast.parse(text)


def text_of(node: ast.expr | None) -> str:
    """Return a text as it is written, with `{}` for what is put in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(one) or "{}" for one in node.values)
    return ""


def names(module: ast.Module) -> Iterator[str]:
    """Yield the names of findings: what a call is given first, or what a variable holds."""
    for node in ast.walk(module):
        match node:
            case ast.Call(args=[first, *_]):
                yield text_of(first)
            case ast.Assign(targets=[ast.Name()], value=value) | ast.AnnAssign(value=value):
                yield text_of(value)
            case ast.Assign(targets=[ast.Tuple()], value=ast.Tuple(elts=values)):
                yield from map(text_of, values)
            case _:
                pass


def found() -> set[str]:
    every = {name for module in modules() for name in names(module) if NAME.fullmatch(name)}
    every = {name for name in every if not re.search(r" (is|was|will|cannot) ", name)}  # sentences
    whole = {name.replace("{}", side, 1) for name in every for side in SIDES}
    return {name.partition(": ")[0] for name in whole}


def on_the_page() -> set[str]:
    rows = re.findall(r"^\| (`.*`) \|", PAGE, re.MULTILINE)
    return {name.partition(": ")[0] for row in rows for name in re.findall(r"`([^`]+)`", row)}


def test_the_readme_names_the_tested_versions_of_mlflow() -> None:
    readme = (ROOT / "README.md").read_text()
    assert f"MLflow servers of {', '.join(TESTED['server'])} are tested" in readme
    assert f"MlflowClient of MLflow {', '.join(TESTED['MlflowClient'])}" in readme
    hooks = (ROOT / "docs" / "reference" / "hooks.md").read_text()
    assert "Tested with MLflow 2.22 and 3.17, and mlflow-skinny" in hooks


def test_every_finding_is_on_the_page() -> None:
    assert found() - on_the_page() - {"Feast clock"} == set()


def test_every_row_of_the_page_is_a_finding() -> None:
    assert on_the_page() - found() == set()
    assert len(on_the_page()) > 25


def test_the_smallest_release_of_datahub_is_named() -> None:
    major, minor = SMALLEST_RELEASE
    assert f"`catalog version` | DataHub is v{major}.{minor}.0 or later" in PAGE
    readme = (ROOT / "README.md").read_text()
    assert f"smallest DataHub server that is supported is GMS v{major}.{minor}.0" in readme
