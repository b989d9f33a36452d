"""Recipes for runs whose sources and sink are built already."""

from typing import Any

from mlcat_ingest.client.base import Catalog
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.pipeline.report.report import Report
from mlcat_ingest.pipeline.run import PipelineRun, RunOptions
from mlcat_ingest.recipe.model import Recipe
from support.fakes import FakeSource


def a_recipe(name: str, **options: Any) -> Recipe:
    """Return a recipe with these options about the run; it removes as much as there is."""
    limits = {"max_removed_ratio": 1.0, **options.pop("limits", {})}
    sources = [{"type": "mlflow"}]
    return Recipe.model_validate({"name": name, "sources": sources, "limits": limits, **options})


def run(sink: Catalog, *entities: Entity, **recipe: Any) -> Report:
    """Run a recipe with these options over a source of the entities."""
    options = RunOptions(a_recipe("test", **recipe))
    return PipelineRun([FakeSource([entities])], sink, options).execute()


def accuracy_test(least: float) -> str:
    """Return the YAML of a metadata test that models of a lower accuracy fail."""
    return f"""\
- id: accurate
  name: Models reach an accuracy of {least}
  category: Quality
  definition:
    on: {{types: [mlModel]}}
    rules:
      property: mlModelProperties.trainingMetrics.accuracy
      operator: greater_than
      values: ["{least}"]
"""
