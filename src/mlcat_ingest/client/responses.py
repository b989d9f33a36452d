"""From a refusal of the catalog service to one of our errors, with the service's own words.

The service has three error shapes: Rest.li's ``{"message", "status", …}``, OpenAPI's
``{"error", "message"?}`` and plain text, among them a web container's HTML page.
"""

import re
from collections.abc import Mapping
from typing import Any

from mlcat_ingest.errors import (
    CatalogRequestError,
    CatalogUnavailableError,
    CodecError,
    MlcatError,
    NotAuthorizedError,
    ProtocolMismatchError,
)
from mlcat_ingest.http import Reply
from mlcat_ingest.metadata.codec import loads

MAX_MESSAGE = 500
"""Longest part of a service's message, in characters, that an error repeats."""

NO_SUCH_CALL = frozenset({404, 405, 501})
"""Statuses of a service that does not have the endpoint at all."""

REFUSED_CONTENT = frozenset({400, 409, 412, 413, 422})
"""Statuses that blame what was sent, so that a smaller part of it may pass."""

_CHANGED = re.compile(r"\bexpected version\b", re.IGNORECASE)

ADDRESS_HINT = "is this the address of a DataHub GMS? try the same address with /gms at its end"

_TAG = re.compile(r"<(script|style)\b.*?</\1\s*>|<[^>]*>", re.IGNORECASE | re.DOTALL)


def server_message(reply: Reply) -> str:
    """Return the service's own words about a refusal, on one line and cut to a length."""
    # Half a MiB of names of characters, which a run without refusals never needs.
    import html

    try:
        body = loads(reply.content)
    except CodecError:
        body = None
    text = _spoken(body) if isinstance(body, dict) else ""
    if not text and body is None:
        decoded = reply.content[: 20 * MAX_MESSAGE].decode("utf-8", "replace")
        text = html.unescape(_TAG.sub(" ", decoded)) if "<" in decoded else decoded
    return one_line(text) or "no message"


def _spoken(body: Mapping[str, Any]) -> str:
    """Return what a JSON error body says, whichever shape it has."""
    error, message = body.get("error"), body.get("message")
    if isinstance(error, str) and isinstance(message, str) and message:
        return f"{error}: {message}"
    return next((part for part in (message, error) if isinstance(part, str)), "")


def one_line(text: str) -> str:
    """Return `text` fit for a log: on one line, without control characters, cut to a length."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= MAX_MESSAGE else line[: MAX_MESSAGE - 1] + "…"


def refusal(reply: Reply, message: str, *, what: str, urn: str | None = None) -> MlcatError:
    """Return the error for a reply that refuses `what` (a noun phrase), about `urn` if one is.

    `message` is `server_message(reply)`, masked by the caller where it could hold a secret.
    """
    about = f" of {urn}" if urn else ""
    sentence = f"{reply.peer} at {reply.url} refused {what}{about} with {reply.status}: {message}"
    context = {"status": reply.status, "urn": urn}
    if reply.status == 403:
        return NotAuthorizedError(
            sentence, hint="the token lacks a permission for this", context=context
        )
    if reply.status >= 500:
        return CatalogUnavailableError(sentence, hint="see the service's log", context=context)
    return CatalogRequestError(sentence, status=reply.status, urn=urn)


def is_conflict(message: str) -> bool:
    """Return whether a refusal says that another version is stored than the proposal names.

    The status of a failed condition differs from server to server; its words do not.

    Source: the failure of DataHub's `If-Version-Match`: "Expected version 3, actual version 5".
    """
    return _CHANGED.search(message) is not None


def wrong_address(reply: Reply, message: str) -> ProtocolMismatchError:
    """Return the error for an address at which the catalog service's endpoints are missing."""
    return ProtocolMismatchError(
        f"{reply.peer} at {reply.url} has no such endpoint ({reply.status}: {message})",
        hint=ADDRESS_HINT,
        context={"status": reply.status},
    )
