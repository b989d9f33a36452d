"""The changes to tags that DataHub's SDK makes over GraphQL."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import uuid4

from graphql import GraphQLResolveInfo

from mlcat_ingest.catalog.schema.values import Write
from mlcat_ingest.catalog.web.graphql.resolvers.common import (
    Fields,
    bad_request,
    context_of,
    not_found,
)
from mlcat_ingest.metadata.aspects.assets import TAG_PROPERTIES
from mlcat_ingest.metadata.aspects.governance import GLOBAL_TAGS
from mlcat_ingest.metadata.urn import PREFIX


def _create(_root: Any, info: GraphQLResolveInfo, **arguments: Mapping[str, Any]) -> str:
    wish = arguments["input"]
    urn = f"{PREFIX}tag:{wish.get('id') or uuid4()}"
    value = {"name": wish["name"]}
    if wish.get("description") is not None:
        value["description"] = wish["description"]
    context_of(info).store.write([Write(urn, TAG_PROPERTIES, value)])
    return urn


def _remove(_root: Any, info: GraphQLResolveInfo, **arguments: Mapping[str, Any]) -> bool:
    wish = arguments["input"]
    urn = wish["resourceUrn"]
    if wish.get("subResource") is not None:
        raise bad_request("subResource: tags are kept on whole entities only")
    store = context_of(info).store
    found = store.get_many([urn], {GLOBAL_TAGS})
    if urn not in found:
        raise not_found(urn)
    # A patch would make the aspect where it is missing.
    if GLOBAL_TAGS in found[urn]:
        path = "/tags/" + wish["tagUrn"].replace("~", "~0").replace("/", "~1")
        patch = {
            "arrayPrimaryKeys": {"tags": ["tag"]},
            "patch": [{"op": "remove", "path": path}],
        }
        store.write([Write(urn, GLOBAL_TAGS, patch, "PATCH")])
    return True


TAGS: Final[Mapping[str, Fields]] = {"Mutation": {"createTag": _create, "removeTag": _remove}}
"""The ways to change tags."""
