from pathlib import Path

import pytest

from mlcat_ingest.client.config import FileSinkConfig
from mlcat_ingest.client.file import FileCatalog
from mlcat_ingest.errors import SourceUnavailableError
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.pipeline.run import PipelineRun, RunOptions
from support.fakes import FakeSource, model_urn
from support.recipes import a_recipe, run

ENTITIES = [Entity(model_urn("a"), {"mlModelProperties": {"name": "a"}})]


def test_a_run_that_completes_puts_the_file_in_place(tmp_path: Path) -> None:
    sink = FileCatalog(FileSinkConfig(path=tmp_path / "x"))
    report = run(sink, *ENTITIES)
    assert report.exit_code == 0
    assert (tmp_path / "x").read_bytes().count(b"\n") == 1


def test_a_run_that_breaks_off_leaves_the_old_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "x").write_text("old")
    source = FakeSource([ENTITIES], error=SourceUnavailableError("gone"))
    sink = FileCatalog(FileSinkConfig(path=tmp_path / "x"))
    report = PipelineRun([source], sink, RunOptions(a_recipe("r"))).execute()
    assert report.exit_code == 1
    assert (tmp_path / "x").read_text() == "old"
    assert f"the run did not complete; its proposals are in {tmp_path / 'x.partial'}" in caplog.text
