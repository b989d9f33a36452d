"""What the service says about itself and its client."""

from collections.abc import Mapping
from typing import Any, Final

from graphql import GraphQLResolveInfo

from mlcat_ingest.catalog.schema.values import UNKNOWN_ACTOR
from mlcat_ingest.catalog.web.graphql.nodes import Node
from mlcat_ingest.catalog.web.graphql.resolvers.common import Fields, nodes_in

_CONFIG: Final[Mapping[str, Any]] = {
    "telemetryConfig": {"enableThirdPartyLogging": False},
    "semanticSearchConfig": {"enabled": False, "enabledEntities": []},
}


def _me(_root: Any, info: GraphQLResolveInfo) -> dict[str, Node]:
    return {"corpUser": nodes_in(info, [UNKNOWN_ACTOR])[UNKNOWN_ACTOR]}


def _app_config(_root: Any, _info: GraphQLResolveInfo) -> Mapping[str, Any]:
    return _CONFIG


SERVICE: Final[Mapping[str, Fields]] = {"Query": {"me": _me, "appConfig": _app_config}}
"""The root fields about the service."""
