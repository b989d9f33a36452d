"""MLflow's own server with the hook: it hears of runs of clients that know nothing of it."""

from pathlib import Path

import pytest
import requests

from mlcat_ingest.hooks.spool import EventSpool
from support.hooks import as_installed
from support.mlflow_server import running
from support.venvs import OURS, venv_for

pytestmark = pytest.mark.timeout(900)


def a_run_that_ends(url: str, auth: tuple[str, str] | None = None) -> str:
    """Make and end a run by plain requests, as a client in any language would."""
    api = f"{url}/api/2.0/mlflow/runs"
    made = requests.post(f"{api}/create", json={"experiment_id": "0"}, auth=auth, timeout=60)
    run_id = str(made.json()["run"]["info"]["run_id"])
    ended = requests.post(
        f"{api}/update", json={"run_id": run_id, "status": "FINISHED"}, auth=auth, timeout=60
    )
    assert ended.status_code == 200, ended.text
    return run_id


def test_a_run_that_any_client_ends_is_in_the_spool(tmp_path: Path) -> None:
    env = {
        "MLCAT_RECIPE": str(tmp_path / "recipe.yml"),
        "MLCAT_SPOOL": str(tmp_path / "spool"),
        "MLCAT_HOOK_SEND": "0",
    }
    arguments = ("--app-name", "mlcat")
    with running(OURS, tmp_path / "store", extra_args=arguments, env=env) as server:
        run_id = a_run_that_ends(server.url)
        assert requests.get(f"{server.url}/", timeout=60).status_code == 200
    spool = EventSpool(tmp_path / "spool")
    with spool.drain_lock():
        [found] = spool.claim(9, bool)
    assert (found.event.run_id, found.event.status) == (run_id, "FINISHED")
    assert found.event.tracking_uri == f"sqlite:///{tmp_path / 'store' / 'mlflow.db'}"


def test_an_earlier_mlflow_tells_of_registered_models_too(tmp_path: Path) -> None:
    env = {
        "PYTHONPATH": as_installed(tmp_path / "site"),
        "MLCAT_RECIPE": str(tmp_path / "recipe.yml"),
        "MLCAT_HOOK_SEND": "0",
    }
    arguments = ("--app-name", "mlcat")
    venv = venv_for("mlflow-2")
    with running(venv, tmp_path / "store", extra_args=arguments, env=env) as server:
        api = f"{server.url}/api/2.0/mlflow"
        for path, body in (
            ("registered-models/create", {"name": "m"}),
            ("model-versions/create", {"name": "m", "source": "s3://b/m"}),
            ("registered-models/alias", {"name": "m", "alias": "a", "version": "1"}),
        ):
            reply = requests.post(f"{api}/{path}", json=body, timeout=60)
            assert reply.status_code == 200, reply.text
        run_id = a_run_that_ends(server.url)
    spool = EventSpool(tmp_path / ".mlcat" / "spool")
    assert [event.names for event in spool.events()] == [("m",)] * 3 + [(run_id,)]


def test_basic_authentication_goes_on_beside_the_hook(tmp_path: Path) -> None:
    (tmp_path / "auth.ini").write_text(
        "[mlflow]\ndefault_permission = READ\n"
        f"database_uri = sqlite:///{tmp_path / 'auth.db'}\n"
        "admin_username = admin\nadmin_password = some words 12\n"
        "authorization_function = mlflow.server.auth:authenticate_request_basic_auth\n"
    )
    env = {
        "MLFLOW_AUTH_CONFIG_PATH": str(tmp_path / "auth.ini"),
        "MLFLOW_FLASK_SERVER_SECRET_KEY": "made-up",
        "PYTHONPATH": as_installed(tmp_path / "site"),
        "MLCAT_RECIPE": str(tmp_path / "recipe.yml"),
        "MLCAT_HOOK_SEND": "0",
    }
    arguments = ("--app-name", "mlcat-basic-auth")
    venv = venv_for("mlflow-3.17-auth")
    with running(venv, tmp_path / "store", extra_args=arguments, env=env) as server:
        run_id = a_run_that_ends(server.url, ("admin", "some words 12"))
        nobody = requests.get(f"{server.url}/api/2.0/mlflow/runs/get?run_id={run_id}", timeout=60)
        assert nobody.status_code == 401
    spool = EventSpool(tmp_path / ".mlcat" / "spool")
    with spool.drain_lock():
        assert [one.event.run_id for one in spool.claim(9, bool)] == [run_id]
