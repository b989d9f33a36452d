"""What is shown while a run goes on, and how logs look."""

import io
import json
import logging
import re
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from mlcat_ingest.cli import output
from mlcat_ingest.cli.options import OutputSettings
from mlcat_ingest.core.findings import UnansweredRequest
from mlcat_ingest.pipeline.report import progress
from mlcat_ingest.pipeline.report.progress import PlainProgress, Progress
from mlcat_ingest.workflows.plan_render import Line

NOW = Progress(records=1500, entities=1400, written=1300, evaluated=1200, elapsed_s=7.5)
WORDS = "1,500 records read, 1,400 entities merged, 1,300 written, 1,200 evaluated"


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("mlcat_ingest")
    handlers, level = list(root.handlers), ours.level
    yield
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    ours.setLevel(level)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("no_color", ["", "1"])
def test_progress_on_a_terminal_is_a_live_line(
    monkeypatch: pytest.MonkeyPatch, no_color: str
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", no_color)
    with OutputSettings().progress() as show:
        assert show is not None
        show(NOW)
    assert "1,500 records read" in terminal.getvalue()
    assert not no_color or "\x1b[3" not in terminal.getvalue()


@pytest.mark.parametrize("as_lines", [True, False])
def test_progress_elsewhere_is_a_line_now_and_then(
    as_lines: bool,  # noqa: FBT001 - parametrized
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal() if as_lines else io.StringIO())
    monkeypatch.setattr(progress, "PLAIN_INTERVAL_S", 0.0)
    caplog.set_level(logging.INFO)
    with OutputSettings(log_format="json" if as_lines else "text").progress() as show:
        assert show is not None
        show(NOW)
    assert caplog.messages == [WORDS]


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_says_who_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, *, terminal: bool
) -> None:
    stderr = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr(progress, "PLAIN_INTERVAL_S", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    caplog.set_level(logging.INFO)
    silent = UnansweredRequest("http://mlflow:5000/x", 8.2, "answers 429 (throttled)")
    with OutputSettings().progress() as show:
        assert show is not None
        show(replace(NOW, pending_request=replace(silent, seconds=4.9)))
        show(replace(NOW, pending_request=silent))
    reported = "http://mlflow:5000/x answers 429 (throttled); trying again for 8 s"
    if terminal:
        assert reported in stderr.getvalue()
    else:
        assert caplog.messages == [WORDS, f"{reported}; {WORDS}"]


def test_a_first_attempt_names_what_is_waited_for() -> None:
    page = UnansweredRequest("http://m/x", 15.2, peer="the MLflow server", what="page 2 of runs")
    assert str(page) == "waiting for the MLflow server (page 2 of runs, 15 s)"
    assert str(replace(page, what="")) == "waiting for the MLflow server (http://m/x, 15 s)"


def test_quiet_shows_no_progress() -> None:
    with OutputSettings(quiet=True).progress() as show:
        assert show is None


def test_plain_progress_speaks_every_five_seconds(caplog: pytest.LogCaptureFixture) -> None:
    now_s = 0.0
    show = PlainProgress(clock=lambda: now_s)
    with caplog.at_level(logging.INFO, "mlcat_ingest.progress"):
        for later_s in (1.0, 5.0, 6.0, 9.9, 10.0):
            now_s = later_s
            show(NOW)
    assert caplog.messages == [WORDS, WORDS]


def test_progress_as_json_has_the_numbers(capfd: pytest.CaptureFixture[str]) -> None:
    output.configure_logging(0, quiet=False, log_format="json")
    now_s = 0.0
    show = PlainProgress(clock=lambda: now_s)
    now_s = 5.0
    show(NOW)
    line = json.loads(capfd.readouterr().err)
    assert line["message"] == WORDS
    assert line["progress"]["written"] == 1300


def test_a_record_is_one_line_without_secrets(capfd: pytest.CaptureFixture[str]) -> None:
    output.configure_logging(0, quiet=False, log_format="text")
    logging.getLogger("mlcat_ingest.x").warning("%s", "http://u:pa55@host\nforged \x1b[31m")
    logging.getLogger("mlcat_ingest.x").info("plain")
    first, second = capfd.readouterr().err.splitlines()
    assert first[9:] == r"WARNING http://***@host\u000aforged \u001b[31m"
    assert second[9:] == "plain"


def log_a_failure() -> None:
    try:
        int("http://u:pa55@host")
    except ValueError:
        logging.getLogger("mlcat_ingest.x").debug("it failed", exc_info=True)


def test_tracebacks_come_with_debug_and_without_secrets(
    capfd: pytest.CaptureFixture[str],
) -> None:
    output.configure_logging(1, quiet=False, log_format="text")
    log_a_failure()
    err = capfd.readouterr().err
    assert "Traceback (most recent call last)" in err
    assert err.endswith("literal for int() with base 10: 'http://***@host'\n")
    output.configure_logging(1, quiet=False, log_format="json")
    log_a_failure()
    line = json.loads(capfd.readouterr().err)
    assert line["traceback"].endswith("'http://***@host'")


@pytest.mark.parametrize(
    ("verbosity", "quiet", "shown"),
    [
        (0, False, ["info", "warning"]),
        (0, True, ["warning"]),
        (1, False, ["debug", "info", "warning"]),
        (2, False, ["debug", "info", "warning", "theirs"]),
    ],
)
def test_how_much_is_reported(
    verbosity: int,
    quiet: bool,  # noqa: FBT001 - parametrized
    shown: list[str],
    capfd: pytest.CaptureFixture[str],
) -> None:
    output.configure_logging(verbosity, quiet=quiet, log_format="text")
    logging.getLogger("mlcat_ingest.x").debug("debug")
    logging.getLogger("mlcat_ingest.x").info("info")
    logging.getLogger("mlcat_ingest.x").warning("warning")
    logging.getLogger("urllib3.connectionpool").warning("theirs")
    assert [line.split()[-1] for line in capfd.readouterr().err.splitlines()] == shown


def test_logging_to_a_stderr_that_nobody_reads_is_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise BrokenPipeError

    output.configure_logging(0, quiet=False, log_format="text")
    monkeypatch.setattr("click.echo", fail)
    logging.getLogger("mlcat_ingest.x").warning("unheard")


def test_a_result_that_nobody_reads_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    dropped = []

    def fail(*_: object, **__: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("click.echo", fail)
    monkeypatch.setattr(output, "drop_stdout", lambda: dropped.append(True))
    output.out("result")
    assert dropped == [True]


@pytest.mark.parametrize("no_color", [True, False])
def test_what_to_look_at_in_a_report_is_coloured_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, *, no_color: bool
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    output.out_report("r: done\n    newly failing: urn:x\n  note         truncated: 1")
    shown = terminal.getvalue()
    assert ("\x1b[31m    newly failing: urn:x" in shown) is not no_color
    assert ("\x1b[33m  note         truncated: 1" in shown) is not no_color
    assert shown.startswith("r: done\n")


def test_lines_of_a_result_have_colours_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    lines = [Line("+ [bold]a[/bold] :smile: 1", "added"), Line("- b", "removed"), Line("c")]
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    output.out_lines(lines)
    # Older versions of rich colour the line's end, too.
    assert re.sub(r"\x1b\[\d+m\n\x1b\[0m", "\n", terminal.getvalue()) == (
        "\x1b[32m+ [bold]a[/bold] :smile: 1\x1b[0m\n\x1b[31m- b\x1b[0m\nc\n"
    )
    elsewhere = io.StringIO()
    monkeypatch.setattr(sys, "stdout", elsewhere)
    output.out_lines(lines)
    assert elsewhere.getvalue() == "+ [bold]a[/bold] :smile: 1\n- b\nc\n"
