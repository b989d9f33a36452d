"""The SageMaker source: feature groups of one account and region."""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Final

from mlcat_ingest.errors import NotAuthorizedError
from mlcat_ingest.metadata.urn import entity_type_of, parse
from mlcat_ingest.sources.base import Missing, Unlisted
from mlcat_ingest.sources.definitions.source import FeatureSource
from mlcat_ingest.sources.sagemaker.config import SagemakerConfig
from mlcat_ingest.sources.sagemaker.reader import GroupColumns, SagemakerReader

log = logging.getLogger(__name__)

PLATFORM: Final = "sagemaker"


class SagemakerSource(FeatureSource):
    """Reads SageMaker Feature Store; see `sources.base.Source`."""

    def __init__(self, config: SagemakerConfig, *, reader: SagemakerReader | None = None) -> None:
        """Keep the configuration; nothing is contacted. `reader` is made by it if not given.

        Raises:
            RecipeError: instance and prefix cannot be part of names, or the file of owners cannot
                be used.
        """
        self._sagemaker = reader or SagemakerReader(config)
        self._is_compatible = config.compat is not None
        super().__init__(config, PLATFORM, self._sagemaker)

    def _instance(self) -> str | None:
        """Return account and region: names of groups say neither, and so would meet."""
        given = super()._instance()
        return given if given or self._is_compatible else str(self._sagemaker.place())

    def missing(self, partition: str, unlisted: Sequence[Unlisted]) -> Iterable[Missing]:
        """Yield those of `unlisted` that are gone, once SageMaker says so by name.

        What Search finds is an index, which may lag behind.
        """
        columns = cache(self._sagemaker.columns_now)
        for one in super().missing(partition, unlisted):
            yield replace(one, is_gone=partial(_is_gone, one.urn, columns))


def _is_gone(urn: str, columns: Callable[[str], GroupColumns | None]) -> bool:
    """Return whether the group behind an entity has it no more; not, where that cannot be told."""
    kind, parts = entity_type_of(urn), parse(urn).parts
    table = parts[1] if kind == "mlFeatureTable" else parts[0]
    try:
        # Names of groups hold no dots, while instance and prefix end in one.
        found = columns(table.rpartition(".")[2])
    except NotAuthorizedError as error:
        log.warning("%s stays, since it cannot be asked for: %s", urn, error)
        return False
    if found is None:
        return True
    return kind != "mlFeatureTable" and parts[1] not in (
        found.keys if kind == "mlPrimaryKey" else found.features
    )
