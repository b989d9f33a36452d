"""Conditions as SQL on a column of text or of numbers."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from sqlalchemy import ColumnElement, Text, and_, cast, false, func, or_, type_coerce

from mlcat_ingest.catalog.search.document import figure
from mlcat_ingest.catalog.search.request import Condition

RELATIONAL: Final[Mapping[Condition, Callable[[Any, Any], ColumnElement[bool]]]] = {
    Condition.GREATER_THAN: lambda column, value: column > value,
    Condition.GREATER_THAN_OR_EQUAL_TO: lambda column, value: column >= value,
    Condition.LESS_THAN: lambda column, value: column < value,
    Condition.LESS_THAN_OR_EQUAL_TO: lambda column, value: column <= value,
}


EXACT: Final = frozenset({Condition.EQUAL, Condition.IN})
"""Conditions that ask whether a value is one of several; there may be many of these."""


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
        case _ if condition in RELATIONAL:
            return RELATIONAL[condition](column, value)
        case _:
            return column == value


def begins_with(column: ColumnElement[str], value: str) -> ColumnElement[bool]:
    """Return the condition that a text begins so, case and all, which an index of it can tell."""
    return column.between(value, f"{value}\U0010ffff")


def figure_compares(
    column: ColumnElement[Any], condition: Condition, values: Iterable[str]
) -> ColumnElement[bool]:
    """Return the condition that any of `values` compares so with a figure.

    Numbers compare with numbers, whatever their spelling; only patterns look at the text.
    """
    if condition in EXACT:
        return column.in_([figure(value) for value in values])
    return or_(false(), *(_figure_compares(column, condition, figure(value)) for value in values))


def _figure_compares(
    column: ColumnElement[Any], condition: Condition, value: float | str
) -> ColumnElement[bool]:
    if condition in RELATIONAL:
        if isinstance(value, str):
            return false()
        # In SQLite every text is greater than every number.
        return and_(func.typeof(column) != "text", RELATIONAL[condition](column, value))
    if condition in {Condition.CONTAIN, Condition.START_WITH, Condition.END_WITH}:
        return _text_compares(cast(column, Text), condition, str(value))
    if condition is Condition.IEQUAL and isinstance(value, str):
        return type_coerce(column, Text).collate("NOCASE") == value
    return column == value
