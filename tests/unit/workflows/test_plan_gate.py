"""The quality gate of a plan says what that of the run after it says."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.metadata.codec import dumps
from mlcat_ingest.pipeline.evaluate.quality_gate import QualityGateOptions
from mlcat_ingest.pipeline.report.report import Verdict
from mlcat_ingest.sources.mlflow.values.records import Experiment
from mlcat_ingest.workflows.ingest import Pipeline
from support.fake_mlflow import FakeReader, a_source
from support.fakes import FakeSink, group_urn
from support.mlflow_history import Server
from support.sides import Built, resolved_recipe

DESCRIBED = "urn:li:test:described"
GATE = QualityGateOptions(re.compile("described"))


def described(property_: str = "mlModelGroupProperties.description") -> dict[str, Any]:
    """Return a metadata test: each group has a description."""
    definition = {
        "on": {"types": ["mlModelGroup"]},
        "rules": {"property": property_, "operator": "exists"},
    }
    text = {"type": "JSON", "json": dumps(definition).decode()}
    return {"name": "Groups are described", "category": "c", "definition": text}


@dataclass
class Recipes:
    """A recipe over an MLflow server, planned and run again and again."""

    folder: Path
    server: Server = field(default_factory=Server)
    sink: FakeSink = field(default_factory=lambda: FakeSink(place="fake://catalog"))

    def __post_init__(self) -> None:
        self.sink.put(DESCRIBED, "testInfo", described())

    @property
    def pipeline(self) -> Pipeline:
        text = (
            f"limits: {{max_removed_ratio: 1}}, state: {{url: 'sqlite:///{self.folder}/state.db'}},"
            f" evaluate: {{where: client, test_urns: ['{DESCRIBED}']}}"
        )
        reader = FakeReader({"default": self.server.store}, now_ms=self.server.now_ms)
        return Pipeline(resolved_recipe(text, self.sink, Built(a_source(reader), "mlflow")))

    def plan(self, *, full: bool) -> Verdict | None:
        with self.pipeline.plan(gate=GATE, full=full) as plan:
            assert plan.report.failure is None
            return plan.report.gate

    def run(self, *, full: bool) -> Verdict | None:
        report = self.pipeline.run(gate=GATE, full=full)
        assert report.failure is None
        return report.gate

    def check(self, failing: int, newly: int, *, full: bool) -> None:
        """Plan, run, and compare what both say."""
        planned = self.plan(full=full)
        done = self.run(full=full)
        assert done is not None
        assert (done.failing, done.newly_failing) == (failing, newly)
        assert planned == done


@pytest.fixture(params=[False, True], ids=["changes", "full"])
def full(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def recipes(tmp_path: Path) -> Recipes:
    return Recipes(tmp_path)


def test_what_failed_before_is_not_newly_failing(recipes: Recipes, *, full: bool) -> None:
    recipes.check(2, 2, full=full)
    recipes.check(2, 0, full=full)
    recipes.server.store.experiments.append(Experiment("2", "new", created_at_ms=3))
    recipes.check(3, 1, full=full)


def test_a_soft_deleted_entity_is_not_judged(recipes: Recipes, *, full: bool) -> None:
    recipes.run(full=full)
    recipes.server.delete_experiment(1)
    recipes.check(1, 0, full=full)
    assert recipes.sink.stored[group_urn("fraud")]["status"] == {"removed": True}
    recipes.check(1, 0, full=full)
    recipes.server.restore_experiment(1)
    recipes.check(2, 1, full=full)


def test_a_soft_deleted_entity_is_not_judged_after_the_state_was_lost(
    recipes: Recipes, *, full: bool
) -> None:
    recipes.server.delete_experiment(1)
    recipes.sink.put(group_urn("fraud"), "status", {"removed": True})
    recipes.check(1, 1, full=full)
    recipes.check(1, 0, full=full)


def test_after_a_change_of_a_test_all_is_judged_anew(recipes: Recipes, *, full: bool) -> None:
    recipes.run(full=full)
    recipes.sink.put(DESCRIBED, "testInfo", described("mlModelGroupProperties.name"))
    recipes.check(0, 0, full=full)


def test_an_entity_of_a_type_that_is_not_evaluated_needs_no_result(
    recipes: Recipes, *, full: bool
) -> None:
    recipes.server.start(1)
    recipes.server.register(0)
    recipes.check(3, 3, full=full)
    recipes.server.move_stage(0)
    recipes.check(3, 0, full=full)
    assert "urn:li:tag:mlflow_staging" in recipes.sink.stored
