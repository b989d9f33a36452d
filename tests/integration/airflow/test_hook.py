"""Connections of a real Airflow, tried at a real catalog, and a recipe that is no file."""

import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest

from support.airflow_home import airflow_of
from support.catalog_server import running_catalog
from support.ports import free_port
from support.venvs import REPOSITORY

pytestmark = pytest.mark.timeout(1800)

MLFLOW_TOKEN = "a-token-of-mlflow"
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
        env = {
            f"AIRFLOW_CONN_{name.upper()}": one if isinstance(one, str) else json.dumps(one)
            for name, one in {**given, **MLFLOW_CONNECTIONS}.items()
        }
        names = (",".join(given), ",".join(MLFLOW_CONNECTIONS))
        printed = airflow.python(SCRIPT, json.dumps(RECIPE), *names, **env)
        return World(catalog.url, json.loads(printed.rstrip().rpartition("\n")[2]), printed)


SCRIPT = REPOSITORY / "tests" / "support" / "airflow_hook_script.py"


HEADERS = json.dumps({"X-Proxy": "let-me-in"})
ADDRESSES: dict[str, tuple[str | dict[str, Any], str]] = {
    "https_uri": (f"https://:{MLFLOW_TOKEN}@h", "https://h"),
    "https_uri_with_path": ("https://h:8443/gms", "https://h:8443/gms"),
    "https_uri_with_deep_path": (f"https://h/a/b?token={MLFLOW_TOKEN}", "https://h/a/b"),
    "https_type": ({"conn_type": "HTTPS", "host": "h", "schema": "https"}, "https://h"),
    "https_type_and_path": (
        {"conn_type": "https", "host": "h/a", "schema": "/gms"},
        "https://h/a/gms",
    ),
    "https_as_schema": ({"conn_type": "http", "host": "h", "schema": "HTTPS"}, "https://h"),
    "https_in_host": (
        {"conn_type": "http", "host": "https://h/gms", "port": 8443},
        "https://h:8443/gms",
    ),
    "https_in_host_of_uri": ("mlcat://https%3A%2F%2Fh%2Fgms", "https://h/gms"),
    "path_below_host": ("mlcat://https://h/gms", "https://h/gms"),
    "no_scheme": ("mlflow://h:5000", "http://h:5000"),
    "ip_6": ("https://[::1]:5000", "https://[::1]:5000"),
    "same_port": ({"conn_type": "http", "host": "http://h:5000", "port": 5000}, "http://h:5000"),
}
UNCLEAR: dict[str, tuple[str | dict[str, Any], str]] = {
    "path_alone": (f"mlcat://:{MLFLOW_TOKEN}@h/gms", "its schema 'gms'"),
    "mistyped": ({"conn_type": "http", "host": "h", "schema": "htps"}, "its schema 'htps'"),
    "http_type_and_path": ("http://h/gms", "its type is 'http', its host 'h', its schema 'gms'"),
    "https_type_http_schema": (
        "https://h/http",
        "its type is 'https', its host 'h', its schema 'http'",
    ),
    "https_type_http_host": ({"conn_type": "https", "host": "http://h"}, "its host 'http://h'"),
    "http_host_https_schema": ("mlcat://http%3A%2F%2Fh/https", "its schema 'https'"),
    "two_ports": ({"conn_type": "http", "host": "http://h:1", "port": 2}, "its port 2"),
    "no_port": ({"conn_type": "http", "host": "http://h:eighty"}, "its host 'http://h:eighty'"),
    "no_brackets": ({"conn_type": "http", "host": "https://[::1"}, "its host 'https://[::1'"),
}
MLFLOW_CONNECTIONS: dict[str, Any] = {
    **{name: connection for name, (connection, _) in (ADDRESSES | UNCLEAR).items()},
    "http": {"conn_type": "http", "host": "mlflow.example.com", "schema": "https"},
    "databricks": {"conn_type": "databricks", "host": "https://adb-1.example.com"},
    "postgresql": {"conn_type": "postgresql", "host": "db", "schema": "mlflow", "port": 5432},
    "ssh": {"conn_type": "ssh", "host": "mlflow.example.com"},
}


