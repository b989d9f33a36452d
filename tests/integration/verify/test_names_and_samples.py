"""`verify` under other names than the default ones, in workspaces, and on a sample of a store."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.cli.main import call
from mlcat_ingest.client.rest.client import CatalogClient
from mlcat_ingest.metadata.naming import Naming
from mlcat_ingest.metadata.proposal import Proposal
from mlcat_ingest.testing.mlflow_store import mlflow_client
from support.bulk_runs import insert_runs, insert_versions
from support.catalog_server import running_catalog
from support.counting_proxy import counting_proxy
from support.gms import RunningGms, running_gms
from support.mlflow_server import MlflowServer, add_workspace, running
from support.seeded_store import START_MS
from support.venvs import OURS

pytestmark = pytest.mark.integration

MODEL = "mlModelProperties"
RUNS, VERSIONS = 2_000, 400
SAMPLE = 100


@dataclass
class Recipe:
    """A recipe in a folder, and what `verify` says of it."""

    path: Path
    capsys: pytest.CaptureFixture[str]

    def write(self, uri: str, sink: str, more: str = "") -> None:
        self.path.write_text(
            f"name: night\n"
            f"source: {{type: mlflow, config: {{tracking_uri: '{uri}'{more}}}}}\n"
            f"sink: {{type: rest, config: {{server: '{sink}'}}}}\n"
        )

    def verify(self, *options: str) -> tuple[int, dict[str, Any]]:
        self.capsys.readouterr()
        code = call(["verify", str(self.path), "--json", "-q", *options])
        facts: dict[str, Any] = json.loads(self.capsys.readouterr().out)
        return code, facts


@pytest.fixture
def recipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Recipe:
    return Recipe(tmp_path / "recipe.yml", capsys)


def lose_parameters(server: str, urn: str) -> None:
    """Empty what the catalog says of a model's parameters."""
    with closing(CatalogClient(server)) as client:
        held = client.read_many([urn], [MODEL])[urn][MODEL].value
        assert held["hyperParams"]
        assert client.write([Proposal(urn, MODEL, {**held, "hyperParams": []})]) == []


def places(facts: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(one["outcome"], one["urn"], one["field"]) for one in facts["discrepancies"]]


@pytest.mark.parametrize(
    ("more", "naming"),
    [
        (", instance: prod-eu", Naming(instance="prod-eu")),
        (", compat: datahub", Naming(shared=True)),
        (", env: DEV", Naming(env="DEV")),
    ],
)
def test_names_are_those_of_the_recipe(
    recipe: Recipe, tmp_path: Path, more: str, naming: Naming
) -> None:
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    with mlflow_client(uri) as client:
        run_id = client.create_run("0", start_time=START_MS, run_name="first").info.run_id
        client.log_param(run_id, "lr", "0.1")
        client.create_registered_model("scorer")
        client.create_model_version("scorer", "s3://b/1", run_id)
    with running_catalog(tmp_path / "catalog.db") as catalog:
        recipe.write(uri, catalog.url, more)
        assert call([str(recipe.path), "-q"]) == 0
        code, facts = recipe.verify()
        assert (code, facts["discrepancies"]) == (0, [])
        assert (facts["compared"]["run"], facts["compared"]["version"]) == (1, 1)
        urns = [naming.model(run_id).urn, naming.version("scorer", "1").urn]
        for urn in urns:
            lose_parameters(catalog.url, urn)
        code, facts = recipe.verify()
        assert (code, places(facts)) == (4, [("missing", urn, "hyperParams[lr]") for urn in urns])
        # Under other names nothing of it is there, and what is there is an orphan.
        recipe.write(uri, catalog.url, ", instance: elsewhere")
        code, facts = recipe.verify()
        assert (code, facts["missing"], facts["orphaned"]) == (4, 4, 4)


@dataclass(frozen=True)
class Workspaces:
    """A server with the workspaces default, of many runs, and team-a, of one run."""

    server: MlflowServer
    hidden: str


@pytest.fixture(scope="module")
def workspaces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspaces]:
    folder = tmp_path_factory.mktemp("mlflow")
    with running(OURS, folder, extra_args=["--enable-workspaces"]) as server:
        hidden = add_workspace(server, "team-a")
        ids = insert_runs(server.db_path, RUNS, experiments=20)
        insert_versions(server.db_path, "scorer", ids[: RUNS : RUNS // VERSIONS])
        yield Workspaces(server, hidden)


@pytest.fixture(scope="module")
def gms(workspaces: Workspaces, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGms]:
    """A catalog that holds all workspaces."""
    folder = tmp_path_factory.mktemp("catalog")
    with running_gms(folder / "gms.db") as found:
        path = folder / "recipe.yml"
        path.write_text(
            "name: night\n"
            "source:\n"
            f"  {{type: mlflow, config: {{tracking_uri: 'sqlite:///{workspaces.server.db_path}'}}}}\n"
            f"sink: {{type: rest, config: {{server: '{found.url}'}}}}\n"
            "evaluate: {enabled: false}\n"
        )
        assert call([str(path), "-q"]) == 0
        found.catch_up()
        yield found


Source = Callable[[Workspaces], str]


@pytest.mark.parametrize(
    "uri_of",
    [lambda made: f"sqlite:///{made.server.db_path}", lambda made: made.server.url],
    ids=["SQL", "REST"],
)
def test_each_workspace_is_verified(
    workspaces: Workspaces, gms: RunningGms, recipe: Recipe, uri_of: Source
) -> None:
    only_small = ", experiments: {deny: ['bulk-*']}"
    recipe.write(uri_of(workspaces), gms.url, only_small)
    code, facts = recipe.verify()
    assert (code, facts["discrepancies"]) == (0, [])
    assert (facts["compared"]["run"], facts["compared"]["parameter"]) == (1, 1)
    urn = Naming(workspace="team-a").model(workspaces.hidden).urn
    with closing(CatalogClient(gms.url)) as client:
        before = client.read_many([urn], [MODEL])[urn][MODEL].value
        lose_parameters(gms.url, urn)
        code, facts = recipe.verify()
        assert (code, places(facts)) == (4, [("missing", urn, "hyperParams[lr]")])
        assert client.write([Proposal(urn, MODEL, before)]) == []


def test_a_sample_takes_the_same_few_requests_and_things_each_time(
    workspaces: Workspaces, gms: RunningGms, recipe: Recipe
) -> None:
    with counting_proxy(workspaces.server.url) as proxy:
        recipe.write(proxy.url, gms.url)
        asked = len(gms.calls())
        code, facts = recipe.verify("--sample", str(SAMPLE))
        assert (code, facts["discrepancies"]) == (0, [])
        # The one run of team-a, which is a workspace of its own.
        assert facts["compared"]["run"] == SAMPLE + 1
        assert facts["compared"]["version"] == SAMPLE
        requests = proxy.take()
        searches = [one for one in requests if one.endswith("runs/search")]
        # Two for the first and the last run, two for each of 20 stretches, one for the versions.
        assert len(searches) <= 2 + 40 + 1 + 2
        assert len(requests) <= len(searches) + 20
        # Of each workspace experiments and runs; of one the registered model and its versions.
        assert sum("batchGet" in one.path for one in gms.calls()[asked:]) == 2 + 2 + 2
        assert recipe.verify("--sample", str(SAMPLE)) == (code, facts)
