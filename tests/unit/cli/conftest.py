"""Run the command line in this process, and see what it wrote and how it ended."""

import logging
import warnings
from collections.abc import Iterator
from dataclasses import replace

import pytest

from mlcat_ingest.cli.main import call
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.workflows.resolve import ResolvedRecipe
from support.cli import Invoke, Result
from support.sides import Sides


@pytest.fixture
def invoke(capfd: pytest.CaptureFixture[str]) -> Iterator[Invoke]:
    show = warnings.showwarning

    def run(*args: str) -> Result:
        capfd.readouterr()
        code = call(args)
        out, err = capfd.readouterr()
        return Result(code, out, err)

    yield run
    logging.captureWarnings(False)
    warnings.showwarning = show


@pytest.fixture
def sides(monkeypatch: pytest.MonkeyPatch) -> Sides:
    made = Sides()

    def load(path: str) -> ResolvedRecipe:
        made.read.append(path)
        return made.resolved()

    def resolve(recipe: Recipe) -> ResolvedRecipe:
        made.read.append(recipe)
        return replace(made.resolved(), recipe=recipe)

    monkeypatch.setattr("mlcat_ingest.workflows.resolve.load_resolved", load)
    monkeypatch.setattr("mlcat_ingest.workflows.resolve.resolve", resolve)
    return made
