"""The impact of a plan: the models that use the features which it removes."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple

from mlcat_ingest.client.base import Catalog, StoredEntity
from mlcat_ingest.core.paging import chunks
from mlcat_ingest.metadata.aspects import GLOBAL_TAGS, STATUS, VERSION_PROPERTIES
from mlcat_ingest.metadata.labels import label_of
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.merge.applied import NOTHING
from mlcat_ingest.pipeline.merge.provenance import custom_of, is_removed, stored_properties
from mlcat_ingest.pipeline.merge.rules import properties_aspect
from mlcat_ingest.workflows.plan import PlannedRemoval

_MODELS_NAMED: Final = 5
"""Models that an impact names, those in Production first."""

_PRODUCTION: Final = frozenset({"production", "prod", "champion"})
"""Stages and aliases of models in Production, in lower case."""

_STAGE_KEYS: Final = ("stage", "environment", "env")
"""Custom properties that say where a model is."""


@dataclass(frozen=True, slots=True)
class Impact:
    """The models that use a feature, or any feature of a table, that goes.

    A model is in Production as the catalog says it: by a tag, by an alias of its version, or by a
    custom property. `names` are those of the first few.
    """

    removal: PlannedRemoval
    models: int
    production: int
    names: tuple[str, ...]


class _Model(NamedTuple):
    """A model that is not removed."""

    name: str
    production: bool


def find_impacts(catalog: Catalog, removals: Iterable[PlannedRemoval]) -> Iterator[Impact]:
    """Yield the impact of each of `removals`, in their order.

    Raises:
        ProtocolMismatchError: the catalog cannot list the models that use a feature.

    Cost: see `Searches.consumers`; one read for each batch of tables, and of models that use them;
    memory for the name of each of these models.
    """
    models: dict[str, _Model | None] = {}
    for batch in chunks(removals, MAX_REQUEST_ITEMS):
        features = _features_of(catalog, [removal.urn for removal in batch])
        users: dict[str, set[str]] = {}
        asked = list(dict.fromkeys(chain.from_iterable(features.values())))
        for feature, page in catalog.search.consumers(asked):
            _read_models(catalog, models, page)
            users.setdefault(feature, set()).update(urn for urn in page if models.get(urn))
        for removal in batch:
            urns = {urn for feature in features[removal.urn] for urn in users.get(feature, ())}
            using = [model for urn in urns if (model := models[urn]) is not None]
            using.sort(key=lambda model: (not model.production, model.name))
            names = tuple(model.name for model in using[:_MODELS_NAMED])
            yield Impact(removal, len(using), sum(model.production for model in using), names)


def _features_of(catalog: Catalog, urns: Sequence[str]) -> dict[str, Sequence[str]]:
    """Return the features that each of `urns` stands for: itself, or those of a table."""
    tables = [urn for urn in urns if entity_type_of(urn) == "mlFeatureTable"]
    name = properties_aspect("mlFeatureTable")
    stored = catalog.read_many(tables, [name])
    features: dict[str, Sequence[str]] = {urn: [urn] for urn in urns}
    for urn in tables:
        properties = stored_properties(urn, stored.get(urn, {})) or NOTHING
        features[urn] = properties.get("mlFeatures") or ()
    return features


def _read_models(catalog: Catalog, models: dict[str, _Model | None], urns: Iterable[str]) -> None:
    """Add those of `urns` that are models and not read yet to `models`; None: it is removed."""
    new = [urn for urn in urns if entity_type_of(urn) == "mlModel" and urn not in models]
    names = (properties_aspect("mlModel"), STATUS, GLOBAL_TAGS, VERSION_PROPERTIES)
    stored = catalog.read_many(new, names)
    for urn in new:
        entity = stored.get(urn, {})
        stages = (stage.lower() for stage in _stages(urn, entity))
        name = label_of(urn, stored_properties(urn, entity)) or urn
        model = _Model(name, not _PRODUCTION.isdisjoint(stages))
        models[urn] = None if is_removed(entity) else model


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
    custom = custom_of(urn, stored)
    for key in _STAGE_KEYS:
        yield str(custom.get(key))
