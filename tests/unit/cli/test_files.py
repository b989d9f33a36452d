"""Files of a run: `--metrics-file`, `--report`, and `--junit` with its quality gate."""

import errno
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mlcat_ingest.cli.files import OutputFiles, write_whole
from mlcat_ingest.cli.options import OutputSettings
from mlcat_ingest.errors import SourceUnavailableError
from mlcat_ingest.pipeline.report.report import (
    COUNTERS,
    EntityCounts,
    EvaluationSummary,
    PassSummary,
    Report,
    TestVerdict,
    Verdict,
    failure_of,
)
from support.cli import Invoke
from support.fakes import FakeSink, FakeSource, model_urn
from support.junit_schema import suites_of
from support.sides import Sides, model

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
    assert OutputFiles(OutputSettings(), metrics_file=path).finish(report) == 0
    assert [one.name for one in path.parent.iterdir()] == [path.name]
    return samples(path)


def blocked(path: Path) -> Path:
    """Return a path that cannot be written: a folder is where its first half would be."""
    path.with_name(f"{path.name}.partial").mkdir()
    return path


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
        ("entities", ("still_removed", "mlModel")): 0,
        ("entities", ("left_out", "mlModel")): 0,
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
    assert OutputFiles(OutputSettings(), metrics_file=Path("-")).finish(ALL_WELL) == 0
    assert 'mlcat_ingest_up{recipe="pr\\"od\\\\ \\n1"} 1.0' in capsys.readouterr().out


def test_what_cannot_be_written_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        OutputFiles(OutputSettings(), metrics_file=blocked(tmp_path / "m.prom")).finish(ALL_WELL)
        == 1
    )
    assert "the metrics cannot be written" in capsys.readouterr().err


GOING_ON = Report("t", 1_000, 2_000, finished=False)
ENDED = Report("t", 1_000, 3_000)


def keep(files: OutputFiles, report: Report) -> None:
    assert files.keep is not None
    files.keep(report)


def test_it_says_how_far_a_run_is_until_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    file = OutputFiles(OutputSettings(), report_file=path)
    keep(file, GOING_ON)
    kept = json.loads(path.read_text())
    assert (kept["finished"], kept["exit_code"], kept["finished_at_ms"]) == (False, None, 2_000)
    assert file.finish(ENDED) == 0
    assert json.loads(path.read_text())["finished"] is True
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    link = tmp_path / "link.json"
    link.symlink_to(tmp_path / "deep" / "r.json")
    keep(OutputFiles(OutputSettings(), report_file=link), GOING_ON)
    assert link.is_symlink()
    assert json.loads((tmp_path / "deep" / "r.json").read_text())["name"] == "t"


