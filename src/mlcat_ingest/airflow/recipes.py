"""From what an operator is given to a recipe: a path or an inline recipe, and connections."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlcat_ingest.airflow.hook import MlcatHook, mlflow_variables
from mlcat_ingest.errors import RecipeError
from mlcat_ingest.recipe.model import Recipe, SinkSpec

RecipeGiven = str | Mapping[str, Any]


def recipe_of(given: RecipeGiven, conn_id: str | None, mlflow_conn_id: str | None) -> Recipe:
    """Return the recipe that `given` is the path or the text of, or is itself.

    `conn_id` is the catalog it writes to, and `mlflow_conn_id` fills variables of MLflow.

    Raises:
        RecipeError: it cannot be read, something in it is wrong, or it says where to write although
            a connection does.
    """
    environ = dict(os.environ)
    if mlflow_conn_id:
        environ.update(mlflow_variables(mlflow_conn_id))
    if not isinstance(given, str):
        recipe = Recipe.parse(json.dumps(given), label="inline recipe", environ=environ)
    elif "\n" in given or given.lstrip().startswith("{"):
        recipe = Recipe.parse(given, label="inline recipe", environ=environ)
    else:
        recipe = Recipe.load(Path(given), environ)
    return recipe if conn_id is None else _into(recipe, conn_id)


def _into(recipe: Recipe, conn_id: str) -> Recipe:
    sink = recipe.sink
    said = sink is not None and (
        sink.type not in {"rest", "datahub-rest"} or {"server", "token"} & sink.config.keys()
    )
    if said:
        raise RecipeError(
            f"the recipe {recipe.name!r} and the Airflow connection {conn_id!r} both say where to "
            "write",
            hint="take `server` and `token` out of the recipe's sink, or do without the connection",
        )
    config = {**({} if sink is None else sink.config), **MlcatHook(conn_id).sink_config()}
    return recipe.model_copy(update={"sink": SinkSpec(type="rest", config=config)})
