"""Predicates on entities, as SQL conditions and as expressions of the full-text index."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import ge, gt, le, lt
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Select,
    Text,
    and_,
    cast,
    false,
    func,
    not_,
    or_,
    select,
    true,
    type_coerce,
)

from mlcat_ingest.catalog.schema.tables import (
    EVERY,
    fts,
    keyword_token,
    member,
    profile,
    searched,
)
from mlcat_ingest.catalog.search.document import to_number
from mlcat_ingest.catalog.search.request import Condition

_RELATIONAL: Final[Mapping[Condition, Callable[[Any, Any], ColumnElement[bool]]]] = {
    Condition.GREATER_THAN: gt,
    Condition.GREATER_THAN_OR_EQUAL_TO: ge,
    Condition.LESS_THAN: lt,
    Condition.LESS_THAN_OR_EQUAL_TO: le,
}

EXACT: Final = frozenset({Condition.EQUAL, Condition.IN})
"""Conditions that a value is one of several; there may be many of these."""

PATTERNS: Final = frozenset({Condition.CONTAIN, Condition.START_WITH, Condition.END_WITH})
"""Conditions on a part of a text."""


def text_compares(
    column: ColumnElement[str], condition: Condition, values: Iterable[str]
) -> ColumnElement[bool]:
    """Return the condition that any of `values` compares so with a text; patterns know no case."""
    values = tuple(values)
    if condition in EXACT:
        return column.in_(values)
    return or_(false(), *(_text_compares(column, condition, value) for value in values))


def _text_compares(
    column: ColumnElement[str], condition: Condition, value: str
) -> ColumnElement[bool]:
    match condition:
        case Condition.IEQUAL:
            return column.collate("NOCASE") == value
        case Condition.CONTAIN:
            return column.contains(value, autoescape=True)
        case Condition.START_WITH:
            return column.startswith(value, autoescape=True)
        case Condition.END_WITH:
            return column.endswith(value, autoescape=True)
        case _ if condition in _RELATIONAL:
            return _RELATIONAL[condition](column, value)
        case _:
            return column == value


def begins_with(column: ColumnElement[str], value: str) -> ColumnElement[bool]:
    """Return the condition that a text begins so, case and all, which an index of it can tell."""
    return column.between(value, f"{value}\U0010ffff")


def number_compares(
    column: ColumnElement[Any], condition: Condition, values: Iterable[str]
) -> ColumnElement[bool]:
    """Return the condition that any of `values` compares so with a number.

    Numbers compare with numbers, whatever their spelling; only patterns look at the text.
    """
    if condition in EXACT:
        return column.in_([to_number(value) for value in values])
    return or_(
        false(), *(_number_compares(column, condition, to_number(value)) for value in values)
    )


def _number_compares(
    column: ColumnElement[Any], condition: Condition, value: float | str
) -> ColumnElement[bool]:
    if condition in _RELATIONAL:
        if isinstance(value, str):
            return false()
        # In SQLite every text is greater than every number.
        return and_(func.typeof(column) != "text", _RELATIONAL[condition](column, value))
    if condition in PATTERNS:
        return _text_compares(cast(column, Text), condition, str(value))
    if condition is Condition.IEQUAL and isinstance(value, str):
        return type_coerce(column, Text).collate("NOCASE") == value
    return column == value


EVERYWHERE: Final = f'"{EVERY}"'
"""The expression that matches every entity."""

NOWHERE: Final = '"=none"'
"""The expression that matches none."""


@dataclass(frozen=True, slots=True)
class EntityPredicate:
    """A condition on entities, in the forms that the database can use.

    Attributes:
        check: the SQL condition on the entity with an id, `search_entity` being joined to it.
        among: the query for the ids of all entities that satisfy it, if that is worth while.
        match: the expression of the full-text index, None where the index does not know.
        profile: the SQL condition on a profile, None where a profile does not say.
        negated: whether the condition must not hold.
    """

    check: Callable[[ColumnElement[int]], ColumnElement[bool]]
    among: Select[tuple[int]] | None = None
    match: str | None = None
    profile: ColumnElement[bool] | None = None
    negated: bool = False

    def condition(self, entity_id: ColumnElement[int], *, each: bool) -> ColumnElement[bool]:
        """Return the condition on an entity: checked `each` by itself, or all found before."""
        if each or self.among is None:
            condition = self.check(entity_id)
        else:
            condition = entity_id.in_(self.among)
        return not_(condition) if self.negated else condition

    def profile_condition(self) -> ColumnElement[bool] | None:
        """Return the condition on a profile, None where a profile does not say."""
        return not_(self.profile) if self.negated and self.profile is not None else self.profile


def always(*, holds: bool) -> EntityPredicate:
    """Return the predicate of every entity, or else of none."""
    constant = true() if holds else false()
    expression = EVERYWHERE if holds else NOWHERE
    return EntityPredicate(lambda _: constant, match=expression, profile=constant)


def has_keyword(among: Select[tuple[int]], ids: Sequence[int] | None) -> EntityPredicate:
    """Return the predicate of entities with one of the keywords `among`; their `ids` if few."""
    having = select(member.c.profile_id)
    having = having.where(member.c.keyword_id.in_(among if ids is None else ids))
    match = None
    if ids is not None:
        tokens = " OR ".join(f'"{keyword_token(number)}"' for number in ids)
        match = f"({tokens})" if tokens else NOWHERE
    return EntityPredicate(
        lambda _: searched.c.profile_id.in_(having),
        match=match,
        profile=profile.c.id.in_(having),
    )


def has_text(expression: str) -> EntityPredicate:
    """Return the predicate of entities whose texts match an expression of the full-text index."""
    return EntityPredicate(lambda at: at.in_(matching(expression)), match=f"({expression})")


def matching(expression: str) -> Select[Any]:
    """Return the query for the ids of the entities whose texts match `expression`."""
    return select(fts.c.rowid).where(fts.c.search_fts.op("MATCH")(expression))
