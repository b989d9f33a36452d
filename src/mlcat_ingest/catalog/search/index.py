"""Writing the search index: documents made from the stored aspects replace the old ones.

FTS5 deletes a text from its index only where it is given the very tokens that were inserted. So
they are kept beside it, and a deletion never depends on how tokens are made today.

Keywords, and sets of keywords, that many entities share are stored once and have an id. A set is
stored as one text, its ids in order.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeVar

from sqlalchemy import Table, delete, insert, or_, select
from sqlalchemy.engine import Connection

from mlcat_ingest.catalog.schema.tables import (
    EVERY,
    aspect,
    entity,
    indexed_text,
    keyword,
    keyword_token,
    member,
    numeric_field,
    numeric_field_set,
    profile,
    searched,
    setting,
)
from mlcat_ingest.catalog.search.document import (
    INDEX_VERSION,
    IndexDocument,
    IndexedEntity,
    make_document,
)
from mlcat_ingest.catalog.search.fields import ASPECT_NAMES, BODY_ENDINGS
from mlcat_ingest.core.paging import chunks
from mlcat_ingest.metadata.codec import loads

CHUNK: Final = 500
"""Most entities whose documents are in memory at a time."""

_ITEMS: Final = 400
"""Most keywords or sets that one statement looks up."""

# These run for every entity, so they go to the driver as they are.
_INSERT_FTS: Final = """INSERT INTO search_fts
    (rowid, name, description, tags, properties, urn, keywords) VALUES (?, ?, ?, ?, ?, ?, ?)"""
_DELETE_FTS: Final = """INSERT INTO search_fts
    (search_fts, rowid, name, description, tags, properties, urn, keywords)
    VALUES ('delete', ?, ?, ?, ?, ?, ?, ?)"""
# Of what has an index, or refers to a table, SQLite copies every page before OR REPLACE changes it.
_INSERT_TEXT: Final = "INSERT INTO search_text VALUES (?, ?, ?, ?, ?, ?, ?)"
_DELETE_TEXT: Final = "DELETE FROM search_text WHERE id = ?"
_INSERT_ENTITY: Final = "INSERT INTO search_entity VALUES (?, ?, ?, ?, ?, ?)"
_DELETE_ENTITY: Final = "DELETE FROM search_entity WHERE id = ?"
_PUT_NUMBER: Final = "INSERT OR REPLACE INTO search_figure VALUES (?, ?, ?)"
_DELETE_NUMBER: Final = "DELETE FROM search_figure WHERE keyword_id = ? AND entity_id = ?"
_FIND_ENTRIES: Final = """SELECT search_entity.id, search_profile.members,
        search_figure_set.members, search_text.name, search_text.description, search_text.tags,
        search_text.properties, search_text.urn, search_text.keywords
    FROM search_entity
    JOIN search_profile ON search_profile.id = search_entity.profile_id
    JOIN search_figure_set ON search_figure_set.id = search_entity.figure_set_id
    JOIN search_text ON search_text.id = search_entity.id
    WHERE search_entity.id IN ({})"""
_FIND_KEYWORDS: Final = """SELECT field, value, id FROM search_keyword
    WHERE (field, value) IN (VALUES {})"""
_FIND_SETS: Final = "SELECT members, id FROM {} WHERE members IN ({})"
_PUT_SET: Final = "INSERT INTO {} (members, entities) VALUES (?, 0)"
_COUNT_SET: Final = "UPDATE {} SET entities = entities + ? WHERE id = ?"
_PUT_KEYWORD: Final = "INSERT INTO search_keyword (field, value) VALUES (?, ?)"
_PUT_MEMBER: Final = "INSERT INTO search_member VALUES (?, ?)"
_DELETE_MEMBER: Final = "DELETE FROM search_member WHERE keyword_id = ? AND profile_id = ?"
_VERSION: Final = "search_index_version"

Keyword = tuple[str, str]
"""A field, and one value of it."""

_Names = tuple[str, tuple[str, ...]]  # a numeric field, and the names that an entity has of it

T = TypeVar("T")


class _IndexEntry(NamedTuple):
    """One entity in the index: its keywords and its numeric fields as encoded sets."""

    profile: str
    numeric_field_set: str
    texts: tuple[str, ...]


def is_current(connection: Connection) -> bool:
    """Return whether the index was made by this version; otherwise it has to be rebuilt."""
    query = select(setting.c.value).where(setting.c.name == _VERSION)
    return connection.scalar(query) == str(INDEX_VERSION)


def set_current(connection: Connection) -> None:
    """Record that the index was made by this version."""
    connection.execute(delete(setting).where(setting.c.name == _VERSION))
    connection.execute(insert(setting).values(name=_VERSION, value=str(INDEX_VERSION)))


def refresh(
    connection: Connection, ids: Collection[int], known: Mapping[int, IndexedEntity] | None = None
) -> None:
    """Bring the index up to date with the stored aspects of the entities with these `ids`.

    Also with those in `known`, of which nothing needs to be read again.

    Cost: some twenty SQL statements for each 500 entities, of few rows an entity, and one row for
    each of its metrics and parameters.
    """
    known = known or {}
    for chunk in _chunks([*ids, *known]):
        sources = {at: known[at] for at in chunk if at in known}
        sources |= read_sources(connection, [at for at in chunk if at not in known])
        documents = {at: make_document(source) for at, source in sources.items()}
        keyword_ids = _KeywordIds(connection, documents.values())
        entries = {at: keyword_ids.entry(document) for at, document in documents.items()}
        profiles, numeric_field_sets = _replace_entries(connection, chunk, entries)
        rows = [
            (
                at,
                profiles[entry.profile],
                numeric_field_sets[entry.numeric_field_set],
                documents[at].name,
                documents[at].created_ms,
                documents[at].modified_ms,
            )
            for at, entry in entries.items()
        ]
        run_many(connection, _INSERT_ENTITY, rows)
        run_many(connection, _PUT_NUMBER, _number_rows(documents, keyword_ids))


def remove(connection: Connection, ids: Collection[int]) -> None:
    """Delete the entities with these `ids` from the index."""
    for chunk in _chunks(ids):
        _replace_entries(connection, chunk, {})


def clear(connection: Connection) -> None:
    """Empty the index."""
    connection.exec_driver_sql("INSERT INTO search_fts (search_fts) VALUES ('delete-all')")
    tables = (indexed_text, searched, numeric_field, numeric_field_set, member, profile, keyword)
    for table in tables:
        connection.execute(delete(table))


def read_sources(
    connection: Connection, ids: Collection[int]
) -> Iterator[tuple[int, IndexedEntity]]:
    """Yield the sources of the documents of these entities, by id; those that exist.

    Cost: two SQL statements for each 500 entities.
    """
    indexed = or_(
        aspect.c.aspect.in_(sorted(ASPECT_NAMES)),
        *(aspect.c.aspect.endswith(ending) for ending in BODY_ENDINGS),
    )
    query = select(entity.c.id, entity.c.urn, entity.c.entity_type, entity.c.created_ms)
    stored = select(aspect.c.entity_id, aspect.c.aspect, aspect.c.value, aspect.c.modified_ms)
    for chunk in _chunks(ids):
        rows = connection.execute(query.where(entity.c.id.in_(chunk)))
        sources = {row.id: IndexedEntity(row.urn, row.entity_type, row.created_ms) for row in rows}
        for row in connection.execute(stored.where(aspect.c.entity_id.in_(chunk), indexed)):
            sources[row.entity_id].add(row.aspect, loads(row.value), row.modified_ms)
        yield from sources.items()


class _KeywordIds:
    """The ids of all keywords of some documents; those that have none are given one.

    A metric or parameter is a keyword too: its field and its name.
    """

    def __init__(self, connection: Connection, documents: Collection[IndexDocument]) -> None:
        rows = {field[:2] for document in documents for field in document.numeric_fields}
        wanted = {keyword: None for document in documents for keyword in document.keywords}
        wanted.update({(field, name): None for field, names in rows for name in names})
        self._ids = _intern_keywords(connection, list(wanted))
        # Many entities have the same names.
        self.of_names = {
            (field, names): [self._ids[field, name] for name in names] for field, names in rows
        }
        """The ids of the names of a numeric field, in their order."""
        self._profiles: dict[tuple[Keyword, ...], tuple[str, str]] = {}
        self._sets: dict[tuple[_Names, ...], str] = {}

    def entry(self, document: IndexDocument) -> _IndexEntry:
        """Return the entry of a document; many entities share their sets."""
        if document.keywords not in self._profiles:
            ids = sorted([self._ids[keyword] for keyword in document.keywords])
            tokens = " ".join([EVERY, *map(keyword_token, ids)])
            self._profiles[document.keywords] = _encode(ids), tokens
        rows = tuple([field[:2] for field in document.numeric_fields])
        if rows not in self._sets:
            self._sets[rows] = _encode({at for row in rows for at in self.of_names[row]})
        members, tokens = self._profiles[document.keywords]
        return _IndexEntry(members, self._sets[rows], (*document.columns, tokens))


def _intern_keywords(connection: Connection, keywords: Sequence[Keyword]) -> dict[Keyword, int]:
    """Return the id of each of `keywords`; those that have none are given one."""
    ids = _find_keywords(connection, keywords)
    if missing := [keyword for keyword in keywords if keyword not in ids]:
        run_many(connection, _PUT_KEYWORD, missing)
        ids |= _find_keywords(connection, missing)
    return ids


def _find_keywords(connection: Connection, keywords: Sequence[Keyword]) -> dict[Keyword, int]:
    return {
        (row[0], row[1]): row[2]
        for batch in chunks(keywords, _ITEMS)
        for row in connection.exec_driver_sql(
            _FIND_KEYWORDS.format(", ".join(["(?, ?)"] * len(batch))), (*chain(*batch),)
        )
    }


def _encode(ids: Collection[int]) -> str:
    """Return a set of ids as text; equal sets have equal texts."""
    return " ".join(map(str, sorted(ids)))


def decode(encoded: str) -> set[int]:
    """Return the ids in an encoded set."""
    return set(map(int, encoded.split()))


def _replace_entries(
    connection: Connection, ids: list[int], entries: Mapping[int, _IndexEntry]
) -> tuple[dict[str, int], dict[str, int]]:
    """Put `entries` in the place of what the index has of `ids`; return the ids of their sets."""
    old_entries = {
        row[0]: _IndexEntry(row[1], row[2], tuple(row[3:]))
        for row in select_in(connection, _FIND_ENTRIES, ids)
    }
    profiles: Counter[str] = Counter()
    numeric_field_sets: Counter[str] = Counter()
    deleted: list[tuple[Any, ...]] = []
    inserted: list[tuple[Any, ...]] = []
    deleted_numbers: list[tuple[Any, ...]] = []
    for at in ids:
        old, new = old_entries.get(at), entries.get(at)
        if old is not None:
            profiles[old.profile] -= 1
            numeric_field_sets[old.numeric_field_set] -= 1
            left = decode(new.numeric_field_set) if new is not None else set()
            deleted_numbers += [(number, at) for number in decode(old.numeric_field_set) - left]
        if new is not None:
            profiles[new.profile] += 1
            numeric_field_sets[new.numeric_field_set] += 1
        if old is not None and (new is None or new.texts != old.texts):
            deleted.append((at, *old.texts))
        if new is not None and (old is None or new.texts != old.texts):
            inserted.append((at, *new.texts))
    run_many(connection, _DELETE_ENTITY, [*zip(old_entries)])
    run_many(connection, _DELETE_FTS, deleted)
    run_many(connection, _DELETE_TEXT, [row[:1] for row in deleted])
    run_many(connection, _INSERT_FTS, inserted)
    run_many(connection, _INSERT_TEXT, inserted)
    run_many(connection, _DELETE_NUMBER, deleted_numbers)
    return (
        _recount(connection, profile, profiles),
        _recount(connection, numeric_field_set, numeric_field_sets),
    )


def _recount(connection: Connection, table: Table, changes: Mapping[str, int]) -> dict[str, int]:
    """Add to the number of entities that have each encoded set; return the ids of the sets.

    A set that no entity had is inserted, and one that no entity has any more is deleted.
    """
    ids = _find_sets(connection, table, list(changes))
    if missing := [encoded for encoded in changes if encoded not in ids]:
        run_many(connection, _PUT_SET.format(table), [*zip(missing)])
        ids |= _find_sets(connection, table, missing)
        if table is profile:
            members = [(number, ids[encoded]) for encoded in missing for number in decode(encoded)]
            run_many(connection, _PUT_MEMBER, members)
    moved = [(change, ids[encoded]) for encoded, change in changes.items() if change]
    run_many(connection, _COUNT_SET.format(table), moved)
    _delete_unused(connection, table, [at for change, at in moved if change < 0])
    return ids


def _find_sets(connection: Connection, table: Table, encoded: Sequence[str]) -> dict[str, int]:
    return {
        row[0]: row[1]
        for batch in chunks(encoded, _ITEMS)
        for row in select_in(connection, _FIND_SETS.format(table, "{}"), batch)
    }


def _delete_unused(connection: Connection, table: Table, ids: Sequence[int]) -> None:
    for batch in chunks(ids, _ITEMS):
        unused = table.c.id.in_(batch) & (table.c.entities == 0)
        rows = [
            (number, at)
            for at, encoded in connection.execute(select(table.c.id, table.c.members).where(unused))
            for number in decode(encoded)
        ]
        connection.execute(delete(table).where(unused))
        if table is profile:
            run_many(connection, _DELETE_MEMBER, rows)


def _number_rows(
    documents: Mapping[int, IndexDocument], keyword_ids: _KeywordIds
) -> list[tuple[int, int, float | str]]:
    """Return the rows of all numeric fields; those of one name side by side."""
    rows = [
        (keyword_id, at, value)
        for at, document in documents.items()
        for field, names, values in document.numeric_fields
        for keyword_id, value in zip(keyword_ids.of_names[field, names], values, strict=True)
    ]
    return sorted(rows, key=itemgetter(0))


def run_many(connection: Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Execute `statement` once for each of `rows`; without one there is nothing to do."""
    if rows:
        connection.exec_driver_sql(statement, rows)


def select_in(
    connection: Connection, statement: str, *lists: Collection[Any]
) -> Iterable[tuple[Any, ...]]:
    """Return the rows of `statement`, in which each `{}` stands for the values of a list."""
    marks = [", ".join("?" * len(values)) for values in lists]
    return connection.exec_driver_sql(statement.format(*marks), (*chain(*lists),))


def _chunks(ids: Collection[int]) -> Iterator[list[int]]:
    return chunks(sorted(set(ids)), CHUNK)
