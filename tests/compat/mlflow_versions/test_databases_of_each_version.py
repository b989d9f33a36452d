"""Databases that real releases of MLflow made, read as they are and after every known migration."""

import json
import os
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import mlcat_ingest
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.checks import REVISIONS, MlflowFeature
from mlcat_ingest.sources.mlflow.read.client import ClientReader
from support.commands import ended
from support.mlflow_readings import records_of
from support.mlflow_tables import NEWEST, reader_of
from support.venvs import Venv, venv_for

SRC = Path(mlcat_ingest.__file__).parents[1]
TESTS = Path(__file__).parents[2]
UPGRADE = TESTS / "support" / "mlflow_upgrade.py"

_SEED = """
import dataclasses, json, os, sys
sys.path[:0] = sys.argv[1].split(os.pathsep)
from support.seeded_store import seed
made = seed(sys.argv[2], logged_models=sys.argv[3] == "True")
print(json.dumps(dataclasses.asdict(made)))
"""


class Release(NamedTuple):
    """A release of MLflow, and the revision of the schema that it makes."""

    name: str
    revision: str

    @property
    def venv(self) -> Venv:
        return Venv(Path(sys.prefix)) if self.name == "ours" else venv_for(self.name)


RELEASES = (
    Release("mlflow-2", "0584bdc529eb"),
    Release("mlflow-skinny-3.1", "bda7b8c39065"),
    Release("mlflow-skinny-3.8", "1bd49d398cd23"),
    Release("ours", NEWEST),
    Release("mlflow-3.18", "f4a9b2c7d1e6"),
)


class Made(NamedTuple):
    """What a release made: names to ids, and its database at each revision from its own on."""

    release: Release
    seeded: dict[str, Any]
    databases: dict[str, str]


@pytest.fixture(scope="module", params=RELEASES, ids=lambda release: str(release.name))
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    release: Release = request.param
    folder = tmp_path_factory.mktemp(release.name)
    original = folder / f"{release.revision}.db"
    logged_models = MlflowFeature.LOGGED_MODELS.is_in(REVISIONS[release.revision])
    paths = os.pathsep.join(map(str, (SRC, TESTS)))
    arguments = (paths, f"sqlite:///{original}", str(logged_models))
    reported = output([release.venv.python, "-c", _SEED, *arguments], folder)
    seeded = json.loads(reported.splitlines()[-1])
    known = list(REVISIONS)
    later = known[known.index(release.revision) + 1 :]
    working = folder / "working.db"
    working.write_bytes(original.read_bytes())
    output([venv_for("mlflow-3.18").python, UPGRADE, working, folder, *later], folder)
    databases = {each: f"sqlite:///{folder / each}.db" for each in (release.revision, *later)}
    return Made(release, seeded, databases)


def output(command: Sequence[str | Path], folder: Path) -> str:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("MLFLOW_", "PYTHON"))}
    return ended(command, cwd=folder, env=inherited).stdout


def records_in(uri: str) -> dict[str, list[Any]]:
    reader = reader_of(uri)
    found = records_of(reader)
    reader.connection.close()
    return found


def test_all_that_a_release_wrote_is_read(made: Made) -> None:
    found = records_in(made.databases[made.release.revision])
    seeded = made.seeded
    assert {one.run_id for one in found["runs"]} == set(seeded["runs"].values())
    assert {one.experiment_id for one in found["experiments"]} == {
        "0",
        *seeded["experiments"].values(),
    }
    assert {one.name for one in found["registered"]} == set(seeded["registered"])
    assert {one.model_id for one in found["logged"]} == set(seeded["logged_models"].values())
    runs = {one.run_id: one for one in found["runs"]}
    assert len(runs[seeded["runs"]["child-1"]].datasets) == 2
    assert len(runs[seeded["runs"]["parent"]].metrics) == 7
    if seeded["logged_models"]:
        made_by = runs[seeded["runs"]["with-models"]].model_outputs
        assert [one.model_id for one in made_by] == list(seeded["logged_models"].values())


def test_no_migration_changes_what_is_read(made: Made) -> None:
    expected = records_in(made.databases[made.release.revision])
    for revision, uri in made.databases.items():
        assert records_in(uri) == expected, REVISIONS[revision]


def test_a_revision_that_is_not_known_changes_nothing_that_is_read(made: Made) -> None:
    newest = Path(made.databases[list(REVISIONS)[-1]].removeprefix("sqlite:///"))
    path = newest.with_name("later.db")
    path.write_bytes(newest.read_bytes())
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = 'aaaaaaaaaaaa'")
    uri = f"sqlite:///{path}"
    assert records_in(uri) == records_in(f"sqlite:///{newest}")
    assert [note.kind for note in reader_of(uri).connection.notes()] == ["schema_unknown"]


def test_mlflows_own_client_reads_the_same(made: Made) -> None:
    if NEWEST not in made.databases:
        pytest.skip("the installed MLflow opens no database of a later one")
    uri = made.databases[NEWEST]
    by_client = ClientReader(MlflowConfig(tracking_uri=uri))
    direct = reader_of(uri)
    assert records_of(by_client) == records_of(direct)
    assert by_client.server_id() == direct.server_id()
    by_client.connection.close()
    direct.connection.close()


def test_the_installed_mlflow_makes_a_schema_that_is_known() -> None:
    pytest.importorskip("mlflow", reason="there is no MLflow to ask")
    from mlflow.store.db.utils import _get_latest_schema_revision

    assert _get_latest_schema_revision() in REVISIONS  # type: ignore[no-untyped-call]
