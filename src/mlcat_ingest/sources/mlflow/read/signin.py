"""Sign-in to an MLflow server: the credentials of the recipe, of MLflow's variables, of Databricks.

Credentials come from the recipe, else MLflow's own variables, else its credentials file. The
recipe comes first, as a whole: a token in the recipe is not mixed with a user name of the
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

from mlcat_ingest.core.extras import require_extra
from mlcat_ingest.errors import RecipeError, UnknownPluginError
from mlcat_ingest.net.session import HttpOptions
from mlcat_ingest.recipe.http_options import http_options
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.databricks import (
    DatabricksAccount,
    OAuthToken,
    find_account,
)

log = logging.getLogger(__name__)

HEADER_PLUGINS: Final = "mlflow.request_header_provider"

PEER: Final = "the MLflow server"

_TRUE: Final = {"true", "1"}
_WORKSPACE_ID_HEADER: Final = "x-databricks-org-id"
_PEM_VARIABLES: Final = {
    "ca_bundle": "MLFLOW_TRACKING_SERVER_CERT_PATH",
    "client_cert": "MLFLOW_TRACKING_CLIENT_CERT_PATH",
}


@dataclass(frozen=True, slots=True)
class RequestAuth:
    """The address of a server and the options of requests to it.

    `how` says in words how they are authorised, without secrets.
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
        UnknownPluginError: no request-auth plug-in of that name is installed.
        MissingExtraError: a plug-in is asked for and mlflow is not installed.
    """
    env = os.environ if environ is None else environ
    url = uri or config.tracking_uri
    account = find_account(url, env, signed_in=config.token is not None)
    if account is not None:
        return _to_databricks(account, config, env)
    plugin = config.auth or env.get("MLFLOW_TRACKING_AUTH")
    found, how = _credentials(config, env)
    if plugin:
        found, how = dict.fromkeys(found), f"the MLflow plug-in {plugin}"
    complete = config.model_copy(update={**_certificates(config, env), **found})
    options = http_options(complete, peer=PEER, connections=config.connections)
    headers = {**_plugin_headers(), **options.headers}
    auth = _plugin_auth(plugin) if plugin else options.auth
    return RequestAuth(url, replace(options, auth=auth, headers=headers), how)


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
    user = env.get("MLFLOW_TRACKING_USERNAME") or file.get("mlflow_tracking_username")
    password = env.get("MLFLOW_TRACKING_PASSWORD") or file.get("mlflow_tracking_password")
    found = {"username": user or None, "password": SecretStr(password) if password else None}
    if config.username is not None or config.password is not None:
        both = {name: given[name] or value for name, value in found.items()}
        return {**given, **both}, "the recipe's user name and password"
    if user and password:
        how = "the user name and password in the environment or ~/.mlflow/credentials"
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
        log.warning("cannot read %s; continuing without its credentials", path)
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
            f"unknown MLflow request-auth plug-in {name!r}",
            hint="install its package, or correct `auth` or MLFLOW_TRACKING_AUTH",
        )
    return auth


def _plugin_headers() -> Mapping[str, str]:
    installed = list(metadata.entry_points(group=HEADER_PLUGINS))
    if not installed or find_spec("mlflow") is None:
        return {}
    from mlflow.tracking.request_header.registry import resolve_request_headers

    headers: dict[str, str] = resolve_request_headers()  # type: ignore[no-untyped-call]
    return headers
