"""Who is let in: basic authentication, workspaces, and stores that MLflow must not touch."""

import os
import re
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import requests
from mlflow.environment_variables import MLFLOW_ALLOW_FILE_STORE, MLFLOW_TRACKING_URI
from mlflow.store.model_registry.file_store import FileStore
from requests.auth import HTTPBasicAuth

from mlcat_ingest.cli.main import call
from mlcat_ingest.errors import (
    AuthenticationError,
    MlcatError,
    ProtocolMismatchError,
    RecipeError,
    SourceUnavailableError,
)
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.reader import MlflowObject
from mlcat_ingest.sources.mlflow.source import open_reader
from mlcat_ingest.testing.mlflow_store import mlflow_client
from support.mlflow_server import add_workspace, running
from support.ports import free_port
from support.services import postgres_database
from support.venvs import OURS, venv_for


def seen_elsewhere() -> tuple[dict[str, str], object, object]:
    """The environment, and what MLflow makes of it, as some thread of the host sees them."""
    allowed: Any = MLFLOW_ALLOW_FILE_STORE
    default: Any = MLFLOW_TRACKING_URI
    return dict(os.environ), allowed.get(), default.get()


def experiment_names(**config: Any) -> list[str]:
    reader = open_reader(MlflowConfig.model_validate({"retries": 0, **config}))
    return [one.name for page in reader.experiments() for one in page]


def test_basic_authentication(tmp_path: Path) -> None:
    (tmp_path / "auth.ini").write_text(
        "[mlflow]\ndefault_permission = READ\n"
        f"database_uri = sqlite:///{tmp_path / 'auth.db'}\n"
        "admin_username = admin\nadmin_password = päss word 12\n"
        "authorization_function = mlflow.server.auth:authenticate_request_basic_auth\n",
        encoding="utf-8",
    )
    with running(
        venv_for("mlflow-3.17-auth"),
        tmp_path,
        extra_args=["--app-name", "basic-auth"],
        env={
            "MLFLOW_AUTH_CONFIG_PATH": str(tmp_path / "auth.ini"),
            "MLFLOW_FLASK_SERVER_SECRET_KEY": "made-up",
        },
    ) as server:
        signed_in = {"username": "admin", "password": "päss word 12"}
        assert experiment_names(tracking_uri=server.url, **signed_in) == ["Default"]
        with_user_info = server.url.replace("//", "//admin:p%C3%A4ss%20word%2012@")
        assert experiment_names(tracking_uri=with_user_info) == ["Default"]
        with pytest.raises(AuthenticationError, match=r"refused the credentials") as refused:
            experiment_names(tracking_uri=with_user_info.replace("word", "wrong"))
        assert "wrong" not in str(refused.value)
        with pytest.raises(AuthenticationError):
            experiment_names(tracking_uri=server.url)
        assert the_user_of(server.url, **signed_in) == ("ok", "admin is an administrator")
        ada = {"username": "ada", "password": "another word 34"}
        made = requests.post(
            f"{server.url}/api/2.0/mlflow/users/create",
            json=ada,
            auth=HTTPBasicAuth(b"admin", "päss word 12".encode()),
            timeout=30,
        )
        made.raise_for_status()
        assert the_user_of(server.url, **ada) == ("warning", "ada is not an administrator")


def the_user_of(url: str, **signed_in: str) -> tuple[str, str]:
    config = MlflowConfig.model_validate({"retries": 0, "tracking_uri": url, **signed_in})
    found = next(one for one in open_reader(config).check() if one.what == "MLflow user")
    return found.outcome, re.split("[,:]", found.detail)[0]


@pytest.mark.parametrize("mode", ["CASCADE", "SET_DEFAULT"])
def test_a_deleted_workspace_is_gone_for_rest_and_sql(tmp_path: Path, mode: str) -> None:
    with running(OURS, tmp_path, extra_args=["--enable-workspaces"]) as server:
        run = MlflowObject("run", add_workspace(server, "team-a"))
        addresses = (server.url, f"sqlite:///{server.db_path}")
        readers = [open_reader(MlflowConfig(tracking_uri=one)) for one in addresses]
        asked = [MlflowObject("workspace", name) for name in ("team-a", "default", "never")]

        def gone() -> list[list[bool]]:
            return [[*map(reader.is_gone, asked), reader.is_gone(run)] for reader in readers]

        # In the default workspace the run is not there.
        assert gone() == [[False, False, True, True]] * 2
        deleted = requests.delete(
            f"{server.url}/api/3.0/mlflow/workspaces/team-a", params={"mode": mode}, timeout=30
        )
        deleted.raise_for_status()
        assert gone() == [[True, False, True, mode == "CASCADE"]] * 2
        for reader in readers:
            reader.connection.close()


