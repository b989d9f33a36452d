"""The DAG files that come with us, run by a real Airflow against a real MLflow and a catalog."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from mlcat_ingest.cli.main import call
from mlcat_ingest.hooks.spool import Event, EventSpool
from mlcat_ingest.metadata.codec import dumps
from support.airflow_home import Airflow, Outcome, Step, make_airflow
from support.bulk_runs import insert_runs
from support.catalog_server import RunningCatalog, running_catalog
from support.fakes import group_urn
from support.mlflow_server import MlflowServer, running
from support.venvs import OURS, REPOSITORY

pytestmark = pytest.mark.timeout(1800)

TOKEN = "a-secret-of-the-connection"
DEFINITIONS = REPOSITORY / "recipes" / "definitions"
PARAMS = {"shards": 3, "least_size": 1, "fail_on_tests": None}


@dataclass(frozen=True)
class World:
    airflow: Airflow
    mlflow: MlflowServer
    catalog: RunningCatalog
    folder: Path
    outcome: Outcome


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("airflow")
    airflow = make_airflow(folder)
    with (
        running(OURS, folder / "store") as mlflow,
        running_catalog(folder / "catalog.db", token=TOKEN) as catalog,
    ):
        insert_runs(mlflow.db_path, 40, experiments=4)
        [reported_to, *_] = insert_runs(mlflow.db_path, 60, experiments=1, prefix="large")
        EventSpool(folder / "spool").put(an_event(mlflow, reported_to))
        outcome = airflow.script(steps(folder, catalog), **connections(mlflow, catalog))
        yield World(airflow, mlflow, catalog, folder, outcome)


def connections(mlflow: MlflowServer, catalog: RunningCatalog) -> dict[str, str]:
    given = {
        "MLCAT_DEFAULT": {"conn_type": "mlcat", "host": catalog.url, "password": TOKEN},
        "DATAHUB": {"conn_type": "datahub_rest", "host": f"{catalog.url}/gms", "password": TOKEN},
        "MLFLOW": {"conn_type": "http", "host": mlflow.url},
    }
    found = {f"AIRFLOW_CONN_{name}": json.dumps(value) for name, value in given.items()}
    return {**found, "MLCAT_MLFLOW_CONN_ID": "mlflow"}


def an_event(mlflow: MlflowServer, run_id: str) -> Event:
    return Event(run_id, "FINISHED", mlflow.url)


def steps(folder: Path, catalog: RunningCatalog) -> list[Step]:
    source = "source: {type: mlflow, config: {tracking_uri: '${MLFLOW_TRACKING_URI}'}}\n"
    files = {
        "good": source,
        "small": f"{source}limits: {{max_new_entities: 30}}\n",
        "wrong": f"{source}sink: {{type: rest, config: {{server: '{catalog.url}'}}}}\n",
        "features": f"source: {{type: definitions, config: {{path: '{DEFINITIONS}'}}}}\n",
    }
    for name, text in files.items():
        (folder / f"{name}.yml").write_text(f"name: prod\n{text}")
    recipe = {name: {"MLCAT_RECIPE": str(folder / f"{name}.yml")} for name in files}
    features = {"MLCAT_FEATURES_RECIPE": str(folder / "features.yml"), "MLCAT_CONN_ID": "datahub"}
    return [
        Step("mlcat_ingest", PARAMS, recipe["small"]),
        Step("mlcat_ingest", PARAMS, recipe["wrong"]),
        Step("mlcat_ingest", PARAMS, {**recipe["good"], "MLCAT_SPOOL": str(folder / "spool")}),
        Step("mlcat_features_and_runs", {}, {**recipe["good"], **features}),
    ]


def states(run: Any) -> dict[str, Any]:
    """Return the state of each task, of mapped ones a list."""
    found: dict[str, Any] = {}
    for task, index, state, _, _ in run["tasks"]:
        if index < 0:
            found[task] = state
        else:
            found.setdefault(task, []).append(state)
    return found


def test_every_dag_file_is_imported(world: World) -> None:
    assert world.outcome.import_errors == {}
    dags = ["mlcat_features_and_runs", "mlcat_ingest", "mlcat_simple"]
    assert world.outcome.found["dags"] == dags


def test_a_variable_is_the_schedule_and_an_empty_one_is_not_set(world: World) -> None:
    assert world.outcome.found["schedules"] == {
        "": "CronTriggerTimetable",
        "@once": "OnceTimetable",
        "None": "NullTimetable",
    }


def test_airflow_knows_the_provider(world: World) -> None:
    found = world.outcome.found
    assert found["connection"]
    assert found["fields"] == [
        f"extra__mlcat__{one}" for one in ("ca_bundle", "timeout_s", "ui_url")
    ]
    assert found["listeners"] == []
    assert found["links"] == ["mlcat_ingest.airflow.assets.CatalogLink"]


def test_what_another_attempt_cannot_cure_uses_none(world: World) -> None:
    assert world.outcome.found["retries"] == {
        **dict.fromkeys(
            ("RecipeError", "LimitError", "NotAuthorizedError"), "AirflowFailException"
        ),
        "SourceUnavailableError": "SourceUnavailableError",
        "CatalogUnavailableError": "CatalogUnavailableError",
    }


def test_a_killed_task_closes_what_is_open_or_does_not_begin(world: World) -> None:
    killed = ["killed; acknowledged writes remain in the catalog", "closed 1"]
    assert world.outcome.found["killed"] == killed
    early = "killed before the recipe ran; nothing was written"
    assert world.outcome.found["killed_early"] == [early] * 4


def test_a_spool_is_drained_first_of_no_file_with_an_inline_recipe(world: World) -> None:
    run = world.outcome.runs[2]
    assert states(run)["drain"] == "success"
    [(_, _, _, drained)] = [
        one for one in run["xcoms"] if one[0] == "drain" and one[2] == "return_value"
    ]
    assert drained == {"events": 1, "runs": 1, "left": 0}
    nothing = {"events": 0, "runs": 0, "left": 0}
    assert world.outcome.found["drained_inline"] == [nothing, "/etc/team.yml"]
    assert EventSpool(world.folder / "spool").pending() == 0


def test_a_failed_shard_fails_the_run_and_nothing_is_finished(world: World) -> None:
    run = world.outcome.runs[0]
    assert run["state"] == "failed"
    assert states(run) == {
        "plan": "success",
        "ingest": ["failed", "success", "success"],
        "summarize": "upstream_failed",
        "gate": "upstream_failed",
    }
    # A limit is no matter of another attempt, although the DAG gives it two.
    assert {tries for task, _, _, tries, _ in run["tasks"] if task == "ingest"} == {1}


def test_a_recipe_that_says_twice_where_to_write_fails_at_once(world: World) -> None:
    run = world.outcome.runs[1]
    assert run["state"] == "failed"
    assert [tries for task, _, _, tries, _ in run["tasks"] if task == "plan"] == [1]
    assert "both set a catalog" in world.outcome.printed


def test_the_shards_end_as_one_run_does(world: World) -> None:
    run = world.outcome.runs[2]
    assert run["state"] == "success", world.outcome.printed
    assert states(run)["ingest"] == ["success"] * 3
    assert next(label for task, *_, label in run["tasks"] if task == "ingest") == "large-0"
    with running_catalog(world.folder / "whole.db") as whole:
        recipe = world.folder / "whole.yml"
        recipe.write_text(
            "name: prod\n"
            f"source: {{type: mlflow, config: {{tracking_uri: '{world.mlflow.url}'}}}}\n"
            f"sink: {{type: rest, config: {{server: '{whole.url}'}}}}\n"
        )
        assert call([str(recipe), "-q"]) == 0
        expected = entities(whole)
    found = entities(world.catalog)
    assert len(found) > 105
    assert found == expected


def test_tasks_log_their_progress(world: World) -> None:
    assert re.search(r"\d+ records? read, \d+ entit(y|ies) merged, ", world.outcome.printed)


def test_summaries_are_small_and_add_up(world: World) -> None:
    xcoms = world.outcome.runs[2]["xcoms"]
    returned = {(task, at): value for task, at, key, value in xcoms if key == "return_value"}
    summary = returned["summarize", -1]
    assert summary["shards"] == 3
    assert summary["entities"]["mlModel"]["read"] == 100
    assert max(len(dumps(value)) for value in returned.values()) < 4096


def test_success_alone_publishes_which_groups_changed(world: World) -> None:
    assert [run["events"] for run in world.outcome.runs[:2]] == [[], []]
    [whole, *groups] = world.outcome.runs[2]["events"]
    assert whole[:2] == ["summarize", "mlcat_catalog"]
    assert whole[2]["changed_groups"] == len(groups) == 6
    changed = {urn for urn in entities(world.catalog) if ":mlModelGroup:" in urn}
    assert {extra["urn"] for _, _, extra in groups} == changed
    assert {name for _, name, _ in groups} == changed
    # Airflow on MySQL takes ASCII only.
    assert world.outcome.found["asset"] == "urn:li:mlModelGroup:(urn:li:x,Gr%C3%B6%C3%9Fe,PROD)"


def test_feature_stores_come_before_runs_through_a_connection_of_datahub(world: World) -> None:
    run = world.outcome.runs[3]
    assert run["state"] == "success", world.outcome.printed
    assert states(run) == {"features": "success", "runs": "success"}
    [(_, _, _, summary)] = [
        one for one in run["xcoms"] if one[0] == "features" and one[2] == "return_value"
    ]
    assert summary["entities"]["mlFeatureTable"]["created"] > 0
    links = {value for _, _, key, value in run["xcoms"] if key == "_link_CatalogLink"}
    assert links == {world.catalog.url}


def test_a_task_that_changed_one_group_links_to_its_page(world: World) -> None:
    [link] = [
        value
        for task, index, key, value in world.outcome.runs[2]["xcoms"]
        if (task, index, key) == ("ingest", 0, "_link_CatalogLink")
    ]
    pages = f"{world.catalog.url}/entity/"
    assert (link[: len(pages)], unquote(link[len(pages) :])) == (pages, group_urn("large-0"))


def test_the_connections_secret_is_nowhere(world: World) -> None:
    assert TOKEN not in world.outcome.printed
    kept = [path for path in world.airflow.home.rglob("*") if path.is_file()]
    assert kept
    assert [path for path in kept if TOKEN.encode() in path.read_bytes()] == []


def entities(catalog: RunningCatalog) -> dict[str, Any]:
    """Return what the catalog holds of models and groups."""
    shown = ("mlModelProperties", "mlModelGroupProperties", "ownership", "status", "globalTags")
    urns = [
        urn
        for kind in ("mlModel", "mlModelGroup")
        for urn in catalog.store.list_urns(kind, 0, 1_000).urns
    ]
    stored = catalog.store.get_many(urns, shown)
    return {urn: {name: one.value for name, one in stored[urn].items()} for urn in urns}
