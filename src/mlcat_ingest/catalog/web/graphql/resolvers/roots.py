"""The fields of `Query` that look entities up by their URNs."""

from collections.abc import Sequence
from typing import Any, Final

from graphql import GraphQLResolveInfo

from mlcat_ingest.catalog.web.graphql.loader import Cohort
from mlcat_ingest.catalog.web.graphql.nodes import Node, node_of
from mlcat_ingest.catalog.web.graphql.resolvers.common import (
    Fields,
    Resolver,
    bad_request,
    context_of,
)
from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.urn import check, entity_type_of

_SINGLE: Final = ("mlModel", "mlModelGroup", "mlFeature", "mlFeatureTable")
"""Entity types that have a root field of their own."""


def _type_of(urn: str) -> str:
    try:
        return entity_type_of(urn)
    except InvalidUrnError as error:
        raise bad_request(str(error)) from error


def _found(info: GraphQLResolveInfo, urn: str) -> Node | None:
    cohort = Cohort(context_of(info).loader, [urn])
    # All aspects at once: one entity's are few, and this tells whether it exists as well.
    cohort.aspects(urn)
    if cohort.exists(urn):
        return node_of(urn, cohort)
    try:
        check(urn)
    except InvalidUrnError as error:
        raise bad_request(str(error)) from error
    return None


def _single(entity_type: str) -> Resolver:
    def resolve(_root: Any, info: GraphQLResolveInfo, urn: str) -> Node | None:
        named = _type_of(urn)
        if named != entity_type:
            raise bad_request(f"{urn!r} is a URN of {named}, not of {entity_type}")
        return _found(info, urn)

    return resolve


def _entity(_root: Any, info: GraphQLResolveInfo, urn: str) -> Node | None:
    _type_of(urn)
    return _found(info, urn)


def _entities(_root: Any, info: GraphQLResolveInfo, urns: Sequence[str]) -> list[Node | None]:
    context = context_of(info)
    if len(urns) > context.limits.page_size:
        raise bad_request(f"urns: more than {context.limits.page_size}")
    for urn in urns:
        _type_of(urn)
    cohort = Cohort(context.loader, list(dict.fromkeys(urns)))
    return [node_of(urn, cohort) if cohort.exists(urn) else None for urn in urns]


LOOK_UPS: Final[Fields] = {
    **{entity_type: _single(entity_type) for entity_type in _SINGLE},
    "entity": _entity,
    "entities": _entities,
}
"""Root field to resolver."""
