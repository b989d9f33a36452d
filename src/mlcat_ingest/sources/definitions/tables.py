"""Feature tables as every feature store has them, and their mapping to entities. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final, Literal, NamedTuple, Self, TypeVar, get_args
from urllib.parse import quote

from mlcat_ingest.core.redaction import redact_urls
from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.links.index import FeatureIndex, FeatureSet
from mlcat_ingest.metadata.aspects import (
    BROWSE_PATHS_V2,
    DATA_PLATFORM_INSTANCE,
    GLOBAL_TAGS,
    ML_FEATURE_PROPERTIES,
    ML_FEATURE_TABLE_PROPERTIES,
    ML_PRIMARY_KEY_PROPERTIES,
    OWNERSHIP,
    STATUS,
    SUB_TYPES,
    MLFeatureDataType,
)
from mlcat_ingest.metadata.naming import Name, Naming
from mlcat_ingest.metadata.proposal import Aspect, Entity, Note
from mlcat_ingest.metadata.reserved import SOURCE_KEY, TYPE_TAG
from mlcat_ingest.metadata.urn import build
from mlcat_ingest.sources.base import RecordVersion
from mlcat_ingest.sources.datasets import DatasetName, Datasets
from mlcat_ingest.sources.options import Owners

_FEATURE_TYPES: Final[Mapping[str, MLFeatureDataType]] = {
    name: name for name in get_args(MLFeatureDataType)
}


def chosen_type(column: str, text: str | None, notes: list[Note]) -> MLFeatureDataType | None:
    """Return the type that people chose for a column by the tag of that name, in any case."""
    chosen = None if text is None else _FEATURE_TYPES.get(text.strip().upper())
    if text is not None and chosen is None:
        notes.append(Note("feature_type_unknown", f"{column}: {TYPE_TAG} is {text!r}"))
    return chosen


TABLE: Final = "table"
"""The kind of record that a definition is in the state of a run."""

Unread = Literal["description", "owners", "tags"]
"""A field that a store may hold back."""

_AS_NAMED: Final = Datasets()
_ACTIVE: Final[Aspect] = {"removed": False}


class DatasetPlace(NamedTuple):
    """A dataset by the catalog's name for its platform, and its name there, not normalised yet."""

    platform: str
    name: str


DatasetSource = DatasetPlace | str
"""A place that the recipe's rules still apply to, or the URN of a dataset, taken as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _DescribedItem:
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
class Column(_DescribedItem):
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
class FeatureTable(_DescribedItem):
    """A feature view or feature group: features that share keys and sources.

    `namespace` is the store's project, None where it has none. `kind` is the store's word for it,
    shown as its subtype. `notes` are about omissions of the reader. A table that is not
    `complete` was not read as a whole: its stored lists of features and keys stay. `platform` is
    the catalog's name of the store, where one source reads tables of several; None for that of its
    source. `formerly` is what DataHub's own source says of it, if that makes the same table.
    """

    namespace: str | None
    kind: str
    platform: str | None = None
    sources: tuple[DatasetSource, ...] = ()
    keys: tuple[Key, ...] = ()
    features: tuple[Feature, ...] = ()
    complete: bool = True
    notes: tuple[Note, ...] = ()
    formerly: "FormerEntries | None" = None

    @property
    def has_labels(self) -> bool:
        """Whether its columns are labels, which no model has as inputs."""
        return self.kind == "Label View"

    @property
    def record_version(self) -> RecordVersion | None:
        """The version of the record that the run's state keeps of the table."""
        return _version(self.namespace, self.name)


class FormerEntries(NamedTuple):
    """What DataHub's own source says of a table otherwise: names of its datasets, and keys."""

    sources: tuple[DatasetPlace, ...] = ()
    keys: tuple[str, ...] = ()


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


