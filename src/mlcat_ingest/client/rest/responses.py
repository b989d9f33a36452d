"""From a refusal of the catalog service to one of our errors, with the service's own words.

The service has three error shapes: Rest.li's ``{"message", "status", …}``, OpenAPI's
``{"error", "message"?}`` and plain text, among them a web container's HTML page.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from typing import Final, TypeVar

from mlcat_ingest.core.text import visible_text
from mlcat_ingest.errors import CatalogRequestError, CodecError, ProtocolMismatchError
from mlcat_ingest.metadata.codec import loads
from mlcat_ingest.net.http import Reply, is_read_failure, is_unavailable
from mlcat_ingest.net.session import TIMEOUTS

ItemT = TypeVar("ItemT")
ReplyT = TypeVar("ReplyT")

MAX_MESSAGE = 500
"""Longest part of a service's message, in characters, that an error repeats."""

NO_SUCH_CALL = frozenset({404, 405, 501})
"""Statuses of a service that does not have the endpoint at all."""

REFUSED_CONTENT = frozenset({400, 409, 412, 413, 422})
"""Statuses that blame what was sent, so that a smaller part of it may pass."""

_EXPECTED = r"Expected version -?\d+, actual version -?\d+"
_CONFLICT = re.compile(rf"(?:PRECONDITION )?{_EXPECTED}(?:[\s,;]+{_EXPECTED})*")

# Somebody has deleted what a patch changes.
_NOTHING_TO_PATCH = re.compile(
    r"(?:java\.lang\.\w+: )?Patch not supported for aspect with name \w+\. Default aspect is"
)

# A validator's sentence comes last: "Exceptions: [AspectValidationException(item=…, msg=…)]}",
# where the item holds all of the aspect, or "Exceptions: [PRECONDITION …]}".
_WRAPPED = re.compile(r"Exceptions: \[|AspectValidationException\(|Failed to validate MCP due to: ")
_MARK = re.compile(r"(?:\(|, )(msg)=|(?:\[|, )(?:PRECONDITION|VALIDATION|FILTER|AUTHORIZATION) ")
_END = {"msg": re.compile(r"\)(?:\]\}?)?\s*\Z"), None: re.compile(r"\]\}?\s*\Z")}

# AspectResource names the URN of each proposal that the token may not write.
_DENIED = re.compile(r"HttpStatus: \d+ Urn: (.+?)(?=, HttpStatus: \d+ Urn: |\]?\s*\Z)", re.DOTALL)

# "User urn:li:corpuser:ann is unauthorized to modify entity: HttpStatus: 403 Urn: …", or of other
# calls "urn:li:corpuser:ann is unauthorized to READ entities."
_UNAUTHORIZED = re.compile(r"(?:User )?(urn:li:\w+:\S+) is unauthorized to (\w+)")

# The privileges as DataHub's pages name them, by the verb of a refusal.
_PRIVILEGES: Final = {
    **dict.fromkeys(("modify", "create", "update", "edit"), "Edit Entity"),
    "delete": "Delete",
    **dict.fromkeys(("read", "get", "exists", "view"), "View Entity Page"),
}

TOO_LARGE = re.compile(
    r"size validation failed at \w+: \d+ bytes exceeds|String (?:value )?length \(\d+\) exceeds",
    re.IGNORECASE,
)
"""An aspect is too large, so that it never passes.

Source: `AspectSizeExceededException`; and the JSON parser's own limit on one text."""

COMPUTED_FIELD = re.compile(r"\AIsLatest should not be specified")
"""A field was sent that only the service may set.

DataHub v1.1.0 to v1.4 sets it in what was sent, and refuses that if it has to begin the transaction
anew. Source: `VersionPropertiesValidator` and `VersionPropertiesSideEffect` of DataHub."""

_UNKNOWN_TYPE = re.compile(r"Failed to find entity with name \w+ in EntityRegistry")

_CANNOT_PARSE = "Cannot parse request entity"

TOO_LARGE_HINT = (
    "raise the limit for requests of the proxy in front of the service: `client_max_body_size` of "
    "nginx"
)

ADDRESS_HINT = "check that this is the address of a DataHub GMS; if not, append /gms"


def server_message(reply: Reply) -> str:
    """Return the service's own words about a refusal, on one line and cut to a length.

    Of a validator's refusal that is its sentence, without the Java objects around it; of a 403 of
    DataHub the privilege that is missing, without the URNs of all the entities in the request.
    """
    title, words = _words(reply)
    denied = _UNAUTHORIZED.match(words)
    if denied and (privilege := _PRIVILEGES.get(denied[2].lower())):
        return one_line(f"{denied[1]} lacks {privilege}")
    sentence = _sentence(words)
    return one_line(f"{title}: {sentence}" if title and sentence else title or sentence) or (
        "no message"
    )


