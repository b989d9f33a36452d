"""Sign-in to an MLflow server: credentials of the recipe, of MLflow's variables, of Databricks.

Credentials come from the recipe, else MLflow's own variables, else its credentials file. The
recipe comes first, as a whole: a token in the recipe is not mixed with a user name of the
environment. One of MLflow's plug-ins for request headers or request authentication is used where
`auth` or a variable names it, and only then is mlflow imported. Databricks has variables
DATABRICKS_*, and OAuth tokens for a client.

Source: `databricks.sdk.config` of databricks-sdk 0.156.
"""

import configparser
import logging
import os
import threading
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import requests
from pydantic import SecretStr
from requests.auth import AuthBase, HTTPBasicAuth

from mlcat_ingest.core.environment import require_extra
from mlcat_ingest.errors import (
    AuthenticationError,
    RecipeError,
    SourceUnavailableError,
    UnknownPluginError,
)
from mlcat_ingest.net.http import Http, Reply
from mlcat_ingest.net.session import HttpOptions
from mlcat_ingest.recipe.http_options import http_options
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.values.uris import has_databricks_scheme

_CURE: Final = (
    "set DATABRICKS_HOST with DATABRICKS_TOKEN, or with DATABRICKS_CLIENT_ID and "
    "DATABRICKS_CLIENT_SECRET"
)
_TOKEN_PATH: Final = "/oidc/v1/token"  # noqa: S105 - an address
_GRANT: Final = urlencode({"grant_type": "client_credentials", "scope": "all-apis"}).encode()
_RENEW_BEFORE_S: Final = 60.0

log = logging.getLogger(__name__)

HEADER_PLUGINS: Final = "mlflow.request_header_provider"

PEER: Final = "the MLflow server"

_BASIC: Final = ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD")

_TRUE: Final = {"true", "1"}

_WORKSPACE_ID_HEADER: Final = "x-databricks-org-id"

_PEM_VARIABLES: Final = {
    "ca_bundle": "MLFLOW_TRACKING_SERVER_CERT_PATH",
    "client_cert": "MLFLOW_TRACKING_CLIENT_CERT_PATH",
}


@dataclass(frozen=True, slots=True)
class DatabricksAccount:
    """A Databricks workspace and the credentials for it."""

    url: str
    workspace_id: str | None = None
    client_id: str | None = None
    token: str | None = field(default=None, repr=False)
    client_secret: str | None = field(default=None, repr=False)

    @property
    def address(self) -> str:
        """The address of the workspace in a browser: one host may serve several."""
        return f"{self.url}?o={self.workspace_id}" if self.workspace_id else self.url


def find_account(
    uri: str, env: Mapping[str, str], *, signed_in: bool = False
) -> DatabricksAccount | None:
    """Return the workspace of the variables in `env`, None where `uri` is none of Databricks.

    With `signed_in` a token comes from elsewhere, and the address is enough.

    Raises:
        RecipeError: `uri` names a profile, or there is no address, or there are no credentials.
    """
    if not has_databricks_scheme(uri):
        return None
    if "://" in uri:
        raise RecipeError(
            f"{uri}: profiles and secret scopes of Databricks are not read",
            hint=f"use {uri.partition(':')[0]} and {_CURE}; or `reader: client`",
        )
    host, token, client_id, secret, workspace_id = (
        env.get(f"DATABRICKS_{name}", "").strip() or None
        for name in ("HOST", "TOKEN", "CLIENT_ID", "CLIENT_SECRET", "WORKSPACE_ID")
    )
    if host is None:
        raise RecipeError("no credentials for Databricks: DATABRICKS_HOST is not set", hint=_CURE)
    if not (signed_in or token or (client_id and secret)):
        raise RecipeError(
            "no credentials for Databricks: neither a token nor a client id with its secret",
            hint=f"{_CURE}; for other ways to sign in, use the output of `databricks auth token`",
        )
    return DatabricksAccount(_base_url(host), workspace_id, client_id, token, secret)


def _base_url(host: str) -> str:
    text = host if "://" in host else f"https://{host}"
    try:
        parts = urlsplit(text)
        if parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0:
            return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    except ValueError:
        pass  # brackets or a port that no address has
    raise RecipeError("DATABRICKS_HOST is not a valid address", hint=_CURE)


