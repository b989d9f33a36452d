"""Feature tables as every feature store has them: what readers produce and the mapping takes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, get_args
from urllib.parse import quote

from mlcat_ingest.metadata.aspects.ml import MLFeatureDataType
from mlcat_ingest.metadata.proposal import Note
from mlcat_ingest.sources.base import RecordVersion


class DatasetPlace(NamedTuple):
    """A dataset by the catalog's name for its platform, and its name there, not normalised yet."""

    platform: str
    name: str


DatasetSource = DatasetPlace | str
"""A place that the recipe's rules still apply to, or the URN of a dataset, taken as it is."""

FEATURE_TYPES: Final[Mapping[str, MLFeatureDataType]] = {
    name: name for name in get_args(MLFeatureDataType)
}
"""The data types of features by name, for those that a tag names."""

LABEL_VIEW: Final = "Label View"
"""The kind of a table of labels, which no model has as inputs."""

TABLE: Final = "table"
"""The kind of record that a definition is in the state of a run."""


Unread = Literal["description", "owners", "tags"]
"""A field that a store may hold back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedItem:
    """The metadata that tables and their columns share.

    `owners` are names as the store has them. `properties` become custom properties and are spelled
    as there, such as `feast.value_type`. `unread` names fields that could not be read: their stored
    values stay.
    """

    name: str
    description: str | None = None
    owners: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    unread: frozenset[Unread] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Column(DescribedItem):
    """A feature or a key; `sources` are the datasets it comes from, None for those of its table."""

    type: MLFeatureDataType = "UNKNOWN"
    sources: tuple[DatasetSource, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature(Column):
    """One feature of a table; `name` is its column."""

    version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Key(Column):
    """A key, by which rows of a table are looked up; `column` is its name in the table."""

    column: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureTable(DescribedItem):
    """A feature view or feature group: features that share keys and sources.

    `namespace` is the store's project, None where it has none. `kind` is the store's word for it,
    shown as its subtype. `notes` say what the reader had to leave out. A table that is not
    `complete` was not read as a whole: its stored lists of features and keys stay. `platform` is
    the catalog's name of the store, where one source reads tables of several; None for that of its
    source.
    """

    namespace: str | None
    kind: str
    platform: str | None = None
    sources: tuple[DatasetSource, ...] = ()
    keys: tuple[Key, ...] = ()
    features: tuple[Feature, ...] = ()
    complete: bool = True
    notes: tuple[Note, ...] = ()

    @property
    def record_version(self) -> RecordVersion | None:
        """The version of the record that the run's state keeps of the table."""
        return _version(self.namespace, self.name)


class FeatureRef(NamedTuple):
    """A feature by the names that its store gives it, within one namespace."""

    table: str
    feature: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureSet:
    """Features that are asked for together by a name: Feast's feature service.

    `aliases` maps another name under which it asks for a table to the table's own.
    """

    namespace: str | None
    name: str
    features: tuple[FeatureRef, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A definition that its store holds and that cannot be read; `name` is empty where unknown."""

    namespace: str | None
    name: str
    reason: str

    @property
    def record_version(self) -> RecordVersion | None:
        """The version of the record in the run's state, None for a definition without a name."""
        return _version(self.namespace, self.name)


def _version(namespace: str | None, name: str) -> RecordVersion | None:
    if not name:
        return None
    names = [name] if namespace is None else [namespace, name]
    key = "/".join(quote(part, safe=" ", errors="surrogatepass") for part in names)
    return RecordVersion(TABLE, key)


Definition = FeatureTable | FeatureSet | Broken
"""Anything that a reader of feature definitions yields."""
