"""Filters of searches, read into criteria.

A filter is JSON: alternatives, each a list of criteria that hold together. DataHub's Rest.li form
is `{"or": [{"and": [criterion, ...]}, ...]}`. That of OpenAPI v3 is
`{"and": [{"criteria": [criterion, ...]}, ...]}`, whose outer list means alternatives too.
"""

from collections.abc import Mapping
from typing import Any, Final

from mlcat_ingest.catalog.errors import BadRequestError
from mlcat_ingest.catalog.limits import SEARCH_CRITERIA, SEARCH_VALUES
from mlcat_ingest.catalog.search.request import Alternatives, Condition, Criterion
from mlcat_ingest.catalog.web.params import (
    flag,
    json_list,
    json_object,
    optional,
    required_text,
    texts,
)

_CONDITIONS: Final[Mapping[str, Condition]] = {
    **{condition.value: condition for condition in Condition},
    # The Rest.li form has comparisons by shorter names.
    "GREATER_THAN_OR_EQUAL": Condition.GREATER_THAN_OR_EQUAL_TO,
    "LESS_THAN_OR_EQUAL": Condition.LESS_THAN_OR_EQUAL_TO,
}


def read_filter(value: Any, where: str = "filter") -> Alternatives:
    """Return the alternatives of a filter; none where there is no filter.

    Raises:
        BadRequestError: it is not understood; the sentence names the place.
    """
    if value is None:
        return ()
    content = json_object(value, where)
    if "criteria" in content:
        return (_criteria(content["criteria"], f"{where}.criteria"),)
    outer = "or" if content.get("or") is not None else "and"
    alternatives = content.get(outer)
    if alternatives is None:
        return ()
    return tuple(
        _alternative(item, f"{where}.{outer}[{at}]")
        for at, item in enumerate(json_list(alternatives, f"{where}.{outer}", SEARCH_CRITERIA))
    )


def _alternative(value: Any, where: str) -> tuple[Criterion, ...]:
    content = json_object(value, where)
    inner = "and" if content.get("and") is not None else "criteria"
    return _criteria(content.get(inner) or [], f"{where}.{inner}")


def _criteria(value: Any, where: str) -> tuple[Criterion, ...]:
    return tuple(
        read_criterion(item, f"{where}[{at}]")
        for at, item in enumerate(json_list(value, where, SEARCH_CRITERIA))
    )


def read_criterion(value: Any, where: str) -> Criterion:
    """Return one criterion, `{"field", "values" or "value", "condition", "negated"}`.

    Raises:
        BadRequestError: it is not understood; the sentence names the place.
    """
    content = json_object(value, where)
    try:
        field, condition = required_text(content, "field"), _condition(content)
        values = texts(content, SEARCH_VALUES, "values")
        alone = optional(content, "value")
        negated = flag(content, "negated")
    except BadRequestError as error:
        raise BadRequestError(f"{where}.{error}") from error
    if not values and alone:
        values = [alone]
    return Criterion(field, tuple(values or ()), condition, negated)


def _condition(criterion: Mapping[str, Any]) -> Condition:
    named = optional(criterion, "condition") or Condition.EQUAL.value
    condition = _CONDITIONS.get(named)
    if condition is None:
        raise BadRequestError(f"condition: {named!r} is none of {', '.join(_CONDITIONS)}")
    return condition
