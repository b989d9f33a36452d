"""What every test shares: options, and that no test leaves its settings to the next."""

import gc
import logging
import os
import signal
import sys
from pathlib import Path

import pytest

from mlcat_ingest.cli.output import NOISY, StderrHandler
from mlcat_ingest.net.session import REACHED
from mlcat_ingest.recipe.secrets import SECRETS
from support.examples import LIMIT_S, load_profile

pytest_plugins = ["support.processes", "support.left_out", "support.skips"]

load_profile()

# What the collection of tests makes stays to the end.
gc.disable()

# Hundreds of processes import the same modules, which are compiled once, whatever the machine says.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# MLflow's telemetry would set variables of its own in the middle of a test.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
# A server starts up to seven processes for its jobs; no test has one.
os.environ.setdefault("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "false")

PROPERTIES = Path(__file__).parent / "property"

LONG_S = 900
"""Tests that may take so long begin first, so that no worker is left alone with them."""


if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # A shell starts what runs in the background deaf to Ctrl-C, and every process of a test too.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write the golden files from what comes out"
    )
    parser.addoption(
        "--kills", type=int, default=3, help="how often the catalog, or the command, is killed"
    )
    parser.addoption("--fault-seed", type=int, default=1, help="which faults fault runs meet")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(PROPERTIES) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LIMIT_S))
    items.sort(key=lambda item: not _is_long(item))


def pytest_collection_finish() -> None:
    # A full collection of garbage would look at all modules and tests each time. Python 3.14 does
    # not find who refers to an object from a frozen one, and Hypothesis asks it of its generator.
    if sys.version_info < (3, 14):
        gc.freeze()
    gc.enable()


def _is_long(item: pytest.Item) -> bool:
    limit = item.get_closest_marker("timeout")
    return limit is not None and limit.args[0] >= LONG_S


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture(autouse=True)
def _logging_not_set_up() -> None:
    """Undo what commands under test did to the logging of this process, also in shared fixtures."""
    root = logging.getLogger()
    for handler in [one for one in root.handlers if isinstance(one, StderrHandler)]:
        root.removeHandler(handler)
    logging.captureWarnings(False)
    for name in ("mlcat_ingest", *NOISY):
        logging.getLogger(name).setLevel(logging.NOTSET)


@pytest.fixture(autouse=True)
def _as_in_a_new_process() -> None:
    """Forget what is kept for the process, or a test would depend on those before it.

    Secrets that are known would be masked in what it prints; a server that has answered is waited
    for longer, and another one may have its port now.
    """
    SECRETS.clear()
    REACHED.clear()
