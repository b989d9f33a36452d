"""Writing the search index: documents made from the stored aspects, put in place of the old ones.

FTS5 takes a text out of its index only where it is told the very tokens that were put in. So they
are kept beside it, and what is taken out never depends on how tokens are made today.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain, repeat
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

from sqlalchemy import Connection, delete, or_, select

from mlcat_ingest.catalog.schema.search_tables import (
    EVERY,
    figure,
    figure_set,
    indexed_text,
    keyword,
    keyword_token,
    member,
    profile,
    searched,
)
from mlcat_ingest.catalog.schema.tables import aspect, entity
from mlcat_ingest.catalog.search.document import IndexDocument, IndexedEntity, make_document
from mlcat_ingest.catalog.search.fields import ASPECT_NAMES, BODY_ENDINGS
from mlcat_ingest.catalog.search.interned import (
    Keyword,
    intern_keywords,
    members,
    recount,
    spell,
)
from mlcat_ingest.metadata.codec import loads

CHUNK: Final = 500
"""Most entities whose documents are in memory at a time."""

# These run for every entity, so they go to the driver as they are.
_PUT_FTS: Final = """INSERT INTO search_fts
    (rowid, name, description, tags, properties, urn, keywords) VALUES (?, ?, ?, ?, ?, ?, ?)"""
_TAKE_FTS: Final = """INSERT INTO search_fts
    (search_fts, rowid, name, description, tags, properties, urn, keywords)
    VALUES ('delete', ?, ?, ?, ?, ?, ?, ?)"""
_PUT_TEXT: Final = "INSERT OR REPLACE INTO search_text VALUES (?, ?, ?, ?, ?, ?, ?)"
_PUT_ENTITY: Final = "INSERT OR REPLACE INTO search_entity VALUES (?, ?, ?, ?, ?, ?)"
_PUT_FIGURE: Final = "INSERT OR REPLACE INTO search_figure VALUES (?, ?, ?)"
_FIGURES_TOGETHER: Final = 50
_PUT_FIGURES: Final = _PUT_FIGURE + ", (?, ?, ?)" * (_FIGURES_TOGETHER - 1)
_TAKE_FIGURE: Final = "DELETE FROM search_figure WHERE keyword_id = ? AND entity_id = ?"


_Row: TypeAlias = tuple[str, tuple[str, ...]]
"""A field, and the names of the figures that an entity has of it."""


class _IndexEntry(NamedTuple):
    """One entity in the index: its keywords and the names of its figures as spelled sets."""

    profile: str
    figure_set: str
    texts: tuple[str, ...]


def refresh(
    connection: Connection, ids: Collection[int], known: Mapping[int, IndexedEntity] | None = None
) -> None:
    """Bring the index up to date with the stored aspects of the entities with these `ids`.

    Also with those in `known`, of which nothing needs to be read again.

    Cost: some twenty SQL statements for each 500 entities, of few rows an entity, and one row for
    each of its metrics and parameters.
    """
    known = known or {}
    for some in _chunks([*ids, *known]):
        sources = {at: known[at] for at in some if at in known}
        sources |= _read_sources(connection, [at for at in some if at not in known])
        documents = {at: make_document(source) for at, source in sources.items()}
        numbers = _Numbers(connection, list(documents.values()))
        entries = {at: _entry(document, numbers) for at, document in documents.items()}
        profiles, figure_sets = _put_entries(connection, some, entries)
        rows = [
            (
                at,
                profiles[entry.profile],
                figure_sets[entry.figure_set],
                documents[at].name,
                documents[at].created_ms,
                documents[at].modified_ms,
            )
            for at, entry in entries.items()
        ]
        _run_many(connection, _PUT_ENTITY, rows)
        _put_figures(connection, _figure_cells(documents, numbers))


def forget(connection: Connection, ids: Collection[int]) -> None:
    """Take the entities with these `ids` out of the index."""
    for some in _chunks(ids):
        _put_entries(connection, some, {})
        for table in (indexed_text, searched):
            connection.execute(delete(table).where(table.c.id.in_(some)))


def _chunks(ids: Collection[int]) -> Iterator[list[int]]:
    ordered = sorted(set(ids))
    for start in range(0, len(ordered), CHUNK):
        yield ordered[start : start + CHUNK]


def clear(connection: Connection) -> None:
    """Empty the index."""
    connection.exec_driver_sql("INSERT INTO search_fts (search_fts) VALUES ('delete-all')")
    for table in (indexed_text, searched, figure, figure_set, member, profile, keyword):
        connection.execute(delete(table))


def read_sources(
    connection: Connection, ids: Collection[int]
) -> Iterator[tuple[int, IndexedEntity]]:
    """Yield what the documents of these entities are made of, by id; those that exist.

    Cost: two SQL statements for each 500 entities.
    """
    for some in _chunks(ids):
        yield from _read_sources(connection, some).items()


def _read_sources(connection: Connection, ids: list[int]) -> dict[int, IndexedEntity]:
    if not ids:
        return {}
    query = select(entity.c.id, entity.c.urn, entity.c.entity_type, entity.c.created_ms)
    rows = connection.execute(query.where(entity.c.id.in_(ids)))
    sources = {row.id: IndexedEntity(row.urn, row.entity_type, row.created_ms) for row in rows}
    indexed = or_(
        aspect.c.aspect.in_(sorted(ASPECT_NAMES)),
        *(aspect.c.aspect.endswith(ending) for ending in BODY_ENDINGS),
    )
    stored = select(aspect.c.entity_id, aspect.c.aspect, aspect.c.value, aspect.c.modified_ms)
    for row in connection.execute(stored.where(aspect.c.entity_id.in_(ids), indexed)):
        sources[row.entity_id].add(row.aspect, loads(row.value), row.modified_ms)
    return sources


class _Numbers:
    """The numbers of keywords; names of figures come in rows that many entities have alike."""

    def __init__(self, connection: Connection, documents: Collection[IndexDocument]) -> None:
        """Look up the numbers of everything in `documents`; what has none is given one."""
        rows = {one.row for document in documents for one in document.figures}
        wanted = {keyword: None for document in documents for keyword in document.keywords}
        wanted.update({(field, name): None for field, names in rows for name in names})
        self._numbers = intern_keywords(connection, wanted)
        self._rows = {
            (field, names): [self._numbers[field, name] for name in names] for field, names in rows
        }
        self._sets: dict[tuple[_Row, ...], str] = {}

    def of_keywords(self, keywords: Iterable[Keyword]) -> list[int]:
        """Return the numbers of `keywords`, the smallest first."""
        return sorted(self._numbers[keyword] for keyword in keywords)

    def of_names(self, row: _Row) -> list[int]:
        """Return the numbers of names, in their order."""
        return self._rows[row]

    def figure_set(self, document: IndexDocument) -> str:
        """Return the spelled set of the names of all figures."""
        rows = tuple(one.row for one in document.figures)
        if rows not in self._sets:
            self._sets[rows] = spell(number for row in rows for number in self._rows[row])
        return self._sets[rows]


def _entry(document: IndexDocument, numbers: _Numbers) -> _IndexEntry:
    keywords = numbers.of_keywords(document.keywords)
    return _IndexEntry(
        profile=spell(keywords),
        figure_set=numbers.figure_set(document),
        texts=(*document.columns, " ".join([EVERY, *map(keyword_token, keywords)])),
    )


def _put_entries(
    connection: Connection, ids: list[int], entries: Mapping[int, _IndexEntry]
) -> tuple[dict[str, int], dict[str, int]]:
    """Put `entries` in the place of what is held of `ids`; return the numbers of their sets."""
    held = _held(connection, ids)
    profiles: Counter[str] = Counter()
    figure_sets: Counter[str] = Counter()
    taken: list[tuple[Any, ...]] = []
    put: list[tuple[Any, ...]] = []
    figures_taken: list[tuple[Any, ...]] = []
    for at in ids:
        old, new = held.get(at), entries.get(at)
        if old is not None:
            profiles[old.profile] -= 1
            figure_sets[old.figure_set] -= 1
            left = members(new.figure_set) if new is not None else set()
            figures_taken += [(one, at) for one in members(old.figure_set) - left]
        if new is not None:
            profiles[new.profile] += 1
            figure_sets[new.figure_set] += 1
        if old is not None and (new is None or new.texts != old.texts):
            taken.append((at, *old.texts))
        if new is not None and (old is None or new.texts != old.texts):
            put.append((at, *new.texts))
    for statement, rows in (
        (_TAKE_FTS, taken),
        (_PUT_FTS, put),
        (_PUT_TEXT, put),
        (_TAKE_FIGURE, figures_taken),
    ):
        _run_many(connection, statement, rows)
    return (
        recount(connection, profile, profiles),
        recount(connection, figure_set, figure_sets),
    )


def _figure_cells(documents: Mapping[int, IndexDocument], numbers: "_Numbers") -> list[Any]:
    """Return the rows of all figures, cell by cell; those of one name stand together."""
    alike: defaultdict[_Row, list[tuple[int, tuple[float | str, ...]]]] = defaultdict(list)
    for at, document in documents.items():
        for one in document.figures:
            alike[one.row].append((at, one.values))
    columns = []
    for row, held in alike.items():
        ids, values = zip(*held, strict=True)
        for number, column in zip(numbers.of_names(row), zip(*values, strict=True), strict=True):
            columns.append((number, ids, column))
    columns.sort(key=itemgetter(0))
    cells: list[Any] = []
    for number, ids, column in columns:
        cells += chain.from_iterable(zip(repeat(number), ids, column, strict=False))
    return cells


def _put_figures(connection: Connection, cells: list[Any]) -> None:
    """Put figures, many to a statement: they are most of what is written."""
    whole = len(cells) - len(cells) % (3 * _FIGURES_TOGETHER)
    _run_many(connection, _PUT_FIGURES, _in_rows(cells[:whole], 3 * _FIGURES_TOGETHER))
    _run_many(connection, _PUT_FIGURE, _in_rows(cells[whole:], 3))


def _in_rows(cells: list[Any], size: int) -> list[tuple[Any, ...]]:
    return [tuple(cells[start : start + size]) for start in range(0, len(cells), size)]


def _run_many(connection: Connection, statement: str, rows: list[tuple[Any, ...]]) -> None:
    if rows:
        connection.exec_driver_sql(statement, rows)


def _held(connection: Connection, ids: list[int]) -> dict[int, _IndexEntry]:
    query = (
        select(searched.c.id, profile.c.members, figure_set.c.members, *indexed_text.c[1:])
        .join(profile, profile.c.id == searched.c.profile_id)
        .join(figure_set, figure_set.c.id == searched.c.figure_set_id)
        .join(indexed_text, indexed_text.c.id == searched.c.id)
        .where(searched.c.id.in_(ids))
    )
    return {
        row[0]: _IndexEntry(row[1], row[2], tuple(row[3:])) for row in connection.execute(query)
    }
