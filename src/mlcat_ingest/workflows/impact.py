"""The impact of a plan: the models that use the features which a run would remove.

A model is in Production as the catalog says it: by a tag, by an alias of its version, or by a
custom property.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final, NamedTuple, TypeVar

from mlcat_ingest.client.base import Catalog, StoredEntity
from mlcat_ingest.metadata.aspects.common import STATUS, VERSION_PROPERTIES
from mlcat_ingest.metadata.aspects.governance import GLOBAL_TAGS
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.merge.applied import NOTHING
from mlcat_ingest.pipeline.merge.provenance import custom_properties, is_removed, stored_properties
from mlcat_ingest.pipeline.merge.rules import properties_aspect
from mlcat_ingest.pipeline.report.labels import label_of
from mlcat_ingest.workflows.plan import PlannedRemoval

FIRST: Final = 5
"""Models that are named, those in Production first."""

PRODUCTION: Final = frozenset({"production", "prod", "champion"})
"""Stages and aliases of models in Production, in lower case."""

_STAGE_KEYS: Final = ("stage", "environment", "env")
"""Custom properties that say where a model is."""


@dataclass(frozen=True, slots=True)
class Impact:
    """The models that use a feature, or any feature of a table, that goes.

    `names` are those of the first few.
    """

    removal: PlannedRemoval
    models: int
    production: int
    names: tuple[str, ...]


class _Model(NamedTuple):
    """A model that is not removed."""

    name: str
    production: bool


_ItemT = TypeVar("_ItemT")


def _batches(items: Iterable[_ItemT]) -> Iterator[list[_ItemT]]:
    left = iter(items)
    while some := list(islice(left, MAX_REQUEST_ITEMS)):
        yield some


def find_impacts(catalog: Catalog, removals: Iterable[PlannedRemoval]) -> Iterator[Impact]:
    """Yield the impact of each of `removals`, in their order.

    Raises:
        ProtocolMismatchError: the catalog cannot list the models that use a feature.

    Cost: see `Searches.consumers`; one read for each batch of tables, and of models that use them;
    memory for the name of each of these models.
    """
    models = _Models(catalog)
    for some in _batches(removals):
        features = _features_of(catalog, [one.urn for one in some])
        users: dict[str, set[str]] = {}
        every = list(dict.fromkeys(chain.from_iterable(features.values())))
        for feature, page in catalog.search.consumers(every):
            users.setdefault(feature, set()).update(models.live(page))
        for one in some:
            using = {urn for feature in features[one.urn] for urn in users.get(feature, ())}
            found = sorted(map(models.model, using), key=lambda each: (not each.production, each))
            names = tuple(each.name for each in found[:FIRST])
            yield Impact(one, len(found), sum(each.production for each in found), names)


def _features_of(catalog: Catalog, urns: Sequence[str]) -> dict[str, Sequence[str]]:
    """Return the features that each of `urns` stands for: itself, or those of a table."""
    tables = [urn for urn in urns if entity_type_of(urn) == "mlFeatureTable"]
    name = properties_aspect("mlFeatureTable") or ""
    stored = catalog.read_many(tables, [name]) if tables else {}
    features: dict[str, Sequence[str]] = {urn: [urn] for urn in urns}
    for urn in tables:
        properties = stored_properties(urn, stored.get(urn, {})) or NOTHING
        features[urn] = properties.get("mlFeatures") or ()
    return features


class _Models:
    """Models that use features, each read once."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._known: dict[str, _Model | None] = {}

    def live(self, urns: Iterable[str]) -> list[str]:
        """Return those of `urns` that are models and not removed."""
        models = [urn for urn in urns if entity_type_of(urn) == "mlModel"]
        new = [urn for urn in models if urn not in self._known]
        names = (properties_aspect("mlModel") or "", STATUS, GLOBAL_TAGS, VERSION_PROPERTIES)
        for some in _batches(new):
            stored = self._catalog.read_many(some, names)
            self._known.update((urn, _model(urn, stored.get(urn, {}))) for urn in some)
        return [urn for urn in models if self._known[urn] is not None]

    def model(self, urn: str) -> _Model:
        """Return one that is live."""
        return self._known[urn] or _Model(urn, production=False)


def _model(urn: str, stored: StoredEntity) -> _Model | None:
    if is_removed(stored):
        return None
    properties = stored_properties(urn, stored)
    return _Model(label_of(urn, properties) or urn, _is_in_production(urn, stored))


def _is_in_production(urn: str, stored: StoredEntity) -> bool:
    return any(text.lower() in PRODUCTION for text in _stages(urn, stored))


def _stages(urn: str, stored: StoredEntity) -> Iterator[str]:
    """Yield each stage, alias and tag that may say where a model is."""
    tags = stored[GLOBAL_TAGS].value if GLOBAL_TAGS in stored else NOTHING
    for association in tags.get("tags") or ():
        # As this package writes the stage of a version, and its aliases where that is asked for.
        name = str(association.get("tag")).rpartition(":")[2]
        yield name.removeprefix("mlflow_").removeprefix("alias_")
    version = stored[VERSION_PROPERTIES].value if VERSION_PROPERTIES in stored else NOTHING
    for alias in version.get("aliases") or ():
        yield str(alias.get("versionTag"))
    custom = custom_properties(stored_properties(urn, stored) or NOTHING)
    for key in _STAGE_KEYS:
        yield str(custom.get(key))
