"""Primary keys where a catalog knows no such entities: they become a property of their table."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from mlcat_ingest.errors import CatalogRequestError, CatalogUnavailableError, InvalidUrnError
from mlcat_ingest.metadata.codec import dumps
from mlcat_ingest.metadata.entities import key_aspect_name
from mlcat_ingest.metadata.proposal import Aspect, Entity, Note
from mlcat_ingest.metadata.urn import entity_type_of, parse, raw_parts
from mlcat_ingest.pipeline.merge.sources import custom_properties
from mlcat_ingest.sinks.base import Sink
from mlcat_ingest.sources.base import SOURCE_KEY

PRIMARY_KEYS: Final = "mlcat.primary_keys"
"""Custom property of a feature table: its keys as JSON, in a catalog that has no such entities."""

KEY: Final = "mlPrimaryKey"
_NOT_TAKEN: Final = (
    f"the catalog has no entities of type {KEY}, so the keys of feature tables are in their custom "
    f"property {PRIMARY_KEYS}"
)

_TABLE: Final = "mlFeatureTable"
_ANY_KEY: Final = f"urn:li:{KEY}:(none,none)"
_ANY_TABLE: Final = f"urn:li:{_TABLE}:(urn:li:dataPlatform:none,none)"
_TABLE_PROPERTIES: Final = "mlFeatureTableProperties"
_LIST: Final = "mlPrimaryKeys"
_INTERNAL_ERROR: Final = 500


class PrimaryKeys:
    """Finds out once whether the catalog takes primary keys, and does without them if not.

    Used by one thread at a time. What is learned is not remembered: a catalog that was upgraded
    gets its keys with the next pass.
    """

    def __init__(self, sink: Sink, told: Callable[[str], None]) -> None:
        """Ask `sink`, not before there is a table; `told` takes what is to be said, once."""
        self._sink = sink
        self._told = told
        self._taken: bool | None = None

    def are_taken(self) -> bool:
        """Return whether the catalog has such entities as primary keys.

        Raises: as `Sink.read_many`, where the catalog reads nothing else either.

        Cost: one request, the first time; one more where it is refused.
        """
        if self._taken is None:
            self._taken = self._sink.address() is None or self._are_read()
            if not self._taken:
                self._told(_NOT_TAKEN)
        return self._taken

    @property
    def refused(self) -> Collection[str]:
        """The entity types that the catalog does not have, as far as is known."""
        return (KEY,) if self._taken is False else ()

    def _are_read(self) -> bool:
        try:
            self._read(_ANY_KEY)
        except CatalogRequestError:
            pass
        except CatalogUnavailableError as error:
            # Some servers answer so for what is not in their registry; others are just down.
            if error.context.get("status") != _INTERNAL_ERROR:
                raise
        else:
            return True
        # Who refuses this, too, refuses something else than keys.
        self._read(_ANY_TABLE)
        return False

    def _read(self, urn: str) -> None:
        self._sink.read_many([urn], [key_aspect_name(entity_type_of(urn))])

    def fit(self, entities: Sequence[Entity]) -> Sequence[Entity]:
        """Return the entities of one record as the catalog takes them."""
        keys = [one for one in entities if entity_type_of(one.urn) == KEY]
        lists = any(_LIST in one.aspects.get(_TABLE_PROPERTIES, {}) for one in entities)
        if not (keys or lists) or self.are_taken():
            return entities
        try:
            return list(_without_keys(entities, keys))
        except InvalidUrnError:
            return entities  # refused when it is written, like any other that has no URN


def _without_keys(entities: Iterable[Entity], keys: Sequence[Entity]) -> Iterator[Entity]:
    """Yield all but keys; what they say is on the table that their URNs name."""
    by_table: dict[str, list[Entity]] = {}
    for key in keys:
        by_table.setdefault(raw_parts(key.urn)[0], []).append(key)
    for one in entities:
        entity_type = entity_type_of(one.urn)
        if entity_type == _TABLE and _TABLE_PROPERTIES in one.aspects:
            yield _with_property(one, by_table.get(raw_parts(one.urn)[1], []))
        elif entity_type != KEY:
            yield one


def _with_property(table: Entity, keys: Sequence[Entity]) -> Entity:
    properties = dict(table.aspects[_TABLE_PROPERTIES])
    properties.pop(_LIST, None)
    if keys:
        told = dumps([_told(key) for key in keys]).decode()
        properties["customProperties"] = {**custom_properties(properties), PRIMARY_KEYS: told}
    notes: tuple[Note, ...] = sum((key.notes for key in keys), table.notes)
    return replace(table, aspects={**table.aspects, _TABLE_PROPERTIES: properties}, notes=notes)


def _told(key: Entity) -> dict[str, Any]:
    """Return what a key says of itself; empty things are left out."""
    properties: Aspect = key.aspects.get("mlPrimaryKeyProperties", {})
    custom = {
        name: text for name, text in custom_properties(properties).items() if name != SOURCE_KEY
    }
    said = {
        "name": parse(key.urn).parts[1],
        "type": properties.get("dataType"),
        "description": properties.get("description"),
        **custom,
    }
    return {name: value for name, value in said.items() if value}
