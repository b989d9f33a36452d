"""Metadata tests on a DataHub server that does not evaluate them: the client does."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from datahub.emitter.mcp import MetadataChangeProposalWrapper
from datahub.ingestion.graph.client import DataHubGraph
from datahub.ingestion.graph.config import DatahubClientConfig
from datahub.metadata import schema_classes as classes

from mlcat_ingest.cli.main import call
from support.catalog_checks import everything
from support.definitions import FeatureWorld, definitions
from support.gms import V1_6, RunningGms, running_gms

TYPED, OWNED, THEIRS = "urn:li:test:typed", "urn:li:test:owned", "urn:li:test:theirs"
TABLE = "urn:li:mlFeatureTable:(urn:li:dataPlatform:custom,rides.wide)"


def feature(name: str) -> str:
    return f"urn:li:mlFeature:(rides.wide,{name})"


def a_test(urn: str, path: str, operator: str = "exists", **more: Any) -> dict[str, Any]:
    types = ["mlFeatureTable"] if urn == OWNED else ["mlFeature"]
    rules = {"property": path, "operator": operator, **more}
    definition = {"on": {"types": types}, "rules": rules}
    name = urn.rpartition(":")[2]
    return {"id": name, "name": f"Is {name}", "category": "Quality", "definition": definition}


TYPED_TEST = a_test(TYPED, "mlFeatureProperties.dataType", "equals", values=["COUNT"])
OWNED_TEST = a_test(OWNED, "ownership.owners.owner")


@dataclass
class World:
    """A server, definitions of features, a file with metadata tests, and the last report."""

    gms: RunningGms
    features: FeatureWorld
    keys: dict[str, Any] = field(default_factory=dict)

    def define(self, *types: str) -> None:
        named = [{"name": f"f{n}", "type": each} for n, each in enumerate(types)]
        self.features.write(definitions(tables=[{"name": "wide", "features": named}]))

    def test(self, *tests: dict[str, Any]) -> None:
        (self.features.folder / "tests.yml").write_text(yaml.safe_dump(list(tests)))

    def recipe(self, **evaluate: Any) -> str:
        return self.features.recipe(
            self.features.source(), evaluate={"test_files": ["tests.yml"], **evaluate}
        )

    def run(self, gate: str | None = None, *options: str, **evaluate: Any) -> int:
        gated = [] if gate is None else ["--fail-on-tests", gate]
        return self.features.run(self.recipe(**evaluate), *gated, *options)

    def plan(self, gate: str) -> int:
        return call(["plan", self.recipe(), "--fail-on-tests", gate])

    @property
    def report(self) -> Any:
        return json.loads((self.features.folder / "report.json").read_text())

    @property
    def graph(self) -> DataHubGraph:
        return DataHubGraph(DatahubClientConfig(server=self.gms.url, token=None))

    def results(self, urn: str) -> tuple[set[str], set[str]]:
        """Return the tests that an entity passes and fails, as DataHub's SDK reads them."""
        stored = self.graph.get_aspect(urn, classes.TestResultsClass)
        if stored is None:
            return set(), set()
        return {one.test for one in stored.passing}, {one.test for one in stored.failing}


Start = Callable[..., Any]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    @contextmanager
    def started(**changes: Any) -> Iterator[World]:
        with running_gms(tmp_path / "gms.db", replace(V1_6, **changes)) as gms:
            world = World(gms, FeatureWorld(tmp_path, gms.url))
            world.test(TYPED_TEST, OWNED_TEST)
            yield world

    return started


def test_a_test_that_fails_ends_the_run_with_3_and_stands_on_the_entities(start: Start) -> None:
    with start() as world:
        world.define("COUNT", "ORDINAL")
        assert world.run("typed") == 3
        evaluation, gate = world.report["evaluation"], world.report["gate"]
        assert evaluation["where"] == "client"
        assert evaluation["failing_tests"] == {TYPED: 1, OWNED: 1}
        [example] = gate["examples"]
        assert (example["entity"], example["test"]) == (feature("f1"), TYPED)
        assert world.results(feature("f0")) == ({TYPED}, set())
        assert world.results(feature("f1")) == (set(), {TYPED})
        assert world.results(TABLE) == (set(), {OWNED})
        world.define("COUNT", "COUNT")
        assert world.run("typed") == 0
        assert world.results(feature("f1")) == ({TYPED}, set())


