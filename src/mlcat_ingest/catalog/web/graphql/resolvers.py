"""Resolvers: their shape, the context of a request, errors, and readers of plain fields."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from graphql import (
    FieldNode,
    FragmentSpreadNode,
    GraphQLError,
    GraphQLResolveInfo,
    InlineFragmentNode,
)

from mlcat_ingest.catalog.limits import Limits
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.graphql.nodes import Cohort, Loader, Node, Pick, Record, node_of
from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.urn import raw_parts

Resolver = Callable[..., Any]
"""Takes the parent value, the resolve info and the field's arguments; returns the field's value."""

Fields = Mapping[str, Resolver]
"""The resolvers of one object type, by field."""


class StopQuery(BaseException):
    """Ends a query that exceeds a limit; no `Exception`, which would fail one field only."""


class Context:
    """The store, the loader and the time left of one GraphQL request."""

    def __init__(self, store: Store, limits: Limits) -> None:
        self.store = store
        self.limits = limits
        self.loader = Loader(store)
        self._deadline = time.monotonic() + limits.query_seconds

    def check_time(self) -> None:
        """Go on if there is time left.

        Raises:
            StopQuery: the query has run too long.
        """
        if time.monotonic() > self._deadline:
            raise StopQuery(f"the query took longer than {self.limits.query_seconds:g} s")


def context_of(info: GraphQLResolveInfo) -> Context:
    """Return the context of the request that `info` belongs to."""
    context = info.context
    if not isinstance(context, Context):
        raise TypeError(f"the context is a {type(context).__name__}")
    return context


def bad_request(message: str) -> GraphQLError:
    """Return the error for an argument that cannot be used; the field it was given to is null."""
    return GraphQLError(message, extensions={"code": 400, "type": "BAD_REQUEST"})


def parts_of(urn: str) -> tuple[str, ...]:
    """Return the parts of a URN that a client gave.

    Raises:
        GraphQLError: it is no URN.
    """
    try:
        return raw_parts(urn)
    except InvalidUrnError as error:
        raise bad_request(str(error)) from error


def page_of(inputs: Mapping[str, Any], default_count: int, limits: Limits) -> tuple[int, int]:
    """Return `start` and `count` of an input; a count above the page limit is cut to it."""
    start = inputs.get("start")
    count = inputs.get("count")
    start = 0 if start is None else start
    count = default_count if count is None else count
    if start < 0 or count < 0:
        raise bad_request("start and count cannot be negative")
    return start, min(count, limits.page_size)


def nodes_in(info: GraphQLResolveInfo, urns: Iterable[str]) -> dict[str, Node]:
    """Return the entities `urns`, one cohort, by URN; texts that are no URN are left out."""
    distinct = list(dict.fromkeys(urns))
    cohort = Cohort(context_of(info).loader, distinct)
    return {urn: node for urn in distinct if (node := node_of(urn, cohort)) is not None}


def selected_fields(info: GraphQLResolveInfo) -> Iterator[str]:
    """Yield the names of all fields that are selected below the one that is being resolved."""
    pending = [node.selection_set for node in info.field_nodes]
    while pending:
        selected = pending.pop()
        for selection in selected.selections if selected else ():
            if isinstance(selection, FragmentSpreadNode):
                pending.append(info.fragments[selection.name.value].selection_set)
            elif isinstance(selection, FieldNode | InlineFragmentNode):
                pending.append(selection.selection_set)
            if isinstance(selection, FieldNode):
                yield selection.name.value


def plain(source: Any, info: GraphQLResolveInfo, **_arguments: Any) -> Any:
    """Return the field of a record by its own name; objects inside become records."""
    name = info.field_name
    if isinstance(source, dict):
        return source.get(name)
    return _inside(source, name)


def stored_as(name: str) -> Resolver:
    """Return the resolver of a field of a record that is stored under another name."""

    def resolve(record: Record, _info: GraphQLResolveInfo) -> Any:
        return _inside(record, name)

    return resolve


def _inside(record: Record, name: str) -> Any:
    value = record.value.get(name)
    if isinstance(value, dict):
        return Record(record.node, value)
    if isinstance(value, list):
        return [Record(record.node, item) if isinstance(item, dict) else item for item in value]
    return value


def texts(items: Any) -> list[str]:
    """Return the texts in `items`, which is usually a list of URNs."""
    return [item for item in items if isinstance(item, str)] if isinstance(items, list) else []


def objects(items: Any) -> list[dict[str, Any]]:
    """Return the JSON objects in `items`, which is usually a list of records."""
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def pick_field(field: str) -> Pick:
    """Return what picks the URNs of `field`, which holds one or a list of them."""

    def pick(value: Mapping[str, Any]) -> list[str]:
        urns = value.get(field)
        return texts(urns if isinstance(urns, list) else [urns])

    return pick


def pick_from_lists(lists: Iterable[str], field: str) -> Pick:
    """Return what picks the URNs that `field` of each record in any of the `lists` holds."""
    names = tuple(lists)

    def pick(value: Mapping[str, Any]) -> list[str]:
        return texts([item.get(field) for name in names for item in objects(value.get(name))])

    return pick


def aspect(name: str) -> Resolver:
    """Return the resolver of a whole aspect as a record."""

    def resolve(node: Node, _info: GraphQLResolveInfo) -> Record | None:
        return node.record(name)

    return resolve


def record_entity(name: str, field: str) -> Resolver:
    """Return the resolver of the entity that `field` of an aspect names, the first of a list."""
    pick = pick_field(field)

    def resolve(record: Record, _info: GraphQLResolveInfo) -> Node | None:
        nodes = record.node.references(name, field, pick, list(pick(record.value))[:1])
        return nodes[0] if nodes else None

    return resolve


def aspect_entity(name: str, field: str) -> Resolver:
    """Return the resolver, for an entity, of what `record_entity` gives for one of its aspects."""
    named = record_entity(name, field)

    def resolve(node: Node, info: GraphQLResolveInfo) -> Any:
        record = node.record(name)
        return None if record is None else named(record, info)

    return resolve


def entry_entity(name: str, field: str, *lists: str) -> Resolver:
    """Return the resolver of the entity that `field` of an entry of a list of an aspect names."""
    pick = pick_from_lists(lists, field)

    def resolve(record: Record, _info: GraphQLResolveInfo) -> Node | None:
        urn = record.value.get(field)
        if not isinstance(urn, str):
            return None
        nodes = record.node.references(name, field, pick, [urn])
        return nodes[0] if nodes else None

    return resolve


def record_list(field: str) -> Resolver:
    """Return the resolver of a list of records; where it is unset, an empty one."""

    def resolve(record: Record, _info: GraphQLResolveInfo) -> list[Record]:
        return [Record(record.node, item) for item in objects(record.value.get(field))]

    return resolve


def associated_urn(record: Record, _info: GraphQLResolveInfo) -> str:
    """Return the URN of the entity that the record is part of."""
    return record.node.urn


def part(index: int) -> Resolver:
    """Return the resolver that gives a part of the URN verbatim."""

    def resolve(node: Node, _info: GraphQLResolveInfo) -> str:
        return node.part(index)

    return resolve
