"""Changes of registered models on MLflow's own server with the hook, drained into a catalog."""

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import pytest
from mlflow import MlflowClient

from mlcat_ingest.hooks.drain import drain_into
from mlcat_ingest.sources.base import Runs
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.source import open_reader
from mlcat_ingest.testing.mlflow_store import mlflow_client
from mlcat_ingest.workflows.ingest import Pipeline
from mlcat_ingest.workflows.resolve import load_resolved
from support.catalog_server import RunningCatalog, running_catalog
from support.hooks import RECIPE, Bench
from support.mlflow_server import running
from support.venvs import OURS

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCatalog]:
    """A catalog of this server alone: two servers have experiments of one name."""
    with running_catalog(tmp_path_factory.mktemp("catalog") / "catalog.db") as catalog:
        yield catalog


@pytest.fixture(scope="module")
def hooked(
    tmp_path_factory: pytest.TempPathFactory, catalog: RunningCatalog
) -> Iterator[tuple[Bench, MlflowClient]]:
    """A server with the hook, whose events wait for the drains of the tests."""
    folder = tmp_path_factory.mktemp("hooked")
    recipe = folder / "recipe.yml"
    env = {"MLCAT_RECIPE": str(recipe), "MLCAT_HOOK_SEND": "0"}
    arguments = ("--app-name", "mlcat")
    with running(OURS, folder / "store", extra_args=arguments, env=env) as server:
        # Without a state beside it a drain removes what is written under this id.
        text = RECIPE.format(mlflow=server.url, catalog=catalog.url)
        recipe.write_text(f"{text}writer_id: hooked\n")
        with mlflow_client(server.url) as client:
            yield Bench(folder, server.url), client


def waiting(bench: Bench) -> list[str]:
    """Return the models that the events name, and delete these."""
    with bench.spool.drain_lock():
        found = bench.spool.claim(1000, bool)
        bench.spool.delete([one.name for one in found])
    return [one.event.model for one in found]


def drained(bench: Bench) -> int:
    """Drain all events; return how many they were."""
    done = drain_into(load_resolved(bench.recipe), bench.spool, str(bench.recipe))
    assert done.report is None, done.report
    assert done.summary.left == 0
    return done.summary.events


class Held:
    """What a catalog holds of the registered models of the server."""

    def __init__(self, catalog: RunningCatalog) -> None:
        self._store = catalog.store

    def _aspects(self, urn: str, *names: str) -> dict[str, Any]:
        held = self._store.get_many([urn], names).get(urn, {})
        return {name: aspect.value for name, aspect in held.items()}

    def version(self, name: str, number: int) -> dict[str, Any]:
        urn = f"urn:li:mlModel:(urn:li:dataPlatform:mlflow,{name}_{number},PROD)"
        return self._aspects(urn, "mlModelProperties", "versionProperties", "status")

    def aliases(self, name: str, number: int) -> list[str]:
        properties = self.version(name, number)["versionProperties"]
        return sorted(alias["versionTag"] for alias in properties["aliases"])

    def group(self, name: str) -> dict[str, Any]:
        urn = f"urn:li:mlModelGroup:(urn:li:dataPlatform:mlflow,registered:{name},PROD)"
        return self._aspects(urn, "mlModelGroupProperties", "status")

    def removed(self, aspects: dict[str, Any]) -> bool:
        assert aspects
        return bool(aspects.get("status", {}).get("removed"))


@pytest.fixture
def held(catalog: RunningCatalog) -> Held:
    return Held(catalog)


def a_version(client: MlflowClient, name: str, run_id: str | None = None) -> None:
    client.create_model_version(name, "s3://bucket/model", run_id=run_id, await_creation_for=0)


