"""MLflow dies between two pages: started again it is read to the end, gone for good it is told."""

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.testing.service import failing_service
from support.fault_world import Origin, Undisturbed, assert_sums, world
from support.faults import Faults
from support.mlflow_server import MlflowServer, running
from support.venvs import OURS

pytestmark = pytest.mark.integration

DIES_AT = 7
"""The request that MLflow does not live to see: by then the first pages of runs are read."""


@dataclass
class Mortal:
    """A real server behind a proxy: killed at a request, started again two requests later."""

    store: Path
    faults: Faults = field(default_factory=lambda: Faults(""))
    held: ExitStack = field(default_factory=ExitStack)
    server: MlflowServer | None = None
    dies_at: int = DIES_AT
    comes_back: bool = True
    starts: int = 0

    def start(self) -> None:
        self.server = self.held.enter_context(running(OURS, self.store))
        self.faults.upstream = self.server.url
        self.starts += 1

    def die_for_good_soon(self) -> None:
        self.dies_at, self.comes_back = self.faults.seen + DIES_AT, False

    def at(self, number: int) -> bool:
        if number == self.dies_at:
            assert self.server is not None
            self.server.process.kill()
            self.server.stop()
        elif number == self.dies_at + 2 and self.comes_back:
            self.start()
        return number < self.dies_at or (number > self.dies_at + 1 and self.comes_back)


@contextmanager
def mortal(folder: Path, origin: Origin) -> Iterator[tuple[Mortal, str]]:
    folder.mkdir()
    shutil.copy(origin.first, folder / "mlflow.db")
    mlflow = Mortal(folder)
    mlflow.faults.before = mlflow.at
    with mlflow.held, failing_service(mlflow.faults) as proxy:
        mlflow.start()
        yield mlflow, proxy.url


def created(*reports: dict[str, Any]) -> Counter[str]:
    found: Counter[str] = Counter()
    for report in reports:
        found.update({kind: one["created"] for kind, one in report["entities"].items()})
    return found


def test_mlflow_dies_and_comes_back_and_dies_for_good(
    origin: Origin, tmp_path: Path, undisturbed: Undisturbed
) -> None:
    usual, contents = undisturbed.report, undisturbed.contents
    with (
        world(tmp_path / "again", origin) as again,
        world(tmp_path / "gone", origin) as gone,
        mortal(tmp_path / "mlflow", origin) as (mlflow, url),
    ):
        # Killed between two pages and started again, it is read to its end.
        report = again.run(again.recipe(again.catalog.url, tracking_uri=url))
        assert (mlflow.starts, report["exit_code"]) == (2, 0)
        assert report["records"] == usual["records"]
        assert report["entities"] == usual["entities"]
        assert_sums(report)
        assert again.contents() == contents

        # Gone for good, what was read of it is there, and counted once.
        mlflow.die_for_good_soon()
        broken = gone.run(gone.recipe(gone.catalog.url, tracking_uri=url, retries=1))
        assert mlflow.starts == 2
        assert (broken["exit_code"], broken["failure"]["kind"]) == (1, "SourceUnavailableError")
        assert 0 < broken["records"] < usual["records"]
        assert_sums(broken)
        assert broken["dead_letters"] == 0
        there = Counter(map(entity_type_of, gone.contents()))
        del there["test"]
        assert +created(broken) == there
        assert len(gone.contents()) < len(contents)

        # The next run, of the database that it left, brings the rest.
        whole = gone.ingest()
        assert whole["exit_code"] == 0
        assert_sums(whole)
        assert created(broken, whole) == created(usual)
        assert gone.contents() == contents
