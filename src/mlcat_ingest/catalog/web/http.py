"""The context of a request as plain values, and the results of handlers as HTTP responses."""

import asyncio
from codecs import BOM_UTF8
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import parse_qsl, unquote_to_bytes

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from mlcat_ingest.catalog.errors import (
    BadRequestError,
    BodyTooLargeError,
    ForbiddenError,
    MalformedBodyError,
    SlowRequestError,
)
from mlcat_ingest.catalog.limits import FORM_BYTES, FORM_SECONDS, Limits
from mlcat_ingest.catalog.web.auth import MAY_WRITE
from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import CodecError
from mlcat_ingest.metadata.codec import dumps, loads

READING_METHODS: Final = frozenset({"GET", "HEAD"})
"""The methods of requests without a body; one that is sent all the same is not waited for."""

# A refused body is read on for so many times its limit, so that the client gets to the answer.
_PATIENCE = 4

_FORM_FIELDS: Final = 10


@dataclass(frozen=True, slots=True)
class RequestContext:
    """One request, read whole: its query and path parameters decoded, its body as bytes.

    `origin` is the address of the service as the client has it. `may_write` is false for a request
    with the reading token.
    """

    query: QueryParams = field(default_factory=QueryParams)
    path: Mapping[str, str] = field(default_factory=dict)
    raw_path: bytes = b""
    body: bytes = b""
    method: str = "GET"
    origin: str = ""
    may_write: bool = True

    @classmethod
    def of(cls, request: Request, body: bytes = b"") -> "RequestContext":
        """Return the context of `request`, whose body is `body`."""
        return cls(
            request.query_params,
            request.path_params,
            request.scope["raw_path"],
            body,
            request.method,
            f"{scheme_of(request)}://{request.headers.get('host', '')}",
            request.scope.get(MAY_WRITE, True),
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
    return forwarded if forwarded in {"http", "https"} else request.url.scheme


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
        body = b"" if request.method in READING_METHODS else await read_body(request, limits)
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


async def read_body(request: Request, limits: Limits) -> bytes:
    """Return the body of `request`.

    Raises:
        BodyTooLargeError: it is longer than the limit.
        SlowRequestError: it takes longer to arrive than the limit.
    """
    try:
        async with asyncio.timeout(limits.body_seconds):
            return await _read_body(request, limits.body_bytes)
    except TimeoutError as error:
        raise SlowRequestError(
            f"the request body did not arrive in time; the limit is {limits.body_seconds:g} s"
        ) from error


async def read_form(request: Request, limits: Limits) -> dict[str, str]:
    """Return the fields of the form that `request` sends.

    Raises:
        BadRequestError: it has too many fields.
        BodyTooLargeError: it is longer than `FORM_BYTES`.
        SlowRequestError: it takes longer to arrive than `FORM_SECONDS`.
    """
    body = await read_body(
        request,
        replace(
            limits,
            body_bytes=min(FORM_BYTES, limits.body_bytes),
            body_seconds=min(FORM_SECONDS, limits.body_seconds),
        ),
    )
    try:
        return dict(parse_qsl(body.decode("utf-8", "replace"), max_num_fields=_FORM_FIELDS))
    except ValueError as error:
        raise BadRequestError("the form has too many fields") from error


async def _read_body(request: Request, limit_bytes: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size <= limit_bytes:
            parts.append(part)
        elif size > _PATIENCE * limit_bytes:
            break
    if size > limit_bytes:
        raise BodyTooLargeError(
            f"the request body is too large; the limit is {plural(limit_bytes, 'byte')}",
            hint="send it in parts",
        )
    return b"".join(parts)
