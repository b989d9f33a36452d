"""The exit status of a run with a hook drain: the worse of both, wherever a status is shown."""

import json
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mlcat_ingest.errors import (
    CatalogUnavailableError,
    MlcatError,
    RecipeError,
    SourceUnavailableError,
    StateUnavailableError,
)
from mlcat_ingest.hooks.drain import DrainResult
from mlcat_ingest.hooks.spool import Event, EventSpool
from mlcat_ingest.pipeline.report.report import (
    EntityCounts,
    HooksSummary,
    Report,
    failure_of,
    worst,
)
from support.cli import Invoke, Result
from support.fakes import FakeSource, model_urn
from support.sides import Sides

RUNS: Final = (0, 3, 4)
"""Statuses of runs after which the spool is drained."""

EMPTY: Final = Report("test", 0, 1)
DRAINS: Final = {
    0: None,
    4: replace(EMPTY, entities={"mlModel": EntityCounts(read=1, rejected=1)}),
    1: replace(EMPTY, failure=failure_of(CatalogUnavailableError("no answer from the catalog"))),
    2: replace(EMPTY, failure=failure_of(RecipeError("a limit would be passed"))),
    130: replace(EMPTY, interrupted=True),
}
WORST: Final = (130, 2, 1, 4, 3, 0)


def metrics(path: Path) -> dict[str, float]:
    families = text_string_to_metric_families(path.read_text())
    return {
        sample.name.removeprefix("mlcat_ingest_"): sample.value
        for family in families
        for sample in family.samples
    }


class Bench:
    """A run of a recipe of fakes that finds an event in its spool."""

    def __init__(self, folder: Path, invoke: Invoke, sides: Sides) -> None:
        self.folder, self.sides, self._invoke = folder, sides, invoke
        self.spool = EventSpool(folder / "spool")
        self.spool.put(Event("r9"))

    def run(self, status: int) -> Result:
        """Run so that the run alone ends with `status`."""
        assert self.sides.sink is not None
        if status == 1:
            self.sides.source = FakeSource(error=SourceUnavailableError("no answer"))
        self.sides.sink.refuse = {model_urn("r1")} if status == 4 else set()
        gate = ["--fail-on-tests", "named-like-no-test"] if status == 3 else []
        files = ["--report", f"{self.folder}/r.json", "--metrics-file", f"{self.folder}/m.prom"]
        return self._invoke("recipe.yml", "--spool", str(self.spool.folder), *files, *gate)

    def statuses(self) -> tuple[int, int]:
        """What the report and the metrics say of the last run."""
        report = json.loads((self.folder / "r.json").read_text())
        return report["exit_code"], int(metrics(self.folder / "m.prom")["exit_code"])


@pytest.fixture
def bench(tmp_path: Path, invoke: Invoke, sides: Sides) -> Bench:
    return Bench(tmp_path, invoke, sides)


def drains_to(monkeypatch: pytest.MonkeyPatch, found: DrainResult | MlcatError) -> None:
    def drain_into(*_: object, **__: object) -> DrainResult:
        if isinstance(found, MlcatError):
            raise found
        return found

    monkeypatch.setattr("mlcat_ingest.hooks.drain.drain_into", drain_into)


@pytest.mark.parametrize("drain", DRAINS)
@pytest.mark.parametrize("run", RUNS)
def test_the_worse_of_run_and_drain_is_the_status_everywhere(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, run: int, drain: int
) -> None:
    left = 0 if drain == 0 else 1
    report = DRAINS[drain]
    code = 0 if report is None else report.exit_code
    result = DrainResult(HooksSummary(code, 1 - left, 1 - left, left=left), report)
    drains_to(monkeypatch, result)
    expected = min(run, drain, key=WORST.index)
    done = bench.run(run)
    assert done.code == expected
    assert bench.statuses() == (expected, expected)
    found = metrics(bench.folder / "m.prom")
    assert found["up"] == (expected in {0, 3})
    assert ("last_success_timestamp_seconds" in found) == (expected in {0, 3})
    hooks = json.loads((bench.folder / "r.json").read_text())["hooks"]
    assert (hooks["exit_code"], hooks["left"]) == (drain, left)
    assert done.out.startswith("test: everything arrived") == (expected in {0, 3})
    message = "0 events of 0 runs; 1 remaining" if left else "1 event of 1 run; 0 remaining"
    assert f"  hooks        processed {message}" in done.out


@pytest.mark.parametrize(
    ("error", "status"),
    [(StateUnavailableError("the spool cannot be used"), 1), (RecipeError("no such folder"), 2)],
)
def test_a_drain_that_cannot_begin_is_in_the_report_of_the_run(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, error: MlcatError, status: int
) -> None:
    drains_to(monkeypatch, error)
    done = bench.run(3)
    assert (done.code, *bench.statuses()) == (status, status, status)
    assert json.loads((bench.folder / "r.json").read_text())["finished"] is True
    assert str(error) in done.err
    assert str(error) in done.out


def test_a_run_that_failed_does_not_drain(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    drains_to(monkeypatch, AssertionError("drained"))  # type: ignore[arg-type]
    assert bench.run(1).code == 1
    assert bench.statuses() == (1, 1)
    assert json.loads((bench.folder / "r.json").read_text())["hooks"] is None
    assert bench.spool.pending() == 1


def test_a_run_without_a_spool_says_nothing_of_hooks(bench: Bench) -> None:
    shutil.rmtree(bench.spool.folder)
    done = bench.run(0)
    assert (done.code, "hooks  " in done.out) == (0, False)
    assert json.loads((bench.folder / "r.json").read_text())["hooks"] is None


def test_one_table_orders_the_statuses() -> None:
    for worse, better in pairwise(WORST):
        assert worst(better, worse) == worst(worse, better) == worse
    assert worst(0) == 0
