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
from mlcat_ingest.testing.service import ServiceAnswer, ServiceRequest, failing_service
from support import killed_run
from support.catalog_server import running_catalog
from support.fakes import model_urn
from support.faults import forward

pytestmark = pytest.mark.integration

COUNT = 900
WRITE = "ingestProposalBatch"
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
        assert counts["read"] == COUNT
        assert counts["created"] == COUNT - there
        # What was not acknowledged may be stored and not be found: it is written once more.
        assert counts["updated"] + counts["unchanged"] == there
        assert counts["updated"] > 0 or moment != "flush"
        assert len(catalog.store.get_many(urns)) == COUNT
    (part,) = summary(state_url, "killed").parts
    assert (part.records, part.checkpoint, part.dirty) == (
        {"number": COUNT},
        {"count": COUNT},
        {},
    )


def test_what_a_service_took_before_it_was_killed_is_written_again(tmp_path: Path) -> None:
    state_url = f"sqlite:///{tmp_path}/state.db"
    stored: set[str] = set()
    dead = revived = False

    def service(request: ServiceRequest) -> ServiceAnswer:
        nonlocal dead
        if dead and not revived:
            return ServiceAnswer(hang_up=True)
        if WRITE in request.path and not revived:
            dead = True
            forward(catalog.url, request)  # it stores, and its index never hears of it
            stored.update(urns_of(request))
            return ServiceAnswer(hang_up=True)
        return forward(catalog.url, request)

    with running_catalog(tmp_path / "catalog.db") as catalog, failing_service(service) as proxy:
        killed = run(state_url, proxy.url, "300")
        assert json.loads(killed.stdout)["exit_code"] == 1
        revived = True
        for again in (stored, set[str]()):
            proxy.requests.clear()
            assert run(state_url, proxy.url, "300").returncode == 0
            written = set[str]().union(*map(urns_of, proxy.requests))
            assert stored & written == again
    assert stored


def urns_of(request: ServiceRequest) -> set[str]:
    if WRITE not in request.path:
        return set()
    return {one["entityUrn"] for one in json.loads(request.body)["proposals"]}