@pytest.mark.filterwarnings("ignore:.*:FutureWarning")
def test_each_change_is_an_event_and_a_tag_of_ours_is_none(
    hooked: tuple[Bench, MlflowClient],
) -> None:
    bench, client = hooked
    changes: list[Callable[[], Any]] = [
        lambda: client.create_registered_model("every"),
        lambda: a_version(client, "every"),
        lambda: client.update_registered_model("every", "described"),
        lambda: client.update_model_version("every", "1", "described"),
        lambda: client.set_registered_model_tag("every", "team", "a"),
        lambda: client.delete_registered_model_tag("every", "team"),
        lambda: client.set_model_version_tag("every", "1", "checked", "yes"),
        lambda: client.delete_model_version_tag("every", "1", "checked"),
        lambda: client.set_registered_model_alias("every", "champion", "1"),
        lambda: client.delete_registered_model_alias("every", "champion"),
        lambda: client.transition_model_version_stage("every", "1", "Production"),
    ]
    waiting(bench)
    for change in changes:
        change()
        assert waiting(bench) == ["every"]
    client.set_model_version_tag("every", "1", "mlcat.tests", "passing")
    client.set_registered_model_tag("every", "mlcat.tests", "passing")
    client.delete_model_version_tag("every", "1", "mlcat.tests")
    assert waiting(bench) == []
    client.rename_registered_model("every", "another")
    assert sorted(waiting(bench)) == ["another", "every"]
    client.delete_model_version("another", "1")
    client.delete_registered_model("another")
    assert waiting(bench) == ["another", "another"]


def test_the_catalog_follows_versions_and_aliases(
    hooked: tuple[Bench, MlflowClient], held: Held
) -> None:
    bench, client = hooked
    client.create_registered_model("churn")
    run_id = client.create_run("0").info.run_id
    client.log_param(run_id, "rate", "0.5")
    a_version(client, "churn", run_id)
    a_version(client, "churn")
    client.set_registered_model_alias("churn", "champion", "1")
    drained(bench)
    first = held.version("churn", 1)["mlModelProperties"]
    assert [one["value"] for one in first["hyperParams"]] == ["0.5"]
    assert (held.aliases("churn", 1), held.aliases("churn", 2)) == (["champion"], [])

    for number in (2, 1, 2):
        client.set_registered_model_alias("churn", "champion", str(number))
    assert drained(bench) == 3
    assert (held.aliases("churn", 1), held.aliases("churn", 2)) == ([], ["champion"])
    custom = held.group("churn")["mlModelGroupProperties"]["customProperties"]
    assert custom["mlflow.aliases"] == '{"champion":"2"}'
    # The run was not read this time, and what it said of the version stays.
    assert held.version("churn", 1)["mlModelProperties"]["hyperParams"] == first["hyperParams"]

    client.delete_registered_model_alias("churn", "champion")
    client.update_registered_model("churn", "who leaves")
    drained(bench)
    assert held.aliases("churn", 2) == []
    assert held.group("churn")["mlModelGroupProperties"]["description"] == "who leaves"


def test_deleted_versions_and_models_are_removed(
    hooked: tuple[Bench, MlflowClient], held: Held
) -> None:
    bench, client = hooked
    client.create_registered_model("fraud")
    for _ in range(12):
        a_version(client, "fraud")
    client.create_registered_model("kept")
    a_version(client, "kept")
    for number in range(50):
        client.create_registered_model(f"other-{number}")
    drained(bench)
    client.delete_model_version("fraud", "1")
    client.set_registered_model_tag("kept", "team", "a")
    drained(bench)
    assert held.removed(held.version("fraud", 1))
    assert not held.removed(held.version("fraud", 2))
    assert not held.removed(held.group("fraud"))

    client.rename_registered_model("fraud", "theft")
    drained(bench)
    assert held.removed(held.group("fraud"))
    assert held.removed(held.version("fraud", 2))
    assert not held.removed(held.version("theft", 2))

    client.delete_registered_model("theft")
    drained(bench)
    assert held.removed(held.group("theft"))
    assert all(held.removed(held.version("theft", number)) for number in range(2, 13))
    assert not held.removed(held.version("kept", 1))
    assert not held.removed(held.group("kept"))