def test_results_of_tests_that_others_evaluated_are_untouched(start: Start) -> None:
    with start() as world:
        world.define("COUNT", "ORDINAL")
        theirs = classes.TestResultsClass(
            passing=[
                classes.TestResultClass(test=THEIRS, type=classes.TestResultTypeClass.SUCCESS)
            ],
            failing=[classes.TestResultClass(test=OWNED, type=classes.TestResultTypeClass.FAILURE)],
        )
        assert world.run("nothing matches") == 3
        world.graph.emit(MetadataChangeProposalWrapper(entityUrn=feature("f0"), aspect=theirs))
        assert world.run("typed", "--full", test_urns=[TYPED]) == 3
        assert world.results(feature("f0")) == ({THEIRS, TYPED}, {OWNED})


@pytest.mark.parametrize(
    ("where", "code", "evaluated"), [("auto", 0, 2), ("client", 0, 2), ("service", 3, 0)]
)
def test_the_recipe_says_where(start: Start, where: str, code: int, evaluated: int) -> None:
    with start() as world:
        world.define("COUNT")
        assert world.run("typed", where=where) == code
        assert world.report["evaluation"]["evaluated"] == evaluated
        assert bool(world.gms.calls("/test")) == (where != "client")


def test_auto_uses_a_service_that_evaluates(start: Start) -> None:
    with start(evaluates=True) as world:
        world.define("COUNT", "ORDINAL")
        assert world.run("typed") == 3
        assert world.report["evaluation"]["where"] == "service"
        assert world.results(feature("f1")) == (set(), {TYPED})


def test_a_test_that_may_not_be_created_is_not_evaluated_and_does_not_pass(start: Start) -> None:
    with start(forbids=TYPED.__eq__) as world:
        world.define("COUNT")
        assert world.run("typed") == 3
        [reason] = world.report["gate"]["not_evaluated"]
        assert TYPED in reason
        assert "cannot be created" in reason
        assert world.gms.store.exists([feature("f0")])


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("__lastObserved", "only a service has"),
        ("urn.noSuchAspect.field", "cannot be read"),
    ],
)
def test_a_test_that_cannot_be_evaluated_neither_fails_nor_passes(
    start: Start, path: str, words: str
) -> None:
    with start() as world:
        world.test(OWNED_TEST, a_test(TYPED, path))
        world.define("COUNT")
        assert world.run("typed|owned") == 3
        evaluation, gate = world.report["evaluation"], world.report["gate"]
        assert words in evaluation["unevaluated_tests"][TYPED]
        assert any(words in reason for reason in gate["not_evaluated"])
        assert world.results(feature("f0")) == (set(), set())
        assert world.results(TABLE) == (set(), {OWNED})


def test_a_plan_evaluates_what_the_entities_would_be_and_writes_nothing(start: Start) -> None:
    with start() as world:
        world.define("COUNT", "COUNT")
        assert world.run("typed") == 0
        world.define("COUNT", "ORDINAL", "COUNT")
        world.test(TYPED_TEST, OWNED_TEST, a_test("urn:li:test:new", "urn"))
        before = everything(world.gms.store)
        assert world.plan("typed") == 3
        assert world.plan("new") == 0
        assert world.plan("owned") == 3
        assert world.plan("nothing matches") == 3
        assert everything(world.gms.store) == before


def test_check_names_what_evaluating_here_needs(
    start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    with start() as world:
        recipe = world.recipe()
        world.define("COUNT")
        assert call(["check", recipe, "--write"]) == 0
        printed = capsys.readouterr().out
        for what in ("read metadata tests", "write test results"):
            assert re.search(rf"ok +.*catalog permission: {what}", printed)
        world.test({**TYPED_TEST, "definition": {}})
        assert call(["check", recipe]) == 1
        assert "tests.yml:2: [0].definition" in capsys.readouterr().out