@dataclass(frozen=True, slots=True)
class FeatureScope:
    """The scope of one feature store: naming, key of its source, rules of owners and datasets."""

    naming: Naming
    source_key: str
    owners: Owners = field(default_factory=Owners, compare=False, repr=False)
    datasets: Datasets = field(default_factory=Datasets, compare=False, repr=False)

    def of(self, table: FeatureTable) -> Self:
        """Return the scope of a table, which may be of another platform than its source.

        Raises:
            ValueError: the platform cannot be part of names.
        """
        if table.platform in {None, self.naming.platform}:
            return self
        return replace(self, naming=self.naming.on_platform(table.platform))

    def table(self, table: FeatureTable) -> Name:
        """Return the name of a table of this scope.

        Raises:
            InvalidUrnError: it has none.
        """
        return self.naming.feature_table(table.namespace, table.name)

    def dataset(self, source: DatasetSource) -> str | None:
        """Return the URN of a dataset, None for a place that can have none."""
        if isinstance(source, str):
            return source
        return self.datasets.urn(self.datasets.resolve(*source), self.naming.env)


_ColumnT = TypeVar("_ColumnT", bound=Column)


def map_table(scope: FeatureScope, table: FeatureTable) -> Iterator[Entity]:
    """Yield the entities that a table is: features and keys first, so that no edge dangles.

    A feature that can have no URN is left out with a note on its table.

    Raises:
        InvalidUrnError: the table can have no URN.
    """
    mapping = _TableMapping(scope, table)
    yield from mapping.features()
    yield from mapping.keys()
    yield mapping.table()


