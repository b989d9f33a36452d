"""What a recipe of a command line test resolves to: a fake source and a fake sink."""

from dataclasses import dataclass, field

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

    def build(self, **_: object) -> object:
        if isinstance(self.side, Exception):
            raise self.side
        return self.side


@dataclass
class Sides:
    """What the recipe of a test resolves to, and what it was read from."""

    source: FakeSource = field(default_factory=lambda: FakeSource([[model("r1")]]))
    sink: FakeSink | None = field(default_factory=FakeSink)
    read: list[object] = field(default_factory=list)

    def resolved(self) -> ResolvedRecipe:
        recipe = Recipe.parse("{name: test, sources: [{type: mlflow}]}")
        sink = None if self.sink is None else Built(self.sink)
        return ResolvedRecipe(recipe, (Built(self.source),), sink)  # type: ignore[arg-type]


def model(name: str) -> Entity:
    return Entity(model_urn(name), {"mlModelProperties": {"name": name}})
