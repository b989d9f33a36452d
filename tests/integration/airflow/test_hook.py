"""Connections of a real Airflow, tried at a real catalog, and a recipe that is no file."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from support.airflow_home import airflow_of
from support.catalog_server import running_catalog
from support.ports import free_port
from support.venvs import REPOSITORY

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]

TOKEN, WRONG = "a-secret-of-the-connection", "another-secret-that-is-wrong"
DEFINITIONS = REPOSITORY / "recipes" / "definitions"
RECIPE = {"name": "inline", "source": {"type": "definitions", "config": {"path": str(DEFINITIONS)}}}


@dataclass(frozen=True)
class World:
    url: str
    reported: dict[str, Any]
    printed: str


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("hook")
    airflow = airflow_of(folder)
    with running_catalog(folder / "catalog.db", token=TOKEN) as catalog:
        given = connections(catalog.url)
        env = {f"AIRFLOW_CONN_{name.upper()}": json.dumps(one) for name, one in given.items()}
        printed = airflow.python(SCRIPT, json.dumps(RECIPE), *given, **env)
        return World(catalog.url, json.loads(printed.rstrip().rpartition("\n")[2]), printed)


SCRIPT = REPOSITORY / "tests" / "support" / "airflow_hook_script.py"


def connections(url: str) -> dict[str, dict[str, Any]]:
    host, _, port = url.removeprefix("http://").partition(":")
    good = {"conn_type": "mlcat", "host": url, "password": TOKEN}
    return {
        "good": {**good, "extra": {"ui_url": "https://pages.example.com", "timeout_s": 30}},
        "in_parts": {**good, "host": host, "schema": "http", "port": int(port)},
        "datahub": {"conn_type": "datahub_rest", "host": url, "extra": {"token": TOKEN}},
        "wrong_token": {**good, "password": WRONG},
        "no_token": {**good, "password": ""},
        "no_host": {"conn_type": "mlcat", "password": TOKEN},
        "nobody_there": {**good, "host": f"http://127.0.0.1:{free_port()}"},
        "wrong_field": {**good, "extra": {"timeout_s": "soon"}},
    }


@pytest.mark.parametrize("conn_id", ["good", "in_parts", "datahub"])
def test_a_connection_that_works(world: World, conn_id: str) -> None:
    assert world.reported["tried"][conn_id] == [True, "The catalog responded"]


@pytest.mark.parametrize(
    ("conn_id", "words"),
    [
        ("wrong_token", "401"),
        ("no_token", "401"),
        ("no_host", "the Airflow connection 'no_host' has no host"),
        ("nobody_there", "127.0.0.1"),
        ("wrong_field", "timeout_s"),
    ],
)
def test_a_connection_that_does_not_says_why(world: World, conn_id: str, words: str) -> None:
    works, why = world.reported["tried"][conn_id]
    assert not works
    assert words in why


def test_a_recipe_needs_no_file(world: World) -> None:
    summary = world.reported["summary"]
    assert summary["recipe"] == "inline"
    assert summary["exit_code"] == 0
    assert summary["entities"]["mlFeatureTable"]["created"] > 0


def test_tasks_link_to_the_pages_that_the_connection_names(world: World) -> None:
    assert world.reported["page"] == "https://pages.example.com"


def test_a_shard_that_is_to_be_read_in_full_is_refused(world: World) -> None:
    assert world.reported["refused"] == (
        "the task 'part' has both `shard` and `full`; delete `full`: a shard is always read as "
        "a whole"
    )


def test_no_token_is_printed_at_any_level_of_logging(world: World) -> None:
    assert "DEBUG:" in world.printed
    assert TOKEN not in world.printed
    assert WRONG not in world.printed
