"""The values of a page as JSON, by the names that they have in its template."""

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from mlcat_ingest.catalog.web.ui.lists import Listing


def json_of(value: object) -> Any:
    """Return a value that a page shows as JSON: objects by their fields, rows as lists of cells.

    Not finite numbers, and what has no form in JSON, are texts.
    """
    match value:
        case None | bool() | int():
            return value
        case float():
            return value if abs(value) < float("inf") else str(value)
        case str():
            # A lone surrogate has no UTF-8 form; it may only come from an address.
            return str(value).encode("utf-8", "replace").decode()
        case Mapping():
            return {str(json_of(name)): json_of(one) for name, one in value.items()}
        case Listing():
            cells = [[column.cell(row) for column in value.columns] for row in value.rows]
            return _fields(replace(value, rows=cells))
        case _ if is_dataclass(value):
            return _fields(value)
        case Iterable():
            return [json_of(one) for one in value]
        case _:
            return str(value)


def _fields(value: Any) -> dict[str, object]:
    shown = ((field.name, getattr(value, field.name)) for field in fields(value))
    return {name: json_of(one) for name, one in shown if not callable(one)}
