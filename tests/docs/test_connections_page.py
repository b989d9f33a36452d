"""`docs/connections.md` names every option of a connection, with each other name it goes by."""

import re
from pathlib import Path

import yaml

from mlcat_ingest.recipe.connection import ConnectionConfig
from mlcat_ingest.recipe.fields import names_of
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.workflows.resolve import resolve

PAGE = (Path(__file__).parents[2] / "docs" / "connections.md").read_text()


def test_the_table_has_every_option_and_every_other_name() -> None:
    table = {}
    for line in PAGE.splitlines():
        if line.startswith("| `"):
            option, _, others = (cell.strip() for cell in line.strip("|").split("|"))
            named = set(re.findall(r"`(\w+)`", others)) - {"verify", "insecure"}
            table[option.strip("`")] = named
    fields = ConnectionConfig.model_fields.items()
    assert table == {name: set(names_of(name, field)[1:]) for name, field in fields}


def test_the_recipe_of_the_page_loads() -> None:
    [text] = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    recipe = {"name": "r", "source": {"type": "mlflow"}, **yaml.safe_load(text)}
    written = yaml.safe_dump(recipe)
    sink = resolve(Recipe.parse(written, environ={"MLCAT_TOKEN": "t0ken"})).sink
    assert sink is not None
    assert isinstance(sink.config, ConnectionConfig)
    assert sink.config.timeout_s == 30
