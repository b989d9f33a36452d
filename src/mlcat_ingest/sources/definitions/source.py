"""What every feature source does with the definitions that its reader yields."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version as installed
from typing import ClassVar, Final, Protocol
from urllib.parse import quote

from mlcat_ingest.core.awaiting import Awaited, Awaits
from mlcat_ingest.core.findings import Finding
from mlcat_ingest.errors import InvalidUrnError, RecipeError, RecordError
from mlcat_ingest.links.index import FeatureIndex
from mlcat_ingest.metadata.codec import content_hash
from mlcat_ingest.metadata.naming import Naming
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.recipe.fields import content_of
from mlcat_ingest.recipe.secrets import comparable
from mlcat_ingest.sources.base import (
    PROGRAM,
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
from mlcat_ingest.sources.definitions.config import FeatureStoreConfig
from mlcat_ingest.sources.definitions.indexing import index_labels, index_set, index_table
from mlcat_ingest.sources.definitions.mapping import map_table
from mlcat_ingest.sources.definitions.model import (
    TABLE,
    Broken,
    Definition,
    FeatureSet,
    FeatureTable,
)
from mlcat_ingest.sources.definitions.scope import FeatureScope
from mlcat_ingest.sources.owners import Owners

log = logging.getLogger(__name__)

PAGE_COLUMNS: Final = 1_000
"""Features and keys in a page of tables, beyond which it ends."""

HELD_COLUMNS: Final = 20_000
"""Features and keys up to which the definitions of a store are held, to be read once only."""


class DefinitionReader(Awaits, Protocol):
    """Reads the definitions of one store. Nothing is contacted before it is used."""

    def server_id(self) -> str:
        """Return what tells this store from others of its kind, without secrets; may connect."""
        ...

    def read(self) -> Iterator[Definition]:
        """Yield every table and set of the store, and what of them is broken.

        Raises: as `Source.read`.
        """
        ...

    def requests_made(self) -> int:
        """Return how many requests were sent to the store so far."""
        ...

    def check(self) -> Iterator[Finding]:
        """Yield what `mlcat-ingest check` found, connecting but changing nothing."""
        ...

    def close(self) -> None:
        """Release connections; safe to call twice."""
        ...


class FeatureSource(Source[FeatureTable | Broken]):
    """Reads one feature store.

    Subclasses say which platform it is, and make the reader. Where the platform instance is known
    to the store only, they say so in `_instance`; where there are further filters, in `_takes`.
    """

    capabilities: ClassVar = frozenset({Capability.FEATURES, Capability.MISSING})

    def __init__(self, config: FeatureStoreConfig, platform: str, reader: DefinitionReader) -> None:
        """Keep the configuration and the reader; nothing is contacted.

        Raises:
            RecipeError: instance and prefix cannot be part of names, or the file of owners cannot
                be used.
        """
        self._config = config
        self._reader = reader
        self._owners = Owners(config.owners)
        self._datasets = Datasets(config.datasets)
        self._platform = platform
        self._named(config.instance)
        self._held: list[Definition] | None = None
        self._scope: FeatureScope | None = None
        self._there: set[str] | None = None

    def _named(self, instance: str | None) -> Naming:
        config = self._config
        try:
            return Naming(self._platform, config.env, instance, config.namespace_prefix)
        except ValueError as error:
            raise RecipeError(str(error)) from error

    def _instance(self) -> str | None:
        """Return the platform instance; asked once, when the store is first read."""
        return self._config.instance

    def _takes(self, definition: FeatureTable | Broken) -> bool:
        """Return whether the recipe's filters let a definition in; pure."""
        return isinstance(definition, Broken) or self._config.tables.allows(definition.name)

    def coming_tables(self) -> Iterator[ComingTable]:
        """Yield every table that `read` is going to yield; see `Source.coming_tables`."""
        scope = self._scope_now
        held: list[Definition] = []
        columns = 0
        for definition in self._reader.read():
            if columns <= HELD_COLUMNS:
                held.append(definition)
            if isinstance(definition, FeatureTable):
                columns += _columns(definition)
                if self._takes(definition):
                    yield from _coming(scope, definition)
        self._held = held if columns <= HELD_COLUMNS else None

    def _definitions(self) -> Iterator[Definition]:
        """Yield what the store holds, as `coming_tables` has read it where that was held."""
        held, self._held = self._held, None
        return self._reader.read() if held is None else iter(held)

    def read(self, request: ReadRequest) -> Iterator[Page[FeatureTable | Broken] | Finished]:
        """Yield the tables of the store in pages of about 1,000 features and keys."""
        scope, index = self._scope_now, FeatureIndex()
        if isinstance(request.scope, FeaturesOnly):
            for _ in self._pages(scope, index, set()):
                yield Page(())
            yield Finished(index=index)
            return
        partition = request.state.partition(self._partition(scope))
        left_out: set[str] = set()
        for records in self._pages(scope, index, left_out):
            yield Page(records, partition)
        # What could not be read may be what seems to be gone.
        self._there = left_out if index.complete else None
        yield Finished(partition, {}, complete=True, index=index)

    def _pages(
        self, scope: FeatureScope, index: FeatureIndex, left_out: set[str]
    ) -> Iterator[Sequence[FeatureTable | Broken]]:
        page: list[FeatureTable | Broken] = []
        columns = pages = 0
        for definition in self._taken(scope, index, left_out):
            page.append(definition)
            columns += 0 if isinstance(definition, Broken) else _columns(definition)
            if columns >= PAGE_COLUMNS:
                yield page
                page, columns, pages = [], 0, pages + 1
        if not (page or pages):
            log.warning("%s: there is no table, or none that the recipe takes", scope.source_key)
        yield page

    def _taken(
        self, scope: FeatureScope, index: FeatureIndex, left_out: set[str]
    ) -> Iterator[FeatureTable | Broken]:
        """Yield what the recipe takes, and index all; URNs of other tables go to `left_out`."""
        for definition in self._definitions():
            match definition:
                case FeatureSet():
                    index_set(index, definition)
                    continue
                case Broken():
                    index.add_unreadable()
                    if not self._takes(definition):
                        continue
                case FeatureTable() if not self._takes(definition):
                    left_out.update(self._urns(definition))
                    index_labels(index, scope, definition)
                    continue
                case FeatureTable():
                    index_table(index, scope, definition)
            yield definition

    def _scoped(self) -> FeatureScope:
        server = quote(self._config.server_id or self._reader.server_id(), safe="/.-_@")
        key = f"{self._platform}:{server}:default"
        return FeatureScope(self._named(self._instance()), key, self._owners, self._datasets)

    def _partition(self, scope: FeatureScope) -> Partition:
        naming = scope.naming
        table = naming.feature_table("0", "0")
        settings = comparable(content_of(self._config))
        owners = self._config.owners.map_digest()
        return Partition(
            key=scope.source_key,
            instance=naming.instance or "",
            identity={
                TABLE: table.urn,
                "feature": naming.feature(table, "0").urn,
                "key": naming.primary_key(table, "0").urn,
            },
            settings=content_hash([settings, owners, installed(PROGRAM)]),
        )

    def _urns(self, table: FeatureTable) -> Iterator[str]:
        """Yield the URNs of a table and its columns that can have one."""
        try:
            yield from (entity.urn for entity in map_table(self._scope_now, table))
        except InvalidUrnError:
            return

    @property
    def _scope_now(self) -> FeatureScope:
        if self._scope is None:
            self._scope = self._scoped()
        return self._scope

    def map(self, record: FeatureTable | Broken) -> Iterable[Entity]:
        """Return the entities that `record` says something about; pure.

        Raises:
            RecordError: it could not be read.
            InvalidUrnError: the table can have no URN.
        """
        if isinstance(record, Broken):
            raise RecordError(record.reason, record_ref=record.name)
        return map_table(self._scope_now, record)

    def missing(self, partition: str, unlisted: Sequence[Unlisted]) -> Iterable[Missing]:
        """Yield those of `unlisted` that the store did not list; see `Source.missing`.

        A file may be cut off where an object ends, and then reads as a smaller store: one pass is
        no proof. Nothing is yielded where something in the store could not be read.
        """
        del partition
        there = self._there
        if there is None:
            return
        for one in unlisted:
            if one.urn not in there:
                yield Missing(one.urn, lambda: True, second_pass=True)

    def awaited(self) -> Awaited | None:
        """Return the request that waits longest for its answer."""
        return self._reader.awaited()

    def requests_made(self) -> int:
        """Return how many requests were sent to the store so far."""
        return self._reader.requests_made()

    def check(self) -> Iterator[Finding]:
        """Yield what `mlcat-ingest check` found, connecting but changing nothing."""
        return self._reader.check()

    def close(self) -> None:
        """Release connections; safe to call twice."""
        self._reader.close()


def _columns(table: FeatureTable) -> int:
    return len(table.features) + len(table.keys)


def _coming(scope: FeatureScope, table: FeatureTable) -> Iterator[ComingTable]:
    """Yield `table` by its name, unless it can have none."""
    scope = scope.of(table)
    try:
        name = scope.table(table)
    except InvalidUrnError:
        return
    yield ComingTable(name.urn, name.name, scope.source_key, next(_columns_of(scope, table), None))


def _columns_of(scope: FeatureScope, table: FeatureTable) -> Iterator[str]:
    """Yield the URNs of the features and keys of `table` that can have one."""
    name = scope.table(table)
    kinds = ((scope.naming.feature, table.features), (scope.naming.primary_key, table.keys))
    for build, columns in kinds:
        for column in columns:
            try:
                yield build(name, column.name).urn
            except InvalidUrnError:
                continue
