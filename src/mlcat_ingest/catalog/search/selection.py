"""Which entities a search is about, put together from its words and its criteria."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, and_, func, or_, select, true

from mlcat_ingest.catalog.schema.search_tables import fts, profile, searched
from mlcat_ingest.catalog.schema.values import BACKGROUND_TYPES
from mlcat_ingest.catalog.search.filters import resolve
from mlcat_ingest.catalog.search.leaves import EVERYWHERE, NOWHERE, Holding, RequiredLeaf, matching
from mlcat_ingest.catalog.search.query_text import Query
from mlcat_ingest.catalog.search.request import Criterion, SearchRequest
from mlcat_ingest.catalog.search.words import Term, all_of
from mlcat_ingest.metadata.aspects.common import IS_LATEST

FEW: Final = 20_000
"""Most entities that are looked at one by one; of more, only what the index says at once."""

Parts = tuple[RequiredLeaf, ...]


@dataclass(frozen=True, slots=True)
class Selection:
    """The entities that are searched for.

    With `by_text` they are found through the full-text index: they match `terms` and every
    expression in `matching`, none in `excluding`, and satisfy `conditions`. Otherwise `conditions`
    alone find them. `filters` are all criteria once more, as a condition on a row of
    `search_entity`; `profiles` is all there is to say, as one on a profile, if profiles decide.
    """

    terms: tuple[Term, ...]
    by_text: bool
    filters: ColumnElement[bool]
    matching: tuple[str, ...] = ()
    excluding: tuple[str, ...] = ()
    conditions: tuple[ColumnElement[bool], ...] = ()
    profiles: ColumnElement[bool] | None = None

    @property
    def id(self) -> ColumnElement[int]:
        """The column of the entity's id in `query`."""
        return fts.c.rowid if self.by_text else searched.c.id

    def expression(self, words: str | None = None) -> str:
        """Return the expression for the full-text index, with `words` in the place of its own."""
        own = all_of(self.terms) if words is None else words
        return _expression([own, *self.matching] if own else self.matching, self.excluding)

    def query(self, *columns: Any, words: str | None = None, joined: bool = False) -> Select[Any]:
        """Return the query for `columns`, or the ids, of all entities found, in no order.

        With `joined` the columns of `search_entity` may be used.
        """
        query: Select[Any] = select(*(columns or (self.id,)))
        if not self.by_text:
            query = query.select_from(searched)
        else:
            query = query.select_from(fts)
            query = query.where(fts.c.search_fts.op("MATCH")(self.expression(words)))
            if joined or self.conditions:
                query = query.join(searched, searched.c.id == fts.c.rowid)
        return query.where(*self.conditions)

    def ids_if_few(self, connection: Connection) -> list[int] | None:
        """Return the ids of all entities, None where there are more than `FEW`."""
        ids = list(connection.scalars(self.query().limit(FEW + 1)))
        return ids if len(ids) <= FEW else None

    def total(self, connection: Connection) -> int:
        """Return how many entities there are."""
        if self.profiles is None:
            return connection.scalar(self.query(func.count())) or 0
        counted = select(func.sum(profile.c.entities)).where(self.profiles)
        return connection.scalar(counted) or 0


def select_entities(connection: Connection, request: SearchRequest, query: Query) -> Selection:
    """Return the selection for `request`, whose words are taken apart in `query`.

    Cost: a SQL statement or two for each criterion.
    """
    common = [resolve(connection, criterion) for criterion in _common(request, query)]
    alternatives = [
        tuple(resolve(connection, criterion) for criterion in alternative)
        for alternative in request.any_of
    ]
    if () in alternatives:
        alternatives = []
    if len(alternatives) == 1:
        common += alternatives.pop()
    return _arranged(connection, query.terms, tuple(common), tuple(alternatives))


def is_few(connection: Connection, expression: str) -> bool:
    """Return whether at most `FEW` entities match an expression."""
    some = matching(expression).limit(FEW + 1).subquery()
    return (connection.scalar(select(func.count()).select_from(some)) or 0) <= FEW


