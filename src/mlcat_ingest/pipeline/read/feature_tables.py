"""Feature tables: primary keys that a catalog does not take, and collisions of two stores' names.

A catalog may lack entities of type `mlPrimaryKey`: a table then names its keys in a custom
property. Two feature stores whose tables have one name are refused before anything is written.

Two sources of one identity are refused before anything is read.
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final

from mlcat_ingest.client.base import Catalog, StoredEntity
from mlcat_ingest.client.rest.capabilities import NEW_TYPES
from mlcat_ingest.core.paging import chunks
from mlcat_ingest.errors import (
    AspectChangedError,
    CatalogRequestError,
    CatalogUnavailableError,
    InvalidUrnError,
    MlcatError,
    NotAuthorizedError,
    ProtocolMismatchError,
    RecipeError,
)
from mlcat_ingest.metadata.aspects import (
    ML_FEATURE_TABLE_PROPERTIES,
    ML_PRIMARY_KEY_PROPERTIES,
    STATUS,
)
from mlcat_ingest.metadata.codec import dumps
from mlcat_ingest.metadata.proposal import (
    IF_VERSION_MATCH,
    NO_SUCH_VERSION,
    Aspect,
    Entity,
    Note,
    Proposal,
    custom_properties,
)
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS, PRIMARY_KEYS, SOURCE_KEY
from mlcat_ingest.metadata.urn import by_entity_type, decoded_parts, entity_type_of, raw_parts
from mlcat_ingest.pipeline.merge.provenance import (
    is_removed,
    refuse_second_store,
    stored_properties,
)
from mlcat_ingest.pipeline.merge.rules import properties_aspect
from mlcat_ingest.pipeline.state.session import equal_identities
from mlcat_ingest.sources.base import ComingTable, Source


def refuse_equal_identities(sources: Sequence[Source[Any]]) -> dict[int, MlcatError]:
    """Return if no two of `sources` read the same partition.

    A source that does not answer now hides no other: its position and the error are returned.

    Raises:
        RecipeError: two do, or a source finds a fault in its recipe.

    Cost: see `Source.keys`; nothing where each source is of another class.
    """
    classes = Counter(map(type, sources))
    readers: dict[str, Source[Any]] = {}
    failures: dict[int, MlcatError] = {}

    def look(source: Source[Any]) -> None:
        for key in source.keys() if classes[type(source)] > 1 else ():
            first = readers.setdefault(key, source)
            if first is not source:
                raise equal_identities(f"{first.place} and {source.place}", key)

    _ask_each(sources, look, failures)
    return failures


def _ask_each(
    sources: Sequence[Source[Any]],
    ask: Callable[[Source[Any]], object],
    failures: dict[int, MlcatError],
) -> None:
    """Ask the sources that did not fail before; add the position and error of each that fails now.

    Raises:
        RecipeError: `ask` found a fault in the recipe.
    """
    for i, source in enumerate(sources):
        if i in failures:
            continue
        try:
            ask(source)
        except RecipeError:
            raise
        except MlcatError as error:
            failures[i] = error


log = logging.getLogger(__name__)

KEY: Final = "mlPrimaryKey"
_INSTEAD: Final = f"so the keys of feature tables are in their custom property {PRIMARY_KEYS}"
_NOT_READ: Final = f"the catalog has no entities of type {KEY}, {_INSTEAD}"

_TABLE: Final = "mlFeatureTable"
_ANY_KEY: Final = f"urn:li:{KEY}:(none,none)"
_ANY_TABLE: Final = f"urn:li:{_TABLE}:(urn:li:dataPlatform:none,none)"
_LIST: Final = "mlPrimaryKeys"
_MISLEADING: Final = (404, 500)
"""Statuses of servers that lack an entity type in their registry; others lack the call, or fail."""


class PrimaryKeys:
    """Probes once if the catalog accepts primary keys, and replaces them by a property if not.

    Used by one thread at a time. The answer is not stored: a catalog that was upgraded gets its
    keys with the next pass.
    """

    def __init__(
        self, sink: Catalog, warn: Callable[[str], None], *, may_write: bool = True
    ) -> None:
        """Ask `sink`, not before there is a key; `warn` takes the sentence for the user, once.

        Without `may_write`, a catalog that reads keys counts as one that takes them.
        """
        self._sink = sink
        self._warn = warn
        self._may_write = may_write
        self._read: bool | None = None
        self._taken: bool | None = None
        self._absent = ""
        self._types: dict[str, bool] = {}

    def are_read(self, key: str) -> bool:
        """Return whether the catalog knows such entities as `key`, the URN of one.

        Raises: as `Catalog.read_many`, where the catalog reads nothing else either.

        Cost: one request, the first time; one more where it is refused.
        """
        if self._read is None:
            is_held = not self._sink.facts.keeps or self._is_held(key)
            self._read = is_held is not None
            if is_held is None:
                self._refuse(_NOT_READ)
            elif is_held or not self._may_write:
                self._taken = True
            else:
                self._absent = key
        return self._read

    def has_type(self, urn: str) -> bool:
        """Return whether the catalog has entities of the type of `urn`; not all have each.

        Raises: as `Catalog.read_many`, where the catalog reads nothing else either.

        Cost: two requests for each type of `NEW_TYPES` that the catalog lacks, else one.
        """
        entity_type = entity_type_of(urn)
        if entity_type not in NEW_TYPES:
            return True
        if entity_type not in self._types:
            facts = self._sink.facts
            is_known = entity_type not in facts.lacking_types
            has = not facts.keeps or (is_known and self._is_held(urn) is not None)
            self._types[entity_type] = has
        return self._types[entity_type]

    @property
    def refused(self) -> Collection[str]:
        """The entity types that the catalog does not have, as far as is known."""
        return (KEY,) if self._taken is False else ()

    def _refuse(self, why: str) -> None:
        self._taken = False
        self._warn(why)

    def _is_held(self, key: str) -> bool | None:
        """Return whether the catalog holds `key`; None where it has no such entities."""
        try:
            return bool(self._read_properties(key))
        except CatalogRequestError:
            pass
        except CatalogUnavailableError as error:
            # Others are just down.
            if error.context.get("status") not in _MISLEADING:
                raise
        # A catalog that refuses this, too, refuses something else than keys.
        self._read_properties(_ANY_TABLE)
        return None

    def _read_properties(self, urn: str) -> Mapping[str, StoredEntity]:
        return self._sink.read_many([urn], [properties_aspect(entity_type_of(urn))])

    def fit(self, entities: Sequence[Entity]) -> Sequence[Entity]:
        """Return the entities of one record as the catalog takes them.

        Raises: as `read_many` and `write`, where the catalog takes nothing else either.

        Cost: with the first key, as `are_read`; where the catalog does not hold it, one write
        that changes nothing, and one more where it is refused.
        """
        if self._taken is None and any(KEY in e.urn or _TABLE in e.urn for e in entities):
            self._find_out(entities)
        if self._taken is not False:
            return entities
        try:
            return list(_without_keys(entities))
        except InvalidUrnError:
            return entities  # refused when it is written, like any other that has no URN

    def _find_out(self, entities: Sequence[Entity]) -> None:
        key = next(filter(_is_urn, _key_urns(entities)), None)
        if key is None:
            if any(
                _LIST in entity.aspects.get(ML_FEATURE_TABLE_PROPERTIES, {}) for entity in entities
            ):
                self.are_read(_ANY_KEY)
        elif self.are_read(key) and self._taken is None:
            if key != self._absent and self._read_properties(key):
                self._taken = True
            else:
                self._try_writing(key, entities)

    def _try_writing(self, key: str, entities: Iterable[Entity]) -> None:
        refusal = self._refusal(key)
        tables = (entity.urn for entity in entities if entity.entity_type == _TABLE)
        table = next(tables, None)
        if refusal is None or table is None or self._refusal(table) is not None:
            self._taken = True  # or whatever is written is refused, and each for its own reason
        else:
            self._refuse(f"the catalog refuses entities of type {KEY} ({refusal}), {_INSTEAD}")

    def _refusal(self, urn: str) -> str | None:
        """Return what the catalog has against entities of this type.

        A version that nothing has keeps the write from changing anything. A catalog that does not
        look at it gets an aspect that it will get anyway.
        """
        headers = {IF_VERSION_MATCH: NO_SUCH_VERSION}
        try:
            errors = self._sink.write([Proposal(urn, STATUS, {"removed": False}, headers=headers)])
        except (CatalogUnavailableError, ProtocolMismatchError) as error:
            if error.context.get("status") not in _MISLEADING:
                raise
            return f"{error.context['status']}"
        # Permissions are those of an entity, not of its type.
        refused = [
            error
            for error in errors
            if not isinstance(error, AspectChangedError) and error.status != HTTPStatus.FORBIDDEN
        ]
        return f"{refused[0].status}: {refused[0].reason}" if refused else None


def _key_urns(entities: Iterable[Entity]) -> Iterator[str]:
    """Yield the URNs of keys that are among `entities`, and then of those that tables list."""
    for entity in entities:
        if entity.entity_type == KEY:
            yield entity.urn
    for entity in entities:
        yield from entity.aspects.get(ML_FEATURE_TABLE_PROPERTIES, {}).get(_LIST) or ()


def _is_urn(text: str) -> bool:
    try:
        decoded_parts(text)
    except InvalidUrnError:
        return False
    return True


def _without_keys(entities: Sequence[Entity]) -> Iterator[Entity]:
    """Yield all entities but keys; the tables get a property with their keys."""
    by_table: dict[str, list[Entity]] = {}
    for entity in entities:
        if entity.entity_type == KEY:
            by_table.setdefault(raw_parts(entity.urn)[0], []).append(entity)
    for entity in entities:
        entity_type = entity.entity_type
        if entity_type == _TABLE and ML_FEATURE_TABLE_PROPERTIES in entity.aspects:
            yield _with_property(entity, by_table.get(raw_parts(entity.urn)[1], []))
        elif entity_type != KEY:
            yield entity


def _with_property(table: Entity, keys: Sequence[Entity]) -> Entity:
    properties = dict(table.aspects[ML_FEATURE_TABLE_PROPERTIES])
    properties.pop(_LIST, None)
    if keys:
        described = dumps([_description(key) for key in keys]).decode()
        properties["customProperties"] = {**custom_properties(properties), PRIMARY_KEYS: described}
    notes: tuple[Note, ...] = sum((key.notes for key in keys), table.notes)
    return replace(
        table, aspects={**table.aspects, ML_FEATURE_TABLE_PROPERTIES: properties}, notes=notes
    )


def _description(key: Entity) -> dict[str, Any]:
    """Return the JSON form of a primary key; empty fields are left out."""
    properties: Aspect = key.aspects.get(ML_PRIMARY_KEY_PROPERTIES, {})
    custom = {
        name: text for name, text in custom_properties(properties).items() if name != SOURCE_KEY
    }
    fields = {
        "name": decoded_parts(key.urn)[1],
        "type": properties.get("dataType"),
        "description": properties.get("description"),
        **custom,
    }
    return {name: value for name, value in fields.items() if value}


def refuse_collisions(
    sources: Sequence[Source[Any]],
    sink: Catalog,
    keys: PrimaryKeys,
    failures: dict[int, MlcatError],
) -> None:
    """Return if no two stores, of `sources` or in the catalog, have tables of one name.

    A store that cannot be listed now hides no other: the position of its source and the error are
    added to `failures`, for its turn to be read. Those that failed already are not asked again.

    Raises:
        RecipeError: two stores have one name, or a source finds a fault in its recipe.

    Cost: of each source see `Source.coming_tables`; two reads of the catalog a batch of tables.
    """
    collisions = _Collisions(sink, keys)
    _ask_each(sources, lambda source: collisions.add(source.coming_tables()), failures)


class _Collisions:
    """The tables that were compared so far, by the part of their URNs that their features have."""

    def __init__(self, sink: Catalog, keys: PrimaryKeys) -> None:
        self._sink = sink
        self._keys = keys
        self._tables: dict[str, ComingTable] = {}

    def add(self, tables: Iterator[ComingTable]) -> None:
        for batch in chunks(tables, MAX_REQUEST_ITEMS):
            for table in batch:
                first = self._tables.setdefault(table.name, table)
                refuse_second_store(table.urn, first.source, table.source)
            self._look_up({table.urn: table.source for table in batch})
            # A table of another platform has another URN, but its features have the same.
            self._look_up({table.column: table.source for table in batch if table.column})

    def _look_up(self, sources: Mapping[str, str]) -> None:
        """Compare with the stores that the catalog has these entities from."""
        for entity_type, urns in by_entity_type(sources).items():
            if entity_type == KEY and not self._keys.are_read(urns[0]):
                continue
            names = [properties_aspect(entity_type), STATUS]
            try:
                stored_entities = self._sink.read_many(urns, names)
            except NotAuthorizedError as error:
                # The merge refuses those that are denied, and a second store of the others.
                log.info("tables were not compared with the catalog's: %s", error)
                continue
            for urn, stored in stored_entities.items():
                properties = stored_properties(urn, stored)
                if properties is not None and not is_removed(stored):
                    theirs = custom_properties(properties).get(SOURCE_KEY)
                    refuse_second_store(urn, theirs, sources[urn])
