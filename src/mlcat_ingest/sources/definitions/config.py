"""What the configurations of all feature stores have in common. Cheap to import."""

from pydantic import AliasChoices, Field

from mlcat_ingest.recipe.fields import PublicStr, RecipeModel
from mlcat_ingest.recipe.values import Fabric, PatternFilter
from mlcat_ingest.sources.datasets import DatasetsConfig
from mlcat_ingest.sources.owners import OwnersConfig


class FeatureStoreConfig(RecipeModel):
    """Options of every feature store."""

    tables: PatternFilter = PatternFilter()
    """Which feature tables (views, groups) to read, by name."""

    env: Fabric = "PROD"
    """Environment of the datasets that features come from, where `datasets` says no other. URNs of
    features and tables have none."""

    instance: PublicStr | None = Field(
        default=None, validation_alias=AliasChoices("instance", "platform_instance")
    )
    """Platform instance: a prefix of every name, for several stores in one catalog."""

    namespace_prefix: PublicStr | None = None
    """A prefix of every name that says nothing of a platform instance. URNs of features name no
    platform, so two stores with projects of one name need it."""

    server_id: PublicStr | None = None
    """Identity of the store among the catalog's sources; found out where it is not given."""

    owners: OwnersConfig = OwnersConfig()
    """How the owners that the store names become owners in the catalog."""

    datasets: DatasetsConfig = DatasetsConfig()
    """How the catalog names the datasets that features come from."""
