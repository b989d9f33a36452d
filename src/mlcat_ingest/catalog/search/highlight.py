"""Which fields of an entity the words of a search hit."""

from collections.abc import Collection, Sequence

from sqlalchemy import Connection

from mlcat_ingest.catalog.search.document import IndexedEntity
from mlcat_ingest.catalog.search.fields import find_all
from mlcat_ingest.catalog.search.index import read_sources
from mlcat_ingest.catalog.search.tokens import WORD, tokenize
from mlcat_ingest.catalog.search.words import MIN_PREFIX_CHARS, Term

Matched = tuple[tuple[str, str], ...]
"""Names of fields, each with its text."""


def matched_fields(
    connection: Connection, ids: Collection[int], terms: Sequence[Term]
) -> dict[int, Matched]:
    """Return, for each entity, the fields that any of `terms` hits, and their texts.

    Cost: two SQL statements for each 500 entities, and all their searchable text in memory.
    """
    if not terms:
        return {}
    return {at: _matched(source, terms) for at, source in read_sources(connection, ids)}


def _matched(source: IndexedEntity, terms: Sequence[Term]) -> Matched:
    """Return the fields that are hit, in the order of their columns."""
    texts = [
        (found.column, found.field, found.value)
        for found in find_all(source.urn, source.entity_type, source.aspects)
        if found.column is not None and any(hits(term, found.value) for term in terms)
    ]
    return tuple((field, value) for _, field, value in dict.fromkeys(sorted(texts)))


def has_all(tokens: str, terms: Sequence[Term]) -> bool:
    """Return whether a column of the index, tokens parted by spaces, has all of `terms`."""
    row = tokens.split(" ")
    return all(_has(term, row, row) for term in terms)


def hits(term: Term, text: str) -> bool:
    """Return whether `text` has the tokens of `term` side by side, or its whole."""
    parts, wholes = tokenize(text)
    return _has(term, parts, [*parts, *wholes])


def marks(text: str, terms: Sequence[Term]) -> list[tuple[str, bool]]:
    """Return `text` in pieces, each with whether it is a word that any of `terms` looks for."""
    pieces: list[tuple[str, bool]] = []
    end = 0
    for run in WORD.finditer(text):
        parts, wholes = tokenize(run[0])
        if any(_looks_for(term, token) for term in terms for token in (*parts, *wholes)):
            pieces += [(text[end : run.start()], False), (run[0], True)]
            end = run.end()
    pieces.append((text[end:], False))
    return [piece for piece in pieces if piece[0]]


def _looks_for(term: Term, token: str) -> bool:
    *complete, last = term.tokens
    whole = term.whole is not None and _same(term, token, term.whole)
    return token in complete or _same(term, token, last) or whole


def _has(term: Term, parts: Sequence[str], tokens: Sequence[str]) -> bool:
    if any(_at(term, parts, at) for at in range(len(parts) - len(term.tokens) + 1)):
        return True
    whole = term.whole
    return whole is not None and any(_same(term, token, whole) for token in tokens)


def _at(term: Term, tokens: Sequence[str], at: int) -> bool:
    last = len(term.tokens) - 1
    beside = tokens[at : at + last]
    return tuple(beside) == term.tokens[:-1] and _same(term, tokens[at + last], term.tokens[-1])


def _same(term: Term, token: str, wanted: str) -> bool:
    goes_on = term.prefix and len(wanted) >= MIN_PREFIX_CHARS
    return token.startswith(wanted) if goes_on else token == wanted
