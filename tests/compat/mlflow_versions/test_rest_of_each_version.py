"""Real servers of the oldest MLflow, of 3.0 and of ours, each filled by its own client.

The same was written to all of them, so they give the same entities, to the letter.
"""

import json
import os
import re
from pathlib import Path
from typing import NamedTuple

import pytest

import mlcat_ingest
from mlcat_ingest.cli.main import call
from mlcat_ingest.core.findings import Finding
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.rest import RestReader
from mlcat_ingest.sources.mlflow.source import open_reader
from support.catalog_server import running_catalog
from support.commands import ended
from support.counting_proxy import counting_proxy
from support.golden import as_lines
from support.mlflow_readings import entities_of, opened_reader
from support.mlflow_server import MlflowServer, running
from support.seeded_store import START_MS
from support.venvs import OURS, Venv, venv_for

pytestmark = pytest.mark.timeout(600)

PATHS = os.pathsep.join(
    map(str, (Path(mlcat_ingest.__file__).parents[1], Path(__file__).parents[2]))
)
ENTITIES = Path(__file__).with_name("entities.jsonl")

RELEASES = {"mlflow-2.9": "2.9.", "mlflow-3.0": "3.0.", "ours": "3.", "mlflow-3.18": "3.18."}
"""The environments, and what the version of their server begins with."""

SEED = """
import json, os, sys
sys.path[:0] = sys.argv[1].split(os.pathsep)
from support.seeded_store import seed
print(json.dumps(seed(sys.argv[2], logged_models=False, colons=False).runs))
"""

ADD_LOGGED_MODEL = """
import json, sys
from mlflow import MlflowClient
model = MlflowClient(sys.argv[2]).create_logged_model("1", name="forest", params={"depth": "3"})
print(json.dumps({model.name: model.model_id}))
"""

MOMENT = re.compile(r"\b1[0-9]{12}\b")
"""Milliseconds since 1970, of this century."""


LATER = {
    "GET /api/3.0/mlflow/server-info",
}
LACKS = {
    "mlflow-2.9": {*LATER, "POST /api/2.0/mlflow/logged-models/search"},
    "mlflow-3.0": LATER,
    "ours": set[str](),
    "mlflow-3.18": set[str](),
}
"""The requests of passes that a release refuses, since it has no such endpoint."""


class Reading(NamedTuple):
    """What is read of one server: its entities as lines, a logged model, and the check.

    `refused` has what the server refused in a full and in an incremental pass.
    """

    release: str
    entities: str
    logged_models: list[tuple[str, dict[str, str]]]
    findings: list[Finding]
    refused: list[list[str]]


@pytest.fixture(scope="module", params=RELEASES)
def reading(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Reading:
    release: str = request.param
    venv = OURS if release == "ours" else venv_for(release)
    with running(venv, tmp_path_factory.mktemp(release)) as server:
        entities = lines_of(server, run_in(venv, SEED, server))
        if release != "mlflow-2.9":
            run_in(venv, ADD_LOGGED_MODEL, server)
        with opened_reader(reader_of(server)) as reader:
            logged = [
                (one.name, dict(one.params)) for page in reader.logged_models(["1"]) for one in page
            ]
            found = list(reader.check())
        return Reading(release, entities, logged, found, refusals(server))


def refusals(server: MlflowServer) -> list[list[str]]:
    """Return what the server refuses of a full pass, and of an incremental one after it."""
    refused, recipe = [], server.store_dir / "recipe.yml"
    with (
        counting_proxy(server.url) as proxy,
        running_catalog(server.store_dir / "catalog.db") as catalog,
    ):
        recipe.write_text(
            f"source: {{type: mlflow, config: {{tracking_uri: '{proxy.url}'}}}}\n"
            f"sink: {{type: rest, config: {{server: '{catalog.url}'}}}}\n"
        )
        for scope in ("full", "changes"):
            assert call([str(recipe), "-q"]) == 0
            refused.append(sorted(proxy.refused))
            proxy.refused.clear()
            assert proxy.take(), scope
    return refused


def run_in(venv: Venv, program: str, server: MlflowServer) -> dict[str, str]:
    """Return what a program of this environment's client made: names to ids."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("MLFLOW_", "PYTHON"))}
    done = ended(
        [venv.python, "-W", "ignore", "-c", program, PATHS, server.url],
        cwd=server.store_dir,
        env={**inherited, "GIT_PYTHON_REFRESH": "quiet"},
    )
    made: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return made


def reader_of(server: MlflowServer) -> RestReader:
    reader = open_reader(MlflowConfig(tracking_uri=server.url))
    assert isinstance(reader, RestReader)
    return reader


def lines_of(server: MlflowServer, names: dict[str, str]) -> str:
    """Return all that is read, with names in place of what differs from server to server."""
    with opened_reader(reader_of(server)) as reader:
        text = as_lines(entities_of(reader))
        known = {**names, "<server>": reader.server_id(), "<folder>": str(server.store_dir)}
    for name, identity in known.items():
        text = text.replace(identity, json.dumps(name, ensure_ascii=False)[1:-1])
    return "".join(sorted(MOMENT.sub(moment, text).splitlines(keepends=True)))


def moment(found: re.Match[str]) -> str:
    """Return a time that the seed gave as it is, and one of the server's clock as a word."""
    return found[0] if abs(int(found[0]) - START_MS) < 60_000 else '"<now>"'


def test_every_release_gives_the_same_entities(reading: Reading, *, update_golden: bool) -> None:
    if update_golden:
        ENTITIES.write_text(reading.entities, encoding="utf-8")
    assert reading.entities == ENTITIES.read_text(encoding="utf-8")


def test_logged_models_are_read_from_the_releases_that_have_them(reading: Reading) -> None:
    has_them = reading.release != "mlflow-2.9"
    assert reading.logged_models == ([("forest", {"depth": "3"})] if has_them else [])


def test_what_a_release_lacks_is_asked_for_once_in_a_pass(reading: Reading) -> None:
    for refused in reading.refused:
        assert len(refused) == len(set(refused))
    assert set().union(*reading.refused) == LACKS[reading.release]


def test_the_check_finds_each_release_in_order(reading: Reading) -> None:
    details = {one.what: one.detail for one in reading.findings}
    assert details["MLflow version"].startswith(RELEASES[reading.release])
    assert {one.what for one in reading.findings if one.outcome != "ok"} == set()
