"""Options that several sources share: links to features, feature stores, DataHub's names."""

from typing import Self

from pydantic import AliasChoices, Field, model_validator

from mlcat_ingest.links.evidence import LinkOptions
from mlcat_ingest.recipe.fields import PublicStr, RecipeModel
from mlcat_ingest.recipe.values import Fabric, PatternFilter
from mlcat_ingest.sources.datasets import DatasetsConfig
from mlcat_ingest.sources.owners import OwnersConfig


class FeaturesConfig(RecipeModel):
    """Links from models to their training features.

    Features named by a run are looked up among those of this recipe's feature sources, then in the
    catalog.
    """

    enabled: bool = True
    """Whether to link models. `false` keeps existing links."""

    dangling: bool = False
    """Whether to link also to features unknown to the feature sources and to the catalog. An
    ambiguous name is never linked."""

    project: PublicStr | None = None
    """Project of Feast references in runs that name no project. Default: the project of this
    recipe's feature sources, if there is only one."""

    instance: PublicStr | None = Field(
        default=None, validation_alias=AliasChoices("instance", "platform_instance")
    )
    """Platform instance of feature stores outside this recipe's feature sources: a prefix of every
    name."""

    namespace_prefix: PublicStr | None = None
    """A further prefix of the names in such feature stores."""

    model_files: bool = False
    """Whether to read the file `MLmodel` of every logged model of MLflow 3 from any artifact store.
    The model then has its signature, flavors and size. The signature narrows the features of Feast
    to the inputs of the model and identifies models of Databricks' feature engineering. Cost: two
    requests for each logged model whenever its run is read. `false` reads the file only from local
    folders."""

    dataset_match: bool = False
    """Whether to infer features from a dataset of the run that is the source of a feature table:
    the features with the names of its columns. A guess."""

    signature_names: bool = False
    """Whether to infer features from the names of a model's inputs, if exactly one table of all
    feature sources has a feature of that name. A guess."""

    from_signature: bool = False
    """Whether to make features of a model's inputs if it has no other features: one table for each
    model name and signature. Models of MLflow 3 also need `model_files`, or artifacts in a local
    folder."""

    @model_validator(mode="after")
    def _names_can_be_made(self) -> Self:
        _ = self._options().elsewhere
        return self

    def options(self) -> LinkOptions | None:
        """Return what the rules need to know, None where nothing is linked."""
        return self._options() if self.enabled else None

    def _options(self) -> LinkOptions:
        return LinkOptions(**self.model_dump(exclude={"enabled", "model_files"}))


class FeatureStoreConfig(RecipeModel):
    """Options of every feature store."""

    tables: PatternFilter = PatternFilter()
    """The feature tables (views, groups) to read, by name."""

    env: Fabric = "PROD"
    """Environment of the source datasets of features; `datasets` may override it by platform. URNs
    of features and tables contain no environment."""

    instance: PublicStr | None = Field(
        default=None, validation_alias=AliasChoices("instance", "platform_instance")
    )
    """Platform instance: a prefix of every name, for several stores in one catalog."""

    namespace_prefix: PublicStr | None = None
    """A prefix of every name that is not a platform instance. URNs of features contain no platform,
    so two stores with projects of the same name need it."""

    server_id: PublicStr | None = None
    """Identity of the store among the catalog's sources. Default: derived from its address."""

    owners: OwnersConfig = OwnersConfig()
    """How owners in the store map to owners in the catalog."""

    datasets: DatasetsConfig = DatasetsConfig()
    """How the catalog names the source datasets of features."""


def check_compat(compat: str | None, instance: str | None) -> None:
    """Refuse an instance beside `compat`.

    Raises:
        ValueError: both are set.
    """
    if compat is not None and instance is not None:
        raise ValueError(
            "`compat: datahub` cannot be combined with `instance`: DataHub's own source has no "
            "instances, so its names would differ; delete one of the two"
        )
