"""A run with the embedded catalog is killed, and started again at once: nothing is lost."""

import json
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from mlcat_ingest.catalog.store.store import Store
from support.catalog_checks import assert_sound, everything
from support.fault_world import Origin, Undisturbed, add_test, assert_sums

pytestmark = pytest.mark.integration

WAIT_S = 300


def start(recipe: Path, report: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "mlcat_ingest", str(recipe), "-q", "--report", str(report)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd=recipe.parent,
    )


def entities(database: Path) -> int:
    if not database.exists():
        return 0
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        try:
            (count,) = connection.execute("SELECT count(*) FROM entity").fetchone()
        except sqlite3.OperationalError:  # its tables are not made yet
            return 0
    return int(count)


def kill_when_it_writes(process: "subprocess.Popen[bytes]", database: Path) -> int:
    """Kill the run once there is more than before; return how it ended."""
    before = entities(database)
    deadline = time.monotonic() + WAIT_S
    while process.poll() is None and entities(database) <= before:
        assert time.monotonic() < deadline, "it writes nothing"
        time.sleep(0.01)
    process.kill()
    process.communicate(timeout=WAIT_S)
    return process.returncode


def test_a_killed_run_with_the_catalog_in_the_box_can_be_started_again_at_once(
    origin: Origin, tmp_path: Path, undisturbed: Undisturbed
) -> None:
    recipe, report, database = tmp_path / "r.yml", tmp_path / "report.json", tmp_path / "own.db"
    source = f"{{tracking_uri: 'sqlite:///{origin.first}', ui_url: 'http://mlflow.test'}}"
    recipe.write_text(
        f"name: faults\nsource: {{type: mlflow, config: {source}}}\n"
        "sink: {type: embedded, config: {db: own.db}}\n"
    )
    with closing(Store.open(database)) as store:
        add_test(store)
    ended = kill_when_it_writes(start(recipe, report), database)
    assert ended == -signal.SIGKILL
    # The catalog of the killed run may have its last request still to finish.
    last = start(recipe, report)
    _, errors = last.communicate(timeout=WAIT_S)
    assert last.returncode == 0, errors.decode()
    found = json.loads(report.read_text())
    assert_sums(found)
    assert found["records"] == undisturbed.report["records"]
    assert found["dead_letters"] == 0
    with closing(Store.open(database)) as store:
        assert everything(store) == undisturbed.contents
    assert_sound(database)
