"""How often each value of a field occurs among the entities that a search found."""

from collections import Counter
from collections.abc import Iterable

from sqlalchemy import Connection, func, select

from mlcat_ingest.catalog.schema.search_tables import keyword, profile, searched
from mlcat_ingest.catalog.search.interned import members
from mlcat_ingest.catalog.search.names import field_name
from mlcat_ingest.catalog.search.request import Facet, SearchRequest
from mlcat_ingest.catalog.search.selection import Selection


def count_facets(
    connection: Connection, request: SearchRequest, selection: Selection | None
) -> tuple[Facet, ...]:
    """Return a facet for each field asked for, counted over all of `selection` (None: nothing).

    Cost: a walk through all hits, none where keywords alone say what is found; and one SQL
    statement for the names of the values.
    """
    if not request.facets:
        return ()
    fields = {spelled: field_name(spelled).field for spelled in request.facets}
    counted = Counter[int]() if selection is None else _count(connection, selection)
    by_field: dict[str, list[tuple[str, int]]] = {field: [] for field in fields.values()}
    query = select(keyword.c.id, keyword.c.field, keyword.c.value)
    for number, field, value in connection.execute(query.where(keyword.c.field.in_(by_field))):
        if counted[number]:
            by_field[field].append((value, counted[number]))
    return tuple(
        Facet(spelled, _most(by_field[field], request.facet_values))
        for spelled, field in fields.items()
    )


def _count(connection: Connection, selection: Selection) -> Counter[int]:
    if selection.profiles is not None:
        query = select(profile.c.members, profile.c.entities).where(selection.profiles)
    else:
        hits = selection.query(searched.c.profile_id, joined=True).subquery()
        sizes = select(hits.c.profile_id, func.count().label("entities")).group_by(
            hits.c.profile_id
        )
        sized = sizes.subquery()
        query = select(profile.c.members, sized.c.entities).join(
            sized, sized.c.profile_id == profile.c.id
        )
    counted: Counter[int] = Counter()
    for spelled, entities in connection.execute(query):
        for number in members(spelled):
            counted[number] += entities
    return counted


def _most(counts: Iterable[tuple[str, int]], values: int) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(counts, key=lambda count: (-count[1], count[0]))[:values])
