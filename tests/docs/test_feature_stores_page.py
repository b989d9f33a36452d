"""`feature-stores.md`: what it shows can be read, and it names every option and action."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from mlcat_ingest.links.index import FeatureSet
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.sources.definitions.file_source import DefinitionsConfig, DefinitionsSource
from mlcat_ingest.sources.definitions.tables import FeatureTable
from mlcat_ingest.sources.sagemaker.api import ACTIONS
from mlcat_ingest.workflows.resolve import resolve
from support.page_blocks import marked

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "feature-stores.md").read_text()


def first_column(heading: str) -> set[str]:
    section = PAGE.partition(heading)[2].partition("\n\n")[2]
    rows = [line for line in section.partition("\n\n")[0].splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`(\w+(?::\w+)?)", row.split("|")[1])}


def test_the_recipe_and_the_file_on_the_page_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    recipe: dict[str, Any] = yaml.safe_load(marked(PAGE, "definitions recipe"))
    assert resolve(Recipe.model_validate(recipe)).sources
    (tmp_path / "features.yml").write_text(marked(PAGE, "definitions file"))
    source = DefinitionsSource(DefinitionsConfig(path=tmp_path / "features.yml"))
    table, ranking = source.definitions()
    assert isinstance(table, FeatureTable)
    assert isinstance(ranking, FeatureSet)
    assert [one.name for one in table.features] == ["conv_rate", "trips"]


def test_every_action_that_aws_is_asked_for_is_on_the_page() -> None:
    reported = first_column("tries each one:")
    assert reported == set(ACTIONS.values())
