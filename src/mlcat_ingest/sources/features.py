"""How the features of models are found: what a recipe says about it. Cheap to import."""

from typing import Self

from pydantic import AliasChoices, Field, model_validator

from mlcat_ingest.links.evidence import LinkOptions
from mlcat_ingest.recipe.fields import PublicStr, RecipeModel


class FeaturesConfig(RecipeModel):
    """How models are linked to the features that they were trained on.

    What a run says of them is looked up among what the feature sources of this recipe read, else
    in the catalog.
    """

    enabled: bool = True
    """Whether to link models. Where it is off, links that are there stay."""

    dangling: bool = False
    """Whether to link to features, too, that neither a feature source nor the catalog has. What is
    ambiguous is never linked."""

    project: PublicStr | None = None
    """Project that Feast's references are in where a run names none. Default: the only one that
    the feature sources of this recipe have."""

    instance: PublicStr | None = Field(
        default=None, validation_alias=AliasChoices("instance", "platform_instance")
    )
    """Platform instance of feature stores that no feature source of this recipe reads: a prefix of
    every name."""

    namespace_prefix: PublicStr | None = None
    """A further prefix of the names in such feature stores."""

    model_files: bool = False
    """Whether to read the file `MLmodel` of every logged model of MLflow 3: its signature narrows
    the features of Feast to the inputs of the model, and it tells models that Databricks' feature
    engineering logged. Two requests a logged model, in each pass that reads its run."""

    dataset_match: bool = False
    """Whether features also follow from a dataset of the run that a feature table is made from:
    those that are named like its columns. A guess."""

    signature_names: bool = False
    """Whether features also follow from the names of a model's inputs, where exactly one table of
    all feature sources has such a feature. A guess."""

    @model_validator(mode="after")
    def _names_can_be_made(self) -> Self:
        _ = self._options().elsewhere
        return self

    def options(self) -> LinkOptions | None:
        """Return what the rules need to know, None where nothing is linked."""
        return self._options() if self.enabled else None

    def _options(self) -> LinkOptions:
        return LinkOptions(**self.model_dump(exclude={"enabled", "model_files"}))
