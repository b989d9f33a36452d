"""Running one GraphQL request against the store."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from graphql import (
    DocumentNode,
    ExecutionContext,
    ExecutionResult,
    FieldNode,
    GraphQLError,
    GraphQLObjectType,
    OperationType,
    execute,
    get_operation_ast,
)
from graphql.pyutils import Path

from mlcat_ingest.catalog.errors import CatalogError, ForbiddenError
from mlcat_ingest.catalog.limits import Limits
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.graphql.documents import Documents
from mlcat_ingest.catalog.web.graphql.resolvers.common import Context, Stopped, plain
from mlcat_ingest.catalog.web.graphql.schema import executable_schema
from mlcat_ingest.catalog.web.graphql.variables import with_whole_numbers
from mlcat_ingest.errors import MlcatError, SkippableError

_log = logging.getLogger(__name__)

_CLOCK_EVERY: Final = 256

_UNKNOWN: Final = "SERVER_ERROR"
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

        Cost: about 0.5 ms CPU for one entity when the query was met before; a few SQL statements
        a level of the query, however many entities there are on it.

        Raises:
            ForbiddenError: the operation is a mutation, and the request may not write.
        """
        prepared = self._documents.prepare(request.query)
        if prepared.document is None:
            return _body(None, list(prepared.errors))
        if not request.may_write and not _only_reads(prepared.document, request.operation_name):
            raise ForbiddenError("this token only allows reading")
        schema = executable_schema()
        variables = with_whole_numbers(schema, prepared.document, request.variables)
        try:
            result = execute(
                schema,
                prepared.document,
                context_value=Context(self._store, self._limits),
                variable_values=variables,
                operation_name=request.operation_name,
                field_resolver=plain,
                execution_context_class=_Bounded,
                is_awaitable=_never,
            )
        except Stopped as stopped:
            error = GraphQLError(
                str(stopped), extensions={"code": 400, "type": "QUERY_TOO_COMPLEX"}
            )
            return _body(None, [error])
        if not isinstance(result, ExecutionResult):
            raise TypeError("a resolver is asynchronous")
        return _body(result.data, result.errors or [])


def _only_reads(document: DocumentNode, operation_name: str | None) -> bool:
    operation = get_operation_ast(document, operation_name)
    # Without a name for one of several operations none is run.
    return operation is None or operation.operation is OperationType.QUERY


def _body(data: dict[str, Any] | None, errors: list[GraphQLError]) -> dict[str, Any]:
    body: dict[str, Any] = {"data": data}
    if errors:
        body["errors"] = [_shown(error) for error in errors]
    body["extensions"] = {}
    return body


def _shown(error: GraphQLError) -> dict[str, Any]:
    """Return an error for the client; what nobody foresaw is logged and not shown."""
    cause = error.original_error
    if cause is None or isinstance(cause, GraphQLError):
        shown: dict[str, Any] = dict(error.formatted)
        shown.setdefault("extensions", {"code": 400, "type": "BAD_REQUEST"})
        return shown
    code, known = _code(cause)
    shown = {**error.formatted, "extensions": {"code": code, "type": _TYPES.get(code, _UNKNOWN)}}
    if known:
        return shown
    _log.error("a resolver failed at %s", error.path, exc_info=cause)
    return {**shown, "message": "the server could not read this field"}


def _code(cause: Exception) -> tuple[int, bool]:
    """Return the code of an error, and whether it is one of ours, whose sentence may be shown."""
    match cause:
        case CatalogError():
            return cause.http_status, True
        # A URN or a JSON text that cannot be used is always the client's.
        case SkippableError():
            return 400, True
        case _:
            return 500, isinstance(cause, MlcatError)


def _never(_value: object) -> bool:
    """Say that no resolver of ours is asynchronous, which spares a check a value."""
    return False


class _Bounded(ExecutionContext):
    """An executor that stops after so many values and so much time."""

    values = 0

    def execute_field(
        self,
        parent_type: GraphQLObjectType,
        source: Any,
        field_nodes: list[FieldNode],
        path: Path,
    ) -> Any:
        context: Context = self.context_value
        self.values += 1
        if self.values > context.limits.query_values:
            raise Stopped(f"the answer has more than {context.limits.query_values} values")
        if self.values % _CLOCK_EVERY == 0:
            context.check_time()
        return super().execute_field(parent_type, source, field_nodes, path)
