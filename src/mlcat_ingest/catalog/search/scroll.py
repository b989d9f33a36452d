"""What makes two searches the same to a scroll: its cursors lead nowhere else."""

from collections.abc import Sequence
from typing import Any

from mlcat_ingest.catalog.schema import cursor
from mlcat_ingest.catalog.search.request import SearchRequest


def write_cursor(request: SearchRequest, place: Sequence[Any]) -> str:
    """Return the text that stands for `place`, the sort values of an entity, in this search."""
    return cursor.write_cursor(_asked(request), place)


def read_cursor(request: SearchRequest, values: int) -> list[Any]:
    """Return the place that the cursor of `request` stands for: so many values.

    Raises:
        BadRequestError: it is no cursor, or that of another search.
    """
    return cursor.read_cursor(_asked(request), request.after or "", values)


def _asked(request: SearchRequest) -> tuple[Any, ...]:
    types = sorted(request.entity_types or ())
    return (request.query, types, request.any_of, request.sort, request.include_removed)
