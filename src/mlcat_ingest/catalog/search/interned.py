"""Keywords, and sets of them, that many entities share: each is written once and has a number."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from sqlalchemy import Connection, Table, bindparam, delete, insert, select, tuple_, update

from mlcat_ingest.catalog.schema.search_tables import keyword, member, profile

Keyword = tuple[str, str]
"""A field, and one value of it."""

_ITEMS: Final = 400
"""Most keywords or sets that one statement looks up."""

T = TypeVar("T")


def find_keywords(connection: Connection, wanted: Iterable[Keyword]) -> dict[Keyword, int]:
    """Return the numbers of those of `wanted` that have one.

    Cost: one SQL statement for each 400.
    """
    found: dict[Keyword, int] = {}
    query = select(keyword.c.field, keyword.c.value, keyword.c.id)
    for some in _slices(list(dict.fromkeys(wanted))):
        pairs = tuple_(keyword.c.field, keyword.c.value).in_(some)
        found.update({(row[0], row[1]): row[2] for row in connection.execute(query.where(pairs))})
    return found


def intern_keywords(connection: Connection, wanted: Iterable[Keyword]) -> dict[Keyword, int]:
    """Return the number of each of `wanted`; those that have none are given one."""
    distinct = list(dict.fromkeys(wanted))
    known = find_keywords(connection, distinct)
    missing = [one for one in distinct if one not in known]
    if missing:
        connection.execute(
            insert(keyword), [{"field": field, "value": value} for field, value in missing]
        )
        known |= find_keywords(connection, missing)
    return known


def spell(numbers: Iterable[int]) -> str:
    """Return a set of numbers as the one text that stands for it."""
    return " ".join(map(str, sorted(set(numbers))))


def members(spelled: str) -> set[int]:
    """Return the numbers in a spelled set."""
    return {int(number) for number in spelled.split()}


def recount(connection: Connection, table: Table, changes: Mapping[str, int]) -> dict[str, int]:
    """Add to the number of entities that have each spelled set; return the numbers of the sets.

    A set that nobody had is made, and one that nobody has any more is removed.
    """
    numbers = _find_sets(connection, table, changes)
    missing = [spelled for spelled in changes if spelled not in numbers]
    if missing:
        connection.execute(
            insert(table), [{"members": spelled, "entities": 0} for spelled in missing]
        )
        numbers |= _find_sets(connection, table, missing)
        if table is profile:
            _put_members(connection, {spelled: numbers[spelled] for spelled in missing})
    moved = [
        {"of": numbers[spelled], "by": change} for spelled, change in changes.items() if change
    ]
    if moved:
        counting = update(table).where(table.c.id == bindparam("of"))
        connection.execute(counting.values(entities=table.c.entities + bindparam("by")), moved)
    _remove_unused(connection, table, [row["of"] for row in moved if row["by"] < 0])
    return numbers


def _find_sets(connection: Connection, table: Table, spelled: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    query = select(table.c.members, table.c.id)
    for some in _slices(list(spelled)):
        rows = connection.execute(query.where(table.c.members.in_(some)))
        found.update({row[0]: row[1] for row in rows})
    return found


def _put_members(connection: Connection, numbers: Mapping[str, int]) -> None:
    rows = [
        {"keyword_id": one, "profile_id": number}
        for spelled, number in numbers.items()
        for one in members(spelled)
    ]
    if rows:
        connection.execute(insert(member), rows)


def _remove_unused(connection: Connection, table: Table, numbers: Sequence[int]) -> None:
    for some in _slices(numbers):
        unused = table.c.id.in_(some), table.c.entities == 0
        gone = connection.execute(select(table.c.id, table.c.members).where(*unused)).all()
        if not gone:
            continue
        connection.execute(delete(table).where(*unused))
        if table is profile:
            connection.execute(
                delete(member).where(
                    member.c.keyword_id == bindparam("one"), member.c.profile_id == bindparam("of")
                ),
                [{"one": one, "of": number} for number, held in gone for one in members(held)],
            )


def _slices(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), _ITEMS):
        yield items[start : start + _ITEMS]
