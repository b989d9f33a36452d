"""Two feature stores whose tables have one name: refused before anything of them is written."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from mlcat_ingest.client.base import Catalog
from mlcat_ingest.errors import MlcatError, RecipeError
from mlcat_ingest.metadata.aspects.common import STATUS
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS, SOURCE_KEY
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.merge import properties_aspect
from mlcat_ingest.pipeline.merge.sources import (
    custom_properties,
    is_removed,
    refuse_second_store,
)
from mlcat_ingest.pipeline.read.primary_keys import KEY, PrimaryKeys
from mlcat_ingest.sources.base import ComingTable, Source


def refuse_clashes(
    sources: Sequence[Source[Any]], sink: Catalog, keys: PrimaryKeys
) -> Mapping[int, MlcatError]:
    """Return if no two stores, of `sources` or in the catalog, have tables of one name.

    A store that cannot be listed now hides no other: the position of its source and the error are
    returned, for its turn to be read.

    Raises:
        RecipeError: two stores meet on a name, or a source says that its recipe is wrong.

    Cost: of each source see `Source.coming_tables`; two reads of the catalog a batch of tables.
    """
    clashes = _Clashes(sink, keys)
    failures: dict[int, MlcatError] = {}
    for i, source in enumerate(sources):
        try:
            clashes.look_at(source.coming_tables())
        except RecipeError:
            raise
        except MlcatError as error:
            failures[i] = error
    return failures


class _Clashes:
    """The tables that were looked at so far, by the part of their URNs that their features have."""

    def __init__(self, sink: Catalog, keys: PrimaryKeys) -> None:
        self._sink = sink
        self._keys = keys
        self._tables: dict[str, ComingTable] = {}

    def look_at(self, tables: Iterator[ComingTable]) -> None:
        while some := list(islice(tables, MAX_REQUEST_ITEMS)):
            for table in some:
                first = self._tables.setdefault(table.name, table)
                refuse_second_store(table.urn, first.source, table.source)
            self._look_up({table.urn: table.source for table in some})
            # A table of another platform has another URN, but its features have the same.
            self._look_up({table.column: table.source for table in some if table.column})

    def _look_up(self, sources: Mapping[str, str]) -> None:
        """Compare with the stores that the catalog has these entities from."""
        for entity_type, urns in _by_type(sources).items():
            if entity_type == KEY and not self._keys.are_read(urns[0]):
                continue
            home = properties_aspect(entity_type) or ""
            for urn, stored in self._sink.read_many(urns, [home, STATUS]).items():
                if home in stored and not is_removed(stored):
                    theirs = custom_properties(stored[home].value).get(SOURCE_KEY)
                    refuse_second_store(urn, theirs, sources[urn])


def _by_type(urns: Iterable[str]) -> Mapping[str, Sequence[str]]:
    found: dict[str, list[str]] = {}
    for urn in urns:
        found.setdefault(entity_type_of(urn), []).append(urn)
    return found
