"""The REST interface of a registry server, `feast serve_registry --rest-api`.

Source: `feast.api.registry.rest` of feast 0.67. It sends parts of messages as JSON: all that this
package reads but `spec.project`.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, urlsplit

from mlcat_ingest.client.connection import http_options
from mlcat_ingest.core.findings import Finding
from mlcat_ingest.core.pending import UnansweredRequest
from mlcat_ingest.core.redaction import redact_url
from mlcat_ingest.errors import NotAuthorizedError, ProtocolMismatchError, SourceUnavailableError
from mlcat_ingest.metadata.codec import dumps
from mlcat_ingest.net.http import Http, Reply, is_read_failure
from mlcat_ingest.net.reachability import Address, reach
from mlcat_ingest.sources.feast.config import FeastConfig
from mlcat_ingest.sources.feast.registry import Kind, RawObject, RegistryTransport

_PEER: Final = "the Feast registry's REST interface"
_ROOT: Final = "/api/v1"
_PAGE: Final = 100

# Each listing: its path, the key of its answer, the kind of its objects unless they say so.
_LISTINGS: Final[tuple[tuple[str, str, Kind], ...]] = (
    ("entities", "entities", "entity"),
    ("data_sources", "dataSources", "data_source"),
    ("feature_views", "featureViews", "feature_view"),
    ("label_views", "featureViews", "label_view"),
    ("feature_services", "featureServices", "feature_service"),
)
_LATE: Final = frozenset({"label_views"})
"""Listings that servers of older versions lack."""

_VIEWS: Final[Mapping[str, Kind]] = {
    "featureView": "feature_view",
    "streamFeatureView": "stream_feature_view",
    "onDemandFeatureView": "on_demand_feature_view",
    "labelView": "label_view",
}


class RestRegistry(RegistryTransport):
    """Reads a registry over REST, project by project."""

    def __init__(self, address: str, config: FeastConfig) -> None:
        """Prepare the HTTP client; no request is sent.

        Raises:
            RecipeError: as `http_options`.
        """
        base = address.rstrip("/")
        if not urlsplit(base).path:
            base += _ROOT
        self.shown = redact_url(base)
        self._url = base
        options = http_options(config, peer=_PEER, connections=1)
        self._trust = options.trust
        self._http = Http(
            base,
            peer=_PEER,
            unavailable=SourceUnavailableError,
            options=options,
            is_passing=is_read_failure,
        )

    def server_id(self) -> str:
        """Return host, port and path."""
        parts = urlsplit(self.shown)
        return f"{parts.netloc.lower()}{parts.path}"

    def objects(self) -> Iterator[RawObject]:
        """Yield every object of every project that the user may see.

        Raises:
            SourceUnavailableError: it does not answer, or its objects changed meanwhile.
            ProtocolMismatchError: it is no such interface; and what `Http.request` raises.

        Cost: a request for each 100 objects of a kind in a project; memory for as many.
        """
        for item in self._items("projects", "projects", []):
            project = str(_part(item, "spec").get("name", ""))
            yield _as_raw("project", item, project)
            for path, key, kind in _LISTINGS:
                seen: set[tuple[str, str]] = set()
                for listed in self._items(path, key, [("project", project)]):
                    raw = _as_raw(_VIEWS.get(str(listed.get("type")), kind), listed, project)
                    if (raw.kind, raw.name) in seen:
                        raise self._change_error(path)
                    seen.add((raw.kind, raw.name))
                    yield raw

    def _items(
        self, path: str, key: str, params: list[tuple[str, str]]
    ) -> Iterator[dict[str, Any]]:
        """Yield the items of a listing, page after page."""
        seen, page = 0, 1
        while True:
            # Without `page`, `limit` counts for nothing; the server's cache may be minutes old.
            paging = [("page", str(page)), ("limit", str(_PAGE)), ("allow_cache", "false")]
            answer = self._get(path, [*params, *paging])
            if answer is None:
                if path in _LATE:
                    return
                raise self._mismatch(f"does not support {path}")
            if key not in answer:
                raise self._mismatch(f"returned no {key} for {path}")
            items = _objects(answer, key)
            yield from items
            seen += len(items)
            count = _part(answer, "pagination").get("totalCount")
            total = count if isinstance(count, int) else seen
            if not items or seen >= total:
                break
            page += 1
        if seen != total:
            raise self._change_error(path)

    def _mismatch(self, what: str) -> ProtocolMismatchError:
        return ProtocolMismatchError(
            f"{_PEER} at {self.shown} {what}",
            hint=f"check that the address ends in {_ROOT} and the server can read its registry",
        )

    def _change_error(self, path: str) -> SourceUnavailableError:
        return SourceUnavailableError(
            f"{path} of {self.shown} changed during the read", hint="try again"
        )

    def _get(self, path: str, params: list[tuple[str, str]]) -> dict[str, Any] | None:
        """Return an answer, None where there is no such listing."""
        reply = self._http.request("GET", f"/{quote(path)}", params=params)
        if reply.status == 404:
            return None
        if reply.status == 403:
            raise NotAuthorizedError(
                f"{_PEER} at {reply.url} denied read access (403)",
                hint="grant the user DESCRIBE on the projects and objects to read",
            )
        if not reply.ok:
            raise SourceUnavailableError(
                f"{_PEER} at {reply.url} failed with {reply.status}: {_reason(reply)}",
                hint="see the server's log",
            )
        answer = reply.json()
        if not isinstance(answer, dict):
            raise self._mismatch(f"did not return a JSON object for {path}")
        return answer

    def pending_request(self) -> UnansweredRequest | None:
        """Return the request that waits longest for its answer."""
        return self._http.pending_request()

    def end_waits(self) -> None:
        """End every pause between attempts."""
        self._http.end_waits()

    def requests_made(self) -> int:
        """Return how many requests were sent."""
        return self._http.requests_made

    def check(self) -> Iterator[Finding]:
        """Yield whether the registry can be reached and read, and the number of its objects."""
        if (yield from reach(Address("Feast", self._url, self._trust))):
            yield from super().check()

    def close(self) -> None:
        """Close connections; safe to call twice."""
        self._http.close()


def _as_raw(kind: Kind, item: Mapping[str, Any], project: str) -> RawObject:
    """Return a JSON object as the message that it was made of."""
    from google.protobuf.json_format import ParseDict, ParseError

    from mlcat_ingest.sources.feast.messages import message_class

    message = message_class(kind)()
    own = item if kind == "data_source" else _part(item, "spec")
    name = str(own.get("name", ""))
    try:
        ParseDict(dict(item), message, ignore_unknown_fields=True)
    except ParseError:
        # No message begins with a brace: it counts as an object that cannot be decoded.
        return RawObject(kind, project, name, dumps(item))
    spec = message if kind == "data_source" else message.spec
    if "project" in spec.DESCRIPTOR.fields_by_name and not spec.project:
        spec.project = project
    return RawObject(kind, project, name, message.SerializeToString())


def _part(item: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    part = item.get(key)
    return part if isinstance(part, dict) else {}


def _objects(answer: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    items = answer.get(key)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _reason(reply: Reply) -> str:
    return " ".join(reply.content[:200].decode("utf-8", "replace").split())