class OAuthToken(AuthBase):
    """Signs requests with a token of the OAuth client-credentials flow, and shows it nowhere.

    A token is renewed before it ends, and once for each request that is refused with 401. Safe to
    use from several threads.

    Source: RFC 6749, section 4.4; https://docs.databricks.com/dev-tools/auth/oauth-m2m.
    """

    def __init__(self, account: DatabricksAccount, options: HttpOptions) -> None:
        """Prepare the connection to the token endpoint; nothing is contacted yet."""
        secret = (account.client_secret or "").encode()
        basic = HTTPBasicAuth((account.client_id or "").encode(), secret)
        self._account = account
        self._http = Http(
            account.url,
            peer="Databricks",
            unavailable=SourceUnavailableError,
            options=replace(options, auth=basic, headers={}),
        )
        self._lock = threading.Lock()
        self._token = ""
        self._renew_at_s = 0.0

    def __call__(self, r: requests.PreparedRequest) -> requests.PreparedRequest:
        """Return the request with a token that is valid."""
        self._sign(r, self._valid(refused=None))
        r.register_hook("response", self._try_once_more)  # type: ignore[no-untyped-call]
        return r

    def __repr__(self) -> str:
        return "OAuthToken(***)"

    def _try_once_more(self, response: requests.Response, **kwargs: Any) -> requests.Response:
        refused = response.request.headers.get("Authorization", "").removeprefix("Bearer ")
        if response.status_code != requests.codes.unauthorized or not refused:
            return response
        # The body has to be read before its connection can be used again.
        _ = response.content
        response.close()
        request = response.request.copy()
        self._sign(request, self._valid(refused=refused))
        again: requests.Response = response.connection.send(request, **kwargs)
        again.history.append(response)
        again.request = request
        return again

    @staticmethod
    def _sign(request: requests.PreparedRequest, token: str) -> None:
        request.headers["Authorization"] = f"Bearer {token}"

    def _valid(self, *, refused: str | None) -> str:
        """Return a token; a new one where there is none, it ends soon, or it is `refused`."""
        with self._lock:
            if self._token == (refused or "") or time.monotonic() >= self._renew_at_s:
                self._token, lasts_s = self._ask()
                self._renew_at_s = time.monotonic() + max(lasts_s - _RENEW_BEFORE_S, lasts_s / 2)
            return self._token

    def _ask(self) -> tuple[str, float]:
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        try:
            reply = self._http.request("POST", _TOKEN_PATH, body=_GRANT, headers=headers)
        except AuthenticationError as error:
            raise self._refusal(error.message) from error
        finally:
            self._http.close()  # the next time is an hour away
        value = reply.json() if reply.ok else {}
        try:
            return str(value["access_token"]), float(value["expires_in"])
        except (KeyError, TypeError, ValueError):
            raise self._refusal(_words(reply)) from None

    def _refusal(self, reason: str) -> AuthenticationError:
        return AuthenticationError(
            f"Databricks refused a token to the client {self._account.client_id}: {reason}",
            hint="check DATABRICKS_CLIENT_ID and DATABRICKS_CLIENT_SECRET",
        )


def _words(reply: Reply) -> str:
    """Return the text of a refusal by the token endpoint, without what was sent to it."""
    code = reply.json().get("error") if reply.content[:1] == b"{" else None
    return f"{reply.url} answered {reply.status}" + (f" ({code})" if code else "")


@dataclass(frozen=True, slots=True)
class RequestAuth:
    """The address of a server and the options of requests to it.

    `how` describes in words how they are authorised, without secrets.
    """

    url: str
    options: HttpOptions
    how: str = "no credentials"
    account: DatabricksAccount | None = None

    @property
    def user(self) -> str | None:
        """The user name of basic authentication, None for any other way to sign in."""
        auth = self.options.auth
        name = auth.username if isinstance(auth, HTTPBasicAuth) else None
        return name.decode() if isinstance(name, bytes) else name


def sign_in(
    config: MlflowConfig, environ: Mapping[str, str] | None = None, *, uri: str | None = None
) -> RequestAuth:
    """Return the options of requests to `uri`, else the tracking server of `config`, signed in.

    Raises:
        RecipeError: a password without a user name, a certificate file that is not there, or what
            `find_account` raises; a user name or plug-in for Databricks.
        UnknownPluginError: no plug-in of that name is installed.
        MissingExtraError: a plug-in is asked for and mlflow is not installed.
    """
    env = os.environ if environ is None else environ
    url = uri or config.tracking_uri
    account = find_account(url, env, signed_in=config.token is not None)
    if account is not None:
        return _to_databricks(account, config, env)
    plugin = config.auth or env.get("MLFLOW_TRACKING_AUTH")
    auth, headers = _plugin(plugin) if plugin else (None, {})
    credentials, how = _credentials(config, env)
    if auth is not None:
        credentials = dict.fromkeys(credentials)
    complete = config.model_copy(update={**_certificates(config, env), **credentials})
    options = http_options(complete, peer=PEER, connections=config.connections)
    options = replace(
        options,
        auth=auth or options.auth,
        variables=_BASIC,
        headers={**headers, **options.headers},
    )
    return RequestAuth(url, options, f"the MLflow plug-in {plugin}" if plugin else how)


