"""Requests as plain values, parameters and bodies checked by their schemas, and the responses.

On the paths of OpenAPI an error is `{"error": ..., "message": ...}`; a proposal that cannot be
written is a 400 there and a version conflict a 412. Everywhere else it is what Rest.li clients
expect, `{"exceptionClass": ..., "message": ..., "status": ...}`, and both of them are a 422.
"""

import asyncio
import re
from codecs import BOM_UTF8
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl, unquote_to_bytes

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from mlcat_ingest.catalog.errors import (
    AspectRefusedError,
    BadRequestError,
    CatalogError,
    ComputedFieldError,
    ForbiddenError,
    MalformedBodyError,
    RefusedRequestError,
    TooManyRequestsError,
)
from mlcat_ingest.catalog.limits import FORM_BYTES, FORM_FIELD_BYTES, FORM_SECONDS, Limits
from mlcat_ingest.catalog.schema.values import UNKNOWN_ACTOR
from mlcat_ingest.catalog.web.auth import ACTOR, MAY_WRITE
from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import CodecError, SkippableError
from mlcat_ingest.metadata.codec import dumps, loads

READING_METHODS: Final = frozenset({"GET", "HEAD"})
"""The methods of requests without a body; one that is sent all the same is not waited for."""

# A refused body is read on for so many times its limit, so that the client gets to the answer.
_PATIENCE = 4

_PREFIX: Final = re.compile(r"(?:/[\w.~-]+)+", re.ASCII)


@dataclass(frozen=True, slots=True)
class RequestContext:
    """One request, read whole: its query and path parameters decoded, its body as bytes.

    `origin` is the address of the service as the client has it, `prefix` its path. `may_write` is
    false for a request with the reading token; `actor` is the URN of the user who signed in.
    `params` are the parameters that its endpoint declares.
    """

    query: QueryParams = field(default_factory=QueryParams)
    path: Mapping[str, str] = field(default_factory=dict)
    raw_path: bytes = b""
    body: bytes = b""
    method: str = "GET"
    origin: str = ""
    prefix: str = ""
    cookies: Mapping[str, str] = field(default_factory=dict)
    may_write: bool = True
    actor: str = UNKNOWN_ACTOR
    params: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, request: Request, body: bytes = b"") -> "RequestContext":
        """Return the context of `request`, whose body is `body`."""
        prefix = prefix_of(request.scope)
        return cls(
            request.query_params,
            request.path_params,
            request.scope["raw_path"],
            body,
            request.method,
            f"{scheme_of(request)}://{request.headers.get('host', '')}{prefix}",
            prefix,
            request.cookies,
            request.scope.get(MAY_WRITE, True),
            request.scope.get(ACTOR, UNKNOWN_ACTOR),
        )

    def check_may_write(self) -> None:
        """Return if the request may write.

        Raises:
            ForbiddenError: it came with the reading token.
        """
        if not self.may_write:
            raise ForbiddenError("this token only permits reading")

    def json(self) -> Any:
        """Return the body as JSON.

        Raises:
            MalformedBodyError: the body is not JSON, or not UTF-8.
        """
        try:
            return loads(self.body.removeprefix(BOM_UTF8))
        except CodecError as error:
            raise MalformedBodyError(f"the request body is {error}") from error

    def urn_after(self, segment: str) -> str:
        """Return what follows `segment` in the path, percent-decoded exactly once.

        Raises:
            BadRequestError: it is not UTF-8 once decoded.
        """
        return decode_path(self.raw_after(segment))

    def raw_after(self, segment: str) -> bytes:
        """Return what follows `segment` in the path, as it was sent.

        The server's own decoding is no use for a URN: it has lost the difference between `%2F`
        and `/`, and has replaced what is not UTF-8.
        """
        return self.raw_path.partition(segment.encode())[2]


def scheme_of(request: Request) -> str:
    """Return the scheme that the client used, which a proxy may have ended."""
    forwarded = request.headers.get("x-forwarded-proto")
    return forwarded if forwarded in {"http", "https"} else request.scope["scheme"]