def test_readers_list_only_the_models_that_are_asked_for(
    hooked: tuple[Bench, MlflowClient],
) -> None:
    bench, client = hooked
    for name in ("it's", "its", 'said "it\'s"'):
        client.create_registered_model(name)
        a_version(client, name)
    for uri in (bench.mlflow, f"sqlite:///{bench.folder / 'store' / 'mlflow.db'}"):
        for reader in ("auto", "client"):
            config = MlflowConfig.model_validate({"tracking_uri": uri, "reader": reader})
            found = open_reader(config)
            found.narrow_registry(["it's", "gone"])
            listed = [model.name for page in found.registered_models() for model in page]
            versions = [version.name for page in found.model_versions() for version in page]
            found.connection.close()
            assert (listed, versions) == (["it's"], ["it's"]), (uri, reader)
            found = open_reader(config)
            found.narrow_registry(['said "it\'s"'])
            names = {version.name for page in found.model_versions() for version in page}
            found.connection.close()
            assert 'said "it\'s"' in names
    waiting(bench)


def test_many_events_of_a_model_cost_one_reading(
    hooked: tuple[Bench, MlflowClient], held: Held
) -> None:
    bench, client = hooked
    client.create_registered_model("busy")
    a_version(client, "busy")
    drained(bench)
    pipeline = Pipeline(load_resolved(bench.recipe))
    requests = []
    for moves in (1, 30):
        for number in range(moves):
            client.set_registered_model_alias("busy", f"alias-{number}", "1")
        report = pipeline.run_named(Runs([], sorted(set(waiting(bench))))).report
        requests.append((report.source_requests, report.catalog_requests))
    assert requests[0] == requests[1]
    assert len(held.aliases("busy", 1)) == 30


def test_no_move_is_lost_over_killed_drains(hooked: tuple[Bench, MlflowClient], held: Held) -> None:
    bench, client = hooked
    names = [f"moved-{number}" for number in range(40)]
    for name in names:
        client.create_registered_model(name)
        for _ in range(3):
            a_version(client, name)
    chance = random.Random(7)

    def move(name: str) -> str:
        versions = [chance.choice("123") for _ in range(5)]
        for version in versions:
            client.set_registered_model_alias(name, "champion", version)
        return versions[-1]

    command = [sys.executable, "-m", "mlcat_ingest", "hooks", "drain", str(bench.recipe)]
    with ThreadPoolExecutor(5) as pool:
        moves = [pool.submit(move, name) for name in names]
        for kills in count():
            if kills >= 4 and all(one.done() for one in moves):
                break
            with subprocess.Popen(
                [*command, "--follow"], cwd=bench.folder, env=bench.env(), stderr=subprocess.DEVNULL
            ) as follower:
                time.sleep(chance.uniform(0.5, 2.5))  # some while they start, most at work
                follower.send_signal(signal.SIGKILL)
    drained(bench)
    for name, last in zip(names, (one.result() for one in moves), strict=True):
        found = [number for number in (1, 2, 3) if held.aliases(name, number)]
        assert found == [int(last)]


def test_a_follower_ends_with_sigterm(hooked: tuple[Bench, MlflowClient], held: Held) -> None:
    bench, client = hooked
    client.create_registered_model("followed")
    with subprocess.Popen(
        [sys.executable, "-m", "mlcat_ingest", "hooks", "drain", str(bench.recipe), "--follow"],
        cwd=bench.folder,
        env=bench.env(),
        stderr=subprocess.PIPE,
        text=True,
    ) as follower:
        assert follower.stderr is not None
        assert any("1 registered model; 0 remaining" in line for line in follower.stderr)
        assert held.group("followed")
        follower.terminate()
        assert follower.wait(60) == 0
