"""What a recipe of a command line test resolves to: a fake source and a fake sink."""

from dataclasses import dataclass, field
from typing import Any

from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.recipe.fields import RecipeModel
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.workflows.resolve import ResolvedRecipe
from support.fakes import FakeSink, FakeSource, model_urn


@dataclass
class Built:
    """A source or a sink of a resolved recipe that is made already, or the error of making it."""

    side: object
    type: str = "fake"
    config: RecipeModel = field(default_factory=RecipeModel)
    place: str = ""

    def build(self, **_: object) -> object:
        if isinstance(self.side, Exception):
            raise self.side
        return self.side


def resolved_recipe(text: str, sink: object, *sources: object) -> ResolvedRecipe:
    """Return a recipe of these sides, made or `Built`; `text` is what it has beside them."""
    recipe = Recipe.parse(f"{{name: test, sources: [{{type: mlflow}}], {text}}}")
    built: Any = [one if hasattr(one, "build") else Built(one) for one in (sink, *sources)]
    return ResolvedRecipe(recipe, tuple(built[1:]), None if sink is None else built[0])


@dataclass
class Sides:
    """What the recipe of a test resolves to, and what it was read from."""

    source: FakeSource = field(default_factory=lambda: FakeSource([[model("r1")]]))
    sink: FakeSink | None = field(default_factory=FakeSink)
    read: list[object] = field(default_factory=list)
    text: str = ""

    def resolved(self) -> ResolvedRecipe:
        return resolved_recipe(self.text, self.sink, self.source)


def model(name: str, **properties: object) -> Entity:
    return Entity(model_urn(name), {"mlModelProperties": {"name": name, **properties}})