class _TableMapping:
    """The mapping of one table; `table` comes last, once all its columns are known."""

    def __init__(self, scope: FeatureScope, table: FeatureTable) -> None:
        self._scope = scope.of(table)
        self._table = table
        self._name = self._scope.table(table)
        self._notes = list(table.notes)
        self._sources = self._urns(table.sources)
        former = () if table.formerly is None else table.formerly.sources
        urns = (_AS_NAMED.urn(DatasetName(*place), self._scope.naming.env) for place in former)
        self._former = list(filter(None, urns))
        self._features: list[str] = []
        self._keys: list[str] = []

    def features(self) -> Iterator[Entity]:
        build = self._scope.naming.feature
        for feature, name in self._unique(self._table.features, build, self._features):
            version = {"versionTag": feature.version} if feature.version else None
            properties = {**self._properties(name, feature), "version": version}
            yield self._entity(name, feature, {ML_FEATURE_PROPERTIES: properties})

    def keys(self) -> Iterator[Entity]:
        build = self._scope.naming.primary_key
        for key, name in self._unique(self._table.keys, build, self._keys):
            yield self._entity(name, key, {ML_PRIMARY_KEY_PROPERTIES: self._properties(name, key)})

    def table(self) -> Entity:
        table = self._table
        properties: dict[str, Any] = {
            "customProperties": self._custom(self._name, table.properties),
            **_description(table),
        }
        if table.complete:
            # An incomplete list removes what it lacks.
            properties["mlFeatures"] = self._features
            properties["mlPrimaryKeys"] = self._keys
        aspects = self._common_aspects(table, table)
        aspects[SUB_TYPES] = {"typeNames": [table.kind]}
        if table.namespace is not None:
            aspects[BROWSE_PATHS_V2] = {
                "path": [{"id": self._scope.naming.namespace(table.namespace)}]
            }
        aspects[ML_FEATURE_TABLE_PROPERTIES] = properties
        dropped = () if table.formerly is None else table.formerly.keys
        keys = [self._scope.naming.primary_key(self._name, key).urn for key in dropped]
        members = {"mlFeatures": self._features, "mlPrimaryKeys": [*self._keys, *keys]}
        formerly = self._formerly(table, {ML_FEATURE_TABLE_PROPERTIES: members})
        return Entity(self._name.urn, aspects, notes=tuple(self._notes), formerly=formerly)

    def _formerly(
        self, item: _DescribedItem, members: dict[str, Aspect]
    ) -> dict[str, Aspect] | None:
        """Return what DataHub's own source says of an item: its one tag, and the `members`."""
        if self._table.formerly is None:
            return None
        tag = item.tags.get("name")
        return {**members, GLOBAL_TAGS: {"tags": [{"tag": f"urn:li:tag:{tag}"}] if tag else []}}

    def _unique(
        self, columns: Iterable[_ColumnT], build: Callable[[Name, str], Name], urns: list[str]
    ) -> Iterator[tuple[_ColumnT, Name]]:
        """Yield the first column of each name that can have a URN, and note the others."""
        seen: set[str] = set()
        for column in columns:
            if column.name in seen:
                self._notes.append(Note("column_defined_twice", column.name))
                continue
            seen.add(column.name)
            try:
                name = build(self._name, column.name)
            except InvalidUrnError as error:
                self._notes.append(Note("column_without_urn", f"{column.name!r}: {error}"))
                continue
            urns.append(name.urn)
            yield column, name

    def _properties(self, name: Name, column: Column) -> dict[str, Any]:
        """Return the properties that features and keys share."""
        return {
            "customProperties": self._custom(name, column.properties),
            **_description(column),
            "dataType": column.type,
            "sources": self._sources if column.sources is None else self._urns(column.sources),
        }

    def _entity(self, name: Name, column: Column, properties: Mapping[str, Aspect]) -> Entity:
        owned = column if column.owners else self._table
        formerly = self._formerly(column, {key: {"sources": self._former} for key in properties})
        aspects = {**self._common_aspects(column, owned), **properties}
        return Entity(name.urn, aspects, formerly=formerly)

    def _common_aspects(
        self, described: _DescribedItem, owned: _DescribedItem
    ) -> dict[str, Aspect]:
        """Return the aspects that every entity has; its owners are those of `owned`."""
        naming = self._scope.naming
        aspects: dict[str, Aspect] = {STATUS: _ACTIVE}
        if naming.instance_urn is not None:
            aspects[DATA_PLATFORM_INSTANCE] = {
                "platform": naming.platform_urn,
                "instance": naming.instance_urn,
            }
        if "owners" not in owned.unread:
            rules = self._scope.owners
            named = [rules.ownership(rules.urn(owner))["owners"] for owner in owned.owners]
            aspects[OWNERSHIP] = {"owners": list(chain.from_iterable(named))}
        if "tags" not in described.unread:
            aspects[GLOBAL_TAGS] = {"tags": [{"tag": urn} for urn in self._tags(described.tags)]}
        return aspects

    def _tags(self, tags: Mapping[str, str]) -> Iterator[str]:
        for key in sorted(tags):
            text = redact_urls(f"{key}:{tags[key]}" if tags[key] else key)
            try:
                yield build("tag", text if key else "")
            except InvalidUrnError as error:
                self._notes.append(Note("tag_without_urn", f"{text!r}: {error}"))

    def _custom(self, name: Name, properties: Mapping[str, str]) -> dict[str, str]:
        custom = {SOURCE_KEY: self._scope.source_key, **properties}
        if name.full_name is not None:
            custom[f"{self._scope.naming.platform}.full_name"] = name.full_name
        return custom

    def _urns(self, sources: Iterable[DatasetSource]) -> list[str]:
        urns: dict[str, None] = {}
        for source in sources:
            urn = self._scope.dataset(source)
            if urn is None:
                self._notes.append(Note("source_without_urn", str(source)))
            else:
                urns[urn] = None
        return list(urns)


def _description(described: _DescribedItem) -> Aspect:
    """Return the description; without it, the stored one stays, as where it could not be read."""
    return {} if "description" in described.unread else {"description": described.description}


def index_table(index: FeatureIndex, scope: FeatureScope, table: FeatureTable) -> None:
    """Add a table, its features, and the columns that its rows are looked up by."""
    scope = scope.of(table)
    index.add_table(
        scope.naming,
        table.namespace,
        table.name,
        [feature.name for feature in table.features],
        keys=[key.column or key.name for key in table.keys],
        labels=table.has_labels,
        complete=table.complete,
        sources=[urn for source in table.sources if (urn := scope.dataset(source)) is not None],
    )
