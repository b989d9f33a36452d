"""`Pipeline`: from a recipe to a run."""

from pathlib import Path
from typing import Any, ClassVar

import pytest

from mlcat_ingest.errors import RecipeError, RecipeValidationError
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.sources.base import Capability, ReadRequest
from mlcat_ingest.workflows.ingest import Pipeline, state_options_of
from support.fakes import FakeSink, FakeSource, model_urn
from support.sides import model, resolved_recipe


def source(*names: str) -> FakeSource:
    return FakeSource([[model(name) for name in names]])


def test_a_recipe_runs() -> None:
    sink = FakeSink()
    report = Pipeline(resolved_recipe("", sink, source("a", "b"))).run()
    assert (report.name, report.exit_code, len(sink.stored)) == ("test", 0, 2)
    assert report.evaluation.evaluated == 2


def test_the_recipe_says_whether_to_evaluate() -> None:
    sink = FakeSink()
    Pipeline(resolved_recipe("evaluate: {enabled: false}", sink, source("a"))).run()
    assert sink.evaluations == []


def test_the_recipe_says_how_much_may_be_new() -> None:
    text = "limits: {max_new_entities: 1}"
    report = Pipeline(resolved_recipe(text, FakeSink(), source("a", "b"))).run()
    assert report.exit_code == 2


def test_the_recipe_says_who_decides_over_a_field() -> None:
    sink = FakeSink()

    def ingest(*groups: str) -> list[str]:
        message = Entity(model_urn("a"), {"mlModelProperties": {"groups": list(groups)}})
        text = "merge: {mlModelProperties.groups: union}"
        Pipeline(resolved_recipe(text, sink, FakeSource([[message]]))).run()
        found: list[str] = sink.stored[model_urn("a")]["mlModelProperties"]["groups"]
        return found

    assert ingest("x") == ["x"]
    assert ingest("y") == ["x", "y"]


def test_the_recipe_says_where_dead_letters_go(tmp_path: Path) -> None:
    file = tmp_path / "letters"
    sink = FakeSink(refuse={model_urn("a")})
    report = Pipeline(resolved_recipe(f"dead_letters: '{file}'", sink, source("a", "b"))).run()
    assert report.dead_letter_file == str(file)
    assert len(file.read_text().splitlines()) == 1


def test_sources_of_features_are_read_first() -> None:
    order: list[FakeSource] = []

    class Noting(FakeSource):
        def read(self, request: ReadRequest) -> Any:
            order.append(self)
            return super().read(request)

    class Store(Noting):
        capabilities: ClassVar = frozenset({Capability.FEATURES})

    runs, features, more = Noting(), Store(), Noting()
    Pipeline(resolved_recipe("", FakeSink(), runs, features, more)).run()
    assert order == [features, runs, more]


def test_a_recipe_without_a_sink_cannot_run() -> None:
    with pytest.raises(RecipeError, match="has no sink"):
        Pipeline(resolved_recipe("", None, source("a")))


def test_a_recipe_is_resolved_at_once() -> None:
    recipe = Recipe.parse("{sources: [{type: nothing}], sink: {type: rest}}")
    with pytest.raises(RecipeValidationError, match="is not a source"):
        Pipeline(recipe)


def test_a_rule_that_changes_is_another_recipe_whatever_its_keys_are_called() -> None:
    digests = [
        state_options_of(
            Recipe.parse(
                "{source: {type: mlflow},"
                f" enrich: [{{structured_properties: {{secret_level: {level}}}}}]}}"
            ),
            full=False,
            accept_renaming=False,
        ).settings
        for level in ("low", "high", "low")
    ]
    assert digests[0] == digests[2] != digests[1]
