"""What a view of Feast is made from: the data sources that it names, and the datasets they are."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from mlcat_ingest.metadata.proposal import Note
from mlcat_ingest.sources.definitions.model import DatasetPlace
from mlcat_ingest.sources.feast.places import Places, query_digest

_ItemT = TypeVar("_ItemT")

Lookup = Callable[[str, str], Any | None]
"""Finds the registered `DataSource` of a project and name."""


@dataclass(frozen=True, slots=True)
class UpstreamDatasets:
    """The datasets behind data sources, each once.

    `names` are those of the data sources, `queries` digests of the queries among them, `notes` say
    what is no dataset and why.
    """

    names: tuple[str, ...] = ()
    places: tuple[DatasetPlace, ...] = ()
    queries: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()

    def __add__(self, other: "UpstreamDatasets") -> "UpstreamDatasets":
        """Return what both say."""
        return UpstreamDatasets(
            _once(self.names + other.names),
            _once(self.places + other.places),
            _once(self.queries + other.queries),
            _once(self.notes + other.notes),
        )


NOTHING: Final = UpstreamDatasets()


class Upstreams:
    """Follows the data sources of one registry."""

    def __init__(self, places: Places, lookup: Lookup) -> None:
        """Keep what finds datasets, and the data sources that are registered by name."""
        self._places = places
        self._lookup = lookup

    def of(self, project: str, holder: Any, *fields: str) -> UpstreamDatasets:
        """Return what the `DataSource` fields of a message are, as far as they are set."""
        found = NOTHING
        for field in fields:
            if holder.HasField(field):
                found += self._of(project, getattr(holder, field), frozenset())
        return found

    def _of(self, project: str, source: Any, above: frozenset[str]) -> UpstreamDatasets:
        source = self._complete(project, source)
        if source.name in above:
            return NOTHING
        found = UpstreamDatasets(names=(source.name,) if source.name else ())
        told = self._places.told(source)
        if isinstance(told, Note):
            found += UpstreamDatasets(notes=(told,))
        elif told is not None:
            place = self._places.place(source.name, told)
            found += UpstreamDatasets(
                places=() if isinstance(place, Note) else (place,),
                queries=(query_digest(told.query),) if told.query else (),
                notes=(place,) if isinstance(place, Note) else (),
            )
        if source.HasField("batch_source"):
            found += self._of(project, source.batch_source, above | {source.name})
        return found

    def _complete(self, project: str, source: Any) -> Any:
        """Return a data source as it is registered, where only some of it was copied."""
        if source.type and (source.data_source_class_type or not source.HasField("custom_options")):
            return source
        return self._lookup(project, source.name) or source


def _once(items: Iterable[_ItemT]) -> tuple[_ItemT, ...]:
    return tuple(dict.fromkeys(items))