def test_a_pipe_gets_the_report_of_the_end_only(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        file = OutputFiles(OutputSettings(), report_file=pipe)
        keep(file, GOING_ON)
        assert file.finish(ENDED) == 0
        assert json.loads(os.read(reader, 65_536))["finished"] is True
    finally:
        os.close(reader)
    assert pipe.is_fifo()


def test_standard_output_gets_the_report_of_the_end_only(
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = OutputFiles(OutputSettings(), report_file=Path("-"))
    assert file.keep is None
    assert file.finish(ENDED) == 0
    assert json.loads(capsys.readouterr().out)["finished"] is True


def test_what_cannot_be_written_is_reported_in_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = OutputFiles(OutputSettings(), report_file=blocked(tmp_path / "r.json"))
    keep(file, GOING_ON)
    assert capsys.readouterr().err == ""
    assert file.finish(ENDED) == 1
    assert "the report cannot be written" in capsys.readouterr().err


def test_what_cannot_be_written_leaves_nothing_half_written(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text("before")

    def pieces() -> Iterator[str]:
        yield "half"
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match=r"No space left"):
        write_whole(path, pieces())
    assert [one.name for one in tmp_path.iterdir()] == ["r.json"]
    assert path.read_text() == "before"


OWNED = "urn:li:test:owned"


@pytest.fixture
def sink(sides: Sides) -> FakeSink:
    sides.source = FakeSource([[model(name) for name in "abc"]])
    sides.sink = FakeSink(failing_tests={model_urn("b"): (OWNED,)})
    return sides.sink


@pytest.mark.usefixtures("sink")
def test_a_failing_test_is_status_3_and_named(invoke: Invoke) -> None:
    result = invoke("recipe.yml", "--fail-on-tests", "owned")
    assert result.code == 3
    assert "but metadata tests did not pass" in result.out
    assert (
        "1 newly failing, 0 still failing, 0 passing, of the tests that match 'owned'" in result.out
    )
    assert f"newly failing: {model_urn('b')} b: {OWNED}" in result.out
    assert invoke("recipe.yml", "--fail-on-tests", "named").code == 0


@pytest.mark.usefixtures("sink")
def test_the_report_holds_the_verdict(invoke: Invoke, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    assert invoke("recipe.yml", "--fail-on-tests", "owned", "--report", str(file)).code == 3
    report = json.loads(file.read_text())
    assert report["exit_code"] == 3
    assert report["gate"] == {
        "passed": False,
        "pattern": "owned",
        "passing": 0,
        "failing": 1,
        "newly_failing": 1,
        "unevaluated": 0,
        "not_evaluated": [],
        "tests": [{"urn": OWNED, "name": None, "passing": 0, "failing": 1, "newly_failing": 1}],
        "examples": [{"entity": model_urn("b"), "test": OWNED, "newly": True, "name": "b"}],
    }
    invoke("recipe.yml", "--report", str(file))
    assert json.loads(file.read_text())["gate"] is None


def test_junit_has_a_suite_a_test_and_a_case_an_entity(
    invoke: Invoke, sink: FakeSink, tmp_path: Path
) -> None:
    file = tmp_path / "tests.xml"
    sink.put(OWNED, "testInfo", {"name": 'Has <an> "owner" & a \x0bname'})
    result = invoke("recipe.yml", "--fail-on-tests", ".", "--junit", str(file))
    assert result.code == 3
    named, owned = suites_of(file)
    assert [case.get("name") for case in named.iter("testcase")] == [model_urn(n) for n in "abc"]
    assert (named.get("tests"), named.get("failures"), named.get("package")) == ("3", "0", "test")
    [case] = owned.iter("testcase")
    assert case.get("name") == model_urn("b")
    [failure] = case
    assert failure.get("message", "").startswith('newly failing: Has <an> "owner" & a ')
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("known", [True, False])
def test_what_was_not_evaluated_is_skipped(
    invoke: Invoke,
    sink: FakeSink,
    tmp_path: Path,
    known: bool,  # noqa: FBT001
) -> None:
    file = tmp_path / "tests.xml"
    if known:
        sink.not_evaluated = "the token may not (403)"
    pattern = "named" if known else "nosuch"
    result = invoke("recipe.yml", "--fail-on-tests", pattern, "--junit", str(file))
    assert result.code == 3
    [suite] = suites_of(file)
    skipped = [case.get("name") for case in suite.iter("testcase")]
    assert skipped == ([model_urn(name) for name in "abc"] if known else ["nosuch"])
    [reason] = {one.get("message") for one in suite.iter("skipped")}
    assert re.search("403" if known else "no evaluated metadata test", reason or "")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--fail-on-tests", "(a"), "is not a regular expression"),
        (("--junit", "tests.xml"), "--junit requires --fail-on-tests"),
        (("--fail-on-tests", "a", "--junit", "none/tests.xml"), "the folder none does not exist"),
    ],
)
def test_usage_errors(invoke: Invoke, sink: FakeSink, options: tuple[str, ...], words: str) -> None:
    result = invoke("recipe.yml", *options)
    assert result.code == 2
    assert words in result.err
    assert sink.writes == []


@pytest.mark.usefixtures("sink")
def test_results_that_cannot_be_written_are_a_failure(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "tests.xml.partial").mkdir()
    file = tmp_path / "tests.xml"
    result = invoke("recipe.yml", "--fail-on-tests", "named", "--junit", str(file))
    assert result.code == 1
    assert f"the test results cannot be written to {file}: Is a directory" in result.err
