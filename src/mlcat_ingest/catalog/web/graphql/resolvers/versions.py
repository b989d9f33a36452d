"""The fields of versions: which version of which set an entity is, and how that is changed."""

from collections.abc import Mapping
from typing import Any, Final

from graphql import GraphQLResolveInfo

from mlcat_ingest.catalog.store.versions import Version, link, unlink
from mlcat_ingest.catalog.web.graphql.nodes import Node, Record
from mlcat_ingest.catalog.web.graphql.resolvers.common import (
    Fields,
    aspect,
    aspect_entity,
    bad_request,
    context_of,
    nodes_in,
    record_entity,
    record_list,
    stored_as,
)
from mlcat_ingest.metadata.aspects.common import VERSION_PROPERTIES, VERSION_SET_PROPERTIES


def _is_latest(record: Record, _info: GraphQLResolveInfo) -> bool:
    return record.value.get("isLatest") is True


def _link(_root: Any, info: GraphQLResolveInfo, **arguments: Mapping[str, Any]) -> Node | None:
    wish = arguments["input"]
    version = Version(
        wish["version"],
        wish.get("comment"),
        wish.get("sourceTimestamp"),
        wish.get("sourceCreator"),
    )
    link(context_of(info).store, wish["versionSet"], wish["linkedEntity"], version)
    return nodes_in(info, [wish["versionSet"]]).get(wish["versionSet"])


def _unlink(_root: Any, info: GraphQLResolveInfo, **arguments: Mapping[str, Any]) -> Node | None:
    wish = arguments["input"]
    urn = wish.get("unlinkedEntity")
    if urn is None:
        raise bad_request("unlinkedEntity: missing")
    left = unlink(context_of(info).store, wish.get("versionSet"), urn)
    return nodes_in(info, [left]).get(left)


VERSIONED: Final[Fields] = {"versionProperties": aspect(VERSION_PROPERTIES)}
"""The field of the interface SupportsVersions."""

VERSIONS: Final[Mapping[str, Fields]] = {
    "VersionProperties": {
        "versionSet": record_entity(VERSION_PROPERTIES, "versionSet"),
        "aliases": record_list("aliases"),
        "isLatest": _is_latest,
        "created": stored_as("metadataCreatedTimestamp"),
        "createdInSource": stored_as("sourceCreatedTimestamp"),
    },
    "VersionSet": {"latestVersion": aspect_entity(VERSION_SET_PROPERTIES, "latest")},
    "Mutation": {"linkAssetVersion": _link, "unlinkAssetVersion": _unlink},
}
"""The records of versions, and the ways to change them."""
