"""Feature tables as every feature store has them: what readers produce and the mapping takes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple
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

LABEL_VIEW: Final = "Label View"
"""The kind of a table of labels, which no model has as inputs."""

TABLE: Final = "table"
"""The kind of record that a definition is, in what is remembered."""


Unread = Literal["description", "owners", "tags"]
"""A field that a store may hold back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """What features and keys have in common.

    `properties` become custom properties and are spelled as there, such as `feast.value_type`.
    `sources` are the datasets that it comes from, None for those of its table. `unread` names
    fields that could not be read: what is stored of them stays.
    """

    name: str
    type: MLFeatureDataType = "UNKNOWN"
    description: str | None = None
    owners: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[DatasetSource, ...] | None = None
    unread: frozenset[Unread] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature(Column):
    """One feature of a table; `name` is its column."""

    version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Key(Column):
    """What rows of a table are looked up by; `name` is the entity's, `column` that of the table."""

    column: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureTable:
    """A feature view or feature group: features that share keys and sources.

    `namespace` is the store's project, None where it has none. `kind` is what the store calls it,
    shown as its subtype. `owners` are names as the store has them. `notes` say what the reader had
    to leave out. A table that is not `complete` was not read as a whole: what is stored of its
    lists of features and keys stays, and so does what is stored of the fields that `unread` names.
    `platform` is what the catalog calls the store, where one source reads tables of several; None
    for that of its source.
    """

    namespace: str | None
    name: str
    kind: str
    platform: str | None = None
    description: str | None = None
    owners: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[DatasetSource, ...] = ()
    keys: tuple[Key, ...] = ()
    features: tuple[Feature, ...] = ()
    complete: bool = True
    unread: frozenset[Unread] = frozenset()
    notes: tuple[Note, ...] = ()

    @property
    def record_version(self) -> RecordVersion | None:
        """What to remember of the table."""
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
    """A definition that its store holds and that cannot be read; `name` is told where known."""

    namespace: str | None
    name: str
    reason: str

    @property
    def record_version(self) -> RecordVersion | None:
        """What to remember of the definition, None where it is not told which it is."""
        return _version(self.namespace, self.name)


def _version(namespace: str | None, name: str) -> RecordVersion | None:
    if not name:
        return None
    names = [name] if namespace is None else [namespace, name]
    return RecordVersion(
        TABLE, "/".join(quote(one, safe=" ", errors="surrogatepass") for one in names)
    )


Definition = FeatureTable | FeatureSet | Broken
"""What a reader of feature definitions yields."""
