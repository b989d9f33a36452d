"""Connections to an MLflow tracking server and its registry: sign-in, requests, error replies.

Credentials come from the recipe, else MLflow's own variables, else its credentials file. The
recipe comes first, as a whole: a token in the recipe is not mixed with a user name of the
environment. MLflow's plug-ins for request headers and request authentication work where mlflow is
installed, and mlflow is imported only where there are any.
"""

import configparser
import logging
import os
import time
import warnings
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from pydantic import SecretStr
from requests.auth import AuthBase, HTTPBasicAuth

from mlcat_ingest.client.connection import http_options
from mlcat_ingest.core.extras import require_extra
from mlcat_ingest.core.findings import Finding
from mlcat_ingest.errors import (
    MlcatError,
    NotAuthorizedError,
    ProtocolMismatchError,
    SourceUnavailableError,
    UnknownPluginError,
)
from mlcat_ingest.metadata.codec import dumps
from mlcat_ingest.metadata.naming import DEFAULT_WORKSPACE
from mlcat_ingest.net.http import Http, Reply
from mlcat_ingest.net.reachability import Address, reach
from mlcat_ingest.net.session import RETRIED_STATUSES, HttpOptions
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.paging import ListingPage
from mlcat_ingest.sources.mlflow.values.uris import normalise_uri

log = logging.getLogger(__name__)

HEADER_PLUGINS: Final = "mlflow.request_header_provider"

PEER: Final = "the MLflow server"

_TRUE: Final = {"true", "1"}
_PEM_VARIABLES: Final = {
    "ca_bundle": "MLFLOW_TRACKING_SERVER_CERT_PATH",
    "client_cert": "MLFLOW_TRACKING_CLIENT_CERT_PATH",
}

NO_SUCH_ENDPOINT: Final = frozenset({404, 405, 501})

# What MLflow answers while its own database is locked or restarts; its own client retries it too.
_FAILED: Final = 500
API: Final = "/api/2.0/mlflow"
API_3: Final = "/api/3.0/mlflow"
_WORKSPACE_HEADER: Final = "X-MLFLOW-WORKSPACE"


@dataclass(frozen=True, slots=True)
class RequestAuth:
    """The options of requests; `how` says in words how they are authorised, without secrets."""

    options: HttpOptions
    how: str = "no credentials"

    @property
    def user(self) -> str | None:
        """The user name of basic authentication, None for any other way to sign in."""
        auth = self.options.auth
        name = auth.username if isinstance(auth, HTTPBasicAuth) else None
        return name.decode() if isinstance(name, bytes) else name


def sign_in(config: MlflowConfig, environ: Mapping[str, str] | None = None) -> RequestAuth:
    """Return the options of requests to the tracking server of `config`, signed in.

    Raises:
        RecipeError: a password without a user name, or a certificate file that is not there.
        UnknownPluginError: no request-auth plug-in of that name is installed.
        MissingExtraError: a plug-in is asked for and mlflow is not installed.
    """
    env = os.environ if environ is None else environ
    plugin = config.auth or env.get("MLFLOW_TRACKING_AUTH")
    found, how = _credentials(config, env)
    if plugin:
        found, how = dict.fromkeys(found), f"the MLflow plug-in {plugin}"
    complete = config.model_copy(update={**_certificates(config, env), **found})
    options = http_options(complete, peer=PEER, connections=config.connections)
    headers = {**_plugin_headers(), **options.headers}
    auth = _plugin_auth(plugin) if plugin else options.auth
    return RequestAuth(replace(options, auth=auth, headers=headers), how)


def _credentials(config: MlflowConfig, env: Mapping[str, str]) -> tuple[dict[str, Any], str]:
    """Return `token`, `username` and `password`, and in words where they came from."""
    given = {name: getattr(config, name) for name in ("token", "username", "password")}
    if config.token is not None:
        return given, "the recipe's token"
    file = _credentials_file()
    user = env.get("MLFLOW_TRACKING_USERNAME") or file.get("mlflow_tracking_username")
    password = env.get("MLFLOW_TRACKING_PASSWORD") or file.get("mlflow_tracking_password")
    found = {"username": user or None, "password": SecretStr(password) if password else None}
    if config.username is not None or config.password is not None:
        both = {name: given[name] or value for name, value in found.items()}
        return {**given, **both}, "the recipe's user name and password"
    if user and password:
        how = "the user name and password of the environment or ~/.mlflow/credentials"
        return {**given, **found}, how
    token = env.get("MLFLOW_TRACKING_TOKEN", "").strip()
    if token:
        return {**given, "token": SecretStr(token)}, "MLFLOW_TRACKING_TOKEN"
    return given, "no credentials"


