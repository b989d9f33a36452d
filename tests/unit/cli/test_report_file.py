"""The file of `--report`: whole at any moment, and never in the place of a device."""

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlcat_ingest.cli.options import OutputSettings
from mlcat_ingest.cli.report_file import ReportFile
from mlcat_ingest.cli.whole_file import write_whole
from mlcat_ingest.pipeline.report.report import Report

GOING_ON = Report("t", 1_000, 2_000, finished=False)
ENDED = Report("t", 1_000, 3_000)


def test_it_says_how_far_a_run_is_until_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    file = ReportFile(path, OutputSettings())
    file.keep(GOING_ON)
    kept = json.loads(path.read_text())
    assert (kept["finished"], kept["exit_code"], kept["finished_at_ms"]) == (False, None, 2_000)
    assert file.finish(ENDED) == 0
    assert json.loads(path.read_text())["finished"] is True
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    link = tmp_path / "link.json"
    link.symlink_to(tmp_path / "deep" / "r.json")
    ReportFile(link, OutputSettings()).keep(GOING_ON)
    assert link.is_symlink()
    assert json.loads((tmp_path / "deep" / "r.json").read_text())["name"] == "t"


def test_a_pipe_gets_the_report_of_the_end_only(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        file = ReportFile(pipe, OutputSettings())
        file.keep(GOING_ON)
        assert file.finish(ENDED) == 0
        assert json.loads(os.read(reader, 65_536))["finished"] is True
    finally:
        os.close(reader)
    assert pipe.is_fifo()


def test_standard_output_gets_the_report_of_the_end_only(
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = ReportFile(Path("-"), OutputSettings())
    file.keep(GOING_ON)
    assert file.finish(ENDED) == 0
    assert json.loads(capsys.readouterr().out)["finished"] is True


def test_what_cannot_be_written_is_said_in_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = ReportFile(tmp_path / "none" / "r.json", OutputSettings())
    file.keep(GOING_ON)
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
