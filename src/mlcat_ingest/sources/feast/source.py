"""The Feast source."""

from collections.abc import Iterable, Sequence
from typing import ClassVar

from mlcat_ingest.sources.base import Missing, Unlisted
from mlcat_ingest.sources.definitions.model import LABEL_VIEW, Broken, FeatureTable
from mlcat_ingest.sources.definitions.source import FeatureSource
from mlcat_ingest.sources.feast.config import FeastConfig
from mlcat_ingest.sources.feast.reader import FeastReader
from mlcat_ingest.sources.feast.repo import settled
from mlcat_ingest.sources.feast.transport.opening import may_hide, transport_for


class FeastSource(FeatureSource):
    """Reads the feature views of a registry; see `sources.base.Source`."""

    config_class: ClassVar = FeastConfig

    def __init__(self, config: FeastConfig) -> None:
        """Settle what feature_store.yaml adds to the recipe; nothing is contacted.

        Raises:
            RecipeError: the recipe, or the feature_store.yaml that it leads to, cannot be used.
        """
        config = settled(config)
        super().__init__(config, "feast", FeastReader(config, transport_for(config)))
        self._feast = config

    def _takes(self, definition: FeatureTable | Broken) -> bool:
        config = self._feast
        if not config.projects.allows(definition.namespace or ""):
            return False
        if isinstance(definition, FeatureTable) and definition.kind == LABEL_VIEW:
            return config.label_views and super()._takes(definition)
        return super()._takes(definition)

    def missing(self, partition: str, unlisted: Sequence[Unlisted]) -> Iterable[Missing]:
        """Yield those of `unlisted` that the registry has no more; see `Source.missing`.

        A server that knows who asks leaves out what that user may not see, so that what it does
        not list may still be there.
        """
        return () if may_hide(self._feast) else super().missing(partition, unlisted)
