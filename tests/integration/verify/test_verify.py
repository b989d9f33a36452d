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
from mlcat_ingest.client.catalog_client import CatalogClient
from mlcat_ingest.metadata.naming import Naming
from mlcat_ingest.metadata.proposal import Proposal
from mlcat_ingest.testing.gms import running_gms
from mlcat_ingest.testing.mlflow_store import START_MS, mlflow_client
from support.bulk_runs import insert_runs
from support.catalog_server import running_catalog
from support.mlflow_server import MlflowServer, running
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
    """A real server with a store, and its runs by name."""

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
    from mlflow.entities import LoggedModelOutput, Metric, Param, RunTag

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
        experiment, name="forest", source_run_id=runs["first"], params={"depth": "3"}
    )
    client.log_outputs(runs["first"], models=[LoggedModelOutput(model.model_id, 0)])
    of_model = Metric("f1", 0.25, START_MS, 0, model_id=model.model_id)
    client.log_batch(runs["first"], metrics=[of_model])
    client.delete_run(runs["trash"])
    client.create_registered_model("scorer", tags={"tier": "1"})
    client.create_model_version("scorer", "s3://b/1", runs["first"], tags={"checked": "yes"})
    client.create_model_version("scorer", "s3://b/2", runs["second"])
    client.create_model_version(
        "scorer", f"models:/{model.model_id}", runs["first"], model_id=model.model_id
    )
    client.set_registered_model_alias("scorer", "champion", "2")
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
            restored = before or {"removed": False}
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
    "prompt": 1,
}


def left_out(facts: dict[str, Any]) -> dict[str, int]:
    return {one["what"]: one["count"] for one in facts["left_out"]}


def test_a_whole_ingest_is_green_by_sql_and_by_rest(ingest: Ingest, verify: Verify) -> None:
    code, facts = verify(ingest.recipe())
    assert (code, discrepancies(facts)) == (0, [])
    assert facts["compared"] == {
        "experiment": 3,
        "run": 3,
        "parameter": 9 + 2 * 3 + 1,
        "metric": 10 + 4 + 3 + 1,
        "tag": 1 + 3 * 3 + 1 + 1,
        "membership": 6,
        "registered model": 1,
        "version": 3,
        "alias": 1,
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


MODEL = "mlModelProperties"
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
    "a lost tag of a version": (
        *(VERSION_1, MODEL, tag("version.checked", None)),
        ("missing", "tag", VERSION_1, "customProperties[version.checked]", "yes", None),
    ),
}

FOUND_BY_REST = {
    "a stale metric",
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
    assert facts["notes"] == ["with --sample, orphans are not looked for"]
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
    assert first.startswith("3 runs, 16 parameters, 18 metrics, ")
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
        # Experiments, three batches of runs, registered models, versions; then both searches.
        assert sum("batchGet" in path for path in paths) == 6
        assert sum("graphql" in path for path in paths) == 2
        assert len(paths) <= 6 + 2 + 1


def test_a_side_that_does_not_answer_ends_it_with_1(
    ingest: Ingest, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = ingest.recipe(uri="http://127.0.0.1:9", more=", retries: 0")
    assert call(["verify", recipe, "-q"]) == 1
    assert "connection refused" in capsys.readouterr().err.lower()
