"""`mlcat-ingest run`: what it reads, where it writes, what it prints, how it ends."""

import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlcat_ingest.catalog.server.lock import Running, ServerLock
from mlcat_ingest.cli import output
from mlcat_ingest.cli.options import OutputSettings
from mlcat_ingest.errors import SourceUnavailableError
from mlcat_ingest.pipeline.report.progress import OnProgress, Progress
from mlcat_ingest.recipe.model import Recipe
from support.cli import Invoke
from support.commands import ended
from support.fakes import FakeSink, FakeSource, model_urn
from support.sides import Built, Sides


def test_a_recipe_is_run_and_reported(invoke: Invoke, sides: Sides) -> None:
    result = invoke("recipe.yml")
    assert result.code == 0
    assert sides.read == ["recipe.yml"]
    assert result.out.startswith("test: everything arrived after ")
    assert "1 created, 0 updated, 0 unchanged" in result.out
    assert "writing to a catalog in memory" in result.err


def test_quiet_says_nothing_when_everything_arrived(invoke: Invoke, sides: Sides) -> None:
    for target in ("recipe.yml", "http://mlflow:5000"):
        result = invoke("-q", target)
        assert (result.code, result.out, result.err) == (0, "", "")
    assert sides.sink is not None
    assert list(sides.sink.stored) == [model_urn("r1")]


def test_quiet_says_what_did_not_arrive(invoke: Invoke, sides: Sides) -> None:
    assert sides.sink is not None
    sides.sink.refuse = {model_urn("r1")}
    result = invoke("recipe.yml", "-q")
    assert result.code == 4
    assert "not everything arrived" in result.out


@pytest.mark.usefixtures("sides")
def test_json_is_one_line_a_record_and_one_for_the_report(invoke: Invoke) -> None:
    result = invoke("recipe.yml", "--log-format", "json", "-v")
    assert result.code == 0
    assert json.loads(result.out)["entities"]["mlModel"]["created"] == 1
    lines = [json.loads(line) for line in result.err.splitlines()]
    assert {"time", "level", "logger", "message"} <= lines[0].keys()
    assert any(line["message"] == "writing to a catalog in memory" for line in lines)


@pytest.mark.usefixtures("sides")
def test_the_report_is_a_file_also_where_standard_output_takes_nothing(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: str) -> None:
        raise output.StdoutError("standard output cannot be written: No space left on device")

    monkeypatch.setattr(output, "out", full)
    result = invoke("recipe.yml", "--report", str(tmp_path / "r.json"))
    assert (result.code, result.err.count("standard output cannot be written")) == (1, 1)
    assert json.loads((tmp_path / "r.json").read_text())["finished"] is True


def test_a_folder_for_the_report_that_is_not_there_is_a_usage_error(
    invoke: Invoke, sides: Sides, tmp_path: Path
) -> None:
    result = invoke("recipe.yml", "--report", str(tmp_path / "none" / "r.json"))
    assert result.code == 2
    assert "does not exist" in result.err
    assert sides.read == []


