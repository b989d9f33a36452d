from pathlib import Path

from pydantic import SecretStr

from mlcat_ingest.recipe.dump import recipe_to_yaml, starter_recipe
from mlcat_ingest.recipe.model import Recipe, SinkSpec, SourceSpec


def test_the_recipe_that_was_used_can_be_shown() -> None:
    recipe = Recipe.for_tracking_uri("http://me:pw@h:5000", "http://g:8080", limit=5)
    assert (
        recipe_to_yaml(recipe)
        == """\
name: mlflow-h-5000
sources:
- type: mlflow
  config:
    tracking_uri: http://${MLFLOW_TRACKING_USERNAME}:${MLFLOW_TRACKING_PASSWORD}@h:5000
    limit: 5
sink:
  type: rest
  config:
    server: http://g:8080
"""
    )


def test_a_recipe_that_is_shown_is_the_same_once_its_variables_are_set() -> None:
    mlflow, sink = "postgresql://me:pw@h/mlflow", "postgresql://you:word@h/catalog"
    recipe = Recipe.for_tracking_uri(mlflow, sink)
    environ = {
        "MLFLOW_TRACKING_USERNAME": "me",
        "MLFLOW_TRACKING_PASSWORD": "pw",
        "EMBEDDED_USERNAME": "you",
        "EMBEDDED_PASSWORD": "word",
    }
    again = Recipe.parse(recipe_to_yaml(recipe), environ=environ)
    assert again.sources[0].config["tracking_uri"] == mlflow
    assert again.sink == recipe.sink


def test_it_loads_again_as_the_same_recipe(tmp_path: Path) -> None:
    text = """\
name: "${NAME:-n}"
sources:
- type: mlflow
  config: {a: "$${x} ${NAME:-d}", traps: ["NO", "12:30", "010", "1e5", "1", "", "a\\nb", null, 1.5]}
limits: {max_new_entities: 5}
"""
    once = Recipe.parse(text, environ={}, base_dir=tmp_path)
    again = Recipe.parse(recipe_to_yaml(once), environ={}, base_dir=tmp_path)
    assert again.model_dump() == once.model_dump()
    assert again.sources[0].config["a"] == "${x} d"


def test_values_made_in_python_are_masked_and_escaped() -> None:
    config = {
        "token": SecretStr("t"),
        "stars": "***",
        "literal": "${HOME}",
        "twice": (shared := ["a"], shared),
    }
    recipe = Recipe(
        name="n",
        sources=[SourceSpec(type="mlflow", config=config)],
        sink=SinkSpec(type="file", config={"path": Path("/x/y")}),
    )
    text = recipe_to_yaml(recipe)
    assert "token: ${MLFLOW_TRACKING_TOKEN}" in text
    assert "stars: '***'" in text
    assert "literal: $${HOME}" in text
    assert "&" not in text
    assert "path: /x/y" in text


def test_starters_load_as_they_are() -> None:
    recipe = Recipe.parse(starter_recipe(), environ={})
    assert recipe.sources[0].config["tracking_uri"] == "http://127.0.0.1:5000"
    assert recipe.sink is None
    recipe = Recipe.parse(
        starter_recipe(tracking_uri='sqlite:///a "b" ${c}.db', server="http://g", name="x: y"),
        environ={"MLCAT_TOKEN": "tok"},
    )
    assert recipe.name == "x: y"
    assert recipe.sources[0].config["tracking_uri"] == 'sqlite:///a "b" ${c}.db'
    assert recipe.sink == SinkSpec(type="rest", config={"server": "http://g", "token": "tok"})
