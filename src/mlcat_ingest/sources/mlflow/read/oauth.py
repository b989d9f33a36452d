"""Signs requests to Databricks with tokens of the OAuth client-credentials flow."""

import threading
import time
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlencode

import requests
from requests.auth import AuthBase, HTTPBasicAuth

from mlcat_ingest.errors import AuthenticationError, SourceUnavailableError
from mlcat_ingest.net.http import Http, Reply
from mlcat_ingest.net.session import HttpOptions
from mlcat_ingest.sources.mlflow.read.databricks import DatabricksAccount

_TOKEN_PATH: Final = "/oidc/v1/token"  # noqa: S105 - an address
_GRANT: Final = urlencode({"grant_type": "client_credentials", "scope": "all-apis"}).encode()
_RENEW_BEFORE_S: Final = 60.0


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
            hint=f"check the client id and secret of {self._account.origin}",
        )


def _words(reply: Reply) -> str:
    """Return what a refusal of the token endpoint says, without what was sent to it."""
    code = reply.json().get("error") if reply.content[:1] == b"{" else None
    return f"{reply.url} answered {reply.status}" + (f" ({code})" if code else "")
