"""The tests of `tests/live` pass on servers that answer as DataHub's does, and on the catalog."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mlcat_ingest.testing.gms import V1_7, running_gms
from support.catalog_server import running_catalog

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[3]


@contextmanager
def server(kind: str, folder: Path) -> Iterator[str]:
    """Give the address of a server that asks for the token `secret`."""
    if kind == "gms":
        with running_gms(folder / "gms.db", V1_7, token="secret") as gms:
            yield gms.url
    else:
        with running_catalog(folder / "catalog.db", token="secret") as catalog:
            yield catalog.url


@pytest.mark.parametrize("kind", ["gms", "catalog"])
def test_the_live_tests_pass(tmp_path: Path, kind: str) -> None:
    with server(kind, tmp_path) as url:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/live"],
            cwd=ROOT,
            env={**os.environ, "MLCAT_LIVE_GMS": url, "MLCAT_LIVE_TOKEN": "secret"},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout
    assert "4 passed" in done.stdout