def prefix_of(scope: Scope) -> str:
    """Return the path below which a proxy shows the pages, empty without one: `/catalog`."""
    path = Headers(scope=scope).get("x-forwarded-prefix", "").rstrip("/")
    return path if _PREFIX.fullmatch(path) else ""


def decode_path(encoded: bytes) -> str:
    """Return a part of a path percent-decoded once.

    Raises:
        BadRequestError: it is not UTF-8 once decoded, or holds a NUL character.
    """
    try:
        decoded = unquote_to_bytes(encoded).decode()
    except UnicodeDecodeError as error:
        raise BadRequestError("the URN in the path is not UTF-8") from error
    if "\0" in decoded:
        raise BadRequestError("the URN in the path contains a NUL character")
    return decoded


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that is not simply a JSON value with status 200; None means an empty body."""

    status: int = 200
    value: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[[RequestContext], Any]
"""The function of an endpoint: it takes the request and returns a JSON value or an `Answer`."""


def endpoint(handler: Handler, limits: Limits) -> Callable[[Request], Awaitable[Response]]:
    """Return the Starlette endpoint that runs `handler` in a thread, its body limited."""

    async def handle(request: Request) -> Response:
        body = b"" if request.method in READING_METHODS else await _read_body(request, limits)
        return await run_in_threadpool(_respond, handler, RequestContext.of(request, body))

    return handle


def _respond(handler: Handler, request: RequestContext) -> Response:
    result = handler(request)
    if not isinstance(result, Answer):
        return json_response(result)
    if result.value is None:
        return Response(b"", result.status, dict(result.headers))
    return json_response(result.value, result.status, result.headers)


def json_response(
    value: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return `value` as a JSON response."""
    return Response(dumps(value), status, headers, media_type="application/json")


async def _read_body(request: Request, limits: Limits) -> bytes:
    """Return the body of `request`.

    Raises:
        RefusedRequestError: it is longer, or takes longer to arrive, than the limit.
    """
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for part in request.stream():
                size += len(part)
                if size <= limits.body_bytes:
                    parts.append(part)
                elif size > _PATIENCE * limits.body_bytes:
                    break
    except TimeoutError as error:
        raise RefusedRequestError(
            f"the request body did not arrive in time; the limit is {limits.body_seconds:g} s",
            HTTPStatus.REQUEST_TIMEOUT,
        ) from error
    if size > limits.body_bytes:
        raise RefusedRequestError(
            f"the request body is too large; the limit is {plural(limits.body_bytes, 'byte')}",
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            hint="send it in parts",
        )
    return b"".join(parts)


