"""The oracle is silent after an ingest, and each fault made by hand is found alone."""

import ast
import copy
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.cli.main import call
from mlcat_ingest.client.rest.client import CatalogClient
from mlcat_ingest.metadata.proposal import Proposal
from mlcat_ingest.testing.mlflow_store import mlflow_client
from oracle import differences
from oracle.mlflow_store import Names
from support.catalog_server import running_catalog
from support.seeded_store import START_MS

pytestmark = pytest.mark.integration

NAMES = Names()
MODEL = "mlModelProperties"
CHURN, SCORER = NAMES.group("churn"), NAMES.group("registered:scorer")
VERSION_1, VERSION_2 = NAMES.model("scorer_1"), NAMES.model("scorer_2")
STAGING, ARCHIVED = ({"tag": f"urn:li:tag:mlflow_{one}"} for one in ("staging", "archived"))

Change = Callable[[dict[str, Any]], None]


def train(client: Any) -> dict[str, str]:
    """Fill a store; return its runs and its external model by name."""
    from mlflow.entities import Dataset, DatasetInput, LoggedModelOutput, Metric, Param, RunTag

    experiment = client.create_experiment("churn", tags={"team": "growth"})
    client.create_experiment("scratch")
    runs: dict[str, str] = {}
    for at, name in enumerate(("first", "second", "third", "trash")):
        run = client.create_run(experiment, start_time=START_MS + at * 60_000, run_name=name)
        runs[name] = run.info.run_id
        client.log_batch(
            runs[name],
            metrics=[
                Metric("auc", 0.5 + at / 10, START_MS + 1, 0),
                Metric("auc", 0.7 + at / 100, START_MS + 2, 1),
                Metric("loss", float("nan"), START_MS, 0),
                Metric("best", float("inf"), START_MS, 0),
                Metric("system/cpu", 1.0, START_MS, 0),
            ],
            params=[Param("lr", "0.1"), Param("mlcat.depth", "3"), Param("long", "v" * 6_000)],
            tags=[RunTag("team", "growth"), RunTag("mlflow.status", "mine"), RunTag("empty", "")],
        )
        client.set_terminated(runs[name], "FINISHED", START_MS + 9_000)
    model = client.create_logged_model(
        experiment,
        name="forest",
        source_run_id=runs["first"],
        params={"depth": "3", "lr": "0.2"},
        tags={"team": "fraud", "stage": "candidate"},
    )
    client.log_outputs(runs["first"], models=[LoggedModelOutput(model.model_id, 0)])
    of_model = Metric("f1", 0.25, START_MS, 0, model_id=model.model_id)
    client.log_batch(runs["first"], metrics=[of_model])
    agent = client.create_logged_model(
        experiment,
        name="agent",
        params={"llm": "small"},
        tags={"mlflow.model.isExternal": "true", "team": "support"},
    )
    runs["agent"] = agent.model_id
    client.create_registered_model("scorer", tags={"tier": "1"})
    client.create_model_version("scorer", "s3://b/1", runs["first"], tags={"checked": "yes"})
    client.create_model_version("scorer", "s3://b/2", runs["second"])
    client.create_model_version(
        "scorer", f"models:/{model.model_id}", runs["first"], model_id=model.model_id
    )
    client.set_registered_model_alias("scorer", "champion", "2")
    client.transition_model_version_stage("scorer", "1", "Staging")
    used = Dataset("a", "d1", "http", '{"url": "https://d/a"}')
    client.log_inputs(runs["second"], datasets=[DatasetInput(used, [])])
    client.set_tag(runs["second"], "mlflow.parentRunId", runs["first"])
    client.set_tag(runs["third"], "mlflow.runType", "genai_evaluate")
    client.register_prompt("a-prompt", "Say {{what}}")
    return runs


@dataclass(frozen=True)
class Ingested:
    """A catalog that holds a store, and the store's runs by name."""

    uri: str
    url: str
    runs: dict[str, str]

    def urn(self, name: str) -> str:
        return NAMES.model(self.runs[name]) if name in self.runs else name

    def differences(self) -> list[str]:
        return differences(self.uri, self.url)

    def write(self, urn: str, aspect: str, change: Change) -> Callable[[], None]:
        """Change what the catalog holds as a fault would; return what restores it."""
        with CatalogClient(self.url) as client:
            stored = client.read_many([urn], [aspect]).get(urn, {})
            before = dict(stored[aspect].value) if aspect in stored else {}
            before.pop("isLatest", None)  # the service computes it
            value = copy.deepcopy(before)
            change(value)
            assert client.write([Proposal(urn, aspect, value)]) == []

        def restore() -> None:
            empty: dict[str, Any] = (
                {"typeNames": []} if aspect == "subTypes" else {"removed": False}
            )
            with CatalogClient(self.url) as client:
                assert client.write([Proposal(urn, aspect, before or empty)]) == []

        return restore


@pytest.fixture(scope="module")
def ingested(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ingested]:
    folder = tmp_path_factory.mktemp("oracle")
    uri = f"sqlite:///{folder}/mlflow.db"
    with mlflow_client(uri) as client, running_catalog(folder / "catalog.db") as catalog:
        runs = train(client)
        recipe = folder / "recipe.yml"
        recipe.write_text(
            f"name: night\nsource: {{type: mlflow, config: {{tracking_uri: '{uri}'}}}}\n"
            f"sink: {{type: rest, config: {{server: '{catalog.url}'}}}}\n"
        )
        assert call([str(recipe), "-q"]) == 0
        client.delete_run(runs["trash"])
        assert call([str(recipe), "-q"]) == 0
        yield Ingested(uri, catalog.url, runs)


