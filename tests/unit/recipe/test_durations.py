"""Durations are parsed once, when the recipe is, and shown as the recipe has them."""

import copy
import json

import pytest

from mlcat_ingest.errors import RecipeValidationError
from mlcat_ingest.recipe.dump import recipe_to_yaml
from mlcat_ingest.recipe.fields import Duration
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.sources.mlflow.config import IncrementalConfig, RunsConfig
from mlcat_ingest.workflows.ingest import state_options_of


def recipe(full_every: str) -> Recipe:
    text = f"{{sources: [{{type: mlflow}}], state: {{full_every: {full_every!r}}}}}"
    return Recipe.parse(text, environ={"EVERY": "2d"})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("0s", 0), ("30s", 30), ("5m", 300), ("12h", 43_200), ("7d", 604_800)),
        *((" 4w ", 2_419_200), ("7 d", 604_800), ("${EVERY}", 172_800)),
    ],
)
def test_a_duration_is_a_number_of_seconds(text: str, seconds: int) -> None:
    found = recipe(text)
    assert found.state.full_every.seconds == seconds
    assert state_options_of(found, full=False, accept_renaming=False).full_every_s == seconds


@pytest.mark.parametrize("text", ["", "1", "d", "1.5h", "-1d", "1y", "1d 2h", "1234567s"])
def test_what_is_no_duration_is_a_problem_of_the_recipe(text: str) -> None:
    with pytest.raises(RecipeValidationError, match=r"state\.full_every: "):
        recipe(text)


def test_a_duration_is_shown_as_it_was_written() -> None:
    given = recipe("48h")
    assert "full_every: 48h\n" in recipe_to_yaml(given)
    assert json.loads(given.model_dump_json())["state"]["full_every"] == "48h"
    schema = IncrementalConfig.model_json_schema()["properties"]["overlap"]
    assert (schema["type"], schema["default"]) == ("string", "1h")


def test_defaults_and_copies_have_their_seconds() -> None:
    assert IncrementalConfig().overlap.seconds == 3_600
    runs = RunsConfig.model_validate({"stale_running_after": "3h"})
    for found in (runs, copy.deepcopy(runs)):
        assert found.stale_running_after == Duration("3h")
        assert found.stale_running_after.seconds == 10_800
