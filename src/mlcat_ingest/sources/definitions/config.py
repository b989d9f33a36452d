"""Configuration that all feature stores share, and that of definitions files. Cheap to import."""

from typing import Self

from pydantic import AliasChoices, Field, PrivateAttr, ValidationInfo, model_validator

from mlcat_ingest.recipe.fields import PublicStr, RecipeModel
from mlcat_ingest.recipe.values import Fabric, PatternFilter, RecipePath, base_dir_of
from mlcat_ingest.sources.datasets import DatasetsConfig
from mlcat_ingest.sources.owners import OwnersConfig


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


class DefinitionsConfig(FeatureStoreConfig):
    """Feature tables that are defined in files, for stores without a connector of their own."""

    path: RecipePath
    """A definitions file (YAML or JSON), a folder of them, read recursively, or a pattern such as
    `features/**/*.yml`."""

    _path_in_recipe: str = PrivateAttr("")

    @model_validator(mode="after")
    def _keep_path_in_recipe(self, info: ValidationInfo) -> Self:
        path, base_dir = self.path, base_dir_of(info)
        if base_dir is not None and path.is_relative_to(base_dir):
            path = path.relative_to(base_dir)
        self._path_in_recipe = path.as_posix()
        return self

    @property
    def path_in_recipe(self) -> str:
        """Return the path as the recipe has it: the same wherever the recipe is checked out."""
        return self._path_in_recipe