def replacing(**fields: Any) -> Change:
    return lambda value: value.update(fields)


def put(field: str, name: str, text: str | None) -> Change:
    """Set the value of a named entry, or drop the entry."""

    def change(value: dict[str, Any]) -> None:
        rest = [one for one in value[field] if one["name"] != name]
        value[field] = rest + ([] if text is None else [{"name": name, "value": text}])

    return change


def tag(name: str, text: str | None) -> Change:
    def change(value: dict[str, Any]) -> None:
        rest = {key: one for key, one in value["customProperties"].items() if key != name}
        value["customProperties"] = rest if text is None else {**rest, name: text}

    return change


FAULTS: dict[str, tuple[str, str, Change, str]] = {
    "a hidden run": ("third", "status", replacing(removed=True), "is missing"),
    "a run of the trash": ("trash", "status", replacing(removed=False), "is live, and in MLflow's"),
    "a stale metric": ("second", MODEL, put("trainingMetrics", "auc", "0.6"), "trainingMetrics[a"),
    "a lost metric": ("second", MODEL, put("trainingMetrics", "loss", None), "trainingMetrics[l"),
    "a metric of nobody": ("second", MODEL, put("trainingMetrics", "x", "1"), "trainingMetrics[x]"),
    "a lost metric of a model": ("first", MODEL, put("trainingMetrics", "f1", None), "trainingMet"),
    "a stale parameter": ("third", MODEL, put("hyperParams", "lr", "0.2"), "hyperParams[lr]: '0.2"),
    "a lost parameter": ("third", MODEL, put("hyperParams", "lr", None), "hyperParams[lr]: None"),
    "a parameter of a model": (VERSION_2, MODEL, put("hyperParams", "lr", "9"), "hyperParams[lr]"),
    "a stale tag": ("third", MODEL, tag("team", "other"), "tags[team]: 'other'"),
    "a lost tag": ("third", MODEL, tag("team", None), "tags[team]: None"),
    "a tag that MLflow lost": ("third", MODEL, tag("gone", "1"), "tags[gone]: '1', and MLflow"),
    "a stale state": ("third", MODEL, tag("mlflow.status", "RUNNING"), "mlflow.status: 'RUNNING'"),
    "a lost group": ("third", MODEL, replacing(groups=[]), "groups: []"),
    "a version in a wrong group": (VERSION_1, MODEL, replacing(groups=[CHURN]), "groups: "),
    "a lost alias": (VERSION_2, "versionProperties", replacing(aliases=[]), "aliases: []"),
    "an alias on a former version": (
        *(VERSION_1, "versionProperties", replacing(aliases=[{"versionTag": "champion"}])),
        "aliases: ['champion'] instead of []",
    ),
    "a former stage": (VERSION_1, "globalTags", replacing(tags=[ARCHIVED]), "globalTags: "),
    "a lost dataset": ("second", MODEL, tag("mlflow.datasets", "[]"), "mlflow.datasets: a d1"),
    "a lost parent": ("second", MODEL, tag("mlflow.parent_run", None), "mlflow.parent_run: None"),
    "a lost subtype": (CHURN, "subTypes", replacing(typeNames=[]), "subTypes: []"),
    "a parent without a child": ("second", "subTypes", replacing(typeNames=["Parent Run"]), "sub"),
    "a wrong folder": ("third", "browsePathsV2", replacing(path=[{"id": "scratch"}]), "browsePath"),
    "a hidden experiment": (CHURN, "status", replacing(removed=True), "is missing"),
    "a hidden model": (SCORER, "status", replacing(removed=True), "is missing"),
    "a hidden external model": ("agent", "status", replacing(removed=True), "is missing"),
    "a tag of an external model": ("agent", MODEL, tag("team", None), "tags[team]: None"),
}


def test_nothing_differs_after_an_ingest(ingested: Ingested) -> None:
    assert ingested.differences() == []


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_and_nothing_else(ingested: Ingested, fault: str) -> None:
    where, aspect, change, expected = FAULTS[fault]
    urn = ingested.urn(where)
    restore = ingested.write(urn, aspect, change)
    try:
        found = ingested.differences()
        assert found[0].startswith(f"{urn} {expected}")
        # A former stage is one, and the lost one is another.
        assert len(found) == 1 + (fault == "a former stage")
    finally:
        restore()


def test_an_entity_that_mlflow_lost_and_a_link_to_nowhere(ingested: Ingested) -> None:
    gone, feature = NAMES.model("0" * 32), "urn:li:mlFeature:(shop.customers,agee)"
    own = {"mlcat.source": "mlflow:x:default"}
    with CatalogClient(ingested.url) as client:
        assert client.write([Proposal(gone, MODEL, {"customProperties": own})]) == []
        restore = ingested.write(ingested.urn("third"), MODEL, replacing(mlFeatures=[feature]))
        assert ingested.differences() == [
            f"{feature}: is linked, and not there",
            f"{gone}: is live, and MLflow does not have it",
        ]
        restore()
        assert client.write([Proposal(gone, "status", {"removed": True})]) == []
    assert ingested.differences() == []


def test_the_oracle_imports_nothing_of_what_it_judges() -> None:
    allowed = {*sys.stdlib_module_names, "requests", "mlflow", "oracle"}
    for path in Path(__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [one.name for one in node.names] if isinstance(node, ast.Import) else []
            if not path.name.startswith("test_"):
                assert {name.partition(".")[0] for name in names} <= allowed, path.name
