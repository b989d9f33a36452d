"""Which events a filter lets through: its criteria compare with the events' own fields."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from mlcat_ingest.catalog.errors import BadRequestError
from mlcat_ingest.catalog.search.request import Alternatives, Condition, Criterion
from mlcat_ingest.metadata.codec import dumps

_TEXTS: Final[Mapping[Condition, Callable[[str, str], bool]]] = {
    Condition.EQUAL: str.__eq__,
    Condition.IN: str.__eq__,
    Condition.IEQUAL: lambda found, value: found.lower() == value.lower(),
    Condition.CONTAIN: str.__contains__,
    Condition.START_WITH: str.startswith,
    Condition.END_WITH: str.endswith,
}
_NUMBERS: Final[Mapping[Condition, Callable[[float, float], bool]]] = {
    Condition.GREATER_THAN: float.__gt__,
    Condition.GREATER_THAN_OR_EQUAL_TO: float.__ge__,
    Condition.LESS_THAN: float.__lt__,
    Condition.LESS_THAN_OR_EQUAL_TO: float.__le__,
}


def matches(event: Mapping[str, Any], any_of: Alternatives) -> bool:
    """Return whether an event satisfies one of the alternatives; all events do if there is none.

    Raises:
        BadRequestError: a criterion has a condition that events cannot be compared by.
    """
    return not any_of or any(all(_holds(event, one) for one in some) for some in any_of)


def _holds(event: Mapping[str, Any], criterion: Criterion) -> bool:
    path = criterion.field.removesuffix(".keyword").split(".")
    found = list(_texts(event, path))
    if criterion.condition is Condition.EXISTS:
        return bool(found) is not criterion.negated
    compare = _comparison(criterion.condition)
    held = any(compare(text, value) for text in found for value in criterion.values)
    return held is not criterion.negated


def _comparison(condition: Condition) -> Callable[[str, str], bool]:
    if condition in _TEXTS:
        return _TEXTS[condition]
    if condition not in _NUMBERS:
        raise BadRequestError(f"filter: events cannot be compared by {condition.value}")
    compare = _NUMBERS[condition]

    def compare_numbers(found: str, value: str) -> bool:
        try:
            return compare(float(found), float(value))
        except ValueError:
            return False

    return compare_numbers


def _texts(value: Any, path: list[str]) -> Iterator[str]:
    """Yield what is at the end of `path`, through lists, as text."""
    if isinstance(value, list):
        for item in value:
            yield from _texts(item, path)
    elif path:
        if isinstance(value, dict) and path[0] in value:
            yield from _texts(value[path[0]], path[1:])
    elif isinstance(value, str):
        yield value
    elif value is not None:
        yield dumps(value).decode()