def _certificates(config: MlflowConfig, env: Mapping[str, str]) -> dict[str, Any]:
    """Return what the environment says of certificates where `config` does not."""
    update: dict[str, Any] = {}
    if config.verify is None and env.get("MLFLOW_TRACKING_INSECURE_TLS", "").lower() in _TRUE:
        update["verify"] = False
    for option, variable in _PEM_VARIABLES.items():
        if getattr(config, option) is None and (path := env.get(variable)):
            update[option] = Path(path)
    return update


def _credentials_file() -> Mapping[str, str]:
    path = Path("~/.mlflow/credentials").expanduser()
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read(path, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError, OSError):
        # The parser's own words would show the line, and with it a password.
        log.warning("%s cannot be read and is left out", path)
        return {}
    return parser["mlflow"] if parser.has_section("mlflow") else {}


def _plugin_auth(name: str) -> AuthBase:
    require_extra("mlflow", f"the MLflow request-auth plug-in {name!r}")
    from mlflow.tracking.request_auth.registry import fetch_auth

    with warnings.catch_warnings():
        # It warns and goes on unauthenticated; here that is an error.
        warnings.simplefilter("ignore")
        auth: AuthBase | None = fetch_auth(name)  # type: ignore[no-untyped-call]
    if auth is None:
        raise UnknownPluginError(
            f"no MLflow request-auth plug-in is called {name!r}",
            hint="install the package that brings it, or correct `auth` or MLFLOW_TRACKING_AUTH",
        )
    return auth


def _plugin_headers() -> Mapping[str, str]:
    installed = list(metadata.entry_points(group=HEADER_PLUGINS))
    if not installed or find_spec("mlflow") is None:
        return {}
    from mlflow.tracking.request_header.registry import resolve_request_headers

    headers: dict[str, str] = resolve_request_headers()  # type: ignore[no-untyped-call]
    return headers


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
            f"{reply.peer} at {reply.url} does not permit to list {listing}{reason}",
            hint="the user needs read access there",
        )
    if reply.status >= 500 and reply.status not in NO_SUCH_ENDPOINT:
        raise SourceUnavailableError(
            f"{reply.peer} at {reply.url} failed with {reply.status}{reason}",
            hint="its log says why",
        )
    if reply.status in NO_SUCH_ENDPOINT and not is_refusal(reply):
        raise ProtocolMismatchError(
            f"what answers at {reply.url} is no MLflow server: {reply.status}",
            hint="is `tracking_uri` right, with the path that MLflow is served under?",
        )
    raise ProtocolMismatchError(
        f"{reply.peer} at {reply.url} refused to list {listing} with {reply.status}{reason}"
    )


def reports_missing(reply: Reply) -> bool:
    """Return whether MLflow says that there is no such thing, rather than not to us or not now.

    Raises:
        SourceUnavailableError: the server failed.
    """
    if reply.status >= 500 and reply.status not in NO_SUCH_ENDPOINT:
        raise_for_status(reply, "one thing by its name")
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
        """Prepare the connections of `config`; the first request opens them."""
        self.config = config
        self.sign_in = sign_in(config)
        self.tracking = _http(config.tracking_uri, self.sign_in)
        registry = config.registry_uri
        same = registry is None or normalise_uri(registry) == normalise_uri(config.tracking_uri)
        self.registry = self.tracking if registry is None or same else _http(registry, self.sign_in)
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

    def check_reachable(self) -> Generator[Finding, None, bool]:
        """Yield what is found on the way to both; return whether requests may be tried."""
        trust = self.sign_in.options.trust
        if not (yield from reach(Address("MLflow", self.config.tracking_uri, trust))):
            return False
        if self.registry is self.tracking:
            return True
        registry = self.config.registry_uri or ""
        return (yield from reach(Address("MLflow registry", registry, trust)))

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
    return Http(
        url,
        peer=PEER,
        unavailable=SourceUnavailableError,
        options=signed.options,
        retried=RETRIED_STATUSES | {_FAILED},
    )
