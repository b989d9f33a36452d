"""The GraphQL endpoint: from an HTTP request to variables, an execution and its answer."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from graphql import (
    ExecutionContext,
    ExecutionResult,
    FieldNode,
    GraphQLBoolean,
    GraphQLError,
    GraphQLInputObjectType,
    GraphQLInt,
    GraphQLList,
    GraphQLObjectType,
    GraphQLSchema,
    GraphQLString,
    OperationDefinitionNode,
    OperationType,
    execute,
    get_nullable_type,
    get_operation_ast,
    type_from_ast,
)
from graphql.pyutils import Path
from starlette.routing import Route

from mlcat_ingest.catalog.errors import BadRequestError, CatalogError, ForbiddenError
from mlcat_ingest.catalog.limits import Limits
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.graphql.queries import Documents
from mlcat_ingest.catalog.web.graphql.resolvers import Context, StopQuery, plain
from mlcat_ingest.catalog.web.graphql.schema import executable_schema
from mlcat_ingest.catalog.web.graphql.wording import ABORTED, query_error, variable_error
from mlcat_ingest.catalog.web.http import RequestContext, endpoint
from mlcat_ingest.catalog.web.params import json_object, optional
from mlcat_ingest.errors import MlcatError, SkippableError
from mlcat_ingest.metadata.codec import dumps

_log = logging.getLogger(__name__)

_CLOCK_EVERY: Final = 256

_FETCHING: Final = {"classification": "DataFetchingException"}

_TYPES: Final = {400: "BAD_REQUEST", 404: "NOT_FOUND", 422: "BAD_REQUEST"}


@dataclass(frozen=True, slots=True)
class Request:
    """The body of a GraphQL request."""

    query: str
    variables: Mapping[str, Any]
    operation_name: str | None = None
    may_write: bool = True


class GraphQLEndpoint:
    """Answers GraphQL requests from one store."""

    def __init__(self, store: Store, limits: Limits) -> None:
        """Answer from `store` within `limits`."""
        self._store = store
        self._limits = limits
        self._documents = Documents(limits)

    def answer(self, request: Request) -> dict[str, Any]:
        """Return the response body: `data`, `errors` only if there are any, empty `extensions`.

        Cost: about 0.5 ms CPU for one entity when the query is in the cache; a few SQL statements
        a level of the query, however many entities there are on it.

        Raises:
            BadRequestError: no operation of the query, or not a single one, is meant.
            ForbiddenError: the operation is a mutation, and the request may not write.
        """
        prepared = self._documents.prepare(request.query)
        if prepared.document is None:
            return _body(None, prepared.errors)
        operation = get_operation_ast(prepared.document, request.operation_name)
        if operation is None:
            raise BadRequestError(
                "operationName: there is no such operation, or the query has several and none is "
                "named"
            )
        if not request.may_write and operation.operation is not OperationType.QUERY:
            raise ForbiddenError("this token only permits reading")
        schema = executable_schema()
        if schema.get_root_type(operation.operation) is None:
            message = f"Schema is not configured for {operation.operation.value}s."
            return _body(None, [query_error(message, "OperationNotSupported", [operation])])
        variables = with_converted_scalars(schema, operation, request.variables)
        try:
            result = execute(
                schema,
                prepared.document,
                context_value=Context(self._store, self._limits),
                variable_values=variables,
                operation_name=request.operation_name,
                field_resolver=plain,
                execution_context_class=_LimitedExecution,
                is_awaitable=_never,
            )
        except StopQuery as stopped:
            return _body(None, [query_error(str(stopped), ABORTED)])
        if not isinstance(result, ExecutionResult):
            raise TypeError("a resolver is asynchronous")
        errors = result.errors or []
        if result.data is None and errors and errors[0].path is None:
            # Nothing was read: the variables do not fit. graphql-java stops at the first.
            errors = [variable_error(errors[0])]
        return _body(result.data, errors)


def _body(data: dict[str, Any] | None, errors: Sequence[GraphQLError]) -> dict[str, Any]:
    shown = {"errors": [_error_object(error) for error in errors]} if errors else {}
    return {"data": data, **shown, "extensions": {}}


def _error_object(error: GraphQLError) -> dict[str, Any]:
    """Return an error for the client; an unexpected exception is logged and not shown."""
    cause = error.original_error
    shown: dict[str, Any] = dict(error.formatted)
    if cause is not None and not isinstance(cause, GraphQLError):
        code = _code(cause)
        shown["extensions"] = {"code": code, "type": _TYPES.get(code, "SERVER_ERROR")}
        if not isinstance(cause, MlcatError):
            _log.error("a resolver failed at %s", error.path, exc_info=cause)
            shown["message"] = "the server could not read this field"
    extensions = shown.setdefault("extensions", {})
    shown["extensions"] = {**extensions, **_FETCHING} if error.path else extensions
    return shown


def _code(cause: Exception) -> int:
    if isinstance(cause, CatalogError):
        return cause.http_status
    # A URN or a JSON text that cannot be used is always the client's.
    return 400 if isinstance(cause, SkippableError) else 500


def _never(_value: object) -> bool:
    """Say that no resolver of ours is asynchronous, which spares a check a value."""
    return False


class _LimitedExecution(ExecutionContext):
    """An executor that stops at the limits of values and time."""

    values = 0

    def execute_field(
        self, parent_type: GraphQLObjectType, source: Any, field_nodes: list[FieldNode], path: Path
    ) -> Any:
        context: Context = self.context_value
        self.values += 1
        if self.values > context.limits.query_values:
            raise StopQuery(
                f"the answer has too many values; the limit is {context.limits.query_values}"
            )
        if self.values % _CLOCK_EVERY == 0:
            context.check_time()
        return super().execute_field(parent_type, source, field_nodes, path)


def with_converted_scalars(
    schema: GraphQLSchema, operation: OperationDefinitionNode, variables: Mapping[str, Any]
) -> dict[str, Any]:
    """Return `variables` with text where a String is asked for, and with numbers for text of them.

    graphql-java converts so, and DataHub's clients count on it; graphql-core alone refuses.
    """
    converted = dict(variables)
    for variable in operation.variable_definitions if converted else ():
        name = variable.variable.name.value
        if name in converted:
            converted[name] = _convert(type_from_ast(schema, variable.type), converted[name])
    return converted


def _convert(wanted: Any, value: Any) -> Any:
    wanted = get_nullable_type(wanted)
    if wanted is GraphQLString and not isinstance(value, str | None):
        return dumps(value).decode()
    if wanted is GraphQLInt and isinstance(value, str):
        with suppress(ValueError):
            return int(value)
    if wanted is GraphQLBoolean and isinstance(value, str):
        return {"true": True, "false": False}.get(value.lower(), value)
    if isinstance(wanted, GraphQLList) and isinstance(value, list):
        return [_convert(wanted.of_type, item) for item in value]
    if isinstance(wanted, GraphQLInputObjectType) and isinstance(value, dict):
        return {
            key: _convert(wanted.fields[key].type, item) if key in wanted.fields else item
            for key, item in value.items()
        }
    return value


def graphql_routes(store: Store, limits: Limits) -> list[Route]:
    """Return the routes that answer GraphQL from `store`.

    A body that is no GraphQL request gets a 400 in the service's error shape; a query that cannot
    be run is answered with 200 and `errors`, as DataHub's clients expect it.
    """
    answers = GraphQLEndpoint(store, limits)

    def graphql(request: RequestContext) -> dict[str, Any]:
        return answers.answer(_request(request))

    handle = endpoint(graphql, limits)
    return [Route(path, handle, methods=["POST"]) for path in ("/api/graphql", "/api/v2/graphql")]


def _request(request: RequestContext) -> Request:
    fields = json_object(request.json())
    if "query" not in fields:
        raise BadRequestError("query: missing")
    operation = optional(fields, "operationName") or None
    variables = {} if fields.get("variables") is None else fields["variables"]
    return Request(
        _query_text(fields["query"]),
        json_object(variables, "variables"),
        operation,
        request.may_write,
    )


def _query_text(query: Any) -> str:
    """Return the text of `query`, whatever it is; DataHub does not ask for a text."""
    if isinstance(query, str):
        return query
    return "" if isinstance(query, dict | list) else dumps(query).decode()
