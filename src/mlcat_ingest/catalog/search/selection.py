"""The selection of a search: its entities, by the terms and the criteria of the request."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

from sqlalchemy import and_, func, or_, select, true
from sqlalchemy.engine import Connection
from sqlalchemy.sql.expression import ColumnElement, Select

from mlcat_ingest.catalog.schema.tables import fts, profile, searched
from mlcat_ingest.catalog.schema.values import BACKGROUND_TYPES
from mlcat_ingest.catalog.search.predicates import (
    EVERYWHERE,
    NOWHERE,
    EntityPredicate,
    matches,
    matching,
    resolve,
)
from mlcat_ingest.catalog.search.query import Query, Term, all_of
from mlcat_ingest.catalog.search.request import Criterion, SearchRequest
from mlcat_ingest.metadata.aspects import IS_LATEST

FEW: Final = 20_000
"""Most entities that are checked individually; beyond it the index alone decides."""

Predicates = Sequence[EntityPredicate]
"""Predicates that hold together."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The entities that are searched for.

    With `by_text` they are found through the full-text index: they match `terms` and every
    expression in `matching`, none in `excluding`, and satisfy `conditions`. Otherwise `conditions`
    alone find them. `filters` are all criteria once more, as a condition on a row of
    `search_entity`; `profiles` is the whole search as one on a profile, if profiles decide.
    `scans` tells that some condition is compared with every entity, for want of an index.
    """

    terms: tuple[Term, ...]
    by_text: bool
    filters: ColumnElement[bool]
    matching: tuple[str, ...] = ()
    excluding: tuple[str, ...] = ()
    conditions: tuple[ColumnElement[bool], ...] = ()
    profiles: ColumnElement[bool] | None = None
    scans: bool = False

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
            query = query.where(matches(self.expression(words)))
            if joined or self.conditions:
                query = query.join(searched, searched.c.id == fts.c.rowid)
        return query.where(*self.conditions)

    def total(self, connection: Connection) -> int:
        """Return how many entities there are."""
        if self.profiles is None:
            return connection.scalar(self.query(func.count())) or 0
        counted = select(func.sum(profile.c.entities)).where(self.profiles)
        return connection.scalar(counted) or 0


def select_entities(connection: Connection, request: SearchRequest, query: Query) -> Selection:
    """Return the selection for `request`, whose words are parsed in `query`.

    Cost: a SQL statement or two for each criterion.
    """
    common = [resolve(connection, criterion) for criterion in _common(request)]
    alternatives = [
        [resolve(connection, criterion) for criterion in alternative]
        for alternative in request.any_of
    ]
    if [] in alternatives:
        alternatives = []
    if len(alternatives) == 1:
        common += alternatives.pop()
    return _fastest_selection(connection, query.terms, common, alternatives)


def is_few(connection: Connection, expression: str) -> bool:
    """Return whether at most `FEW` entities match an expression."""
    sample = matching(expression).limit(FEW + 1).subquery()
    return (connection.scalar(select(func.count()).select_from(sample)) or 0) <= FEW


def _common(request: SearchRequest) -> Iterable[Criterion]:
    if request.entity_types is not None:
        yield Criterion("_entityType", tuple(sorted(request.entity_types)))
    else:
        yield Criterion("_entityType", BACKGROUND_TYPES, negated=True)
    if not request.include_removed:
        yield Criterion("removed", ("true",), negated=True)
    if request.only_latest:
        yield Criterion(IS_LATEST, ("false",), negated=True)


def _fastest_selection(
    connection: Connection,
    terms: tuple[Term, ...],
    common: Predicates,
    alternatives: Sequence[Predicates],
) -> Selection:
    """Return the selection in the form that the database finds fastest."""
    by_sql = [predicate for predicate in common if predicate.match is None]
    wanted, unwanted = _expressions(common)
    sql_alternatives: Sequence[Predicates] = ()
    if any(predicate.match is None for option in alternatives for predicate in option):
        sql_alternatives = alternatives
    elif alternatives:
        wanted.append(" OR ".join(f"({_expression(*_expressions(o))})" for o in alternatives))
    filters = _condition(common, alternatives, searched.c.id, individually=True)
    selection = Selection(terms, True, filters, tuple(wanted), tuple(unwanted))
    if not by_sql and not sql_alternatives:
        profiles = None if terms else _profile_condition(common, alternatives)
        selection = replace(selection, profiles=profiles)
        if profiles is None or selection.total(connection) <= FEW:
            return selection
        # So many are in the index by time already in the order of most lists.
        having = searched.c.profile_id.in_(select(profile.c.id).where(profiles))
        return replace(selection, by_text=False, conditions=(having,))
    finders = [p for p in by_sql if p.among is not None and not p.negated]
    finder = min(finders, key=lambda predicate: predicate.scans, default=None)
    scans = finder is None or finder.scans
    if not terms and not (scans and wanted):
        first = true() if finder is None else finder.condition(searched.c.id, individually=False)
        others = [predicate for predicate in common if predicate is not finder]
        conditions = first, _condition(others, alternatives, searched.c.id, individually=True)
        return replace(selection, by_text=False, conditions=conditions, scans=scans)
    individually = is_few(connection, selection.expression())
    # The sum keeps SQLite from asking the full-text index anew for each id of a list.
    entity_id = fts.c.rowid if individually else fts.c.rowid + 0
    condition = _condition(by_sql, sql_alternatives, entity_id, individually=individually)
    compared = chain(by_sql, *sql_alternatives)
    scans = not individually and any(predicate.scans for predicate in compared)
    return replace(selection, conditions=(condition,), scans=scans)


def _expressions(predicates: Predicates) -> tuple[list[str], list[str]]:
    """Return the expressions that have to match, and those that must not."""
    matches = [(p.match, p.negated) for p in predicates if p.match is not None]
    wanted = [expression for expression, negated in matches if not negated]
    return wanted, [expression for expression, negated in matches if negated]


def _expression(wanted: Sequence[str], unwanted: Sequence[str]) -> str:
    together = " AND ".join(f"({expression})" for expression in wanted) or EVERYWHERE
    against = [expression for expression in unwanted if expression != NOWHERE]
    return f"({together}) NOT ({' OR '.join(against)})" if against else together


def _condition(
    predicates: Predicates,
    alternatives: Sequence[Predicates],
    entity_id: ColumnElement[int],
    *,
    individually: bool,
) -> ColumnElement[bool]:
    """Return the condition on an entity that all `predicates` hold, and one of `alternatives`."""
    return _together(
        predicates,
        alternatives,
        lambda predicate: predicate.condition(entity_id, individually=individually),
    )


def _together(
    common: Predicates,
    alternatives: Sequence[Predicates],
    condition_of: Callable[[EntityPredicate], ColumnElement[bool]],
) -> ColumnElement[bool]:
    """Return the condition that all of `common` hold, and all of one of the `alternatives`."""

    def all_of(group: Predicates) -> ColumnElement[bool]:
        return and_(true(), *map(condition_of, group))

    every = all_of(common)
    return and_(every, or_(*map(all_of, alternatives))) if alternatives else every


def _profile_condition(
    common: Predicates, alternatives: Sequence[Predicates]
) -> ColumnElement[bool] | None:
    """Return the whole condition on a profile, None where profiles do not know."""
    if any(predicate.profile is None for predicate in chain(common, *alternatives)):
        return None
    return _together(common, alternatives, EntityPredicate.profile_condition)
