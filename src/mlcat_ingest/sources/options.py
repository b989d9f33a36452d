"""Options that several sources share: links to features, compatibility with DataHub's source."""

from typing import Protocol, Self, TypeVar

from pydantic import AliasChoices, Field, model_validator

from mlcat_ingest.links.evidence import LinkOptions
from mlcat_ingest.recipe.fields import PublicStr, RecipeModel


class FeaturesConfig(RecipeModel):
    """Links from models to the features that they were trained on.

    Features that a run names are looked up among those that the feature sources of this recipe
    read, else in the catalog.
    """

    enabled: bool = True
    """Whether to link models; links that exist stay while it is off."""

    dangling: bool = False
    """Whether to link to features, too, that neither a feature source nor the catalog has. An
    ambiguous name is never linked."""

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


class _TakesCompat(Protocol):
    @property
    def compat(self) -> str | None: ...

    @property
    def instance(self) -> str | None: ...


ConfigT = TypeVar("ConfigT", bound=_TakesCompat)


def without_instance(config: ConfigT) -> ConfigT:
    """Return `config`.

    Raises:
        ValueError: it has an instance, too.
    """
    if config.compat is not None and config.instance is not None:
        raise ValueError(
            "`compat: datahub` and `instance` exclude each other: DataHub's own source knows "
            "no instances, so no name of the two would be the same"
        )
    return config
