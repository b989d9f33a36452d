"""How requests to MLflow are signed in: the recipe, MLflow's own variables, its credentials file.

The recipe comes first, as a whole: a token in the recipe is not mixed with a user name of the
environment. MLflow's plug-ins for request headers and request authentication work where mlflow is
installed, and mlflow is imported only where there are any.
"""

import configparser
import logging
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from pydantic import SecretStr
from requests.auth import AuthBase, HTTPBasicAuth

from mlcat_ingest.client.options import http_options
from mlcat_ingest.core.extras import require_extra
from mlcat_ingest.errors import UnknownPluginError
from mlcat_ingest.net.session import HttpOptions
from mlcat_ingest.sources.mlflow.config import MlflowConfig

log = logging.getLogger(__name__)

HEADER_PLUGINS: Final = "mlflow.request_header_provider"

PEER: Final = "the MLflow server"

_TRUE: Final = {"true", "1"}
_PEM_VARIABLES: Final = {
    "ca_bundle": "MLFLOW_TRACKING_SERVER_CERT_PATH",
    "client_cert": "MLFLOW_TRACKING_CLIENT_CERT_PATH",
}


@dataclass(frozen=True, slots=True)
class RequestAuth:
    """How requests are sent; `how` says in words what lets them in, without secrets."""

    options: HttpOptions
    how: str = "no credentials"

    @property
    def user(self) -> str | None:
        """The user name of basic authentication, None for any other way to sign in."""
        auth = self.options.auth
        name = auth.username if isinstance(auth, HTTPBasicAuth) else None
        return name.decode() if isinstance(name, bytes) else name


def sign_in(config: MlflowConfig, environ: Mapping[str, str] | None = None) -> RequestAuth:
    """Return how to sign in to the tracking server of `config`.

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
