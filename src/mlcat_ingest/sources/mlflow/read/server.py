"""Connections to an MLflow tracking server and its registry: requests and error replies."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from email.utils import parsedate_to_datetime
from typing import Any, Final

from mlcat_ingest.core.findings import Finding
from mlcat_ingest.core.pending import UnansweredRequest, longest_pending_request
from mlcat_ingest.errors import (
    MlcatError,
    NotAuthorizedError,
    ProtocolMismatchError,
    SourceUnavailableError,
)
from mlcat_ingest.metadata.codec import dumps
from mlcat_ingest.metadata.naming import DEFAULT_WORKSPACE
from mlcat_ingest.net.http import Http, Reply, is_read_failure
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.signin import PEER, RequestAuth, sign_in
from mlcat_ingest.sources.mlflow.values.uris import (
    has_databricks_scheme,
    normalise_uri,
    registry_of,
)
from mlcat_ingest.sources.paging import ListingPage

NO_SUCH_ENDPOINT: Final = frozenset({404, 405, 501})

API: Final = "/api/2.0/mlflow"
API_3: Final = "/api/3.0/mlflow"
_WORKSPACE_HEADER: Final = "X-MLFLOW-WORKSPACE"


def page_of(reply: Reply, key: str) -> ListingPage[Any]:
    """Return one page of a listing; `key` is where its items are.

    Raises:
        ProtocolMismatchError: the reply holds no listing.
    """
    value = object_of(reply)
    items = value.get(key, [])
    if not isinstance(items, list) or (not items and value.keys() - {key, "next_page_token"}):
        raise ProtocolMismatchError(
            f"{reply.peer} at {reply.url} returned JSON that is not an MLflow listing",
            hint="check that the address is that of an MLflow server",
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
            f"{reply.peer} at {reply.url} returned JSON that is not an object",
            hint="check that the address is that of an MLflow server",
        )
    return value


def raise_for_status(reply: Reply, listing: str) -> Reply:
    """Return a reply that holds a listing.

    Raises:
        NotAuthorizedError: 403.
        ProtocolMismatchError: there is no such endpoint, or the server refuses what is asked.
        SourceUnavailableError: the server failed.
    """
    if reply.ok:
        return reply
    reason = _message(reply)
    if reply.status == 403:
        raise NotAuthorizedError(
            f"{reply.peer} at {reply.url} denied the listing of {listing}{reason}",
            hint="grant the user read access",
        )
    if reply.status >= 500 and reply.status not in NO_SUCH_ENDPOINT:
        raise SourceUnavailableError(
            f"{reply.peer} at {reply.url} failed with {reply.status}{reason}",
            hint="see the server's log",
        )
    if reply.status in NO_SUCH_ENDPOINT and not is_refusal(reply):
        raise ProtocolMismatchError(
            f"no MLflow server at {reply.url}: {reply.status}",
            hint="check `tracking_uri`, including the path prefix of MLflow",
        )
    raise ProtocolMismatchError(
        f"{reply.peer} at {reply.url} refused the listing of {listing} with {reply.status}{reason}"
    )


def reports_missing(reply: Reply) -> bool:
    """Return whether MLflow says that there is no such object, rather than not to us or not now.

    Raises:
        SourceUnavailableError: the server failed.
    """
    if reply.status >= 500 and reply.status not in NO_SUCH_ENDPOINT:
        raise_for_status(reply, "one object by its name")
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


class MlflowServer:
    """The connections to one tracking server and its registry, shared by all workspaces."""

    def __init__(self, config: MlflowConfig) -> None:
        """Prepare the connections of `config`; the first request opens them.

        Raises:
            RecipeError, UnknownPluginError, MissingExtraError: as `sign_in`.
        """
        self.config = config
        self.sign_in = sign_in(config)
        self.tracking = _http(self.sign_in)
        registry = registry_of(config.tracking_uri, config.registry_uri)
        same = _server_of(registry) == _server_of(config.tracking_uri)
        self.registry = self.tracking if same else _http(sign_in(config, uri=registry))
        self.lacking: set[str] = set()
        """Listings that the server said it has not: what it lacks is asked for once."""
        self._workspaces: tuple[str, ...] | None = None
        self.identity: str | None = None
        self._server_date: str | None = None

    def get(
        self, http: Http, path: str, params: list[tuple[str, str]], workspace: str | None
    ) -> Reply:
        """Return the reply to a GET in a workspace, whatever its status."""
        return self._keep_date(
            http.request("GET", path, params=params, headers=self._headers(workspace))
        )

    def post(self, http: Http, path: str, body: Mapping[str, Any], workspace: str | None) -> Reply:
        """Return the reply to a POST of JSON in a workspace, whatever its status."""
        return self._keep_date(
            http.request("POST", path, body=dumps(body), headers=self._headers(workspace))
        )

    def _keep_date(self, reply: Reply) -> Reply:
        self._server_date = reply.headers.get("Date") or self._server_date
        return reply

    def clock_ms(self) -> int:
        """Return the server's time by its last reply; this machine's where it tells none."""
        try:
            date = parsedate_to_datetime(self._server_date or "")
        except ValueError:
            return time.time_ns() // 1_000_000
        return int(date.timestamp() * 1000)

    def _headers(self, workspace: str | None) -> Mapping[str, str] | None:
        return {_WORKSPACE_HEADER: workspace} if workspace is not None else None

    def workspaces(self) -> tuple[str, ...]:
        """Return the names of the server's workspaces, `default` first; asked for once.

        Cost: one request, two where the server has workspaces.
        """
        if self._workspaces is None:
            info = self.get(self.tracking, f"{API_3}/server-info", [], None)
            enabled = info.ok and bool(object_of(info).get("workspaces_enabled"))
            self._workspaces = self._list_workspaces() if enabled else (DEFAULT_WORKSPACE,)
        return self._workspaces

    def _list_workspaces(self) -> tuple[str, ...]:
        reply = self.get(self.tracking, f"{API_3}/workspaces", [], None)
        found = object_of(raise_for_status(reply, "workspaces")).get("workspaces") or []
        names = [item["name"] for item in found]
        return tuple(sorted(names, key=lambda name: (name != DEFAULT_WORKSPACE, name)))

    def version(self) -> str | None:
        """Return the server's version, None where it does not tell."""
        reply = self.get(self.tracking, "/version", [], None)
        text = reply.content.decode("utf-8", "replace").strip()
        return text if reply.ok and not reply.is_page and 0 < len(text) <= 40 else None

    def check_user(self) -> Iterator[Finding]:
        """Yield who MLflow's basic-auth takes the user for; nothing where it is not in use.

        Cost: one request, none without a user name.
        """
        user = self.sign_in.user
        if user is None:
            return
        what = "MLflow user"
        try:
            params = [("username", user)]
            reply = self.get(self.tracking, f"{API}/users/get", params, None)
        except MlcatError as error:
            yield Finding(what, "failed", error.message, error.hint)
            return
        try:
            known = object_of(reply).get("user") if reply.ok else None
        except ProtocolMismatchError:
            known = None  # signed in elsewhere: a proxy in front of a server without users
        if not isinstance(known, dict):
            return
        if known.get("is_admin") is True:
            yield Finding(
                what, "ok", f"{user} is an administrator, with permission to read everything"
            )
            return
        yield Finding(
            what,
            "warning",
            f"{user} is not an administrator: MLflow silently omits objects without READ "
            "permission",
            "grant READ on all objects to ingest, or set `default_permission` to READ",
        )

    def storage(self, url: str) -> Http:
        """Return a connection to a signed address: it needs no credentials, and refuses some."""
        return Http(
            url,
            peer="the file store",
            unavailable=SourceUnavailableError,
            options=replace(self.sign_in.options, auth=None, headers={}),
        )

    def pending_request(self) -> UnansweredRequest | None:
        """Return the request that waits longest for its answer."""
        return longest_pending_request(self.tracking, self.registry)

    def end_waits(self) -> None:
        """End every pause between attempts."""
        self.tracking.end_waits()
        self.registry.end_waits()

    def requests_made(self) -> int:
        """Return the requests sent to the tracking server and the registry."""
        return sum(http.requests_made() for http in {self.tracking, self.registry})

    def close(self) -> None:
        """Close all connections; safe to call twice."""
        self.tracking.close()
        self.registry.close()


def _server_of(uri: str) -> str:
    """Return what two URIs share if they lead to one server."""
    return "databricks" if has_databricks_scheme(uri) else normalise_uri(uri)


def _http(signed: RequestAuth) -> Http:
    return Http(
        signed.url,
        peer=PEER,
        unavailable=SourceUnavailableError,
        options=signed.options,
        # MLflow fails while its own database is locked or restarts; its own client retries it too.
        is_passing=is_read_failure,
    )
