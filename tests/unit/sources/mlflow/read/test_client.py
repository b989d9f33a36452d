"""Which reader opens what, and what is seen of a store before MLflow touches it."""

import logging
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mlcat_ingest.errors import (
    AuthenticationError,
    MissingExtraError,
    MlcatError,
    NotAuthorizedError,
    ProtocolMismatchError,
    RecipeError,
    SourceUnavailableError,
)
from mlcat_ingest.sources.base import Finished, ReadRequest
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read import client
from mlcat_ingest.sources.mlflow.read.client import ClientReader, check_store
from mlcat_ingest.sources.mlflow.read.decode import Aliases
from mlcat_ingest.sources.mlflow.read.rest import RestReader
from mlcat_ingest.sources.mlflow.source import open_reader
from mlcat_ingest.sources.mlflow.values.uris import folder_of
from support.fake_mlflow import FakeReader, FakeStore, a_source

pytest.importorskip("mlflow", reason="what MlflowClient opens is tried with it")

SECRET = "hunter2"


def test_the_tracking_uri_chooses_the_reader() -> None:
    assert isinstance(open_reader(MlflowConfig(tracking_uri="http://h")), RestReader)
    for uri in ("mssql+pyodbc://h/db", "./mlruns"):
        assert isinstance(open_reader(MlflowConfig(tracking_uri=uri)), ClientReader)
    both = MlflowConfig(tracking_uri="http://h", registry_uri="uc:http://h")
    assert isinstance(open_reader(both), ClientReader)


def test_without_mlflow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(MissingExtraError, match=r"mlcat-ingest\[mlflow\]") as reported:
        open_reader(MlflowConfig(tracking_uri=f"mssql+pyodbc://u:{SECRET}@h/db"))
    assert SECRET not in str(reported.value)


@pytest.mark.parametrize("uri", ["databricks", "databricks://profile", "http://h", "s3://b/x"])
def test_addresses_of_servers_always_pass(uri: str) -> None:
    check_store(uri)


def test_folders_are_distinguished_from_other_addresses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mlruns").mkdir()
    assert folder_of("mlruns") == Path("mlruns")
    assert folder_of("./typo") == Path("./typo")
    assert folder_of("file:///a%20b") == Path("/a b")
    assert folder_of("databricks") is None
    assert folder_of("arn:aws:sagemaker:r:1:mlflow-app/x") is None
    for address in ("mlflow-artifacts:/1/a", "dbfs:/databricks/m", "runs:/1/model", "S3:/b"):
        assert folder_of(address) is None
    assert folder_of("c:/runs") == Path("c:/runs")
    assert folder_of("a b:/c") == Path("a b:/c")
    with pytest.raises(RecipeError, match=r"no folder typo"):
        check_store("./typo")
    with pytest.raises(ProtocolMismatchError, match=r"not an MLflow store"):
        check_store("mlruns")
    (tmp_path / "mlruns" / "0").mkdir()
    (tmp_path / "mlruns" / "0" / "meta.yaml").touch()
    check_store("mlruns")


@pytest.mark.parametrize(
    ("uri", "error"),
    [
        ("sqlite:///{}/typo.db", RecipeError),
        ("sqlite:///file:{}/typo.db?uri=true", RecipeError),
        ("sqlite://", RecipeError),
        ("sqlite:///{}", RecipeError),
        (f"postgresql+nodriver://u:{SECRET}@h/db", RecipeError),
        (f"mysql+pymysql://u:{SECRET}@127.0.0.1:x/db", RecipeError),
        ("sqlite:///{}/junk.db", ProtocolMismatchError),
        ("sqlite:///{}/other.db", ProtocolMismatchError),
    ],
)
def test_a_database_that_mlflow_cannot_read_is_left_as_it_is(
    uri: str, error: type[MlcatError], tmp_path: Path
) -> None:
    (tmp_path / "junk.db").write_bytes(b"this is no database, only text" * 50)
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection, connection:
        connection.execute("CREATE TABLE runs (id INTEGER)")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(MlcatError) as reported:
        check_store(uri.format(tmp_path))
    assert type(reported.value) is error
    assert SECRET not in str(reported.value)
    assert "\n" not in str(reported.value)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_database_of_another_version_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sqlite3.connect(tmp_path / "m.db")) as connection, connection:
        for table in ("experiments", "runs"):
            connection.execute(f"CREATE TABLE {table} (id INTEGER)")
        connection.execute("CREATE TABLE alembic_version (version_num TEXT)")
        connection.execute("INSERT INTO alembic_version VALUES ('abc')")
    seen: list[str] = []
    monkeypatch.setattr(client, "_check_revision", lambda _, found: seen.extend(found))
    check_store(f"sqlite:///{tmp_path / 'm.db'}")
    assert seen == ["abc"]