@pytest.mark.parametrize("by", ["server", "postgresql"])
def test_each_workspace_is_read_apart(tmp_path: Path, by: str) -> None:
    with ExitStack() as stack:
        arguments = ["--enable-workspaces"]
        uri = ""
        if by == "postgresql":
            uri = stack.enter_context(postgres_database())
            arguments += ["--backend-store-uri", uri]
        server = stack.enter_context(running(OURS, tmp_path, extra_args=arguments))
        add_workspace(server, "team-a")
        reader = open_reader(MlflowConfig(tracking_uri=uri or server.url))
        stack.callback(reader.connection.close)
        here, other = reader.workspaces()
        assert here is reader
        assert [reader.workspace, other.workspace] == ["default", "team-a"]
        names = {
            each.workspace: {one.name for page in each.experiments() for one in page}
            for each in (reader, other)
        }
        assert names["team-a"] >= {"only in team-a"}
        assert names["default"].isdisjoint({"only in team-a"})
        runs = {
            each.workspace: [
                run.name
                for page in each.experiments()
                for experiment in page
                for found in each.runs([experiment.experiment_id])
                for run in found
            ]
            for each in (reader, other)
        }
        assert runs == {"default": [], "team-a": ["hidden"]}
        assert other.server_id() == reader.server_id()
        # A user of the database that may do more than read is a warning.
        outcomes = {finding.outcome for finding in reader.check()}
        assert outcomes - ({"warning"} if uri else set()) == {"ok"}


def test_another_path_of_a_server_leads_to_its_api_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with running(OURS, tmp_path) as server:
        assert experiment_names(tracking_uri=f"{server.url}/mlflow") == ["Default"]
        (warning,) = [one for one in caplog.messages if "API of MLflow" in one]
        assert warning.endswith(f"is at {server.url}, and not below {server.url}/mlflow")
    with pytest.raises(SourceUnavailableError, match=r"Connection refused"):
        experiment_names(tracking_uri=f"http://127.0.0.1:{free_port()}")


def test_the_host_check_of_mlflow_is_named_with_its_cure(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "r.yml"
    with running(
        OURS, tmp_path / "store", extra_args=["--allowed-hosts", "mlflow.example.com"]
    ) as server:
        recipe.write_text(
            f"source: {{type: mlflow, config: {{tracking_uri: '{server.url}'}}}}\n"
            f"sink: {{type: embedded, config: {{db: '{tmp_path}/catalog.db'}}}}\n"
        )
        cure = f"mlflow server --allowed-hosts {server.url.removeprefix('http://')}"
        for command in ([], ["check"], ["verify"], ["plan"]):
            assert call([*command, str(recipe)]) == 1
            text = "".join(capfd.readouterr())
            assert "Invalid Host header - possible DNS rebinding attack detected" in text
            assert cure in text


def test_a_database_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    missing = tmp_path / "typo.db"
    with pytest.raises(RecipeError, match=r"database .* does not exist"):
        experiment_names(tracking_uri=f"sqlite:///{missing}")
    assert not missing.exists()


def test_a_database_of_something_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE mine (id INTEGER)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(ProtocolMismatchError, match=r"does not hold the tables of MLflow"):
        experiment_names(tracking_uri=f"sqlite:///{path}")
    assert path.read_bytes() == before


def test_a_database_of_another_version_is_not_migrated(tmp_path: Path) -> None:
    path = tmp_path / "mlflow.db"
    uri = f"sqlite:///{path}"
    with mlflow_client(uri) as client:
        client.search_experiments()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0a8213491aaa'")
        connection.execute("DROP TABLE logged_model_tags")
    connection.close()
    with pytest.raises(ProtocolMismatchError, match=r"another MLflow version") as reported:
        experiment_names(tracking_uri=uri, reader="client")
    assert "mlflow db upgrade" in str(reported.value)
    with sqlite3.connect(path) as connection:
        found = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    connection.close()
    assert found == ("0a8213491aaa",)


def test_a_folder_is_read_and_a_missing_one_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    folder = tmp_path / "mlruns"
    with mlflow_client(folder.as_uri()) as client:
        made = client.create_experiment("from a folder")
        client.create_run(made, run_name="one")
        client.create_registered_model("kept")
        client.create_model_version("kept", "s3://bucket/model")
        logged = client.create_logged_model(made).model_id
        client.create_model_version("kept", "s3://bucket/model", model_id=logged)
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE")
    capfd.readouterr()
    before, seen = seen_elsewhere(), []
    read_yaml: Any = FileStore._read_yaml

    def watched(*args: Any, **kwargs: Any) -> Any:
        with ThreadPoolExecutor(1) as other:
            seen.append(other.submit(seen_elsewhere).result())
        return read_yaml(*args, **kwargs)

    monkeypatch.setattr(FileStore, "_read_yaml", staticmethod(watched))
    reader = open_reader(MlflowConfig(tracking_uri=str(folder)))
    assert made in [one.experiment_id for page in reader.experiments() for one in page]
    assert [run.name for page in reader.runs([made]) for run in page] == ["one"]
    assert [one.version for page in reader.model_versions() for one in page] == ["1", "2"]
    assert [one.model_id for page in reader.logged_models([made]) for one in page] == [logged]
    reader.connection.close()
    assert len(seen) > 2
    assert all(one == before for one in [*seen, seen_elsewhere()])
    monkeypatch.undo()
    monkeypatch.chdir(elsewhere)
    assert capfd.readouterr().err == ""
    for uri, error in ((tmp_path / "typo", RecipeError), (tmp_path, ProtocolMismatchError)):
        with pytest.raises(MlcatError) as reported:
            experiment_names(tracking_uri=str(uri))
        assert type(reported.value) is error
    assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere", "mlruns"]
    # MLflow's default store would be made in the working directory.
    assert list(elsewhere.iterdir()) == []
