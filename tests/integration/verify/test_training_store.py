"""A store that training libraries filled: the same by HTTP and SQL, and nothing of it is lost."""

import json
import math
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.cli.main import call
from mlcat_ingest.metadata.naming import Naming
from mlcat_ingest.sources.mlflow.values.records import HISTORY_TAG, NAME_TAG, NOTE_TAG, PropertyKey
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

ACTIVE_RUNS = (
    "runs JOIN experiments USING (experiment_id)"
    " WHERE runs.lifecycle_stage = 'active' AND experiments.lifecycle_stage = 'active'"
)


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

    def of_runs(self, table: str, *columns: str) -> Iterator[tuple[Aspects, tuple[Any, ...]]]:
        """Yield the rows of a table, each with the properties of its run's model."""
        wanted = ", ".join(f"{table}.{column}" for column in columns)
        joined = ACTIVE_RUNS.replace("runs JOIN", f"{table} JOIN runs USING (run_uuid) JOIN")
        found = self.rows(f"SELECT run_uuid, experiments.workspace, {wanted} FROM {joined}")
        assert found
        for run_id, workspace, *values in found:
            urn = Naming(workspace=workspace).model(run_id).urn
            yield self.aspect(urn, "mlModelProperties"), tuple(values)

    def aspect(self, urn: str, name: str) -> Aspects:
        found: Aspects = json.loads(self.entities["rest"][urn][name])
        return found


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
                with mlflow_client(server.url):
                    found[how] = differences(server.url, catalog.url)
    return World(database, entities, reports, found, verified)


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
    of_team = "dataPlatform:mlflow,team."  # the client reads the default workspace alone
    assert [one for one in world.differences[how] if of_team not in one] == []
    assert world.verified[how] == 0


def test_every_parameter_of_a_run_is_on_its_model(world: World) -> None:
    for model, (key, value) in world.of_runs("params", "key", "value"):
        assert value in [one["value"] for one in model["hyperParams"] if one["name"] == key]


def test_every_metric_of_a_run_is_on_its_model(world: World) -> None:
    values = ("key", "value", "is_nan")
    for model, (key, value, is_nan) in world.of_runs("latest_metrics", *values):
        held = [float(one["value"]) for one in model["trainingMetrics"] if one["name"] == key]
        infinite = abs(value) > 1e308
        assert any(
            math.isnan(one) if is_nan else math.isinf(one) if infinite else one == value
            for one in held
        ), key


def test_every_tag_of_a_run_is_on_its_model(world: World) -> None:
    for model, (key, value) in world.of_runs("tags", "key", "value"):
        if key == NOTE_TAG:
            assert model["description"] == value
        elif key == NAME_TAG:
            assert model["name"] == value
        elif key != HISTORY_TAG:
            assert model["customProperties"][key] == value


def test_every_dataset_of_a_run_is_on_its_model(world: World) -> None:
    kinds = Counter[str]()
    joined = ACTIVE_RUNS.replace(
        "runs JOIN",
        "datasets JOIN inputs ON source_id = dataset_uuid AND inputs.source_type = 'DATASET'"
        " JOIN runs ON destination_id = run_uuid JOIN",
    ).replace("USING (experiment_id)", "ON experiments.experiment_id = runs.experiment_id")
    for run_id, name, digest, kind in world.rows(
        f"SELECT run_uuid, datasets.name, digest, dataset_source_type FROM {joined}"
    ):
        model = world.aspect(Naming().model(run_id).urn, "mlModelProperties")
        listed = json.loads(model["customProperties"][PropertyKey.DATASETS])
        assert (name, digest) in [(one["name"], one["digest"]) for one in listed]
        kinds[kind] += 1
    assert kinds.keys() == {
        *("local", "http", "s3", "delta_table", "hugging_face", "spark", "uc_volume", "code")
    }


def test_every_alias_and_stage_is_on_its_version(world: World) -> None:
    aliases = world.rows("SELECT workspace, name, version, alias FROM registered_model_aliases")
    assert len(aliases) == 3
    for workspace, name, version, alias in aliases:
        urn = Naming(workspace=workspace).version(name, str(version)).urn
        held = world.aspect(urn, "versionProperties")["aliases"]
        assert alias in [one["versionTag"] for one in held]
    stages = world.rows(
        "SELECT workspace, name, version, current_stage FROM model_versions"
        " WHERE current_stage IN ('Staging', 'Production', 'Archived')"
    )
    assert len(stages) == 2
    for workspace, name, version, stage in stages:
        urn = Naming(workspace=workspace).version(name, str(version)).urn
        tags = [one["tag"] for one in world.aspect(urn, "globalTags")["tags"]]
        assert tags == [f"urn:li:tag:mlflow_{stage.lower()}"]


def test_a_model_without_a_run_has_its_own_entity(world: World) -> None:
    ((model_id,),) = world.rows("SELECT model_id FROM logged_models WHERE source_run_id IS NULL")
    model = world.aspect(Naming().model(model_id).urn, "mlModelProperties")
    assert [(one["name"], one["value"]) for one in model["hyperParams"]] == [("temperature", "0.2")]
    assert [(one["name"], one["value"]) for one in model["trainingMetrics"]] == [("cost", "0.25")]
    assert model["customProperties"]["owner"] == "ada"


def test_a_score_of_an_evaluation_is_a_metric_of_its_run(world: World) -> None:
    evaluated = "SELECT run_uuid FROM tags WHERE key = 'mlflow.runType'"
    ((run_id,),) = world.rows(evaluated)
    model = world.aspect(Naming().model(run_id).urn, "mlModelProperties")
    metrics = {one["name"]: one["value"] for one in model["trainingMetrics"]}
    assert metrics["is_short/mean"] == "1.0"


def test_renamed_deleted_and_restored_experiments(world: World) -> None:
    states = dict(world.rows("SELECT name, lifecycle_stage FROM experiments"))
    assert "before" not in states
    for name, stage in states.items():
        workspace = "default" if name != "autolog" else "team"
        urn = Naming(workspace=workspace).group(name).urn
        stored = world.entities["rest"].get(urn, {})
        if stage == "active":
            assert "mlModelGroupProperties" in stored, name
        else:
            assert name in {"deleted", "empty"}
            assert not stored or json.loads(stored["status"])["removed"]
