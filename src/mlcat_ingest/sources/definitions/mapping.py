"""A feature table becomes an mlFeatureTable, mlFeatures and mlPrimaryKeys. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.aspects.common import (
    BROWSE_PATHS_V2,
    DATA_PLATFORM_INSTANCE,
    STATUS,
    SUB_TYPES,
)
from mlcat_ingest.metadata.aspects.governance import GLOBAL_TAGS, OWNERSHIP
from mlcat_ingest.metadata.aspects.ml import (
    ML_FEATURE_PROPERTIES,
    ML_FEATURE_TABLE_PROPERTIES,
    ML_PRIMARY_KEY_PROPERTIES,
)
from mlcat_ingest.metadata.naming import Name
from mlcat_ingest.metadata.proposal import Aspect, Entity, Note
from mlcat_ingest.metadata.reserved import SOURCE_KEY
from mlcat_ingest.metadata.urn import tag as tag_urn
from mlcat_ingest.sources.definitions.model import (
    Column,
    DatasetSource,
    Feature,
    FeatureTable,
    Key,
)
from mlcat_ingest.sources.definitions.scope import FeatureScope

_ColumnT = TypeVar("_ColumnT", bound=Column)

_Described = Column | FeatureTable

_ACTIVE: Final[Aspect] = {"removed": False}


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
        self._features: list[str] = []
        self._keys: list[str] = []

    def features(self) -> Iterator[Entity]:
        for feature in _once(self._table.features, self._notes):
            name = self._named(self._scope.naming.feature, feature)
            if name is not None:
                self._features.append(name.urn)
                version = {"versionTag": feature.version} if feature.version else None
                properties = {**self._column(name, feature), "version": version}
                yield self._entity(name, feature, ML_FEATURE_PROPERTIES, properties)

    def keys(self) -> Iterator[Entity]:
        for key in _once(self._table.keys, self._notes):
            name = self._named(self._scope.naming.primary_key, key)
            if name is not None:
                self._keys.append(name.urn)
                properties = self._column(name, key)
                yield self._entity(name, key, ML_PRIMARY_KEY_PROPERTIES, properties)

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
        aspects = self._first_aspects(table, table)
        aspects[SUB_TYPES] = {"typeNames": [table.kind]}
        if table.namespace is not None:
            aspects[BROWSE_PATHS_V2] = {"path": [{"id": table.namespace}]}
        aspects[ML_FEATURE_TABLE_PROPERTIES] = properties
        return Entity(self._name.urn, aspects, notes=tuple(self._notes))

    def _named(self, build: Any, column: Column) -> Name | None:
        try:
            name: Name = build(self._name, column.name)
        except InvalidUrnError as error:
            self._notes.append(Note("column_without_urn", f"{column.name!r}: {error}"))
            return None
        return name

    def _column(self, name: Name, column: Column) -> dict[str, Any]:
        """Return the properties that features and keys share."""
        return {
            "customProperties": self._custom(name, column.properties),
            **_description(column),
            "dataType": column.type,
            "sources": self._sources if column.sources is None else self._urns(column.sources),
        }

    def _entity(self, name: Name, column: Feature | Key, aspect: str, properties: Aspect) -> Entity:
        aspects = self._first_aspects(column, column if column.owners else self._table)
        aspects[aspect] = properties
        return Entity(name.urn, aspects)

    def _first_aspects(self, one: _Described, owned: _Described) -> dict[str, Aspect]:
        """Return the aspects that every entity has; its owners are those of `owned`."""
        naming = self._scope.naming
        aspects: dict[str, Aspect] = {STATUS: _ACTIVE}
        if naming.instance_urn is not None:
            aspects[DATA_PLATFORM_INSTANCE] = {
                "platform": naming.platform_urn,
                "instance": naming.instance_urn,
            }
        if "owners" not in owned.unread:
            aspects[OWNERSHIP] = self._ownership(owned.owners)
        if "tags" not in one.unread:
            aspects[GLOBAL_TAGS] = {"tags": [{"tag": urn} for urn in self._tags(one.tags)]}
        return aspects

    def _ownership(self, owners: Iterable[str]) -> Aspect:
        found = [self._scope.owners.ownership(self._scope.owners.urn(owner)) for owner in owners]
        return {"owners": [entry for one in found for entry in one["owners"]]}

    def _tags(self, tags: Mapping[str, str]) -> Iterator[str]:
        for key in sorted(tags):
            text = f"{key}:{tags[key]}" if tags[key] else key
            try:
                yield tag_urn(text)
            except InvalidUrnError as error:
                self._notes.append(Note("tag_without_urn", f"{text!r}: {error}"))

    def _custom(self, name: Name, properties: Mapping[str, str]) -> dict[str, str]:
        found = {SOURCE_KEY: self._scope.source_key, **properties}
        if name.full_name is not None:
            found[f"{self._scope.naming.platform}.full_name"] = name.full_name
        return found

    def _urns(self, sources: Iterable[DatasetSource]) -> list[str]:
        urns: dict[str, None] = {}
        for source in sources:
            urn = self._scope.dataset(source)
            if urn is None:
                self._notes.append(Note("source_without_urn", str(source)))
            else:
                urns[urn] = None
        return list(urns)


def _description(one: _Described) -> Aspect:
    """Return the description, as it is stored where it could not be read."""
    return {} if "description" in one.unread else {"description": one.description}


def _once(columns: Iterable[_ColumnT], notes: list[Note]) -> Iterator[_ColumnT]:
    """Yield the first column of each name; a note says where there were more."""
    names: set[str] = set()
    for column in columns:
        if column.name in names:
            notes.append(Note("column_defined_twice", column.name))
        else:
            names.add(column.name)
            yield column