def _common(request: SearchRequest, query: Query) -> Iterable[Criterion]:
    yield from query.criteria
    if request.entity_types is not None:
        yield Criterion("_entityType", tuple(sorted(request.entity_types)))
    else:
        yield Criterion("_entityType", BACKGROUND_TYPES, negated=True)
    if not request.include_removed:
        yield Criterion("removed", ("true",), negated=True)
    if request.only_latest:
        yield Criterion(IS_LATEST, ("false",), negated=True)


def _arranged(
    connection: Connection, terms: tuple[Term, ...], common: Parts, alternatives: tuple[Parts, ...]
) -> Selection:
    """Return the selection in the form that the database finds fastest."""
    told = [part for part in common if part.leaf.match() is not None]
    untold = [part for part in common if part.leaf.match() is None]
    wanted, unwanted = _split(told)
    if all(part.leaf.match() is not None for parts in alternatives for part in parts):
        left: tuple[Parts, ...] = ()
        wanted += [" OR ".join(map(_alternative, alternatives))] if alternatives else []
    else:
        left = alternatives
    filters = _in_sql(common, alternatives, searched.c.id, each=True)
    selection = Selection(terms, True, filters, tuple(wanted), tuple(unwanted))
    if not untold and not left:
        profiles = None if terms else _of_profiles(common, alternatives)
        return replace(selection, profiles=profiles)
    finder = next((part for part in untold if _finds(part)), None)
    if not terms and (finder is not None or not wanted):
        first = true() if finder is None else finder.where(searched.c.id, each=False)
        others = [part for part in common if part is not finder]
        conditions = first, _in_sql(others, alternatives, searched.c.id, each=True)
        return replace(selection, by_text=False, conditions=conditions)
    each = is_few(connection, selection.expression())
    # The sum keeps SQLite from asking the full-text index anew for each id of a list.
    entity_id = fts.c.rowid if each else fts.c.rowid + 0
    return replace(selection, conditions=(_in_sql(untold, left, entity_id, each=each),))


def _finds(part: RequiredLeaf) -> bool:
    return isinstance(part.leaf, Holding) and not part.negated


def _split(parts: Iterable[RequiredLeaf]) -> tuple[list[str], list[str]]:
    """Return the expressions that have to match, and those that must not."""
    wanted: list[str] = []
    unwanted: list[str] = []
    for part in parts:
        if (expression := part.leaf.match()) is not None:
            (unwanted if part.negated else wanted).append(expression)
    return wanted, unwanted


def _expression(wanted: Sequence[str], unwanted: Sequence[str]) -> str:
    together = " AND ".join(f"({one})" for one in wanted) or EVERYWHERE
    against = [one for one in unwanted if one != NOWHERE]
    return f"({together}) NOT ({' OR '.join(against)})" if against else together


def _alternative(parts: Parts) -> str:
    return f"({_expression(*_split(parts))})"


def _in_sql(
    parts: Iterable[RequiredLeaf],
    alternatives: Sequence[Parts],
    entity_id: ColumnElement[int],
    *,
    each: bool,
) -> ColumnElement[bool]:
    """Return the condition that all `parts` hold, and all of one of the `alternatives`."""

    def together(parts: Iterable[RequiredLeaf]) -> ColumnElement[bool]:
        return and_(true(), *(part.where(entity_id, each=each) for part in parts))

    if not alternatives:
        return together(parts)
    return and_(together(parts), or_(*map(together, alternatives)))


def _of_profiles(common: Parts, alternatives: Sequence[Parts]) -> ColumnElement[bool] | None:
    """Return the condition on a profile that says it all, None where profiles do not know."""
    together = _together(common)
    if together is None or not alternatives:
        return together
    options = [option for option in map(_together, alternatives) if option is not None]
    return and_(together, or_(*options)) if len(options) == len(alternatives) else None


def _together(parts: Parts) -> ColumnElement[bool] | None:
    conditions = [part.of_profile() for part in parts]
    known = [condition for condition in conditions if condition is not None]
    return and_(true(), *known) if len(known) == len(parts) else None
