"""GraphQL queries to the service.

Source: ``POST /api/graphql``; a failed query is a 200 with a list `errors`.
"""

from collections.abc import Mapping
from typing import Any

from mlcat_ingest.client.connection import Connection
from mlcat_ingest.client.responses import NO_SUCH_CALL, one_line, wrong_address
from mlcat_ingest.errors import CatalogRequestError, ProtocolMismatchError
from mlcat_ingest.metadata.codec import dumps


def graphql(
    connection: Connection,
    query: str,
    variables: Mapping[str, Any] | None = None,
    operation_name: str | None = None,
) -> dict[str, Any]:
    """Return the reply's `data`, keyed by the root fields of `query`.

    Raises:
        CatalogRequestError: the query is refused or fails; its errors are in the message.
        CatalogUnavailableError, AuthenticationError, NotAuthorizedError,
        ProtocolMismatchError: as their names say.

    Cost: one request.
    """
    body: dict[str, Any] = {"query": query}
    if variables:
        body["variables"] = dict(variables)
    if operation_name:
        body["operationName"] = operation_name
    reply = connection.post("/api/graphql", dumps(body))
    if reply.status in NO_SUCH_CALL:
        raise wrong_address(reply, connection.message(reply))
    # A refused query may come with its errors in GraphQL's own shape.
    answer = reply.json() if reply.ok or _is_json(reply.content) else None
    errors = answer.get("errors") if isinstance(answer, dict) else None
    if errors:
        raise CatalogRequestError(
            f"the query failed: {connection.masked(_spoken(errors))}", status=reply.status
        )
    if not reply.ok:
        raise connection.refusal(reply, what="the query")
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, dict):
        raise ProtocolMismatchError(
            f"{reply.peer} at {reply.url} answered a GraphQL query without data",
            hint="is it a DataHub-compatible service?",
        )
    return data


def _is_json(content: bytes) -> bool:
    return content.lstrip()[:1] == b"{"


def _spoken(errors: object) -> str:
    """Return the messages of GraphQL errors, in order, on one line."""
    listed = errors if isinstance(errors, list) else [errors]
    messages = [
        str(error["message"]) if isinstance(error, dict) and "message" in error else str(error)
        for error in listed
    ]
    return one_line("; ".join(dict.fromkeys(messages)))
