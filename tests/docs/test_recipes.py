"""The recipes that come with the project, and the JSON Schemas that editors check files with."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest
import yaml

from mlcat_ingest.recipe.draft import draft_of_data
from mlcat_ingest.recipe.loader import parse
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.workflows.resolve import ResolvedRecipe, load_resolved, resolve, resolve_draft
from mlcat_ingest.workflows.schema import (
    definitions_schema,
    json_schema,
    metadata_tests_schema,
)
from support.cli import report_of
from support.page_blocks import blocks_of

ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "recipes").glob("*.y*ml"))
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*/*.md")])
SOURCES = re.compile(r"(?ms)\A(?!.*type: model-files).*^sources?:")
"""The beginning of a recipe, but not of one for the plug-in of a guide."""

ENVIRON = {
    "MLCAT_TOKEN": "secret",
    "MLCAT_SERVER": "http://catalog.example.com",
    "MLFLOW_TRACKING_URI": "http://mlflow.example.com",
    "MLFLOW_DB_PASSWORD": "secret",
}
"""The variables in the recipes of pages."""

SCHEMA_FILE = ROOT / "docs" / "recipe.schema.json"
DEFINITIONS = sorted((ROOT / "recipes" / "definitions").glob("*.y*ml"))
DEFINITIONS_SCHEMA_FILE = ROOT / "docs" / "definitions.schema.json"


@pytest.fixture(scope="module")
def validator() -> Any:
    schema = json_schema(plugins=False)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize(
    ("file", "schema"),
    [
        (SCHEMA_FILE, json_schema(plugins=False)),
        (DEFINITIONS_SCHEMA_FILE, definitions_schema()),
        (ROOT / "docs" / "metadata-tests.schema.json", metadata_tests_schema()),
    ],
    ids=["recipe", "definitions", "tests"],
)
def test_a_schema_in_docs_is_that_of_the_code(
    file: Path, schema: dict[str, Any], *, update_golden: bool
) -> None:
    text = json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
    if update_golden:
        file.write_text(text)
    assert file.read_text() == text, "pytest tests/docs --update-golden writes it anew"


def test_there_are_recipes() -> None:
    assert {file.stem for file in RECIPES} >= {"mlflow", "mlflow-to-datahub", "quickstart"}


@pytest.mark.parametrize("file", RECIPES, ids=lambda file: str(file.stem))
def test_a_recipe_resolves_and_fits_the_schema(file: Path, validator: Any) -> None:
    resolved = load_resolved(file, {})
    assert resolved.sources
    assert resolved.sink is not None
    data = parse(file.read_bytes(), file.name).data
    assert [error.message for error in validator.iter_errors(data)] == []
    assert yaml.safe_load(file.read_text()).keys() == data.keys()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.stem))
def test_the_recipes_of_a_page_load(page: Path, tmp_path: Path) -> None:
    for name in ("catalog.token", "mlflow-password"):
        (tmp_path / name).write_text("secret")
    for block in blocks_of(page.read_text()):
        if block.language == "yaml" and SOURCES.search(block.text):
            recipe = Recipe.parse(block.text, base_dir=tmp_path, environ=ENVIRON)
            assert _resolved(recipe).sources


def _resolved(recipe: Recipe) -> ResolvedRecipe:
    """Return a recipe resolved; one of DataHub's has it inside a source of type `mlcat`."""
    outer = recipe.sources[0]
    if outer.type != "mlcat":
        return resolve(recipe)
    return resolve_draft(draft_of_data({"name": recipe.name, **outer.config}, "recipe"))


@pytest.mark.parametrize("file", [*RECIPES, *DEFINITIONS], ids=lambda file: str(file.stem))
def test_a_file_points_editors_at_its_schema(file: Path) -> None:
    found = re.match(r"# yaml-language-server: \$schema=(\S+)\n", file.read_text())
    assert found is not None
    schema = SCHEMA_FILE if file in RECIPES else DEFINITIONS_SCHEMA_FILE
    assert (file.parent / found[1]).resolve() == schema


@pytest.mark.parametrize("file", DEFINITIONS, ids=lambda file: str(file.stem))
def test_definitions_fit_their_schema(file: Path) -> None:
    schema = definitions_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    data = parse(file.read_bytes(), file.name).data
    assert [error.message for error in validator.iter_errors(data)] == []
    data["tables"][0]["features"][0]["type"] = "NUMBER"
    assert [error.message for error in validator.iter_errors(data)] != []


@pytest.mark.process
def test_the_recipe_of_definitions_runs_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLCAT_DB", str(tmp_path / "catalog.db"))
    shutil.copytree(ROOT / "recipes", tmp_path / "recipes")
    entities = report_of(tmp_path / "recipes" / "definitions.yml")["entities"]
    assert {kind: counts["created"] for kind, counts in entities.items()} == {
        "mlFeature": 6,
        "mlFeatureTable": 2,
        "mlPrimaryKey": 2,
    }


@pytest.mark.parametrize(
    "text",
    [
        "source: {type: mlflow, config: {tracking_uri: 'http://m', limit: '${N}'}}",
        "source: {type: mlflow, config: null}",
        "sources: [{type: mlflow}]\nsink: null",
        "sources: [{type: mlflow}]\nsink: {type: file, config: {filename: x}}",
        "$schema: x\npipeline_name: a b\nsource: {type: '${T}'}",
        "sources: [{type: mlflow}]\nsink: {type: datahub-rest, config: {timeout_sec: 5}}",
        "sources: [{type: mlflow}]\nevaluate: {enabled: '${E}', scope: '${S:-all}'}",
    ],
)
def test_what_the_schema_allows(text: str, validator: Any) -> None:
    assert [error.message for error in validator.iter_errors(parse(text, "r").data)] == []


@pytest.mark.parametrize(
    "text",
    [
        "nmae: x\nsource: {type: mlflow}",
        "name: x",
        "name: a\npipeline_name: b\nsource: {type: mlflow}",
        "source: {type: mlflow}\nsources: []",
        "source: {type: mflow}",
        "source: {type: mlflow, conf: {}}",
        "source: {type: mlflow, config: {traking_uri: 'http://m'}}",
        "source: {type: mlflow, config: {limit: 0}}",
        "source: {type: mlflow, config: {runs: {select: some}}}",
        "source: {type: mlflow}\nsink: {type: file}",
        "source: {type: mlflow}\nsink: {type: file, config: {}}",
        "source: {type: mlflow}\nsink: {type: rest, config: {tokn: x}}",
        "source: {type: mlflow}\nenrich: [{}]",
        "source: {type: mlflow}\ntransformers: []",
        "source: {type: mlflow}\nevaluate: {enabled: maybe}",
    ],
)
def test_what_the_schema_refuses(text: str, validator: Any) -> None:
    assert list(validator.iter_errors(parse(text, "r").data)) != []
