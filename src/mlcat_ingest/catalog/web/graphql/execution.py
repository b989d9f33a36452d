"""The GraphQL endpoint: from an HTTP request to a checked document, an execution and its answer.

Documents are parsed and validated once; the cache makes a repeated query cheap. The limits on their
complexity are those of DataHub's server: tokens, fields as they are written, and depth with
fragments in their place. DataHub's clients spread the same fragments for forty entity types, so
that the fields are few and the places many.

Before validation the complexity check spreads the document out as an executor would do it:
fragments in their place, selections of the same answer key merged. That bounds its depth, and how
often one key is asked for twice, which graphql-core compares pair by pair. A selection that several
spreads bring to the same place counts there once, as it is compared and answered once. That
introspection goes in no circles through the lists of the schema is a rule of graphql-core.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLBoolean,
    GraphQLError,
    GraphQLInputObjectType,
    GraphQLInt,
    GraphQLList,
    GraphQLResolveInfo,
    GraphQLSchema,
    GraphQLString,
    GraphQLSyntaxError,
    InlineFragmentNode,
    OperationDefinitionNode,
    OperationType,
    SelectionSetNode,
    execute_sync,
    get_nullable_type,
    get_operation_ast,
    parse,
    type_from_ast,
    validate,
)
from starlette.routing import Route

from mlcat_ingest.catalog.errors import (
    BadRequestError,
    CatalogError,
    ForbiddenError,
)
from mlcat_ingest.catalog.limits import DEFAULT_LIMITS, Limits
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.graphql.resolvers import Context, StopQuery, context_of, plain
from mlcat_ingest.catalog.web.graphql.schema import executable_schema
from mlcat_ingest.catalog.web.graphql.wording import (
    ABORTED,
    SYNTAX,
    query_error,
    syntax_error,
    validation_errors,
    variable_error,
)
from mlcat_ingest.catalog.web.http import RequestContext, Schema, endpoint, json_object, read_value
from mlcat_ingest.errors import MlcatError, SkippableError
from mlcat_ingest.metadata.codec import dumps

MAX_SCHEMA_DEPTH: Final = 50
"""Deepest nesting of an introspection query, in fields."""

MAX_PAIRS: Final = 200_000
"""Most pairs of selections with the same answer key, over the whole document; each takes some 5 µs.

