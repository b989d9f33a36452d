"""`verify` against real MLflow stores and two catalogs: green, and each fault is found alone."""

import copy
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.cli.main import call
from mlcat_ingest.client.rest.client import CatalogClient
from mlcat_ingest.metadata.naming import Naming
from mlcat_ingest.metadata.proposal import Proposal
from mlcat_ingest.testing.mlflow_store import mlflow_client
from support.bulk_runs import insert_runs
from support.catalog_server import running_catalog
from support.gms import running_gms
from support.mlflow_server import MlflowServer, running
from support.seeded_store import START_MS
from support.venvs import OURS

pytestmark = pytest.mark.integration

NAMES = Naming()
CHURN = NAMES.group("churn").urn
SCORER = NAMES.registered_group("scorer").urn
FEATURE = "urn:li:mlFeature:(shop.customers,age)"
NO_FEATURE = "urn:li:mlFeature:(shop.customers,agee)"

Change = Callable[[dict[str, Any]], None]
Found = tuple[str, str, str, str, str | None, str | None]
"""Outcome, kind, URN, field, expected, found."""


@dataclass(frozen=True)
class Trained:
    """A real server with a store, and its runs and its external model by name."""

    server: MlflowServer
    runs: dict[str, str]

    def model(self, name: str) -> str:
        return NAMES.model(self.runs[name]).urn


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trained]:
    folder = tmp_path_factory.mktemp("mlflow")
    with running(OURS, folder) as server:
        with mlflow_client(server.url) as client:
            runs = train(client)
        yield Trained(server, runs)


def train(client: Any) -> dict[str, str]:
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
        tags={"team": "fraud", "stage": "candidate", "mlflow.note.content": "the first forest"},
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
    of_agent = Metric("auc", 0.72, START_MS + 3, 2, model_id=agent.model_id)
    client.log_batch(runs["third"], metrics=[of_agent])
    client.create_logged_model(experiment, name="never finished", source_run_id=runs["third"])
    client.delete_run(runs["trash"])
    client.create_registered_model("scorer", tags={"tier": "1"})
    client.create_model_version("scorer", "s3://b/1", runs["first"], tags={"checked": "yes"})
    client.create_model_version("scorer", "s3://b/2", runs["second"])
    client.create_model_version(
        "scorer", f"models:/{model.model_id}", runs["first"], model_id=model.model_id
    )
    client.set_registered_model_alias("scorer", "champion", "2")
    client.transition_model_version_stage("scorer", "1", "Staging")
    used = [Dataset(name, "d1", "http", f'{{"url": "https://d/{name}"}}') for name in ("a", "b")]
    used.append(Dataset("c", "d1", "s3", '{"uri": "s3://lake/c"}'))
    client.log_inputs(runs["second"], datasets=[DatasetInput(one, []) for one in used])
    client.set_tag(runs["second"], "mlflow.parentRunId", runs["first"])
    client.set_tag(runs["third"], "mlflow.runType", "genai_evaluate")
    client.register_prompt("a-prompt", "Say {{what}}")
    return runs


@dataclass
class Ingest:
    """A catalog that a recipe was run into, and what `verify` says of it."""

    folder: Path
    trained: Trained
    url: str
    catch_up: Callable[[], None]

    def recipe(self, *, uri: str | None = None, more: str = "") -> str:
        path = self.folder / "recipe.yml"
        database = f"sqlite:///{self.trained.server.db_path}"
        path.write_text(
            f"name: night\n"
            f"source: {{type: mlflow, config: {{tracking_uri: '{uri or database}'{more}}}}}\n"
            f"sink: {{type: rest, config: {{server: '{self.url}'}}}}\n"
        )
        return str(path)

    def source(self) -> str:
        with CatalogClient(self.url) as client:
            held = client.read_many([CHURN], ["mlModelGroupProperties"])
        properties = held[CHURN]["mlModelGroupProperties"].value
        return str(properties["customProperties"]["mlcat.source"])

    @contextmanager
    def changed(self, urn: str, aspect: str, change: Change) -> Iterator[None]:
        """Change what the catalog holds as a fault would, and restore it afterwards."""
        with CatalogClient(self.url) as client:
            stored = client.read_many([urn], [aspect]).get(urn, {})
            before = dict(stored[aspect].value) if aspect in stored else {}
            before.pop("isLatest", None)  # the service computes it
            value = copy.deepcopy(before)
            change(value)
            assert client.write([Proposal(urn, aspect, value)]) == []
            self.catch_up()
            yield
            restored = before or ABSENT[aspect]
            assert client.write([Proposal(urn, aspect, restored)]) == []
            self.catch_up()


