"""A run that is killed between a write and what is remembered of it: the next one repairs."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mlcat_ingest.pipeline.state.inspection import summary
from support import killed_run
from support.catalog_server import running_catalog
from support.fakes import model_urn

pytestmark = pytest.mark.integration

COUNT = 900
TESTS = Path(killed_run.__file__).parents[1]


def run(*args: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, killed_run.__file__, *args],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("moment", "number"), [("acknowledge", 0), ("acknowledge", 2), ("flush", 0), ("commit", 0)]
)
def test_the_next_run_repairs_what_a_killed_one_left(
    tmp_path: Path, moment: str, number: int
) -> None:
    state_url = f"sqlite:///{tmp_path}/state.db"
    with running_catalog(tmp_path / "catalog.db") as catalog:
        killed = run(state_url, catalog.url, str(COUNT), moment, str(number))
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    (left,) = summary(state_url, "killed").parts
    assert left.checkpoint is None
    # Another server: the first one ends only after what the killed run had sent it is written.
    port = urlsplit(catalog.url).port or 0
    with running_catalog(tmp_path / "catalog.db", port=port) as catalog:
        urns = [model_urn(f"n{n}") for n in range(COUNT)]
        there = len(catalog.store.get_many(urns))
        assert left.records.get("number", 0) <= there
        again = run(state_url, catalog.url, str(COUNT))
        assert again.returncode == 0, again.stderr
        counts = json.loads(again.stdout)["entities"]["mlModel"]
        assert (counts["read"], counts["created"] + counts["unchanged"]) == (COUNT, COUNT)
        assert counts["created"] == COUNT - there
        assert len(catalog.store.get_many(urns)) == COUNT
    (part,) = summary(state_url, "killed").parts
    assert (part.records, part.checkpoint, part.dirty) == (
        {"number": COUNT},
        {"count": COUNT},
        {},
    )
