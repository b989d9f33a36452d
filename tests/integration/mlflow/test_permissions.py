"""A user who may read less than everything: every command reports it, and nothing is removed."""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
from werkzeug.security import generate_password_hash

from mlcat_ingest.cli.main import call
from support.catalog_server import running_catalog
from support.mlflow_server import MlflowServer, running
from support.venvs import venv_for

ADMIN, JANE = ("admin", "a password 56"), ("jane", "another word 34")
PRIVATE_RUNS = 12


@dataclass
class Shared:
    """A server with basic-auth and two teams; `private` and `open` are their experiments."""

    server: MlflowServer
    private: str = ""
    open: str = ""

    def post(self, path: str, body: dict[str, Any]) -> Any:
        reply = requests.post(f"{self.server.url}/api/{path}", json=body, auth=ADMIN, timeout=60)
        reply.raise_for_status()
        return reply.json()

    def fill(self) -> None:
        for name, runs in (("private", PRIVATE_RUNS), ("open", 1)):
            made = self.post("2.0/mlflow/experiments/create", {"name": name})["experiment_id"]
            setattr(self, name, made)
            for number in range(runs):
                body = {"experiment_id": made, "run_name": f"{name} {number}", "start_time": number}
                self.post("2.0/mlflow/runs/create", body)
            agent = {"experiment_id": made, "name": f"{name}-agent", "model_type": "agent"}
            self.post("2.0/mlflow/logged-models", agent)
            self.post("2.0/mlflow/registered-models/create", {"name": f"{name}-model"})
            version = {"name": f"{name}-model", "source": "s3://bucket/model"}
            self.post("2.0/mlflow/model-versions/create", version)
        self.post("2.0/mlflow/users/create", {"username": JANE[0], "password": JANE[1]})
        with closing(sqlite3.connect(self.server.store_dir / "auth.db")) as users, users:
            # MLflow's own hash takes 80 ms of CPU with each request.
            users.executemany(
                "UPDATE users SET password_hash = ? WHERE username = ?",
                [
                    (generate_password_hash(word, "pbkdf2:sha256:1"), who)
                    for who, word in (ADMIN, JANE)
                ],
            )

    def change(self, verb: str, names: Sequence[str]) -> None:
        """Grant or revoke READ on the experiments and models of `names`."""
        for name in names:
            experiment = {"private": self.private, "open": self.open}.get(name, "0")
            for kind, resource in (
                ("experiment", experiment),
                ("registered_model", f"{name}-model"),
            ):
                if kind == "experiment" or name != "Default":
                    body = {"username": JANE[0], "resource_type": kind, "resource_id": resource}
                    permission = {"permission": "READ"} if verb == "grant" else {}
                    self.post(f"3.0/mlflow/users/permissions/{verb}", {**body, **permission})


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    folder = tmp_path_factory.mktemp("shared")
    (folder / "auth.ini").write_text(
        "[mlflow]\ndefault_permission = NO_PERMISSIONS\n"
        f"database_uri = sqlite:///{folder / 'auth.db'}\n"
        f"admin_username = {ADMIN[0]}\nadmin_password = {ADMIN[1]}\n"
        "authorization_function = mlflow.server.auth:authenticate_request_basic_auth\n",
    )
    env = {
        "MLFLOW_AUTH_CONFIG_PATH": str(folder / "auth.ini"),
        "MLFLOW_FLASK_SERVER_SECRET_KEY": "made-up",
    }
    with running(
        venv_for("mlflow-3.17-auth"), folder, extra_args=["--app-name", "basic-auth"], env=env
    ) as server:
        shared = Shared(server)
        shared.fill()
        yield shared


@dataclass
class Recipe:
    path: Path
    capfd: pytest.CaptureFixture[str]

    def call(self, *words: str) -> tuple[int, str]:
        """Return the exit status and the output of a command."""
        self.capfd.readouterr()
        code = call([*words])
        out, err = self.capfd.readouterr()
        return code, out + err

    def report(self, *words: str) -> dict[str, Any]:
        place = self.path.with_suffix(".report")
        code, _ = self.call(str(self.path), *words, "--report", str(place), "-q")
        report: dict[str, Any] = json.loads(place.read_text())
        assert report["exit_code"] == code
        return report


@pytest.fixture
def recipe(shared: Shared, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Iterator[Recipe]:
    path = tmp_path / "b.yml"
    with running_catalog(tmp_path / "catalog.db") as catalog:
        path.write_text(
            f"source: {{type: mlflow, config: {{tracking_uri: '{shared.server.url}',"
            f" username: {JANE[0]}, password: {JANE[1]}}}}}\n"
            f"sink: {{type: rest, config: {{server: '{catalog.url}'}}}}\n"
        )
        yield Recipe(path, capfd)


def test_every_command_reports_what_a_user_may_not_see(shared: Shared, recipe: Recipe) -> None:
    for words in ([str(recipe.path)], ["verify", str(recipe.path)], ["plan", str(recipe.path)]):
        code, text = recipe.call(*words)
        assert code == 0, text
        assert "everything arrived" not in text
        assert "jane is not an administrator" in text
        assert "MLflow listed no experiment" in text
    assert "everything that was listed arrived" in recipe.call(str(recipe.path))[1]
    code, text = recipe.call("check", str(recipe.path))
    assert code == 0, text
    assert "warning  MLflow user: jane is not an administrator" in text
    assert "warning  MLflow permission: read experiments: 0 of 0 selected" in text

    shared.change("grant", ["Default", "private", "open"])
    code, text = recipe.call("plan", str(recipe.path))
    assert not [words for words in ("denied", "no MLflow server", "webhook") if words in text]
    report = recipe.report()
    assert set(report["notes"]) == {"not_administrator"}
    assert report["entities"]["mlModel"]["created"] == PRIVATE_RUNS + 1 + 2 + 2

    # More than the removal limit: it counts what is gone, not what is out of sight.
    shared.change("revoke", ["private"])
    report = recipe.report("--full")
    kept = 1 + PRIVATE_RUNS + 1 + 1 + 1
    assert report["exit_code"] == 0, report["failure"]
    assert report["notes"]["unlisted_kept"] == kept
    assert all(counts["removed"] == 0 for counts in report["entities"].values())
    code, text = recipe.call("verify", str(recipe.path))
    assert (code, f"unlisted_kept: {kept}" in text, "OK: " in text) == (0, True, True)
    code, text = recipe.call("plan", str(recipe.path), "--full")
    assert (code, f"unlisted_kept: {kept}" in text) == (0, True)

    # Without experiment 0 the server has another identity.
    shared.change("revoke", ["open", "Default"])
    report = recipe.report("--full")
    (note,) = report["note_examples"]["unlisted_kept"]
    assert "of a source that this run did not list" in note
