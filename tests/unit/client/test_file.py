import json
import threading
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.client.config import FileSinkConfig
from mlcat_ingest.client.file import FileCatalog
from mlcat_ingest.core.findings import Finding
from mlcat_ingest.errors import CatalogUnavailableError, RecipeError
from mlcat_ingest.metadata.proposal import Proposal
from support.fakes import model_urn
from support.machine import needs_dev_full


def sink_at(path: Path) -> FileCatalog:
    return FileCatalog(FileSinkConfig(path=path))


def proposal(name: str, **fields: Any) -> Proposal:
    return Proposal(model_urn(name), "mlModelProperties", fields)


def test_a_file_that_is_only_read_is_not_made(tmp_path: Path) -> None:
    sink = sink_at(tmp_path / "out" / "x.jsonl")
    assert sink.open(read_only=True) == f"the file {tmp_path / 'out' / 'x.jsonl'}"
    assert sink.read_many([model_urn("a")], ["status"]) == {}
    sink.close()
    assert list(tmp_path.iterdir()) == []


def test_a_line_is_a_proposal(tmp_path: Path) -> None:
    sink = sink_at(tmp_path / "out" / "x.jsonl")
    assert sink.open() == f"the file {tmp_path / 'out' / 'x.jsonl'}"
    conditional = Proposal("urn:li:tag:a", "tagProperties", {"name": "a"}, headers={"H": "1"})
    assert sink.write([proposal("größe", description="line\nbreak ü"), conditional]) == []
    sink.close()
    sink.close()
    assert (tmp_path / "out" / "x.jsonl").read_text("utf-8") == (
        '{"entityType":"mlModel",'
        '"entityUrn":"urn:li:mlModel:(urn:li:dataPlatform:mlflow,größe,PROD)",'
        '"changeType":"UPSERT","aspectName":"mlModelProperties",'
        '"aspect":{"json":{"description":"line\\nbreak ü"}}}\n'
        '{"entityType":"tag","entityUrn":"urn:li:tag:a","changeType":"UPSERT",'
        '"aspectName":"tagProperties","aspect":{"json":{"name":"a"}},"headers":{"H":"1"}}\n'
    )
    assert [one.name for one in (tmp_path / "out").iterdir()] == ["x.jsonl"]


@pytest.mark.parametrize("count", [0, 1, 5])
def test_a_json_file_is_one_list(tmp_path: Path, count: int) -> None:
    sink = sink_at(tmp_path / "x.JSON")
    sink.open()
    for n in range(count):
        sink.write([proposal(str(n))])
    sink.close()
    listed = json.loads((tmp_path / "x.JSON").read_bytes())
    assert [one["entityUrn"] for one in listed] == [model_urn(str(n)) for n in range(count)]


def test_no_proposals_make_an_empty_file(tmp_path: Path) -> None:
    sink = sink_at(tmp_path / "x")
    sink.open()
    assert sink.write([]) == []
    sink.close()
    assert (tmp_path / "x").read_bytes() == b""


def test_the_old_file_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("old")
    sink = sink_at(path)
    sink.open()
    sink.write([proposal("a")])
    assert path.read_text() == "old"
    sink.close(complete=False)
    assert path.read_text() == "old"
    assert b"mlModel" in (tmp_path / "x.partial").read_bytes()


def test_a_link_keeps_pointing_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    sink = sink_at(tmp_path / "link")
    sink.open()
    sink.write([proposal("a")])
    sink.close()
    assert (tmp_path / "link").is_symlink()
    assert b"mlModel" in (tmp_path / "target").read_bytes()


def test_what_has_no_json_form_is_refused_alone(tmp_path: Path) -> None:
    sink = sink_at(tmp_path / "x")
    sink.open()
    nan = proposal("nan", value=float("nan"))
    refused = sink.write([nan, proposal("good"), Proposal("nonsense", "status", {})])
    sink.close()
    assert [(one.urn, one.status) for one in refused] == [(model_urn("nan"), 0), ("nonsense", 0)]
    assert "not written: no faithful JSON form: nan" in refused[0].reason
    assert len((tmp_path / "x").read_bytes().splitlines()) == 1


def test_several_threads_write_whole_lines(tmp_path: Path) -> None:
    sink = sink_at(tmp_path / "x")
    sink.open()

    def write(thread: int) -> None:
        for n in range(50):
            sink.write([proposal(f"{thread}-{n}-{i}") for i in range(3)])

    threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sink.close()
    urns = {json.loads(line)["entityUrn"] for line in (tmp_path / "x").read_bytes().splitlines()}
    assert len(urns) == 4 * 50 * 3


def test_a_file_neither_reads_nor_evaluates(tmp_path: Path) -> None:
    sink = sink_at(tmp_path / "x")
    assert sink.read_many([model_urn("a")], ["status"]) == {}
    reported = sink.evaluator.evaluate_batch([model_urn("a")], should_push=True, test_urns=[])
    assert reported.outcomes == {}
    assert reported.not_evaluated == "a file cannot evaluate metadata tests"
    assert sink.traffic.requests_made() == 0


def test_places_that_cannot_be_written_are_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    with pytest.raises(RecipeError, match=r"cannot write .*: "):
        sink_at(tmp_path / "file" / "x").open()
    with pytest.raises(RecipeError, match="is not a regular file"):
        sink_at(tmp_path / "folder").open()
    with pytest.raises(CatalogUnavailableError, match="is not open"):
        sink_at(tmp_path / "x").write([proposal("a")])


@needs_dev_full
def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    sink = sink_at(tmp_path / "x")
    with Path("/dev/full").open("wb", buffering=0) as full:
        sink._file = full
        with pytest.raises(CatalogUnavailableError, match="No space left"):
            sink.write([proposal("a")])
        with pytest.raises(CatalogUnavailableError, match="No space left"):
            sink.close()
    assert not (tmp_path / "x").exists()


def test_check_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    good = tmp_path / "new" / "folder" / "x"
    assert list(sink_at(good).check()) == [Finding("file", "ok", str(good))]
    for bad in (tmp_path / "file" / "x", tmp_path):
        [finding] = sink_at(bad).check()
        assert finding.outcome == "failed"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]