Fragments for forty entity types that select the same fields have them by the ten thousand.
"""

MAX_REPEATS: Final = 100_000
"""Most fields and spreads that are met while fragments are spread out, repeated ones too."""

_INTROSPECTION: Final = frozenset({"__schema", "__type"})


def _check_complexity(document: DocumentNode, limits: Limits) -> None:
    """Check every operation of `document`, and every fragment that none of them uses.

    Raises:
        StopQuery: a limit is passed; the sentence names it.

    Cost: linear in the limits, however large the document would be when spread out.
    """
    written = _fields_written(document)
    if written > limits.query_fields:
        raise StopQuery(f"maximum query complexity exceeded {written} > {limits.query_fields}")
    _Check(document, limits).run()


def _fields_written(document: DocumentNode) -> int:
    pending = [getattr(definition, "selection_set", None) for definition in document.definitions]
    count = 0
    while pending:
        selected = pending.pop()
        for selection in selected.selections if selected else ():
            count += isinstance(selection, FieldNode)
            pending.append(getattr(selection, "selection_set", None))
    return count


class _Check:
    def __init__(self, document: DocumentNode, limits: Limits) -> None:
        self._limits = limits
        self._document = document
        self._fragments = {
            definition.name.value: definition
            for definition in document.definitions
            if isinstance(definition, FragmentDefinitionNode)
        }
        self._used: set[str] = set()
        self._met = self._pairs = 0

    def run(self) -> None:
        for definition in self._document.definitions:
            if isinstance(definition, OperationDefinitionNode):
                self._visit([definition.selection_set], 1, self._limits.query_depth)
        for name, fragment in self._fragments.items():
            if name not in self._used:
                self._visit([fragment.selection_set], 1, self._limits.query_depth)

    def _visit(self, sets: Sequence[SelectionSetNode], depth: int, most: int) -> None:
        if depth > most:
            raise StopQuery(f"maximum query depth exceeded {depth} > {most}")
        for fields in self._merge(sets):
            self._pairs += len(fields) * (len(fields) - 1) // 2
            if self._pairs > MAX_PAIRS:
                raise StopQuery("the query repeats the same fields too often")
            if below := [field.selection_set for field in fields if field.selection_set]:
                is_introspection = fields[0].name.value in _INTROSPECTION
                self._visit(below, depth + 1, MAX_SCHEMA_DEPTH if is_introspection else most)

    def _merge(self, sets: Sequence[SelectionSetNode]) -> list[list[FieldNode]]:
        """Return the fields of selection sets by their answer keys, each field once."""
        merged: dict[str, dict[int, FieldNode]] = {}
        for selected in sets:
            for field in self._spread(selected, set()):
                key = field.alias.value if field.alias else field.name.value
                merged.setdefault(key, {})[id(field)] = field
        return [list(fields.values()) for fields in merged.values()]

    def _spread(self, selected: SelectionSetNode, active: set[str]) -> Iterator[FieldNode]:
        """Yield the fields of a selection set, those of its fragments in their place."""
        for selection in selected.selections:
            self._met += 1
            if self._met > MAX_REPEATS:
                raise StopQuery("the query repeats its fragments too often")
            if isinstance(selection, FieldNode):
                yield selection
            elif isinstance(selection, InlineFragmentNode):
                yield from self._spread(selection.selection_set, active)
            elif isinstance(selection, FragmentSpreadNode):
                yield from self._spread_named(selection.name.value, active)

    def _spread_named(self, name: str, active: set[str]) -> Iterator[FieldNode]:
        fragment = self._fragments.get(name)
        self._used.add(name)
        # Circles and unknown names are reported by validation.
        if fragment is not None and name not in active:
            yield from self._spread(fragment.selection_set, active | {name})


CACHED_CHARS: Final = 60_000
"""Longest query that the cache holds; those of DataHub's pages have 46,000 characters."""

_CACHED_QUERIES: Final = 64

_MAX_ERRORS: Final = 100
_TOO_MANY_TOKENS: Final = "tokens. Parsing aborted"


@dataclass(frozen=True, slots=True)
class _PreparedQuery:
    """A query that is ready to run, or the errors that it is refused with."""

    document: DocumentNode | None
    errors: tuple[GraphQLError, ...] = ()


def prepare(query: str, limits: Limits) -> _PreparedQuery:
    """Return `query` parsed, checked and validated, from the cache if it is there.

    Cost: 2 ms or so for a query of 40 fields that is not in the cache, else nothing.
    """
    return (_prepare if len(query) > CACHED_CHARS else _cached)(query, limits)


def _prepare(query: str, limits: Limits) -> _PreparedQuery:
    if len(query) > limits.query_chars:
        return _PreparedQuery(None, (_too_long(limits.query_chars, "characters"),))
    try:
        document = parse(query, max_lexical_tokens=limits.query_tokens)
        _check_complexity(document, limits)
        errors = validate(executable_schema(), document, max_errors=_MAX_ERRORS)
    except GraphQLSyntaxError as error:
        too_long = _TOO_MANY_TOKENS in error.message
        refusal = _too_long(limits.query_tokens, "'grammar' tokens") if too_long else None
        return _PreparedQuery(None, (refusal or syntax_error(query, error),))
    except StopQuery as error:
        return _PreparedQuery(None, (query_error(str(error), ABORTED),))
    except RecursionError:
        return _PreparedQuery(None, (query_error("the query is nested too deeply", ABORTED),))
    if errors:
        return _PreparedQuery(None, validation_errors(document, errors))
    return _PreparedQuery(document)