# --- MlflowClient's errors, with a client of our own ----------------------------------------------


def reader_with(fake: Any) -> ClientReader:
    reader = ClientReader(MlflowConfig(tracking_uri="uc:http://h", server_id="mine"))
    reader._client = fake
    return reader


def failing_with(code: str) -> ClientReader:
    """Return a reader whose client fails with this code of MLflow's; below MLflow without one."""
    from mlflow.exceptions import MlflowException

    def fails(**_: Any) -> None:
        failure = MlflowException(f"line one\nat http://u:{SECRET}@h")
        failure.error_code = code
        raise failure if code else ConnectionResetError(str(failure))

    return reader_with(SimpleNamespace(search_experiments=fails, search_logged_models=fails))


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("UNAUTHENTICATED", AuthenticationError),
        ("PERMISSION_DENIED", NotAuthorizedError),
        ("TEMPORARILY_UNAVAILABLE", SourceUnavailableError),
        ("INVALID_STATE", ProtocolMismatchError),
        ("", SourceUnavailableError),
    ],
)
def test_mlflows_errors_become_ours(code: str, error: type[MlcatError]) -> None:
    reader = failing_with(code)
    with pytest.raises(error, match=r"cannot read uc:http://h: line one at http://h") as reported:
        list(reader.experiments())
    assert SECRET not in str(reported.value)
    with pytest.raises(error):
        list(reader.logged_models(["1"]))


def test_a_store_older_than_logged_models_has_none() -> None:
    assert list(failing_with("ENDPOINT_NOT_FOUND").logged_models(["1"])) == []


def test_a_version_that_mlflow_cannot_convert_hides_no_other() -> None:
    from mlflow.entities.model_registry import ModelVersion

    odd = ModelVersion("clf", "1", 1, status="ODD")
    of_a_folder = ModelVersion("clf", "2", 1, source="/files", model_id="m-1")
    reader = reader_with(None)
    (version,) = reader._usable("model-versions", [odd, of_a_folder], aliases=Aliases([]))
    assert (version.version, version.model_id) == ("2", "m-1")
    (refused,) = reader.refusals.take()
    assert (refused.ids, "string ODD" in refused.reason) == (("clf", "1"), True)


def test_the_client_has_one_workspace() -> None:
    reader = reader_with(None)
    assert reader.workspaces() == (reader,)
    assert reader.workspace == "default"
    assert reader.server_id() == "mine"


def a_store_with_workspaces(*names: str) -> ClientReader:
    listed = [SimpleNamespace(name=name) for name in names]
    return reader_with(SimpleNamespace(list_workspaces=lambda: listed))


def test_workspaces_that_the_client_does_not_read_are_named() -> None:
    (finding,) = a_store_with_workspaces("team-b", "default", "team-a").check_user()
    assert (finding.what, finding.outcome) == ("MLflow workspaces", "warning")
    assert finding.detail.endswith("reads the default one alone, and not 2: team-a, team-b")


def test_a_store_with_one_workspace_or_without_any_is_read_whole() -> None:
    assert list(a_store_with_workspaces("default").check_user()) == []
    assert list(reader_with(SimpleNamespace()).check_user()) == []


def test_a_pass_by_the_client_notes_the_workspaces_that_it_does_not_read() -> None:
    class Reading(FakeReader):
        check_user = a_store_with_workspaces("default", "team-a").check_user

    *_, last = a_source(Reading({"default": FakeStore()})).read(ReadRequest())
    assert isinstance(last, Finished)
    assert "workspaces_unread" in [note.kind for note in last.notes]


def test_the_variable_of_another_workspace_does_not_reach_the_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow.utils.workspace_context import get_request_workspace

    monkeypatch.setenv("MLFLOW_WORKSPACE", "team-a")
    assert get_request_workspace() == "team-a"
    with client.default_store(f"sqlite:///{tmp_path}/m.db", None):
        assert get_request_workspace() is None


def test_the_doctor_tells_a_store_that_cannot_be_opened(tmp_path: Path) -> None:
    reader = ClientReader(MlflowConfig(tracking_uri=f"sqlite:///{tmp_path / 'typo.db'}"))
    (finding,) = reader.check()
    assert (finding.what, finding.outcome) == ("MLflow store", "failed")


@pytest.mark.parametrize(("version", "message"), [("3.9.1", 1), ("2.22.0", 1), ("3.17.9", 0)])
def test_an_mlflow_that_is_not_tested_is_reported_once(
    version: str, message: int, caplog: pytest.LogCaptureFixture
) -> None:
    client._warn_if_untested.cache_clear()
    with caplog.at_level(logging.WARNING):
        client._warn_if_untested(version)
        client._warn_if_untested(version)
    words = f"the installed mlflow {version} is not a tested version; tested: 3.10, 3.17"
    assert [one.getMessage() for one in caplog.records] == [words] * message