@pytest.mark.usefixtures("sides")
def test_a_report_that_cannot_be_written_is_a_failure(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mlcat_ingest.cli.files.write_whole", fail)
    result = invoke("recipe.yml", "--report", str(tmp_path / "r.json"))
    assert result.code == 1
    assert "the report cannot be written" in result.err
    assert "No space left on device" in result.err


def test_an_address_needs_no_recipe_and_prints_the_one_it_used(
    invoke: Invoke, sides: Sides
) -> None:
    options = ("--to", "http://catalog:8080", "--limit", "5", "--instance", "team-a")
    result = invoke("http://mlflow:5000", *options)
    assert result.code == 0
    [recipe] = sides.read
    assert isinstance(recipe, Recipe)
    assert recipe.sources[0].config == {
        "tracking_uri": "http://mlflow:5000",
        "limit": 5,
        "instance": "team-a",
    }
    assert "tracking_uri: http://mlflow:5000" in result.err
    assert "http://catalog:8080" in result.err


@pytest.mark.parametrize("option", ["--to", "--limit", "--instance"])
def test_options_of_an_address_do_not_go_with_a_recipe(
    option: str, invoke: Invoke, sides: Sides
) -> None:
    result = invoke("recipe.yml", option, "3")
    assert result.code == 2
    assert f"{option} can only be used with an MLflow URL" in result.err
    assert sides.read == []


def test_without_a_sink_the_catalog_in_the_box_is_used_and_reported_first(
    invoke: Invoke, sides: Sides, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    sides.sink = None
    box = FakeSink()
    asked = []

    def embedded(folder: Path) -> Built:
        asked.append(folder)
        return Built(box)

    monkeypatch.setattr("mlcat_ingest.workflows.resolve.embedded_sink", embedded)
    result = invoke("recipe.yml")
    assert result.code == 0
    assert asked == [tmp_path]
    assert result.err.splitlines()[0] == (
        "No sink configured: writing to the embedded catalog ./mlcat-catalog.db"
    )
    assert list(box.stored) == [model_urn("r1")]
    assert result.err.splitlines()[-1].endswith("mlcat-ingest catalog serve --db mlcat-catalog.db")
    with ServerLock.acquire("mlcat-catalog.db") as lock:
        for url, dies_with_parent, shown in (
            (None, False, "mlcat-ingest catalog serve --db mlcat-catalog.db"),
            ("http://127.0.0.1:1", True, "mlcat-ingest catalog serve --db mlcat-catalog.db"),
            ("http://127.0.0.1:1", False, "http://127.0.0.1:1"),
        ):
            lock.announce(Running(1, url, dies_with_parent=dies_with_parent))
            assert invoke("recipe.yml").err.splitlines()[-1] == f"To view it: {shown}"


def test_json_logs_stay_json_whatever_is_reported(
    invoke: Invoke, sides: Sides, monkeypatch: pytest.MonkeyPatch
) -> None:
    sides.sink = None
    monkeypatch.setattr("mlcat_ingest.workflows.resolve.embedded_sink", lambda _: Built(FakeSink()))
    result = invoke("http://mlflow:5000", "--log-format", "json")
    messages = [json.loads(line)["message"] for line in result.err.splitlines()]
    assert messages[0].startswith("No sink configured")


def test_without_a_sink_and_without_anybody_watching_it_is_an_error(
    invoke: Invoke, sides: Sides
) -> None:
    sides.sink = None
    result = invoke("recipe.yml", "--no-input")
    assert result.code == 2
    assert "has no sink" in result.err


def test_a_source_that_fails_at_once_is_one_message(invoke: Invoke, sides: Sides) -> None:
    sides.source = FakeSource(error=SourceUnavailableError("MLflow is gone", hint="start it"))
    result = invoke("recipe.yml")
    assert (result.code, result.out) == (1, "")
    assert result.err.splitlines()[-1] == "mlcat-ingest: MLflow is gone (start it)"
    assert "Traceback" not in result.err


def test_a_source_that_breaks_off_is_reported(invoke: Invoke, sides: Sides) -> None:
    sides.source.error = SourceUnavailableError("MLflow is gone")
    result = invoke("recipe.yml")
    assert result.code == 1
    assert "failed after" in result.out
    assert "the counted writes were acknowledged" in result.out
    assert result.err.count("MLflow is gone") == 1


def test_a_defect_says_how_to_see_more(invoke: Invoke, sides: Sides) -> None:
    sides.source = FakeSource(error=ZeroDivisionError("oops"))
    first = invoke("recipe.yml")
    assert first.code == 1
    assert first.err.endswith("ZeroDivisionError: oops; run with -vv for a traceback\n")
    sides.source = FakeSource(error=ZeroDivisionError("oops"))
    second = invoke("-vv", "recipe.yml")
    assert "Traceback (most recent call last)" in second.err
    assert second.err.endswith("mlcat-ingest: ZeroDivisionError: oops\n")


@pytest.mark.usefixtures("sides")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_end_ends_a_run_with_its_report(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    @contextlib.contextmanager
    def terminating(_: object) -> Iterator[OnProgress]:
        def show(_: Progress) -> None:
            os.kill(os.getpid(), number)

        yield show

    # The tests themselves may run under nohup.
    outside = signal.signal(number, signal.SIG_DFL)
    monkeypatch.setattr(OutputSettings, "progress", terminating)
    try:
        result = invoke("recipe.yml")
        assert result.code == 130
        assert "interrupted after" in result.out
        assert signal.getsignal(number) == signal.SIG_DFL
    finally:
        signal.signal(number, outside)


@pytest.mark.usefixtures("sides")
def test_a_run_under_nohup_outlives_its_terminal(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.contextmanager
    def closing(_: object) -> Iterator[OnProgress]:
        yield lambda _: os.kill(os.getpid(), signal.SIGHUP)

    monkeypatch.setattr(OutputSettings, "progress", closing)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert invoke("recipe.yml").code == 0
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.process
@pytest.mark.parametrize("as_recipe", [True, False])
def test_a_scheme_that_nothing_opens_is_reported_before_anything_is_loaded(
    tmp_path: Path, *, as_recipe: bool
) -> None:
    name = "htp://mlflow:5000"
    if as_recipe:
        name = str(tmp_path / "r.yml")
        Path(name).write_text(
            "sources: [{type: mlflow, config: {tracking_uri: 'htp://mlflow:5000'}}]\n"
            "sink: {type: file, config: {path: out.jsonl}}\n"
        )
    script = (
        "import sys; from mlcat_ingest.cli.main import call\n"
        f"code = call([{name!r}, '--no-input'])\n"
        "sys.exit(9 if 'mlflow' in sys.modules else code)"
    )
    done = ended([sys.executable, "-c", script], 2, cwd=tmp_path)
    assert "unknown scheme htp:// (did you mean http://?); supported schemes: databricks" in (
        done.stderr
    )
    assert "https, mssql, mysql, postgres, postgresql, sqlite" in done.stderr
