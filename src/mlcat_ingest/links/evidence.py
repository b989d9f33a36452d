"""Evidence: what a run, and the models made from it, say about the features they were made with.

Frozen values, put together by a source's mapping without I/O; the rules look at nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from mlcat_ingest.links.index import IndexedTable
from mlcat_ingest.metadata.naming import Naming
from mlcat_ingest.metadata.proposal import Entity

FEAST_REFS: Final = "feast.feature_refs"
FEAST_SERVICE: Final = "feast.feature_service"
FEAST_OPERATION: Final = "feast.operation"
FEAST_MODEL_NAME: Final = "feast.model_name"
FEAST_FILE: Final = "feast_features.json"
"""The file that Feast logs beside its tags: all features, where a tag holds too few characters."""

_PROJECT: Final = "feast.project"
_COUNT: Final = "feast.feature_count"
_RETRIEVAL: Final = "feast.retrieval_type"
_MORE: Final = "..."


@dataclass(frozen=True, slots=True)
class FeastTags:
    """The tags of Feast on a run, from the last time that it was asked for features.

    `refs` are the references that are whole. They are not all of them if `is_cut`: a tag holds
    4,990 characters, a parameter of older versions less.
    """

    project: str | None = None
    refs: tuple[str, ...] = ()
    is_cut: bool = False
    count: int | None = None
    service: str | None = None
    retrieval: str | None = None

    @property
    def names_features(self) -> bool:
        """True if they say anything about features at all."""
        return bool(self.refs or self.is_cut or self.service)

    @property
    def is_training(self) -> bool:
        """True if the features they are about were asked for to train with."""
        return self.retrieval in {None, "historical"}


def feast_tags(tags: Mapping[str, str], params: Mapping[str, str]) -> FeastTags | None:
    """Return Feast's tags on a run, from its tags or else from its parameters.

    A text that ends in `...` was cut there. A text with fewer references than were counted was cut,
    too, and its last reference may be incomplete.
    """
    values = tags if FEAST_REFS in tags or FEAST_SERVICE in tags else params
    if FEAST_REFS not in values and FEAST_SERVICE not in values:
        return None
    text = values.get(FEAST_REFS, "")
    listed = [part for part in (part.strip() for part in text.split(",")) if part]
    count = _number(values.get(_COUNT))
    is_cut = text.endswith(_MORE) or (bool(listed) and count is not None and len(listed) < count)
    result = FeastTags(
        project=values.get(_PROJECT) or tags.get(_PROJECT) or None,
        refs=tuple(listed[:-1] if is_cut else listed),
        is_cut=is_cut,
        count=count,
        service=values.get(FEAST_SERVICE) or None,
        retrieval=values.get(_RETRIEVAL) or None,
    )
    return result if result.names_features else None


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() else None


@dataclass(frozen=True, slots=True)
class UsedDataset:
    """A dataset that was used for training, and its columns as far as they were logged."""

    urn: str
    columns: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that is known of the features of one model.

    `declared` is the text of the tag `mlcat.features`, `feature_specs` and `features_file` are
    those of the files `feature_spec.yaml` and `feast_features.json`. `columns` are the inputs of
    the model's signature; None where it has none. `tables` are those that the recipe makes of the
    signature itself.
    """

    declared: str | None = None
    feature_specs: tuple[str, ...] = ()
    feast: FeastTags | None = None
    features_file: str | None = None
    datasets: tuple[UsedDataset, ...] = ()
    columns: frozenset[str] | None = None
    tables: tuple[IndexedTable, ...] = ()


@dataclass(frozen=True, slots=True)
class LinkOptions:
    """The settings of a recipe for links.

    `instance` and `namespace_prefix` are those of tables that no feature source of the recipe
    reads; `project` is that of references which name none.
    """

    instance: str | None = None
    namespace_prefix: str | None = None
    project: str | None = None
    dangling: bool = False
    dataset_match: bool = False
    signature_names: bool = False
    from_signature: bool = False

    @property
    def elsewhere(self) -> Naming:
        """How features of tables are named that no feature source of the recipe reads.

        Raises:
            ValueError: instance and prefix cannot be part of names.
        """
        return _elsewhere(self.instance, self.namespace_prefix)


@lru_cache(maxsize=16)
def _elsewhere(instance: str | None, prefix: str | None) -> Naming:
    return Naming("feast", instance=instance, workspace=prefix)


@dataclass(frozen=True, slots=True)
class UnlinkedModel(Entity):
    """A model before the look-up of its features, with the `evidence` and `options` for it.

    Its aspects leave `mlFeatures` out: if no features are found, the stored ones stay.
    """

    evidence: Evidence = field(default_factory=Evidence)
    options: LinkOptions = field(default_factory=LinkOptions)
