"""Child runs under their parents: queries over the search index, and the rows of pages."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import and_, exists, func, select
from sqlalchemy.engine import Connection
from sqlalchemy.sql.expression import Select

from mlcat_ingest.catalog.schema.tables import (
    edge,
    entity,
    keyword,
    keyword_token,
    member,
    searched,
)
from mlcat_ingest.catalog.schema.values import UrnPage
from mlcat_ingest.catalog.search.predicates import MAX_TOKENS, matching
from mlcat_ingest.catalog.store.reads import marked_removed
from mlcat_ingest.catalog.store.rows import distinct_chunks
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.ui.lists import ListRow, model_rows, referrers
from mlcat_ingest.metadata.mlflow_keys import PARENT_RUN

SHOWN_CHILDREN: Final = 20
"""How many child runs a list shows under their parent."""


def children_of(store: Store, urn: str, start: int = 0, count: int = 0) -> UrnPage:
    """Return a page of the child runs of `urn`, the newest first, without the removed ones."""
    children = _children([urn]).subquery()
    newest_first = select(children.c.urn).order_by(children.c.place).offset(start).limit(count)
    counted = select(func.count()).select_from(children)

    def read(connection: Connection) -> UrnPage:
        total = connection.scalar(counted) or 0
        return UrnPage(total, tuple(connection.scalars(newest_first)) if count else ())

    return store.read(read)


def models_of_group(store: Store, group: str, start: int, count: int) -> UrnPage:
    """Return a page of the models of a group that are child runs of none of the others.

    The newest come first; those that are marked as removed are left out.
    """
    parent, parent_edge, child = entity.alias(), edge.alias(), searched.alias()
    is_member = exists().where(
        parent.c.urn == keyword.c.value,
        parent_edge.c.source_id == parent.c.id,
        parent_edge.c.destination == group,
        parent_edge.c.relationship == "MemberOf",
        ~marked_removed(parent.c.id),
    )
    children = (
        select(child.c.id)
        .join(member, member.c.profile_id == child.c.profile_id)
        .join(keyword, keyword.c.id == member.c.keyword_id)
        .where(keyword.c.field == PARENT_RUN, is_member)
    )
    roots = and_(edge.c.relationship == "MemberOf", edge.c.source_id.not_in(children))
    return referrers(store, group, roots, start, count)


def nested_rows(store: Store, urns: Sequence[str], opened: Collection[str] = ()) -> list[ListRow]:
    """Return a row for each of these models; the newest children of `opened` ones follow them.

    Cost: three SQL statements for each two hundred URNs, however many children there are.
    """
    children = _newest_children(store, urns)
    below = {urn: runs.urns for urn, runs in children.items() if urn in opened}
    shown = [shown_urn for urn in urns for shown_urn in (urn, *below.get(urn, ()))]
    children |= _newest_children(store, sorted(set(shown) - set(urns)))
    return [
        replace(
            row,
            depth=int(row.urn not in urns),
            children=children[row.urn].total if row.urn in children else 0,
        )
        for row in model_rows(store, shown)
    ]


def _newest_children(store: Store, urns: Sequence[str]) -> dict[str, UrnPage]:
    """Return the newest child runs of those of `urns` that have any."""

    def read(connection: Connection) -> dict[str, UrnPage]:
        by_parent: dict[str, UrnPage] = {}
        for chunk in distinct_chunks(urns, MAX_TOKENS):
            children = _children(chunk).subquery()
            rows = (
                select(children)
                .where(children.c.place <= SHOWN_CHILDREN)
                .order_by(children.c.parent, children.c.place)
            )
            for row in connection.execute(rows):
                before = by_parent.get(row.parent, UrnPage(row.total, ()))
                by_parent[row.parent] = replace(before, urns=(*before.urns, row.urn))
        return by_parent

    return store.read(read)


def _children(parents: Sequence[str]) -> Select[Any]:
    """Select the child runs of `parents`: their place among their siblings, and the number."""
    siblings: dict[str, Any] = {"partition_by": keyword.c.value}
    named = (keyword.c.field == PARENT_RUN, keyword.c.value.in_(parents))
    # No index leads from a keyword to the entities, but the full-text index does.
    token = func.printf(f'"{keyword_token("%d")}"', keyword.c.id)
    tokens = select(func.group_concat(token, " OR ")).where(*named).scalar_subquery()
    newest_first = (searched.c.created_ms.desc(), entity.c.id.desc())
    return (
        select(
            keyword.c.value.label("parent"),
            entity.c.urn,
            func.row_number().over(**siblings, order_by=newest_first).label("place"),
            func.count().over(**siblings).label("total"),
        )
        .join(member, member.c.keyword_id == keyword.c.id)
        .join(searched, searched.c.profile_id == member.c.profile_id)
        .join(entity, entity.c.id == searched.c.id)
        .where(*named, searched.c.id.in_(matching(tokens)), ~marked_removed(entity.c.id))
    )
