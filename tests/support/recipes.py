"""Recipes for runs whose sources and sink are built already."""

from typing import Any

from mlcat_ingest.recipe.model import Recipe


def a_recipe(name: str, **options: Any) -> Recipe:
    """Return a recipe with these options about the run; it removes as much as there is."""
    limits = {"max_removed_ratio": 1.0, **options.pop("limits", {})}
    sources = [{"type": "mlflow"}]
    return Recipe.model_validate({"name": name, "sources": sources, "limits": limits, **options})
