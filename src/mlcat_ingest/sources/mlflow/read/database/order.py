"""Ids of rows in the order of a moment, read ahead in blocks.

MLflow's tables have no index on their moments, so every question for the next ids costs the
database a walk over all of them: it is asked for many ids at once, and their rows come by id.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Select, and_, func, literal_column, or_, select

from mlcat_ingest.sources.mlflow.read.database.access import Database

IDS_A_BLOCK: Final = 10_000
"""Ids held at a time: 1 MiB."""

IDS_A_PAGE: Final = 100
"""Ids named in one statement. 200 take a tenth less CPU, and 3 MiB more: their records wait."""

# Rows without a moment come last, whichever way the others are sorted.
_LAST: Final[Mapping[bool, ColumnElement[int]]] = {
    False: literal_column("9223372036854775807"),
    True: literal_column("-9223372036854775807"),
}


class Ordered(NamedTuple):
    """What to list: ids, by moment, of the rows that meet all conditions; ties go by id."""

    identity: ColumnElement[Any]
    moment: ColumnElement[Any]
    conditions: tuple[ColumnElement[bool], ...]
    newest_first: bool = False


def pages_of_ids(
    database: Database, ordered: Ordered, limit: int | None = None
) -> Iterator[list[str]]:
    """Yield the ids that `ordered` lists, `limit` at most, in pages of `IDS_A_PAGE`.

    A row that appears behind the place that is read comes too; none is listed twice.
    """
    moment = func.coalesce(ordered.moment, _LAST[ordered.newest_first])
    after: tuple[int, str] | None = None
    left = limit
    while left is None or left > 0:
        wanted = IDS_A_BLOCK if left is None else min(left, IDS_A_BLOCK)
        with database.page() as read:
            block = read(_next(ordered, moment, after).limit(wanted))
        ids = [row[1] for row in block]
        after = block[-1] if block else None
        del block  # the moments of thousands of rows, for nothing
        yield from (ids[at : at + IDS_A_PAGE] for at in range(0, len(ids), IDS_A_PAGE))
        if len(ids) < wanted:
            return
        left = None if left is None else left - len(ids)


def _next(
    ordered: Ordered, moment: ColumnElement[Any], after: tuple[Any, ...] | None
) -> Select[Any]:
    identity = ordered.identity
    statement = select(moment, identity).where(*ordered.conditions)
    if after is not None:
        beyond = moment < after[0] if ordered.newest_first else moment > after[0]
        statement = statement.where(or_(beyond, and_(moment == after[0], identity > after[1])))
    return statement.order_by(moment.desc() if ordered.newest_first else moment, identity)
