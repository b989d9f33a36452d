"""Run the command line in this process, and see what it wrote and how it ended."""

import logging
import warnings
from collections.abc import Iterator

import pytest

from mlcat_ingest.cli.main import call
from support.cli import Invoke, Result


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
