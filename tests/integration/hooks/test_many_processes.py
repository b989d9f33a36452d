"""Many forked processes on one spool, with everything on: all arrives, in few requests."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from mlcat_ingest.hooks.spool import read_lines
from support.catalog_server import RunningCatalog, running_catalog
from support.hooks import RECIPE, Bench, drained, models
from support.mlflow_server import MlflowServer

pytestmark = pytest.mark.timeout(900)

FORKS = 80

# The last ones leave as processes do, the others by `os._exit`, which starts nothing.
_FORKS = f"""
import os, sys
import mlflow
import mlcat_ingest.hooks

assert mlcat_ingest.hooks.enable()
client = mlflow.MlflowClient()
ids = os.open("ids", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for number in range({FORKS}):
    if os.fork() == 0:
        run_id = client.create_run("0").info.run_id
        client.set_terminated(run_id)
        os.write(ids, f"{{run_id}}\\n".encode())
        if number < {FORKS} - 10: os._exit(0)
        break
    if number % 8 == 7:
        for _ in range(8): assert os.wait()[1] == 0
"""


class Seen:
    """What a catalog was asked: who connected, and how often."""

    def __init__(self) -> None:
        self.connections: set[object] = set()
        self.requests = 0

    def around(self, app: ASGIApp) -> ASGIApp:
        async def counted(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                self.connections.add(tuple(scope["client"]))
                self.requests += 1
            await app(scope, receive, send)

        return counted


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
def watched(tmp_path: Path, seen: Seen) -> Iterator[RunningCatalog]:
    with running_catalog(tmp_path / "catalog.db", around=seen.around) as catalog:
        yield catalog


def test_of_many_forked_processes_every_run_arrives_once_and_in_batches(
    tmp_path: Path, mlflow: MlflowServer, watched: RunningCatalog, seen: Seen
) -> None:
    bench = Bench(tmp_path, mlflow.url)
    bench.recipe.write_text(RECIPE.format(mlflow=mlflow.url, catalog=watched.url))
    done = bench.python(_FORKS, bench.hooked(MLCAT_HOOK_SEND="1", MLCAT_HOOK_FLUSH_S="0.3"))
    assert (done.returncode, done.stderr) == (0, "")
    drained(bench.recipe)
    ids = (tmp_path / "ids").read_text().split()
    assert len(ids) == len(set(ids)) == FORKS
    assert models(watched, ids) == ids
    urns = [f"urn:li:mlModel:(urn:li:dataPlatform:mlflow,{one},PROD)" for one in ids]
    held = watched.store.get_many(urns, ["mlModelProperties"])
    assert {one["mlModelProperties"].version for one in held.values()} == {1}
    assert read_lines(bench.spool.dropped_file) == read_lines(bench.spool.refused_file) == []
    assert len(seen.connections) < FORKS / 2
    assert seen.requests < FORKS
