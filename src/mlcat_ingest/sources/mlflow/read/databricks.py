"""Sign-in to Databricks: the variables DATABRICKS_*, and OAuth tokens for a client.

Source: `databricks.sdk.config` of databricks-sdk 0.156.
"""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import requests
from requests.auth import AuthBase, HTTPBasicAuth

from mlcat_ingest.errors import AuthenticationError, RecipeError, SourceUnavailableError
from mlcat_ingest.net.http import Http, Reply
from mlcat_ingest.net.session import HttpOptions
from mlcat_ingest.sources.mlflow.values.uris import has_databricks_scheme

_CURE: Final = (
    "set DATABRICKS_HOST with DATABRICKS_TOKEN, or with DATABRICKS_CLIENT_ID and "
    "DATABRICKS_CLIENT_SECRET"
)
_TOKEN_PATH: Final = "/oidc/v1/token"  # noqa: S105 - an address
_GRANT: Final = urlencode({"grant_type": "client_credentials", "scope": "all-apis"}).encode()
_RENEW_BEFORE_S: Final = 60.0


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
        """Return a text without the token."""
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
    """Return what a refusal of the token endpoint says, without what was sent to it."""
    code = reply.json().get("error") if reply.content[:1] == b"{" else None
    return f"{reply.url} answered {reply.status}" + (f" ({code})" if code else "")
