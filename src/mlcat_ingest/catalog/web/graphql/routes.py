"""The HTTP face of GraphQL: `POST /api/graphql`, and `/api/v2/graphql` as newer clients call it."""

from collections.abc import Mapping
from typing import Any

from starlette.routing import Route

from mlcat_ingest.catalog.errors import BadRequestError
from mlcat_ingest.catalog.limits import Limits
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.graphql.execute import GraphQLEndpoint, Request
from mlcat_ingest.catalog.web.http import Call, endpoint
from mlcat_ingest.catalog.web.params import json_object, optional


def graphql_routes(store: Store, limits: Limits) -> list[Route]:
    """Return the routes that answer GraphQL from `store`.

    A body that is no GraphQL request gets a 400 in the service's error shape; a query that cannot
    be run is answered with 200 and `errors`, as DataHub's clients expect it.
    """
    answers = GraphQLEndpoint(store, limits)

    def graphql(call: Call) -> dict[str, Any]:
        return answers.answer(_request(call, limits))

    handle = endpoint(graphql, limits)
    return [Route(path, handle, methods=["POST"]) for path in ("/api/graphql", "/api/v2/graphql")]


def _request(call: Call, limits: Limits) -> Request:
    fields = json_object(call.json())
    query = optional(fields, "query")
    if not query:
        raise BadRequestError("query: the parameter is missing")
    if len(query.encode("utf-8", "surrogatepass")) > limits.query_bytes:
        raise BadRequestError(f"query: longer than {limits.query_bytes} bytes")
    operation = optional(fields, "operationName") or None
    return Request(query, _variables(fields), operation, call.may_write)


def _variables(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    variables = fields.get("variables")
    if variables is None:
        return {}
    return json_object(variables, "variables")