def connections(url: str) -> dict[str, dict[str, Any] | str]:
    host, _, port = url.removeprefix("http://").partition(":")
    good = {"conn_type": "mlcat", "host": url, "password": TOKEN}
    return {
        "good": {**good, "extra": {"ui_url": "https://pages.example.com", "timeout_s": 30}},
        "in_parts": {**good, "host": host, "schema": "http", "port": int(port)},
        "datahub": {"conn_type": "datahub_rest", "host": url, "extra": {"token": TOKEN}},
        "mapping": {**good, "extra": {"extra_headers": json.loads(HEADERS)}},
        "mapping_as_text": {**good, "extra": {"headers": HEADERS}},
        "mapping_in_uri": f"mlcat://:{TOKEN}@{host}:{port}/http?extra_headers={quote(HEADERS)}",
        "mapping_in_extra_of_uri": f"datahub-rest://:{TOKEN}@{host}:{port}/http?__extra__="
        + quote(json.dumps({"headers": HEADERS, "timeout_sec": 30})),
        "wrong_token": {**good, "password": WRONG},
        "no_token": {**good, "password": ""},
        "no_host": {"conn_type": "mlcat", "password": TOKEN},
        "nobody_there": {**good, "host": f"http://127.0.0.1:{free_port()}"},
        "wrong_field": {**good, "extra": {"timeout_s": "soon", "headers": ["X-Proxy"]}},
        "list": {**good, "extra": {"retry_status_codes": [429, 503]}},
        "server_in_extra": {**good, "extra": {"server": "http://other"}},
        "no_mapping": {**good, "extra": "[1]"},
        "kafka": {"conn_type": "datahub_kafka", "host": "broker"},
    }


@pytest.mark.parametrize(
    "conn_id",
    [
        *("good", "in_parts", "datahub"),
        *("mapping", "mapping_as_text", "mapping_in_uri", "mapping_in_extra_of_uri"),
    ],
)
def test_a_connection_that_works(world: World, conn_id: str) -> None:
    assert world.reported["tried"][conn_id] == [True, "The catalog responded"]


@pytest.mark.parametrize(
    ("conn_id", "words"),
    [
        ("wrong_token", "401"),
        ("no_token", "401"),
        ("no_host", "the Airflow connection 'no_host' has no host"),
        ("nobody_there", "127.0.0.1"),
        (
            "wrong_field",
            (
                "Airflow connection wrong_field: timeout_s: must be a number\n"
                "Airflow connection wrong_field: headers: must be a mapping of keys to values"
            ),
        ),
        (
            "list",
            (
                "Airflow connection list: retry_status_codes: cannot be set: 429, 502, 503 and 504 "
                "are always retried; delete it"
            ),
        ),
        ("server_in_extra", "'server_in_extra' has `server` in its extra"),
        ("no_mapping", "the extra of the Airflow connection 'no_mapping' is not a mapping"),
        ("kafka", "the Airflow connection 'kafka' has the type 'datahub_kafka', not that of"),
    ],
)
def test_a_connection_that_does_not_says_why(world: World, conn_id: str, words: str) -> None:
    works, why = world.reported["tried"][conn_id]
    assert not works
    assert words in why
    assert "pydantic" not in why


@pytest.mark.parametrize(
    ("conn_id", "words"),
    [
        ("http", "'MLFLOW_TRACKING_URI': 'https://mlflow.example.com'"),
        ("databricks", "'databricks', not that of a server over HTTP (omit `mlflow_conn_id`: "),
        ("postgresql", "`http`, whose host is the server's address; MLflow's database is read if"),
        ("ssh", "'ssh', not that of a server over HTTP (use a connection of type `http`"),
    ],
)
def test_the_connection_of_mlflow_is_one_over_http(world: World, conn_id: str, words: str) -> None:
    assert words in world.reported["mlflow"][conn_id]


@pytest.mark.parametrize("conn_id", ADDRESSES)
def test_no_part_of_a_connections_address_is_ignored(world: World, conn_id: str) -> None:
    assert f"'MLFLOW_TRACKING_URI': '{ADDRESSES[conn_id][1]}'" in world.reported["mlflow"][conn_id]


@pytest.mark.parametrize("conn_id", UNCLEAR)
def test_parts_that_give_no_clear_address_are_quoted(world: World, conn_id: str) -> None:
    refusal = world.reported["mlflow"][conn_id]
    assert f"the Airflow connection '{conn_id}' has no clear address" in refusal
    assert UNCLEAR[conn_id][1] in refusal
    assert "set its host to the whole address" in refusal
    assert MLFLOW_TOKEN not in refusal


def test_credentials_of_the_environment_do_not_go_to_a_connections_server(world: World) -> None:
    assert "'MLFLOW_TRACKING_TOKEN': ''" in world.reported["mlflow"]["no_scheme"]


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


def test_a_text_that_native_rendering_made_a_number_is_to_be_quoted(world: World) -> None:
    assert "name: must be text" in world.reported["native"]
    assert "put it in quotes inside of the template: \"'{{" in world.reported["native"]


def test_a_relative_recipe_that_is_missing_names_the_folder_it_was_looked_for_in(
    world: World,
) -> None:
    assert re.match(r"no recipe at conf/none\.yml in /\S+ \(", world.reported["relative"])
    assert "quotes" not in world.reported["relative"]


def test_no_token_is_printed_at_any_level_of_logging(world: World) -> None:
    assert "DEBUG:" in world.printed
    assert TOKEN not in world.printed
    assert WRONG not in world.printed
