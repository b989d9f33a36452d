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
from dataclasses import dataclass, field
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from requests import PreparedRequest
from requests.auth import AuthBase, HTTPBasicAuth

from mlcat_ingest.errors import MissingExtraError, RecipeError, UnknownPluginError
from mlcat_ingest.sources.mlflow.config import MlflowConfig

log = logging.getLogger(__name__)

HEADER_PLUGINS: Final = "mlflow.request_header_provider"

_TRUE: Final = {"true", "1"}


class BearerAuth(AuthBase):
    """Sends a bearer token; `repr` does not show it."""

    def __init__(self, token: str) -> None:
        """Keep the token."""
        self._token = token

    def __call__(self, r: PreparedRequest) -> PreparedRequest:
        """Put the token on a request."""
        r.headers["Authorization"] = f"Bearer {self._token}"
        return r


@dataclass(frozen=True, slots=True)
class SignIn:
    """What `Http` needs to be let in; `how` says in words where it came from, without secrets."""

    auth: AuthBase | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    verify: bool | str = True
    cert: str | None = None
    how: str = "no credentials"

    @property
    def user(self) -> str | None:
        """The user name of basic authentication, None for any other way to sign in."""
        name = self.auth.username if isinstance(self.auth, HTTPBasicAuth) else None
        return name.decode() if isinstance(name, bytes) else name


def sign_in(config: MlflowConfig, environ: Mapping[str, str] | None = None) -> SignIn:
    """Return how to sign in to the tracking server of `config`.

    Raises:
        RecipeError: a password without a user name, or a certificate file that is not there.
        UnknownPluginError: no request-auth plug-in of that name is installed.
        MissingExtraError: a plug-in is asked for and mlflow is not installed.
    """
    env = os.environ if environ is None else environ
    auth, how = _auth(config, env)
    given = {name: secret.get_secret_value() for name, secret in config.headers.items()}
    return SignIn(
        auth=auth,
        headers={**_plugin_headers(), **given},
        verify=_verify(config, env),
        cert=_certificate(config, env),
        how=how,
    )


def _auth(config: MlflowConfig, env: Mapping[str, str]) -> tuple[AuthBase | None, str]:
    plugin = config.auth or env.get("MLFLOW_TRACKING_AUTH")
    if plugin:
        return _plugin_auth(plugin), f"the MLflow plug-in {plugin}"
    if config.token is not None:
        return BearerAuth(config.token.get_secret_value().strip()), "the recipe's token"
    file = _credentials_file()
    password = env.get("MLFLOW_TRACKING_PASSWORD") or file.get("mlflow_tracking_password")
    user = env.get("MLFLOW_TRACKING_USERNAME") or file.get("mlflow_tracking_username")
    how = "the user name and password of the environment or ~/.mlflow/credentials"
    if config.username is not None or config.password is not None:
        user = config.username or user
        password = config.password.get_secret_value() if config.password else password
        how = "the recipe's user name and password"
        if not user or not password:
            missing = "password" if user else "username"
            raise RecipeError(
                f"the MLflow server's `{missing}` is missing",
                hint="basic authentication needs `username` and `password`",
            )
    if user and password:
        # As bytes, since requests would spell a text in Latin-1 and MLflow reads UTF-8.
        return HTTPBasicAuth(user.encode(), password.encode()), how
    token = env.get("MLFLOW_TRACKING_TOKEN", "").strip()
    return (BearerAuth(token), "MLFLOW_TRACKING_TOKEN") if token else (None, "no credentials")


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


def _verify(config: MlflowConfig, env: Mapping[str, str]) -> bool | str:
    insecure = config.insecure_tls
    if insecure is None:
        insecure = env.get("MLFLOW_TRACKING_INSECURE_TLS", "").lower() in _TRUE
    given = config.server_cert_path or env.get("MLFLOW_TRACKING_SERVER_CERT_PATH")
    if insecure:
        return False
    return _existing(given, "server_cert_path") if given else True


def _certificate(config: MlflowConfig, env: Mapping[str, str]) -> str | None:
    given = config.client_cert_path or env.get("MLFLOW_TRACKING_CLIENT_CERT_PATH")
    return _existing(given, "client_cert_path") if given else None


def _existing(path: str | Path, option: str) -> str:
    if not Path(path).exists():
        raise RecipeError(f"{option}: there is no {path}")
    return str(path)


def _plugin_auth(name: str) -> AuthBase:
    if find_spec("mlflow") is None:
        raise MissingExtraError(f"the MLflow request-auth plug-in {name!r}", "mlflow")
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
