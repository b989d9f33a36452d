"""Replies of MLflow's REST API, judged: a page of a listing, or one of our errors."""

from collections.abc import Mapping
from typing import Any, Final

from mlcat_ingest.errors import NotAuthorizedError, ProtocolMismatchError, SourceUnavailableError
from mlcat_ingest.net.http import Reply
from mlcat_ingest.sources.mlflow.read.paging import ListingPage

NO_SUCH_ENDPOINT: Final = frozenset({404, 405, 501})


def page_of(reply: Reply, key: str) -> ListingPage[Any]:
    """Return one page of a listing; `key` is where its items are.

    Raises:
        ProtocolMismatchError: the reply holds no listing.
    """
    value = object_of(reply)
    items = value.get(key, [])
    if not isinstance(items, list) or (not items and value.keys() - {key, "next_page_token"}):
        raise ProtocolMismatchError(
            f"{reply.peer} at {reply.url} answered with JSON that is no listing of MLflow",
            hint="is the address that of an MLflow server?",
        )
    return ListingPage(items, value.get("next_page_token") or None)


def object_of(reply: Reply) -> dict[str, Any]:
    """Return the JSON object that a reply holds.

    Raises:
        ProtocolMismatchError: it holds something else.
    """
    value = reply.json()
    if not isinstance(value, dict):
        raise ProtocolMismatchError(
            f"{reply.peer} at {reply.url} answered with JSON that is no object",
            hint="is the address that of an MLflow server?",
        )
    return value


def judged(reply: Reply, listing: str) -> Reply:
    """Return a reply that holds a listing.

    Raises:
        NotAuthorizedError: 403.
        ProtocolMismatchError: there is no such endpoint, or the server refuses what is asked.
        SourceUnavailableError: the server failed.
    """
    if reply.ok:
        return reply
    said = _message(reply)
    if reply.status == 403:
        raise NotAuthorizedError(
            f"{reply.peer} at {reply.url} does not permit to list {listing}{said}",
            hint="the user needs read access there",
        )
    if reply.status >= 500 and reply.status not in NO_SUCH_ENDPOINT:
        raise SourceUnavailableError(
            f"{reply.peer} at {reply.url} failed with {reply.status}{said}",
            hint="its log says why",
        )
    if reply.status in NO_SUCH_ENDPOINT and not is_refusal(reply):
        raise ProtocolMismatchError(
            f"what answers at {reply.url} is no MLflow server: {reply.status}",
            hint="is `tracking_uri` right, with the path that MLflow is served under?",
        )
    raise ProtocolMismatchError(
        f"{reply.peer} at {reply.url} refused to list {listing} with {reply.status}{said}"
    )


def says_none(reply: Reply) -> bool:
    """Return whether MLflow says that there is no such thing, rather than not to us or not now.

    Raises:
        SourceUnavailableError: the server failed.
    """
    if reply.status >= 500 and reply.status not in NO_SUCH_ENDPOINT:
        judged(reply, "one thing by its name")
    return not reply.ok and _error_of(reply).get("error_code") == "RESOURCE_DOES_NOT_EXIST"


def is_refusal(reply: Reply) -> bool:
    """Return whether MLflow itself refused, rather than there being no such endpoint."""
    return _error_of(reply).get("error_code") not in {None, "ENDPOINT_NOT_FOUND"}


def _message(reply: Reply) -> str:
    text = _error_of(reply).get("message")
    return f": {' '.join(text.split())[:300]}" if isinstance(text, str) and text else ""


def _error_of(reply: Reply) -> Mapping[str, Any]:
    try:
        value = reply.json()
    except ProtocolMismatchError:
        return {}
    return value if isinstance(value, dict) else {}
