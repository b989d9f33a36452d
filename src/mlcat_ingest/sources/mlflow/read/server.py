"""The connections to an MLflow tracking server and its registry, shared by its workspaces."""

import time
from collections.abc import Generator, Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final

from mlcat_ingest.core.findings import Finding
from mlcat_ingest.errors import MlcatError, ProtocolMismatchError, SourceUnavailableError
from mlcat_ingest.metadata.codec import dumps
from mlcat_ingest.metadata.naming import DEFAULT_WORKSPACE
from mlcat_ingest.net.http import Http, Reply
from mlcat_ingest.net.reachability import Address, reach
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.auth import PEER, RequestAuth, sign_in
from mlcat_ingest.sources.mlflow.read.replies import judged, object_of
from mlcat_ingest.sources.mlflow.values.uris import normalised

API: Final = "/api/2.0/mlflow"
API_3: Final = "/api/3.0/mlflow"

_WORKSPACE_HEADER: Final = "X-MLFLOW-WORKSPACE"


class MlflowServer:
    """The connections to one tracking server and its registry, shared by all workspaces."""

    def __init__(self, config: MlflowConfig) -> None:
        """Prepare the connections; nothing is contacted yet."""
        self.config = config
        self.sign_in = sign_in(config)
        self.tracking = _http(config.tracking_uri, self.sign_in)
        registry = config.registry_uri
        same = registry is None or normalised(registry) == normalised(config.tracking_uri)
        self.registry = self.tracking if registry is None or same else _http(registry, self.sign_in)
        self._workspaces: tuple[str, ...] | None = None
        self.identity: str | None = None
        self._said: str | None = None

    def get(
        self, http: Http, path: str, params: list[tuple[str, str]], workspace: str | None
    ) -> Reply:
        """Return the reply to a GET in a workspace, whatever its status."""
        return self._heard(
            http.request("GET", path, params=params, headers=self._headers(workspace))
        )

    def post(self, http: Http, path: str, body: Mapping[str, Any], workspace: str | None) -> Reply:
        """Return the reply to a POST of JSON in a workspace, whatever its status."""
        return self._heard(
            http.request("POST", path, body=dumps(body), headers=self._headers(workspace))
        )

    def _heard(self, reply: Reply) -> Reply:
        self._said = reply.headers.get("Date") or self._said
        return reply

    def clock_ms(self) -> int:
        """Return the time that the last reply told; this machine's where none did."""
        try:
            told = parsedate_to_datetime(self._said or "")
        except ValueError:
            return time.time_ns() // 1_000_000
        return int(told.timestamp() * 1000)

    def _headers(self, workspace: str | None) -> Mapping[str, str] | None:
        return {_WORKSPACE_HEADER: workspace} if workspace is not None else None

    def workspaces(self) -> tuple[str, ...]:
        """Return the names of the server's workspaces, `default` first; asked for once.

        Cost: one request, two where the server has workspaces.
        """
        if self._workspaces is None:
            info = self.get(self.tracking, f"{API_3}/server-info", [], None)
            enabled = info.ok and bool(object_of(info).get("workspaces_enabled"))
            self._workspaces = self._listed() if enabled else (DEFAULT_WORKSPACE,)
        return self._workspaces

    def _listed(self) -> tuple[str, ...]:
        reply = self.get(self.tracking, f"{API_3}/workspaces", [], None)
        found = object_of(judged(reply, "workspaces")).get("workspaces") or []
        names = [item["name"] for item in found]
        return tuple(sorted(names, key=lambda name: (name != DEFAULT_WORKSPACE, name)))

    def version(self) -> str | None:
        """Return the server's version, None where it does not tell."""
        reply = self.get(self.tracking, "/version", [], None)
        text = reply.content.decode("utf-8", "replace").strip()
        return text if reply.ok and not reply.is_page and 0 < len(text) <= 40 else None

    def reached(self) -> Generator[Finding, None, bool]:
        """Yield what is found on the way to both; return whether requests may be tried."""
        trust = self.sign_in.options.trust
        if not (yield from reach(Address("MLflow", self.config.tracking_uri, trust))):
            return False
        if self.registry is self.tracking:
            return True
        registry = self.config.registry_uri or ""
        return (yield from reach(Address("MLflow registry", registry, trust)))

    def signed_in_as(self) -> Iterator[Finding]:
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
            yield Finding(what, "ok", f"{user} is an administrator, who may read everything")
            return
        yield Finding(
            what,
            "warning",
            f"{user} is no administrator: MLflow leaves out, without a word, what {user} may "
            "not read",
            "grant READ on all that the catalog shall hold, or make `default_permission` READ",
        )

    def requests_made(self) -> int:
        """Return the requests sent to the tracking server and the registry."""
        http = {self.tracking, self.registry}
        return sum(each.requests_made for each in http)

    def close(self) -> None:
        """Close all connections; safe to call twice."""
        self.tracking.close()
        self.registry.close()


def _http(url: str, signed: RequestAuth) -> Http:
    return Http(url, peer=PEER, unavailable=SourceUnavailableError, options=signed.options)
