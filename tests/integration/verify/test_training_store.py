"""A store that training libraries filled: the same by HTTP and SQL, and nothing of it is lost."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.cli.main import call
from mlcat_ingest.metadata.naming import Naming
from mlcat_ingest.testing.mlflow_store import mlflow_client
from oracle import differences
from support.catalog_checks import everything
from support.catalog_server import running_catalog
from support.cli import report_of
from support.mlflow_server import running
from support.training_store import copy_store
from support.venvs import OURS

# The first time the environment and the store are made, which takes minutes on a busy machine.
pytestmark = pytest.mark.timeout(1_800)

Aspects = Mapping[str, Any]


@dataclass(frozen=True)
class World:
    """The store's database, and by how it was read what a catalog holds and what was reported."""

    database: Path
    entities: Mapping[str, Mapping[str, Aspects]]
    reports: Mapping[str, Mapping[str, Any]]
    differences: Mapping[str, Sequence[str]]
    verified: Mapping[str, int]

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.database)) as connection:
            return connection.execute(statement).fetchall()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("training")
    database = folder / "mlflow" / "mlflow.db"
    copy_store(database)
    entities: dict[str, Mapping[str, Aspects]] = {}
    reports: dict[str, Aspects] = {}
    found: dict[str, Sequence[str]] = {}
    verified: dict[str, int] = {}
    with running(OURS, database.parent, extra_args=["--enable-workspaces"]) as server:
        for how, uri in {"rest": server.url, "database": f"sqlite:///{database}"}.items():
            with running_catalog(folder / f"{how}.db") as catalog:
                reports[how], verified[how] = ingest_and_verify(folder / how, uri, catalog.url)
                entities[how] = everything(catalog.store)
                found[how] = [
                    *differences_in("", server.url, catalog.url),
                    *differences_in("team", server.url, catalog.url),
                ]
    return World(database, entities, reports, found, verified)


def differences_in(workspace: str, mlflow: str, catalog: str) -> list[str]:
    """Return what differs of one workspace, which is all that MLflow's client reads at once."""
    with pytest.MonkeyPatch.context() as patch, mlflow_client(mlflow):
        patch.setenv("MLFLOW_WORKSPACE", workspace or "default")
        found = differences(mlflow, catalog, workspace=workspace)
    others = "dataPlatform:mlflow,team." if not workspace else None
    return [one for one in found if others is None or others not in one]


def ingest_and_verify(folder: Path, mlflow: str, catalog: str) -> tuple[Any, int]:
    """Return the report of a run, and the exit status of `verify` after it."""
    folder.mkdir()
    recipe = folder / "recipe.yml"
    config = {"tracking_uri": mlflow, "ui_url": "https://mlflow.example.com"}
    parts = {
        "name": "training",
        "writer_id": "training",
        "source": {"type": "mlflow", "config": config},
        "sink": {"type": "rest", "config": {"server": catalog}},
    }
    recipe.write_text(json.dumps(parts))
    return report_of(recipe), call(["verify", str(recipe), "-q"])


def test_http_and_sql_give_the_same_entities(world: World) -> None:
    assert world.entities["rest"].keys() == world.entities["database"].keys()
    for urn, aspects in world.entities["rest"].items():
        assert aspects == world.entities["database"][urn], urn


@pytest.mark.parametrize("how", ["rest", "database"])
def test_nothing_of_it_differs(world: World, how: str) -> None:
    assert world.differences[how] == []
    assert world.verified[how] == 0


def test_the_store_has_what_trainings_log(world: World) -> None:
    """So that nothing differs of each of them."""
    kinds = world.rows("SELECT DISTINCT dataset_source_type FROM datasets")
    assert {kind for (kind,) in kinds} == {
        *("local", "http", "s3", "delta_table", "hugging_face", "spark", "uc_volume", "code")
    }
    for count, what in (
        (3, "registered_model_aliases"),
        (2, "model_versions WHERE current_stage IN ('Staging', 'Production', 'Archived')"),
        (1, "logged_models WHERE source_run_id IS NULL"),
        (1, "tags WHERE key = 'mlflow.runType'"),
        (2, "experiments WHERE lifecycle_stage = 'deleted'"),
    ):
        assert world.rows(f"SELECT count(*) FROM {what}") == [(count,)]
    for table in ("params", "latest_metrics WHERE is_nan", "tags"):
        assert world.rows(f"SELECT 1 FROM {table} LIMIT 1")


def test_a_score_of_an_evaluation_is_a_metric_of_its_run(world: World) -> None:
    evaluated = "SELECT run_uuid FROM tags WHERE key = 'mlflow.runType'"
    ((run_id,),) = world.rows(evaluated)
    model = json.loads(world.entities["rest"][Naming().model(run_id).urn]["mlModelProperties"])
    metrics = {one["name"]: one["value"] for one in model["trainingMetrics"]}
    assert metrics["is_short/mean"] == "1.0"