async def read_form(request: Request, limits: Limits, most_bytes: int = FORM_BYTES) -> QueryParams:
    """Return the fields of the form that `request` sends.

    Raises:
        BadRequestError: it has too many fields.
        RefusedRequestError: it is longer than `most_bytes`, or takes longer to arrive than
            `FORM_SECONDS`.
    """
    body = await _read_body(
        request,
        replace(
            limits,
            body_bytes=min(most_bytes, limits.body_bytes),
            body_seconds=min(FORM_SECONDS, limits.body_seconds),
        ),
    )
    try:
        text = body.decode("utf-8", "replace")
        return QueryParams(parse_qsl(text, max_num_fields=most_bytes // FORM_FIELD_BYTES))
    except ValueError as error:
        raise BadRequestError("the form has too many fields") from error


Schema: TypeAlias = Mapping[str, Any]
"""A JSON Schema, as OpenAPI 3.1 has it."""

_SCALARS: Final[Mapping[str, tuple[type, str]]] = {
    "string": (str, "a string"),
    "boolean": (bool, "true or false"),
    "integer": (int, "a whole number"),
}
_SEPARATORS: Final = re.compile("([,()])")
_INTEGER: Final = re.compile("-?[0-9]{1,18}")


def json_object(value: Any, what: str = "the body") -> Mapping[str, Any]:
    """Return `value`, which must be a JSON object.

    Raises:
        BadRequestError: it is something else.
    """
    if not isinstance(value, dict):
        raise BadRequestError(f"{what} must be a JSON object, not {json_type(value)}")
    return value


def json_list(value: Any, what: str, limit: int | None) -> Sequence[Any]:
    """Return `value`, which must be a JSON list, of at most `limit` items if there is one.

    Raises:
        BadRequestError: it is something else, or longer.
    """
    if not isinstance(value, list):
        raise BadRequestError(f"{what} must be a list, not {json_type(value)}")
    if limit is not None and len(value) > limit:
        raise BadRequestError(f"{what} has {plural(len(value), 'item')}; the limit is {limit}")
    return value


def check_count(values: Collection[Any], what: str, limit: int) -> None:
    """Check how many `what` a body has in all, however it spreads them over its items.

    Raises:
        BadRequestError: more than `limit`.
    """
    if len(values) > limit:
        raise BadRequestError(
            f"the body has {len(values)} {what}; the limit is {limit}",
            hint="send it in parts",
        )


def read_value(value: Any, schema: Schema, where: str = "") -> Any:
    """Return a JSON value as `schema` describes it, the body of a request where `where` is empty.

    Of an object with `properties` these are returned: those that are null or absent only where they
    have a `default`; and others only if they have `additionalProperties` as their schema. Checked
    are types, `required`, `maxItems`, `maxLength` and `enum`; a schema without a type, such as a
    reference, takes any value.

    Raises:
        BadRequestError: it is something else; the sentence names the place.
    """
    kind = schema.get("type", "")
    if kind == "object":
        members = json_object(value, where or "the body")
        is_described = "properties" in schema or "additionalProperties" in schema
        return _read_members(members, schema, where) if is_described else members
    if kind == "array":
        items = enumerate(json_list(value, where or "the body", schema.get("maxItems")))
        return [read_value(item, schema["items"], f"{where}[{at}]") for at, item in items]
    if kind == "integer" and "maximum" in schema:
        return whole(value, where)
    if kind in _SCALARS:
        scalar, called = _SCALARS[kind]
        if not isinstance(value, scalar) or (scalar is int and isinstance(value, bool)):
            raise BadRequestError(f"{where}: expected {called}, not {json_type(value)}")
    if "maxLength" in schema and len(value) > schema["maxLength"]:
        raise BadRequestError(f"{where}: longer than {schema['maxLength']} characters")
    if "enum" in schema and value not in schema["enum"]:
        raise BadRequestError(f"{where}: {value!r} is not one of {schema['enum']}")
    return value


def _read_members(members: Mapping[str, Any], schema: Schema, where: str) -> dict[str, Any]:
    read: dict[str, Any] = {}
    properties, within = schema.get("properties", {}), f"{where}." if where else ""
    for name, described in properties.items():
        value, place = members.get(name), f"{within}{name}"
        if name in schema.get("required", ()) and value in (None, ""):
            raise BadRequestError(f"{place}: the parameter is missing")
        if value is not None:
            read[name] = read_value(value, described, place)
        elif "default" in described:
            read[name] = described["default"]
    if "additionalProperties" in schema:
        for name, value in members.items():
            if name not in properties:
                read[name] = read_value(value, schema["additionalProperties"], f"{within}{name}")
    return read


def whole(value: Any, where: str) -> int:
    """Return a whole number, not below zero; texts of digits count as one.

    Raises:
        BadRequestError: it is something else, or beyond 64 bits.
    """
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise BadRequestError(f"{where}: expected a whole number, 0 or more")
    return value


def read_parameter(query: QueryParams, name: str, schema: Schema) -> Any:
    """Return a parameter of the query as the JSON value that `schema` describes; None if absent.

    `true` and `false` may be in any case, and a signed number has at most 18 digits. A list may be
    repeated, and may hold several texts: they are separated by commas, in the `List(a,b)` of
    Rest.li or without it. A comma inside parentheses, as those of a URN, separates nothing.

    Raises:
        BadRequestError: it is no such value.
    """
    text = query.get(name)
    if text is None:
        return None
    if schema["type"] == "array":
        inner = (
            text[5:-1] if text.startswith("List(") and text.endswith(")") else text
            for text in query.getlist(name)
        )
        return [item for text in inner for part in _split(text) if (item := part.strip())]
    if schema["type"] == "boolean":
        if text.lower() not in {"true", "false"}:
            raise BadRequestError(f"{name}: expected true or false, not {text!r}")
        return text.lower() == "true"
    if schema["type"] == "integer" and "maximum" not in schema and text:
        if _INTEGER.fullmatch(text) is None:
            raise BadRequestError(f"{name}: expected a whole number, not {text!r}")
        return int(text)
    return text


def _split(text: str) -> Sequence[str]:
    """Return the parts of `text` between the commas that are not inside parentheses."""
    if "(" not in text:
        return text.split(",")
    parts = [""]
    depth = 0
    for piece in _SEPARATORS.split(text):
        depth += (piece == "(") - (piece == ")")
        if piece == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += piece
    return parts


_KINDS: Final[Mapping[type, str]] = {
    type(None): "null",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "a list",
}


def json_type(value: Any) -> str:
    """Return what `value` is called in JSON."""
    return _KINDS.get(type(value), "an object")


PREFIXES: Final = ("", "/gms", "/api/gms")
"""The prefixes of the endpoints: clients of a gateway put one before every path."""

_EXCEPTION_CLASS: Final = "com.linkedin.restli.server.RestLiServiceException"
_OPENAPI: Final = tuple(f"{prefix}/openapi/" for prefix in PREFIXES)

# What is left of a body that came too late or is too large is not read: its connection is of no
# more use.
_HEADERS: Final[Mapping[int, Mapping[str, str]]] = {
    401: {"WWW-Authenticate": "Bearer"},
    408: {"Connection": "close"},
    413: {"Connection": "close"},
    503: {"Retry-After": "1"},
}


def refusal_of(error: Exception, path: str) -> Answer | None:
    """Return `error` as the answer to a client of `path`; None for a defect of the service."""
    if isinstance(error, CatalogError):
        status = (is_openapi(path) and error.openapi_status) or error.http_status
        headers = dict(_HEADERS.get(status, {}))
        if isinstance(error, TooManyRequestsError):
            headers["Retry-After"] = str(error.retry_after_s)
        return refusal(status, _message_of(error), path, title=error.title, headers=headers)
    # A JSON text or a URN that cannot be used is always the client's.
    return refusal(400, str(error), path) if isinstance(error, SkippableError) else None


def refusal(
    status: int,
    message: str,
    path: str,
    *,
    title: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Return a refusal in the shape of the family that `path` belongs to.

    `title` is the short name of the error, by default that of the HTTP status.
    """
    # A message may quote a lone surrogate from the request.
    text = message.encode("utf-8", "backslashreplace").decode()
    if is_openapi(path):
        error = title or HTTPStatus(status).phrase
        return Answer(status, {"error": error, "message": text}, headers or {})
    body = {"exceptionClass": _EXCEPTION_CLASS, "message": text, "status": status}
    return Answer(status, body, {"X-RestLi-Error-Response": "true", **(headers or {})})


def is_openapi(path: str) -> bool:
    """Return whether `path` is one of the OpenAPI family, a gateway's prefix before it or not."""
    return path.startswith(_OPENAPI)


def _message_of(error: CatalogError) -> str:
    """Return the sentence of an error; of a rule about an aspect, in the form of DataHub 1.7.

    Source: ValidationExceptionCollection and AspectValidationException of DataHub.
    """
    if not isinstance(error, AspectRefusedError):
        return str(error)
    stage, item = "", f"entityUrn={error.urn}, aspectName={error.aspect}, "
    if isinstance(error, ComputedFieldError):
        stage, item = "Failed to validate MCP due to: ", ""
    return (
        f"{stage}ValidationExceptionCollection{{EntityAspect:({error.urn},{error.aspect}) "
        f"Exceptions: [AspectValidationException({item}"
        f"subType={error.subtype}, msg={error.sentence})]}}"
    )