@pytest.fixture(scope="module", params=["embedded catalog", "GMS"])
def ingest(
    request: pytest.FixtureRequest, trained: Trained, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ingest]:
    folder = tmp_path_factory.mktemp("catalog")
    if request.param == "GMS":
        with running_gms(folder / "gms.db") as gms:
            yield ingested(Ingest(folder, trained, gms.url, gms.catch_up))
    else:
        with running_catalog(folder / "catalog.db") as catalog:
            yield ingested(Ingest(folder, trained, catalog.url, lambda: None))


def ingested(made: Ingest) -> Ingest:
    assert call([made.recipe(), "-q"]) == 0
    made.catch_up()
    return made


ABSENT: dict[str, dict[str, Any]] = {"status": {"removed": False}, "subTypes": {"typeNames": []}}
"""Aspects that an ordinary entity lacks, and what the same is to write."""

Verify = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def verify(capsys: pytest.CaptureFixture[str]) -> Verify:
    def run(recipe: str, *options: str) -> tuple[int, dict[str, Any]]:
        capsys.readouterr()
        code = call(["verify", recipe, "--json", "-q", *options])
        output = capsys.readouterr()
        assert output.err == ""
        facts: dict[str, Any] = json.loads(output.out)
        return code, facts

    return run


def discrepancies(facts: dict[str, Any]) -> list[Found]:
    return [tuple(one.values()) for one in facts["discrepancies"]]


LEFT_OUT = {
    "run in MLflow's trash": 1,
    "metric called system/…": 5,
    "logged model that no compared run names": 1,
}


def left_out(facts: dict[str, Any]) -> dict[str, int]:
    return {one["what"]: one["count"] for one in facts["left_out"]}


def test_a_whole_ingest_is_green_by_sql_and_by_rest(ingest: Ingest, verify: Verify) -> None:
    code, facts = verify(ingest.recipe())
    assert (code, discrepancies(facts)) == (0, [])
    assert facts["compared"] == {
        "experiment": 3,
        "run": 3,
        "parameter": 9 + 2 * 3 + 1 + 2 + 1 + 1,
        "metric": 10 + 4 + 3 + 1 + 1,
        # With those of the logged model, to which MLflow adds one that names its version.
        "tag": 1 + 3 * 3 + 1 + 1 + 2 * (3 + 1) + 2 + 2,
        "external model": 1,
        "membership": 7,
        "registered model": 1,
        "version": 3,
        "alias": 1,
        "stage": 1,
        "dataset": 3,
        "subtype": 3 + 2 + 1 + 1 + 3,
        "browse path": 3 + 1 + 3,
        "parent": 1,
    }
    assert left_out(facts) == LEFT_OUT
    by_rest = verify(ingest.recipe(uri=ingest.trained.server.url))
    assert by_rest == (code, facts)


def drop(field: str, name: str) -> Change:
    def change(value: dict[str, Any]) -> None:
        value[field] = [one for one in value[field] if one["name"] != name]

    return change


def put(field: str, name: str, text: str) -> Change:
    def change(value: dict[str, Any]) -> None:
        for one in value[field]:
            if one["name"] == name:
                one["value"] = text

    return change


def tag(name: str, text: str | None) -> Change:
    def change(value: dict[str, Any]) -> None:
        del value["customProperties"][name]
        if text is not None:
            value["customProperties"][name] = text

    return change


def replacing(**fields: Any) -> Change:
    def change(value: dict[str, Any]) -> None:
        value.update(fields)

    return change


def without_dataset(name: str) -> Change:
    def change(value: dict[str, Any]) -> None:
        custom = value["customProperties"]
        listed = json.loads(custom["mlflow.datasets"])
        custom["mlflow.datasets"] = json.dumps([one for one in listed if one["name"] != name])

    return change


def own(name: str, text: str) -> Change:
    def change(value: dict[str, Any]) -> None:
        value["customProperties"][name] = text

    return change


