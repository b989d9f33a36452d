"""Mutations: the changes to tags and to version sets that DataHub's SDK makes."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import uuid4

from graphql import GraphQLResolveInfo

from mlcat_ingest.catalog.schema.values import Write
from mlcat_ingest.catalog.store.version_links import Version, link, unlink
from mlcat_ingest.catalog.web.graphql.nodes import Node
from mlcat_ingest.catalog.web.graphql.resolvers import (
    Fields,
    bad_request,
    context_of,
    nodes_in,
)
from mlcat_ingest.metadata.aspects.assets import TAG_PROPERTIES
from mlcat_ingest.metadata.aspects.governance import GLOBAL_TAGS
from mlcat_ingest.metadata.urn import PREFIX

_TAG: Final = f"{PREFIX}tag:"


def _link_version(
    _root: Any, info: GraphQLResolveInfo, **arguments: Mapping[str, Any]
) -> Node | None:
    inputs = arguments["input"]
    version = Version(
        inputs["version"],
        inputs.get("comment"),
        inputs.get("sourceTimestamp"),
        inputs.get("sourceCreator"),
    )
    version_set = inputs["versionSet"]
    if not link(context_of(info).store, version_set, inputs["linkedEntity"], version):
        return None
    return nodes_in(info, [version_set]).get(version_set)


def _unlink_version(
    _root: Any, info: GraphQLResolveInfo, **arguments: Mapping[str, Any]
) -> Node | None:
    inputs = arguments["input"]
    urn = inputs.get("unlinkedEntity")
    if urn is None:
        raise bad_request("unlinkedEntity: missing")
    version_set = unlink(context_of(info).store, inputs.get("versionSet"), urn)
    return None if version_set is None else nodes_in(info, [version_set]).get(version_set)


def _create_tag(_root: Any, info: GraphQLResolveInfo, **arguments: Mapping[str, Any]) -> str:
    inputs = arguments["input"]
    urn = f"{_TAG}{inputs.get('id') or uuid4()}"
    if urn in context_of(info).store.get_many([urn], ()):
        raise bad_request("This Tag already exists!")
    value = {"name": inputs["name"]}
    if inputs.get("description") is not None:
        value["description"] = inputs["description"]
    context_of(info).store.write([Write(urn, TAG_PROPERTIES, value)])
    return urn


def _remove_tag(_root: Any, info: GraphQLResolveInfo, **arguments: Mapping[str, Any]) -> bool:
    inputs = arguments["input"]
    urn, tag = inputs["resourceUrn"], inputs["tagUrn"]
    if not tag.startswith(_TAG):
        raise bad_request(f"tagUrn: {tag!r} is not the URN of a tag")
    if inputs.get("subResource") is not None:
        raise bad_request("subResource: tags are kept on whole entities only")
    store = context_of(info).store
    stored = store.get_many([urn], {GLOBAL_TAGS})
    if urn not in stored:
        raise bad_request(f"Failed to update resource with urn {urn}. Entity does not exist.")
    # A patch would make the aspect where it is missing.
    if GLOBAL_TAGS in stored[urn]:
        path = "/tags/" + tag.replace("~", "~0").replace("/", "~1")
        patch = {"arrayPrimaryKeys": {"tags": ["tag"]}, "patch": [{"op": "remove", "path": path}]}
        store.write([Write(urn, GLOBAL_TAGS, patch, "PATCH")])
    return True


MUTATIONS: Final[Fields] = {
    "createTag": _create_tag,
    "removeTag": _remove_tag,
    "linkAssetVersion": _link_version,
    "unlinkAssetVersion": _unlink_version,
}
"""The fields of `Mutation`."""