def incompatible(sentence: str) -> ProtocolMismatchError:
    """Return the error that a service sent something else than a catalog service sends."""
    return ProtocolMismatchError(sentence, hint="check that it is a DataHub-compatible service")


def is_conflict(reply: Reply) -> bool:
    """Return whether a refusal says that another version is stored than was named, or none.

    All of the refusal counts, however long: the aspect may stand in it, with a description that
    says the same words.

    Source: `ConditionalWriteValidator` and `AspectValidationException` of DataHub.
    """
    if reply.status == HTTPStatus.PRECONDITION_FAILED:
        return True
    _, words = _words(reply)
    sentence = _sentence(words).strip()
    return bool(_CONFLICT.fullmatch(sentence) or _NOTHING_TO_PATCH.match(sentence))


def is_passing_read(reply: Reply) -> bool:
    """Return whether a read failed, unless it asks for an entity type that the service lacks.

    Source: `ConfigEntityRegistry` of DataHub.
    """
    return is_read_failure(reply) and not _UNKNOWN_TYPE.search(_words(reply)[1])


def is_unacknowledged(reply: Reply) -> bool:
    """Return whether to send a write again: the service is away, or a proxy answers in its place.

    Rest.li answers a write with a JSON object that has a `value`. After a timeout the service may
    still work on it.
    """
    if not reply.status < HTTPStatus.MULTIPLE_CHOICES:
        return is_unavailable(reply) and reply.status not in TIMEOUTS
    try:
        body = loads(reply.content)
    except CodecError:
        return True
    return not isinstance(body, dict) or "value" not in body


def is_passing_write(reply: Reply) -> bool:
    """Return whether a write failed for the service's database or search index, or is throttled.

    Source: `RetryLimitReached` of `EbeanAspectDao`, `ESQueryException` of DataHub.
    """
    if reply.status != HTTPStatus.INTERNAL_SERVER_ERROR:
        return is_unacknowledged(reply)
    return any(name in _words(reply)[1] for name in ("RetryLimitReached", "ESQueryException"))


def says(reply: Reply, pattern: re.Pattern[str]) -> bool:
    """Return whether a refusal's sentence has what a pattern looks for."""
    return pattern.search(_sentence(_words(reply)[1])) is not None


def is_unreadable(reply: Reply) -> bool:
    """Return whether a refusal says that the JSON of a request cannot be read.

    DataHub says no more of a text of over 16,000,000 characters.
    """
    return reply.status == HTTPStatus.BAD_REQUEST and _CANNOT_PARSE in _words(reply)[1]


def denied_urns(reply: Reply) -> frozenset[str]:
    """Return the URNs that a 403 names, none where it names none."""
    if reply.status != HTTPStatus.FORBIDDEN:
        return frozenset()
    return frozenset(_DENIED.findall(_words(reply)[1]))


def _words(reply: Reply) -> tuple[str, str]:
    """Return the title of an error, empty for none, and all of its message."""
    try:
        body = loads(reply.content)
    except CodecError:
        return "", visible_text(reply.content)
    if not isinstance(body, dict):
        return "", ""
    error, message = (
        text if isinstance(text := body.get(name), str) else "" for name in ("error", "message")
    )
    return (error, message) if message else ("", error)


def _sentence(message: str) -> str:
    """Return what a validator says at the end of `message`; all of it where no validator speaks."""
    marks = list(_MARK.finditer(message)) if _WRAPPED.search(message) else []
    if not marks:
        return message
    return _END[marks[-1][1]].sub("", message[marks[-1].end() :])


def one_line(text: str) -> str:
    """Return `text` fit for a log: on one line, without control characters, cut to a length."""
    shown = text[: 20 * MAX_MESSAGE]
    line = " ".join("".join(c if c.isprintable() else " " for c in shown).split())
    return line if len(line) <= MAX_MESSAGE else line[: MAX_MESSAGE - 1] + "…"


def in_parts(
    ask: Callable[[Sequence[ItemT]], ReplyT], items: Sequence[ItemT]
) -> Iterator[tuple[Sequence[ItemT], ReplyT]]:
    """Yield what `ask` returns for `items`, in halves of halves where a request is too large.

    Raises:
        CatalogRequestError: the request for a single one is too large, too; and what `ask` raises.
    """
    try:
        reply = ask(items)
    except CatalogRequestError as error:
        if error.status != HTTPStatus.REQUEST_ENTITY_TOO_LARGE or len(items) < 2:
            raise
        middle = len(items) // 2
        yield from in_parts(ask, items[:middle])
        yield from in_parts(ask, items[middle:])
    else:
        yield items, reply