_cached = lru_cache(_CACHED_QUERIES)(_prepare)


def _too_long(limit: int, unit: str) -> GraphQLError:
    return query_error(
        f"More than {limit:,} {unit} have been presented. To prevent Denial Of Service attacks, "
        "parsing has been cancelled.",
        SYNTAX,
    )


_log = logging.getLogger(__name__)

_CLOCK_EVERY: Final = 256

_FETCHING: Final = {"classification": "DataFetchingException"}

_TYPES: Final = {400: "BAD_REQUEST", 404: "NOT_FOUND", 422: "BAD_REQUEST"}


def answer(
    store: Store,
    query: str,
    variables: Mapping[str, Any],
    *,
    limits: Limits = DEFAULT_LIMITS,
    operation_name: str | None = None,
    may_write: bool = True,
) -> dict[str, Any]:
    """Return the response body: `data`, `errors` only if there are any, empty `extensions`.

    Cost: about 0.5 ms CPU for one entity when the query is in the cache; a few SQL statements a
    level of the query, however many entities there are on it.

    Raises:
        BadRequestError: no operation of the query, or not a single one, is meant.
        ForbiddenError: the operation is a mutation, and the request may not write.
    """
    prepared = prepare(query, limits)
    if prepared.document is None:
        return _body(None, prepared.errors)
    operation = get_operation_ast(prepared.document, operation_name)
    if operation is None:
        raise BadRequestError(
            "operationName: there is no such operation, or the query has several and none is named"
        )
    if not may_write and operation.operation is not OperationType.QUERY:
        raise ForbiddenError("this token only permits reading")
    schema = executable_schema()
    if schema.get_root_type(operation.operation) is None:
        message = f"Schema is not configured for {operation.operation.value}s."
        return _body(None, [query_error(message, "OperationNotSupported", [operation])])
    try:
        result = execute_sync(
            schema,
            prepared.document,
            context_value=Context(store, limits),
            variable_values=_with_converted_scalars(schema, operation, variables),
            operation_name=operation_name,
            field_resolver=plain,
            middleware=[_LimitedResolution()],
        )
    except StopQuery as stopped:
        return _body(None, [query_error(str(stopped), ABORTED)])
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


class _LimitedResolution:
    """Stops an execution at the limits of values and time: each field is resolved through it."""

    def __init__(self) -> None:
        self._values = 0

    def resolve(
        self, resolver: Callable[..., Any], source: Any, info: GraphQLResolveInfo, **given: Any
    ) -> Any:
        """Return what `resolver` gives; the name is that of graphql-core."""
        context = context_of(info)
        self._values += 1
        if self._values > context.limits.query_values:
            raise StopQuery(
                f"the answer has too many values; the limit is {context.limits.query_values}"
            )
        if self._values % _CLOCK_EVERY == 0:
            context.check_time()
        return resolver(source, info, **given)


def _with_converted_scalars(
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

    def graphql(request: RequestContext) -> dict[str, Any]:
        fields = json_object(request.json())
        if "query" not in fields:
            raise BadRequestError("query: missing")
        others = read_value(fields, _OTHERS)
        return answer(
            store,
            _query_text(fields["query"]),
            others["variables"],
            limits=limits,
            operation_name=others.get("operationName") or None,
            may_write=request.may_write,
        )

    handle = endpoint(graphql, limits)
    return [Route(path, handle, methods=["POST"]) for path in ("/api/graphql", "/api/v2/graphql")]


_OTHERS: Final[Schema] = {
    "type": "object",
    "properties": {
        "operationName": {"type": "string"},
        "variables": {"type": "object", "default": {}},
    },
}
"""What a request has beside its query."""


def _query_text(query: Any) -> str:
    """Return the text of `query`, whatever it is; DataHub does not ask for a text."""
    if isinstance(query, str):
        return query
    return "" if isinstance(query, dict | list) else dumps(query).decode()