MODEL = "mlModelProperties"
STAGING, ARCHIVED = ({"tag": f"urn:li:tag:mlflow_{stage}"} for stage in ("staging", "archived"))
VERSION_1, VERSION_2, VERSION_3 = (NAMES.version("scorer", number).urn for number in "123")
FAULTS: dict[str, tuple[str, str, Change, Found]] = {
    "a lost parameter": (
        *("second", MODEL, drop("hyperParams", "lr")),
        ("missing", "parameter", "second", "hyperParams[lr]", "0.1", None),
    ),
    "a lost parameter of a reserved name": (
        *("second", MODEL, drop("hyperParams", "source.mlcat.depth")),
        ("missing", "parameter", "second", "hyperParams[source.mlcat.depth]", "3", None),
    ),
    "a stale metric": (
        *("second", MODEL, put("trainingMetrics", "auc", "0.6")),
        ("stale", "metric", "second", "trainingMetrics[auc]", "0.71", "0.6"),
    ),
    "a metric that was no number": (
        *("second", MODEL, put("trainingMetrics", "loss", "0.0")),
        ("stale", "metric", "second", "trainingMetrics[loss]", "nan", "0.0"),
    ),
    "a lost metric of a logged model": (
        *("first", MODEL, drop("trainingMetrics", "f1")),
        ("missing", "metric", "first", "trainingMetrics[f1]", "0.25", None),
    ),
    "a lost tag": (
        *("third", MODEL, tag("team", None)),
        ("missing", "tag", "third", "customProperties[team]", "growth", None),
    ),
    "a stale tag of a name of ours": (
        *("third", MODEL, tag("tag.mlflow.status", "other")),
        ("stale", "tag", "third", "customProperties[tag.mlflow.status]", "mine", "other"),
    ),
    "a stale state of a run": (
        *("third", MODEL, tag("mlflow.status", "RUNNING")),
        ("stale", "run", "third", "customProperties[mlflow.status]", "FINISHED", "RUNNING"),
    ),
    "a lost membership": (
        *("third", MODEL, replacing(groups=[])),
        ("missing", "membership", "third", "groups", CHURN, None),
    ),
    "a stale status of a logged model": (
        *("first", MODEL, tag("mlflow.model_status", "READY")),
        ("stale", "run", "first", "customProperties[mlflow.model_status]", "PENDING", "READY"),
    ),
    "a hidden external model": (
        *("agent", "status", replacing(removed=True)),
        ("missing", "external model", "agent", "status.removed", "false", "true"),
    ),
    "a lost parameter of an external model": (
        *("agent", MODEL, drop("hyperParams", "llm")),
        ("missing", "parameter", "agent", "hyperParams[llm]", "small", None),
    ),
    "a stale metric of an external model": (
        *("agent", MODEL, put("trainingMetrics", "auc", "0.6")),
        ("stale", "metric", "agent", "trainingMetrics[auc]", "0.72", "0.6"),
    ),
    "a lost tag of an external model": (
        *("agent", MODEL, tag("team", None)),
        ("missing", "tag", "agent", "customProperties[team]", "support", None),
    ),
    "an external model outside of its experiment": (
        *("agent", MODEL, replacing(groups=[])),
        ("missing", "membership", "agent", "groups", CHURN, None),
    ),
    "a run that the catalog hides": (
        *("third", "status", replacing(removed=True)),
        ("missing", "run", "third", "status.removed", "false", "true"),
    ),
    "a run of the trash that the catalog shows": (
        *("trash", "status", replacing(removed=False)),
        ("stale", "run", "trash", "status.removed", "true", "false"),
    ),
    "a hidden experiment": (
        *(CHURN, "status", replacing(removed=True)),
        ("missing", "experiment", CHURN, "status.removed", "false", "true"),
    ),
    "a hidden registered model": (
        *(SCORER, "status", replacing(removed=True)),
        ("missing", "registered model", SCORER, "status.removed", "false", "true"),
    ),
    "a hidden version": (
        *(VERSION_1, "status", replacing(removed=True)),
        ("missing", "version", VERSION_1, "status.removed", "false", "true"),
    ),
    "a version outside of its model": (
        *(VERSION_1, MODEL, replacing(groups=[CHURN])),
        ("missing", "membership", VERSION_1, "groups", SCORER, CHURN),
    ),
    "a lost alias": (
        *(VERSION_2, "versionProperties", replacing(aliases=[])),
        ("missing", "alias", VERSION_2, "versionProperties.aliases", "champion", None),
    ),
    "an alias on the version that had it before": (
        *(VERSION_1, "versionProperties", replacing(aliases=[{"versionTag": "champion"}])),
        (
            *("stale", "alias", VERSION_1, "versionProperties.aliases[champion]"),
            *("on version 2", "champion"),
        ),
    ),
    "a lost stage": (
        *(VERSION_1, "globalTags", replacing(tags=[])),
        ("missing", "stage", VERSION_1, "globalTags.tags", STAGING["tag"], None),
    ),
    "a stage that the version had before": (
        *(VERSION_1, "globalTags", replacing(tags=[STAGING, ARCHIVED])),
        ("stale", "stage", VERSION_1, "globalTags.tags", None, ARCHIVED["tag"]),
    ),
    "a lost dataset": (
        *("second", MODEL, without_dataset("b")),
        ("missing", "dataset", "second", "customProperties[mlflow.datasets]", "b d1", None),
    ),
    "a lost parameter of a version": (
        *(VERSION_2, MODEL, drop("hyperParams", "lr")),
        ("missing", "parameter", VERSION_2, "hyperParams[lr]", "0.1", None),
    ),
    "a stale parameter of a version's logged model": (
        *(VERSION_3, MODEL, put("hyperParams", "depth", "4")),
        ("stale", "parameter", VERSION_3, "hyperParams[depth]", "3", "4"),
    ),
    "a stale metric of a version": (
        *(VERSION_2, MODEL, put("trainingMetrics", "auc", "0.6")),
        ("stale", "metric", VERSION_2, "trainingMetrics[auc]", "0.71", "0.6"),
    ),
    "a lost metric of a version's run, of its logged model": (
        *(VERSION_1, MODEL, drop("trainingMetrics", "f1")),
        ("missing", "metric", VERSION_1, "trainingMetrics[f1]", "0.25", None),
    ),
    "a lost metric of a version's logged model": (
        *(VERSION_3, MODEL, drop("trainingMetrics", "f1")),
        ("missing", "metric", VERSION_3, "trainingMetrics[f1]", "0.25", None),
    ),
    "a lost subtype": (
        *(VERSION_1, "subTypes", replacing(typeNames=["mine"])),
        ("missing", "subtype", VERSION_1, "subTypes.typeNames", "Model Version", "mine"),
    ),
    "a lost subtype of an experiment": (
        *(CHURN, "subTypes", replacing(typeNames=[])),
        ("missing", "subtype", CHURN, "subTypes.typeNames", "ML Experiment", None),
    ),
    "a lost subtype of a registered model": (
        *(SCORER, "subTypes", replacing(typeNames=[])),
        ("missing", "subtype", SCORER, "subTypes.typeNames", "Registered Model", None),
    ),
    "a lost subtype of an external model": (
        *("agent", "subTypes", replacing(typeNames=[])),
        ("missing", "subtype", "agent", "subTypes.typeNames", "External Model", None),
    ),
    "an evaluation that is not marked": (
        *("third", "subTypes", replacing(typeNames=[])),
        ("missing", "subtype", "third", "subTypes.typeNames", "Evaluation Run", None),
    ),
    "a training that is marked as an evaluation": (
        *("second", "subTypes", replacing(typeNames=["Evaluation Run"])),
        ("stale", "subtype", "second", "subTypes.typeNames", None, "Evaluation Run"),
    ),
    "a parent that is not marked": (
        *("first", "subTypes", replacing(typeNames=[])),
        ("missing", "subtype", "first", "subTypes.typeNames", "Parent Run", None),
    ),
    "a parent without children": (
        *("second", "subTypes", replacing(typeNames=["Parent Run"])),
        ("stale", "subtype", "second", "subTypes.typeNames", None, "Parent Run"),
    ),
    "a run in the folder of another experiment": (
        *("third", "browsePathsV2", replacing(path=[{"id": "scratch"}])),
        ("stale", "browse path", "third", "browsePathsV2.path", "churn", "scratch"),
    ),
    "a version in no folder": (
        *(VERSION_2, "browsePathsV2", replacing(path=[])),
        ("missing", "browse path", VERSION_2, "browsePathsV2.path", "scorer", None),
    ),
    "an external model in a folder of an entity": (
        *("agent", "browsePathsV2", replacing(path=[{"id": "churn", "urn": CHURN}])),
        ("stale", "browse path", "agent", "browsePathsV2.path", "churn", "churn"),
    ),
    "a lost parent": (
        *("second", MODEL, tag("mlflow.parent_run", None)),
        ("missing", "parent", "second", "customProperties[mlflow.parent_run]", "first", None),
    ),
    "a stale id of a parent": (
        *("second", MODEL, tag("mlflow.parent_run_id", "other")),
        ("stale", "parent", "second", "customProperties[mlflow.parent_run_id]", "first", "other"),
    ),
    "a parent of a run that has none": (
        *("third", MODEL, own("mlflow.parent_run_id", "other")),
        ("stale", "parent", "third", "customProperties[mlflow.parent_run_id]", None, "other"),
    ),
    "a lost tag of a version": (
        *(VERSION_1, MODEL, tag("checked", None)),
        ("missing", "tag", VERSION_1, "customProperties[checked]", "yes", None),
    ),
}

