"""`--metrics-file`: what the last run came to, in the format of Prometheus."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mlcat_ingest.cli.metrics_file import MetricsFile
from mlcat_ingest.cli.options import OutputSettings
from mlcat_ingest.errors import SourceUnavailableError
from mlcat_ingest.pipeline.report.report import (
    COUNTERS,
    EntityCounts,
    EvaluationSummary,
    PassSummary,
    Report,
    failure_of,
)
from mlcat_ingest.pipeline.report.verdict import TestVerdict, Verdict

NASTY = 'pr"od\\ \n1'
GOOD = Report(
    name=NASTY,
    started_at_ms=1_000_000,
    finished_at_ms=1_003_500,
    passes=(
        PassSummary("mlflow:1:default", full=True, why="", instance="eu", current_at_ms=1_000_500),
        PassSummary("mlflow:2:default", full=True, why=""),
    ),
    records=1_201,
    entities={"mlModel": EntityCounts(read=1_200, created=1_000, unchanged=190, rejected=10)},
    proposals_sent=2_001,
    dead_letters=12,
    failed_records=0,
    conflicts=3,
    source_requests=5,
    catalog_requests=28,
    evaluation=EvaluationSummary(1_001, 2_000, 3, {"urn:li:test:a": 3}),
)
ALL_WELL = replace(GOOD, entities={"mlModel": EntityCounts(read=1, created=1)})
FAILED = replace(
    ALL_WELL, finished_at_ms=2_000_000, failure=failure_of(SourceUnavailableError("no"))
)

Samples = Mapping[tuple[str, tuple[str, ...]], float]


def samples(path: Path) -> Samples:
    """The samples of a file by short name and label values, in the order of the labels."""
    found = {}
    for family in text_string_to_metric_families(path.read_text()):
        assert family.type == "gauge"
        assert family.documentation
        for sample in family.samples:
            assert sample.labels.pop("recipe") == NASTY
            name = sample.name.removeprefix("mlcat_ingest_")
            assert name != sample.name
            found[name, tuple(value for _, value in sorted(sample.labels.items()))] = sample.value
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mlcat.prom"


def write(path: Path, report: Report) -> Samples:
    assert MetricsFile(path, OutputSettings()).finish(report) == 0
    assert [one.name for one in path.parent.iterdir()] == [path.name]
    return samples(path)


def test_every_number_of_a_run(path: Path) -> None:
    others: dict[tuple[str, tuple[str, ...]], float] = {
        (shown.get("metric", name), ()): 0
        for name, shown in COUNTERS.items()
        if "help_text" in shown and "label" not in shown
    }
    assert write(path, GOOD) == {
        **others,
        ("up", ()): 0,  # ten were refused
        ("exit_code", ()): 4,
        ("last_run_timestamp_seconds", ()): 1_003.5,
        ("duration_seconds", ()): 3.5,
        ("records", ()): 1_201,
        ("failed_records", ()): 0,
        ("proposals", ()): 2_001,
        ("dead_letters", ()): 12,
        ("conflicts", ()): 3,
        ("entities", ("created", "mlModel")): 1_000,
        ("entities", ("updated", "mlModel")): 0,
        ("entities", ("removed", "mlModel")): 0,
        ("entities", ("unchanged", "mlModel")): 190,
        ("entities", ("rejected", "mlModel")): 10,
        ("requests", ("source",)): 5,
        ("requests", ("catalog",)): 28,
        ("evaluated_entities", ()): 1_001,
        ("test_results", ("passing",)): 2_000,
        ("test_results", ("failing",)): 3,
        ("evaluation_stopped", ()): 0,
        ("current_timestamp_seconds", ("eu", "mlflow:1:default")): 1_000.5,
        ("lag_seconds", ("eu", "mlflow:1:default")): 3.0,
    }


def test_the_last_success_outlives_a_failed_run(path: Path) -> None:
    assert ("last_success_timestamp_seconds", ()) not in write(path, FAILED)
    assert write(path, ALL_WELL)["last_success_timestamp_seconds", ()] == 1_003.5
    failed = write(path, FAILED)
    assert failed["last_success_timestamp_seconds", ()] == 1_003.5
    assert (failed["up", ()], failed["exit_code", ()]) == (0, 1)
    assert failed["last_run_timestamp_seconds", ()] == 2_000
    assert failed["lag_seconds", ("eu", "mlflow:1:default")] == 999.5


@pytest.mark.parametrize("rubbish", [b"mlcat_ingest_last_success", b"\xff{", b"a 1\n{}}}"])
def test_a_file_that_says_nothing_is_replaced(path: Path, rubbish: bytes) -> None:
    path.write_bytes(rubbish)
    assert ("last_success_timestamp_seconds", ()) not in write(path, FAILED)


def test_another_recipes_success_is_not_ours(path: Path) -> None:
    path.write_text('mlcat_ingest_last_success_timestamp_seconds{recipe="other"} 7\n')
    assert ("last_success_timestamp_seconds", ()) not in write(path, FAILED)


def test_the_gate_has_its_own_series(path: Path) -> None:
    verdict = Verdict("x", (TestVerdict("urn:li:test:x", "X", 5, 3, 1),))
    found = write(path, replace(ALL_WELL, gate=verdict))
    assert found["gate_passed", ()] == 0
    assert [found["gate_results", (one,)] for one in ("passing", "failing", "newly_failing")] == [
        5,
        3,
        1,
    ]
    assert (found["up", ()], found["exit_code", ()]) == (1, 3)
    assert found["last_success_timestamp_seconds", ()] == ALL_WELL.finished_at_ms / 1000


def test_evaluation_that_stopped_shows(path: Path) -> None:
    stopped = replace(ALL_WELL, evaluation=EvaluationSummary(not_evaluated="403"))
    assert write(path, stopped)["evaluation_stopped", ()] == 1


def test_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert MetricsFile(Path("-"), OutputSettings()).finish(ALL_WELL) == 0
    assert 'mlcat_ingest_up{recipe="pr\\"od\\\\ \\n1"} 1.0' in capsys.readouterr().out


def test_what_cannot_be_written_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert MetricsFile(tmp_path / "none" / "m.prom", OutputSettings()).finish(ALL_WELL) == 1
    assert "the metrics cannot be written" in capsys.readouterr().err