def _to_databricks(
    account: DatabricksAccount, config: MlflowConfig, env: Mapping[str, str]
) -> RequestAuth:
    if config.auth or config.username or config.password:
        raise RecipeError(
            "`auth`, `username` and `password` cannot be used with Databricks",
            hint="set `token`, or the variables DATABRICKS_TOKEN or DATABRICKS_CLIENT_ID",
        )
    token, how = config.token, "the recipe's token"
    if token is None and account.token:
        token, how = SecretStr(account.token), "DATABRICKS_TOKEN"
    given = {"token": token, "username": None, "password": None}
    complete = config.model_copy(update={**_certificates(config, env), **given})
    options = http_options(complete, peer=PEER, connections=config.connections)
    if account.workspace_id:
        headers = {_WORKSPACE_ID_HEADER: account.workspace_id, **options.headers}
        options = replace(options, headers=headers)
    if token is None:
        how = f"OAuth of the client {account.client_id}"
        options = replace(options, auth=OAuthToken(account, options))
    return RequestAuth(account.url, options, how, account)


def _credentials(config: MlflowConfig, env: Mapping[str, str]) -> tuple[dict[str, Any], str]:
    """Return `token`, `username` and `password`, and in words where they came from."""
    given = {name: getattr(config, name) for name in ("token", "username", "password")}
    if config.token is not None:
        return given, "the recipe's token"
    file = _credentials_file()
    user, password = (env.get(name) or file.get(name.lower()) for name in _BASIC)
    basic = {"username": user or None, "password": SecretStr(password) if password else None}
    if config.username is not None or config.password is not None:
        both = {name: given[name] or value for name, value in basic.items()}
        return {**given, **both}, "the recipe's user name and password"
    if user and password:
        how = "the user name and password in the environment or ~/.mlflow/credentials"
        return {**given, **basic}, how
    token = env.get("MLFLOW_TRACKING_TOKEN", "").strip()
    if token:
        return {**given, "token": SecretStr(token)}, "MLFLOW_TRACKING_TOKEN"
    return given, "no credentials"


def _certificates(config: MlflowConfig, env: Mapping[str, str]) -> dict[str, Any]:
    """Return certificates from the environment for those that `config` does not set."""
    update: dict[str, Any] = {}
    if config.verifies is None and env.get("MLFLOW_TRACKING_INSECURE_TLS", "").lower() in _TRUE:
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
        log.warning("cannot read %s; continuing without its credentials", path)
        return {}
    return parser["mlflow"] if parser.has_section("mlflow") else {}


def _plugin(name: str) -> tuple[AuthBase | None, Mapping[str, str]]:
    """Return what the plug-in of this name signs requests with: authentication, headers, or both.

    Others that are installed are not asked: importing them can cost seconds, and fail.
    """
    require_extra("mlflow", f"the MLflow plug-in {name!r}")
    from mlflow.tracking.request_auth.registry import fetch_auth

    with warnings.catch_warnings():
        # It warns and goes on unauthenticated; here that is an error.
        warnings.simplefilter("ignore")
        auth: AuthBase | None = fetch_auth(name)  # type: ignore[no-untyped-call]
    providers = metadata.entry_points(group=HEADER_PLUGINS, name=name)
    if auth is None and not providers:
        raise UnknownPluginError(
            f"unknown MLflow plug-in {name!r} for request authentication or headers",
            hint="install its package, or correct `auth` or MLFLOW_TRACKING_AUTH",
        )
    return auth, {key: value for one in providers for key, value in _headers_of(one).items()}


def _headers_of(plugin: metadata.EntryPoint) -> Mapping[str, str]:
    try:
        provider = plugin.load()()
        return dict(provider.request_headers()) if provider.in_context() else {}
    except Exception as error:  # noqa: BLE001 - the border to code of others
        log.warning(
            "the MLflow plug-in %s adds no headers to requests: %s: %s",
            *(plugin.name, type(error).__name__, error),
        )
        return {}