FOUND_BY_REST = {
    "a parent that is not marked",
    "a version in no folder",
    "a stale metric",
    "a stale metric of an external model",
    "a lost alias",
    "a lost metric of a logged model",
    "a lost metric of a version's run, of its logged model",
    "a lost metric of a version's logged model",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_and_nothing_else(ingest: Ingest, verify: Verify, fault: str) -> None:
    where, aspect, change, (outcome, kind, at, *rest) = FAULTS[fault]
    urns = {name: ingest.trained.model(name) for name in ingest.trained.runs}
    with ingest.changed(urns.get(where, where), aspect, change):
        code, facts = verify(ingest.recipe())
        if kind == "parent" and rest[1] == "first":  # as a URN, or as an id
            is_id = str(rest[0]).endswith("_id]")
            rest[1] = ingest.trained.runs["first"] if is_id else urns["first"]
        assert discrepancies(facts) == [(outcome, kind, urns.get(at, at), *rest)]
        assert (code, facts[outcome]) == (4, 1)
        if fault in FOUND_BY_REST:
            assert verify(ingest.recipe(uri=ingest.trained.server.url)) == (code, facts)
    assert verify(ingest.recipe())[0] == 0


def test_a_link_that_leads_nowhere_dangles(ingest: Ingest, verify: Verify) -> None:
    model = ingest.trained.model("first")
    with CatalogClient(ingest.url) as client:
        held = {"featureNamespace": "shop.customers", "name": "age"}
        assert client.write([Proposal(FEATURE, "mlFeatureKey", held)]) == []
    with ingest.changed(model, MODEL, replacing(mlFeatures=[FEATURE, NO_FEATURE])):
        code, facts = verify(ingest.recipe())
    found = ("dangling", "feature link", model, "mlFeatures", NO_FEATURE, None)
    assert (code, discrepancies(facts)) == (4, [found])
    assert facts["compared"]["feature link"] == 2


@pytest.mark.parametrize(
    ("kind", "urn", "aspect", "facts"),
    [
        ("run", NAMES.model("0" * 32).urn, MODEL, {"mlflow.run_id": "0" * 32}),
        (
            *("version", NAMES.version("scorer", "7").urn, MODEL),
            {"mlflow.registered_model": "scorer", "mlflow.version": "7"},
        ),
        (
            *("experiment", NAMES.group("gone").urn, "mlModelGroupProperties"),
            {"mlflow.experiment_id": "77"},
        ),
        (
            *("external model", NAMES.model(f"m-{'0' * 32}").urn, MODEL),
            {"mlflow.experiment_id": "1", "mlflow.model_id": f"m-{'0' * 32}"},
        ),
    ],
)
def test_an_orphan_is_found_unless_others_have_it_too(
    ingest: Ingest, verify: Verify, kind: str, urn: str, aspect: str, facts: dict[str, str]
) -> None:
    source = ingest.source()
    own: dict[str, dict[str, str]] = {"customProperties": {"mlcat.source": source, **facts}}
    with CatalogClient(ingest.url) as client:
        assert client.write([Proposal(urn, aspect, {"name": "gone", **own})]) == []
        ingest.catch_up()
        code, result = verify(ingest.recipe())
        orphan = ("orphaned", kind, urn, "status.removed", "true", "false")
        assert (code, discrepancies(result)) == (4, [orphan])
        own["customProperties"]["mlcat.applied.other"] = "1 {}"
        assert client.write([Proposal(urn, aspect, {"name": "gone", **own})]) == []
        ingest.catch_up()
        code, result = verify(ingest.recipe())
        assert (code, left_out(result)["entity of another recipe alone"]) == (0, 1)
        assert client.write([Proposal(urn, "status", {"removed": True})]) == []
        ingest.catch_up()
    assert verify(ingest.recipe())[0] == 0


def test_what_filters_leave_out_is_counted_and_is_no_orphan(ingest: Ingest, verify: Verify) -> None:
    since = datetime.fromtimestamp((START_MS + 90_000) // 1000, UTC).isoformat()
    code, facts = verify(ingest.recipe(more=f", runs: {{since: '{since}'}}"))
    assert (code, discrepancies(facts)) == (0, [])
    assert facts["compared"]["run"] == 1
    assert left_out(facts)["run by `runs.since`"] == 2
    code, facts = verify(ingest.recipe(more=", runs: {select: registered}"))
    assert (code, facts["compared"]["run"]) == (0, 2)
    assert left_out(facts)["run by `runs.select`"] == 2
    code, facts = verify(ingest.recipe(more=", experiments: {deny: [churn]}"))
    assert (code, "run" in facts["compared"]) == (0, False)
    assert left_out(facts)["experiment by `experiments`"] == 1
    code, facts = verify(ingest.recipe(more=", limit: 2"))
    assert (code, facts["compared"]["run"]) == (0, 1)
    assert facts["compared"].get("version") is None


def test_a_sample_is_spread_over_the_store(ingest: Ingest, verify: Verify) -> None:
    code, facts = verify(ingest.recipe(), "--sample", "2")
    in_trash = left_out(facts).get("run in MLflow's trash", 0)
    assert (code, facts["compared"]["run"] + in_trash) == (0, 2)
    assert facts["notes"] == ["orphans are not checked with --sample"]
    with ingest.changed(ingest.trained.model("first"), MODEL, replacing(groups=[])):
        code, facts = verify(ingest.recipe(), "--sample", "50")
    assert (code, facts["compared"]["run"], facts["missing"]) == (4, 3, 1)


def test_the_text_names_the_place_and_the_values(
    ingest: Ingest, capsys: pytest.CaptureFixture[str]
) -> None:
    model = ingest.trained.model("second")
    with ingest.changed(model, MODEL, put("trainingMetrics", "auc", "0.6")):
        assert call(["verify", ingest.recipe(), "-q"]) == 4
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("3 runs, 20 parameters, 19 metrics, ")
    assert ": 0 missing, 1 stale, 0 dangling, 0 orphaned; left out: " in first
    assert rest == ["stale: 1 metric", f"  {model} trainingMetrics[auc]: expected 0.71, found 0.6"]


def test_runs_are_read_in_batches(trained: Trained, tmp_path: Path, verify: Verify) -> None:
    database = shutil.copy(trained.server.db_path, tmp_path / "mlflow.db")
    insert_runs(Path(database), 450, experiments=2)
    with running_gms(tmp_path / "gms.db") as gms:
        made = ingested(Ingest(tmp_path, trained, gms.url, gms.catch_up))
        uri = f"sqlite:///{database}"
        assert call([made.recipe(uri=uri), "-q", "--full"]) == 0
        gms.catch_up()
        before = len(gms.calls())
        code, facts = verify(made.recipe(uri=uri))
        assert (code, facts["compared"]["run"]) == (0, 453)
        paths = [one.path for one in gms.calls()[before:]]
        # Experiments, three batches of runs, external models, registered models, versions; then
        # both searches.
        assert sum("batchGet" in path for path in paths) == 7
        assert sum("graphql" in path for path in paths) == 2
        assert len(paths) <= 7 + 2 + 1


def test_a_side_that_does_not_answer_ends_it_with_1(
    ingest: Ingest, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = ingest.recipe(uri="http://127.0.0.1:9", more=", retries: 0")
    assert call(["verify", recipe, "-q"]) == 1
    assert "connection refused" in capsys.readouterr().err.lower()
