"""The base of all feature sources: filters, pages, index of features and removal of lost tables."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import ClassVar, Final
from urllib.parse import quote, unquote

from mlcat_ingest.errors import InvalidUrnError, RecipeError, RecordError
from mlcat_ingest.links.index import FeatureIndex, FeatureSet
from mlcat_ingest.metadata.codec import content_hash
from mlcat_ingest.metadata.naming import Naming
from mlcat_ingest.metadata.proposal import Entity, Note
from mlcat_ingest.recipe.fields import content_of
from mlcat_ingest.recipe.secrets import comparable
from mlcat_ingest.sources.base import (
    Capability,
    ComingTable,
    FeaturesOnly,
    Finished,
    Missing,
    Page,
    Partition,
    ReadRequest,
    Source,
    Unlisted,
)
from mlcat_ingest.sources.datasets import Datasets
from mlcat_ingest.sources.definitions.tables import (
    TABLE,
    Broken,
    Definition,
    FeatureScope,
    FeatureTable,
    index_table,
    map_table,
)
from mlcat_ingest.sources.options import FeatureStoreConfig, Owners

PAGE_COLUMNS: Final = 2_000
"""Features and keys in a page of tables, beyond which it ends."""

HELD_COLUMNS: Final = 20_000
"""Features and keys up to which the definitions of a store are held, to be read once only."""


class FeatureSource(Source[FeatureTable | Broken]):
    """Reads one feature store, which it contacts on first use only.

    Subclasses yield its definitions. They override `_instance` where only the store knows the
    platform instance, and `_takes` where there are further filters.
    """

    capabilities: ClassVar = frozenset({Capability.FEATURES, Capability.MISSING})

    platform: ClassVar[str]
    """The catalog's name of the store, or the kind of the source where each table names its own."""

    empty: ClassVar[str] = "the store is empty: it has no feature table"
    """What is said of a store without a table."""

    def __init__(self, config: FeatureStoreConfig) -> None:
        """Keep the configuration; nothing is contacted.

        Raises:
            RecipeError: instance and prefix cannot be part of names, or the file of owners cannot
                be used.
        """
        self._config = config
        self._owners = Owners(config.owners)
        self._datasets = Datasets(config.datasets)
        self._naming(config.instance)
        self._held: list[Definition] | None = None
        self._filtered_urns: set[str] | None = None

    @abstractmethod
    def server_id(self) -> str:
        """Return the identity of this store among its kind, without secrets; may connect."""

    @abstractmethod
    def definitions(self) -> Iterator[Definition]:
        """Yield every table and set of the store, and its broken definitions.

        Raises: as `read`.
        """

    def _naming(self, instance: str | None) -> Naming:
        config = self._config
        try:
            return Naming(self.platform, config.env, instance, config.namespace_prefix)
        except ValueError as error:
            raise RecipeError(str(error)) from error

    def _instance(self) -> str | None:
        """Return the platform instance; asked once, when the store is first read."""
        return self._config.instance

    def _takes(self, definition: FeatureTable | Broken) -> bool:
        """Return whether the recipe's filters allow a definition; pure."""
        return isinstance(definition, Broken) or self._config.tables.allows(definition.name)

    def coming_tables(self) -> Iterator[ComingTable]:
        """Yield every table that `read` is going to yield, so that links to it are known."""
        definitions: list[Definition] = []
        columns = 0
        for definition in self.definitions():
            if columns <= HELD_COLUMNS:
                definitions.append(definition)
            if isinstance(definition, FeatureTable):
                columns += _columns(definition)
                with suppress(InvalidUrnError):  # it comes by its name, unless it can have none
                    if self._takes(definition):
                        name = self._scope.of(definition).table(definition)
                        first = next(map_table(self._scope, definition)).urn
                        column = None if first == name.urn else first
                        yield ComingTable(name.urn, name.name, self._scope.source_key, column)
        self._held = definitions if columns <= HELD_COLUMNS else None

    def read(self, request: ReadRequest) -> Iterator[Page[FeatureTable | Broken] | Finished]:
        """Yield the tables of the store in pages of about 2,000 features and keys."""
        index = FeatureIndex()
        if isinstance(request.scope, FeaturesOnly):
            for _ in self._pages(index, set()):
                yield Page(())
            yield Finished(index=index)
            return
        place = self._partition()
        partition = request.state.partition(place)
        filtered_urns: set[str] = set()
        count = 0
        for records in self._pages(index, filtered_urns):
            count += len(records)
            yield Page(records, partition)
        # A table that could not be read may be one that seems to be gone.
        self._filtered_urns = filtered_urns if index.complete else None
        all_there_is = index.complete and not filtered_urns
        lacks = self.empty if all_there_is else "no table passes the recipe's filters"
        notes = [] if count else [Note("nothing_listed", f"{place.label}: {lacks}")]
        yield Finished(partition, {}, complete=True, index=index, notes=notes)

    def _pages(
        self, index: FeatureIndex, filtered_urns: set[str]
    ) -> Iterator[Sequence[FeatureTable | Broken]]:
        page: list[FeatureTable | Broken] = []
        columns = 0
        for definition in self._select(index, filtered_urns):
            page.append(definition)
            columns += 0 if isinstance(definition, Broken) else _columns(definition)
            if columns >= PAGE_COLUMNS:
                yield page
                page, columns = [], 0
        yield page

    def _select(
        self, index: FeatureIndex, filtered_urns: set[str]
    ) -> Iterator[FeatureTable | Broken]:
        """Yield the definitions that the filters allow, and index all.

        URNs of the other tables go to `filtered_urns`.
        """
        # `coming_tables` may have held them.
        definitions, self._held = self._held, None
        for definition in self.definitions() if definitions is None else definitions:
            match definition:
                case FeatureSet():
                    index.add_set(definition)
                    continue
                case Broken():
                    index.complete = False
                    if not self._takes(definition):
                        continue
                case FeatureTable() if not self._takes(definition):
                    with suppress(InvalidUrnError):
                        urns = (entity.urn for entity in map_table(self._scope, definition))
                        filtered_urns.update(urns)
                    # Labels are never looked up elsewhere: they are no inputs of models.
                    if definition.has_labels:
                        index_table(index, self._scope, definition)
                    continue
                case FeatureTable():
                    index_table(index, self._scope, definition)
            yield definition

    @cached_property
    def _scope(self) -> FeatureScope:
        server = quote(self._config.server_id or self.server_id(), safe="/.-_@")
        key = f"{self.platform}:{server}:default"
        return FeatureScope(self._naming(self._instance()), key, self._owners, self._datasets)

    def keys(self) -> Sequence[str]:
        """Return the key of the store, its only partition."""
        return [self._scope.source_key]

    def _partition(self) -> Partition:
        naming, key = self._scope.naming, self._scope.source_key
        table = naming.feature_table("0", "0")
        place = key.removeprefix(f"{self.platform}:").rpartition(":")[0]
        settings = [comparable(content_of(self._config)), self._config.owners.map_digest()]
        return Partition(
            key=key,
            instance=naming.instance or "",
            identity={
                TABLE: table.urn,
                "feature": naming.feature(table, "0").urn,
                "key": naming.primary_key(table, "0").urn,
            },
            settings=content_hash(settings),
            label=f"{self.platform} at {self.address or unquote(place)}",
        )

    def map(self, record: FeatureTable | Broken) -> Iterable[Entity]:
        """Return the entities of a table; pure.

        Raises:
            RecordError: it could not be read.
            InvalidUrnError: the table can have no URN.
        """
        if isinstance(record, Broken):
            raise RecordError(record.reason, record_ref=record.name)
        return map_table(self._scope, record)

    def missing(self, partition: str, unlisted: Sequence[Unlisted]) -> Iterable[Missing]:
        """Yield the candidates for removal: those of `unlisted` that the store did not list.

        A file may be cut off where an object ends, and then reads as a smaller store: one pass is
        no proof. Nothing is yielded where something in the store could not be read.
        """
        del partition
        if self._filtered_urns is None:
            return
        for entity in unlisted:
            if entity.urn not in self._filtered_urns:
                yield Missing(entity.urn, lambda: True, second_pass=True)


def _columns(table: FeatureTable) -> int:
    return len(table.features) + len(table.keys)
