"""Pages by rank: what people most likely meant comes first.

First come entities with that very name or URN, then those whose name begins so. The others follow
by the field that has all words, name before description before tags before the rest, and within
that by bm25. That is affordable while a word is rare. Of the hits of common words those in the
name come first, each by age; so does a scroll, since nobody else's writes can change that.
"""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, case, func, literal_column, select

from mlcat_ingest.catalog.schema.search_tables import fts, indexed_text, searched
from mlcat_ingest.catalog.schema.tables import entity
from mlcat_ingest.catalog.search.compare import begins_with
from mlcat_ingest.catalog.search.highlight import has_all
from mlcat_ingest.catalog.search.leaves import matching
from mlcat_ingest.catalog.search.request import SearchRequest
from mlcat_ingest.catalog.search.scroll import read_cursor, write_cursor
from mlcat_ingest.catalog.search.selection import Selection, is_few
from mlcat_ingest.catalog.search.tokens import fold
from mlcat_ingest.catalog.search.words import Term, all_of, up_to

# Of name, description, tags, properties, URN and keywords.
_WEIGHTS: Final = (10.0, 4.0, 2.0, 1.0, 1.0, 0.0)
_NAMED: Final = 200
"""Most names that begin as the query does which go first."""


def ranked_page(
    connection: Connection, request: SearchRequest, selection: Selection, text: str
) -> tuple[int, list[int]]:
    """Return how many entities are found, and the ids of a page of them, the best first.

    `text` is what the words of the selection were written as.

    Cost: a handful of SQL statements, each one walk through the hits of the words at most.
    """
    named = _named(connection, text, selection)
    hits = selection.ids_if_few(connection)
    start = max(0, request.start - len(named))
    first = named[request.start : request.start + request.count]
    count = request.count - len(first)
    if hits is not None:
        others = _by_weight(connection, selection, set(hits) - set(named))
        return len(hits), first + others[start : start + count]
    return selection.total(connection), first + _by_age(connection, selection, named, start, count)


def _named(connection: Connection, text: str, selection: Selection) -> list[int]:
    """Return the ids of entities with that name or URN, then of those whose name begins so."""
    name = fold(text)
    query = (
        select(searched.c.id, indexed_text.c.name, entity.c.urn)
        .join(indexed_text, indexed_text.c.id == searched.c.id)
        .join(entity, entity.c.id == searched.c.id)
        .where(selection.filters)
        .order_by(searched.c.name, searched.c.id)
        .limit(_NAMED)
    )
    by_urn = connection.execute(query.where(entity.c.urn == text.strip())).all()
    rows = [*by_urn, *connection.execute(query.where(begins_with(searched.c.name, name)))]
    found = [row.id for row in rows if row in by_urn or has_all(row.name, selection.terms)]
    return list(dict.fromkeys(found))


def _by_weight(connection: Connection, selection: Selection, hits: set[int]) -> list[int]:
    """Return all of `hits`, few enough, by the field they were found in and by bm25."""
    rare = _rare(connection, selection.terms)
    ids = func.json_each(str(sorted(hits))).table_valued("value")
    at = fts.c.rowid + 0
    everywhere = all_of(rare)
    within = [(at.in_(matching(up_to(columns, everywhere))), columns) for columns in range(1, 4)]
    weight = func.bm25(literal_column("search_fts"), *map(literal_column, map(str, _WEIGHTS)))
    query = matching(everywhere).where(at.in_(select(ids.c.value)))
    if not rare:
        return sorted(hits)
    return list(connection.scalars(query.order_by(case(*within, else_=4), weight, fts.c.rowid)))


def _rare(connection: Connection, terms: Sequence[Term]) -> list[Term]:
    """Return the terms worth weighing: what is still being typed only if there is nothing else."""
    typed = [one for one in map(Term.complete, terms) if one is not None]
    return [one for one in typed or terms if is_few(connection, one.match())]


def _by_age(
    connection: Connection, selection: Selection, named: Sequence[int], start: int, count: int
) -> list[int]:
    page: list[int] = []
    for words in _halves(selection):
        query = selection.query(words=words).where(selection.id.not_in(named))
        wanted = count - len(page)
        found = list(connection.scalars(query.order_by(selection.id).limit(wanted).offset(start)))
        page += found
        if len(page) == count:
            break
        if start and not found:
            start -= _size(connection, selection, words, named)
        elif found:
            start = 0
    return page


def _halves(selection: Selection) -> tuple[str, str]:
    """Return the expressions for hits of all words in the name, and for the others."""
    everywhere = all_of(selection.terms)
    in_name = up_to(1, everywhere)
    return in_name, f"({everywhere}) NOT ({in_name})"


def _size(connection: Connection, selection: Selection, words: str, named: Sequence[int]) -> int:
    query = selection.query(func.count(), words=words).where(selection.id.not_in(named))
    return connection.scalar(query) or 0


def scrolled_page(
    connection: Connection, request: SearchRequest, selection: Selection
) -> tuple[list[int], str | None]:
    """Return the ids of a page of a scroll, and where the next one begins."""
    first, after = (0, 0) if request.after is None else read_cursor(request, 2)
    found: list[tuple[int, int]] = []
    for half, words in enumerate(_halves(selection)):
        if half >= first:
            query = selection.query(words=words).order_by(selection.id)
            if half == first:
                query = query.where(selection.id > after)
            wanted = request.count + 1 - len(found)
            found += [(half, at) for at in connection.scalars(query.limit(wanted))]
    page = found[: request.count]
    more = len(found) > len(page) and page
    return [at for _, at in page], write_cursor(request, page[-1]) if more else None
