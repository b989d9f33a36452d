"""The embedded sink with its real child process, and beside servers that are alive already."""

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mlcat_ingest.catalog.server.lock import Running, ServerLock, read_lock
from mlcat_ingest.cli.main import call
from mlcat_ingest.client.config import EmbeddedSinkConfig
from mlcat_ingest.client.embedded import EmbeddedCatalog
from mlcat_ingest.errors import AuthenticationError, CatalogUnavailableError, RecipeError
from mlcat_ingest.metadata.proposal import Proposal
from mlcat_ingest.testing.service import ServiceAnswer, failing_service
from support.catalog_server import running_catalog
from support.fakes import model_urn

URN = model_urn("m")


def sink_on(db: Path) -> EmbeddedCatalog:
    return EmbeddedCatalog(EmbeddedSinkConfig.model_validate({"db": f"sqlite:///{db}"}))


@contextmanager
def opened(db: Path) -> Iterator[EmbeddedCatalog]:
    sink = sink_on(db)
    try:
        sink.open()
        yield sink
    finally:
        sink.close()


def test_a_catalog_that_is_only_read_is_not_made(tmp_path: Path) -> None:
    db = tmp_path / "catalog.db"
    sink = sink_on(db)
    assert sink.open(read_only=True) == f"the catalog in {db}, not created yet"
    assert sink.read_many([URN], ["status"]) == {}
    assert sink.read_stamps([URN], ["status"]) == {}
    found = sink.search.entities_of_source("mlModel", "mlflow:s:default")
    assert (found.total, list(found.pages)) == (0, [])
    assert list(sink.search.members("urn:li:mlModelGroup:(g)")) == []
    assert list(sink.search.metadata_tests()) == []
    assert sink.search.datasets_like(["a", "b"]) == [[], []]
    assert sink.traffic.requests_made() == 0
    sink.close()
    assert list(tmp_path.iterdir()) == []
    with opened(db) as writer:
        writer.write([Proposal(URN, "status", {"removed": False})])
    again = sink_on(db)
    assert again.open(read_only=True) == f"the catalog in {db}"
    assert URN in again.read_many([URN], ["status"])
    again.close()


def test_what_one_run_writes_the_next_one_reads(tmp_path: Path) -> None:
    db = tmp_path / "catalog.db"
    sink = sink_on(db)
    assert sink.traffic.requests_made() == 0
    assert sink.open() == f"the catalog in {db}"
    assert sink.write([Proposal(URN, "status", {"removed": False})]) == []
    assert sink.evaluator.evaluate_batch([URN], should_push=False).not_evaluated is None
    alive = read_lock(db)
    assert alive is not None
    assert alive.dies_with_parent
    assert alive.needs_token
    assert sink.traffic.requests_made() == 3
    sink.close()
    sink.close()
    assert read_lock(db) is None
    with opened(db) as again:
        stored = again.read_many([URN], ["status"])
    assert stored[URN]["status"].value == {"removed": False}


def test_a_server_on_the_same_file_is_used(tmp_path: Path) -> None:
    db = tmp_path / "catalog.db"
    with running_catalog(db) as catalog, ServerLock.acquire(db) as lock:
        lock.announce(Running(os.getpid(), catalog.url))
        sink = sink_on(db)
        assert sink.open() == f"the catalog in {db}, served at {catalog.url}"
        assert sink.write([Proposal(URN, "status", {"removed": False})]) == []
        sink.close()
        assert catalog.store.exists([URN]) == {URN}


def test_a_server_that_needs_a_token_gets_it_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = tmp_path / "catalog.db"
    monkeypatch.delenv("MLCAT_CATALOG_TOKEN", raising=False)
    with running_catalog(db, token="tok") as catalog, ServerLock.acquire(db) as lock:
        lock.announce(Running(os.getpid(), catalog.url, needs_token=True))
        with pytest.raises(AuthenticationError, match="set MLCAT_CATALOG_TOKEN"):
            sink_on(db).open()
        monkeypatch.setenv("MLCAT_CATALOG_TOKEN", "tok")
        with opened(db) as sink:
            assert sink.read_many([URN], ["status"]) == {}


def test_the_catalog_of_a_killed_run_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaving = Running(1, "http://127.0.0.1:9", dies_with_parent=True)
    answers = iter([leaving, leaving])
    monkeypatch.setattr(
        "mlcat_ingest.client.embedded.read_lock", lambda path: next(answers, read_lock(path))
    )
    with opened(tmp_path / "catalog.db") as sink:
        assert sink.read_many([URN], ["status"]) == {}


def test_another_runs_catalog_is_not_ours_to_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlcat_ingest.client.embedded._LEAVING_S", 0.1)
    db = tmp_path / "catalog.db"
    with opened(db), pytest.raises(CatalogUnavailableError, match="another run is writing"):
        sink_on(db).open()


def test_a_database_that_cannot_be_used_is_the_users_to_mend(tmp_path: Path) -> None:
    db = tmp_path / "catalog.db"
    db.write_text("this is no database " * 100)
    with pytest.raises(RecipeError, match="not a database"):
        sink_on(db).open()
    with pytest.raises(RecipeError, match="SQLite"):
        EmbeddedCatalog(EmbeddedSinkConfig(db="postgresql://host/db")).open()


def test_the_death_of_the_child_is_reported(tmp_path: Path) -> None:
    with opened(tmp_path / "catalog.db") as sink:
        alive = read_lock(tmp_path / "catalog.db")
        assert alive is not None
        os.kill(alive.pid, signal.SIGKILL)
        with pytest.raises(CatalogUnavailableError, match="ended with signal 9"):
            sink.write([Proposal(URN, "status", {})])


def test_a_full_disk_is_reported_with_the_file_and_not_with_an_address(tmp_path: Path) -> None:
    db = tmp_path / "catalog.db"
    with opened(db) as sink:
        sink.write([Proposal(URN, "status", {"removed": False})])
        alive = read_lock(db)
        assert alive is not None
        limits = resource.prlimit(alive.pid, resource.RLIMIT_FSIZE)
        longest = Path(f"{db}-wal").stat().st_size + 8_192
        resource.prlimit(alive.pid, resource.RLIMIT_FSIZE, (longest, limits[1]))
        large = {"description": "x" * 200_000}
        with pytest.raises(CatalogUnavailableError) as reported:
            sink.write([Proposal(URN, "editableMlModelProperties", large)])
    text = str(reported.value)
    assert text.startswith(f"the catalog in {db} refused 1 proposal")
    assert "507" in text
    assert text.endswith("(free space on its disk, or set the sink's `db` to another file)")
    assert "127.0.0.1" not in text
    assert "service's log" not in text


def test_a_first_run_whose_source_does_not_let_it_in_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with failing_service([ServiceAnswer(401)] * 20) as mlflow:
        assert call([mlflow.url, "--report", "report.json"]) == 1
    assert "refused the credentials (401)" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


def test_check_uses_what_is_there_and_makes_nothing(tmp_path: Path) -> None:
    db = tmp_path / "catalog.db"
    [finding] = sink_on(db).check()
    assert (finding.outcome, finding.detail) == ("ok", f"the first run creates {db}")
    assert list(tmp_path.iterdir()) == []
    [finding] = sink_on(tmp_path / "no" / "catalog.db").check()
    assert finding.outcome == "failed"
    with opened(db):
        [finding] = sink_on(db).check()
        assert finding.outcome == "failed"
        assert "another run is writing" in finding.detail
    sink = sink_on(db)
    [finding] = sink.check()
    sink.close()
    assert (finding.outcome, finding.detail) == ("ok", f"the catalog in {db}")
