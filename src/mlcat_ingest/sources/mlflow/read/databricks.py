"""Finds the workspace and the credentials of a Databricks URI: variables, else a profile.

A profile that the URI names counts alone. Else the variables count, over the profile that
DATABRICKS_CONFIG_PROFILE names; and where there are none, the default profile of the file.

Source: `databricks.sdk.config` of databricks-sdk 0.156.
"""

import configparser
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from mlcat_ingest.errors import RecipeError
from mlcat_ingest.sources.mlflow.values.uris import databricks_profile

_ATTRIBUTES: Final = ("host", "token", "client_id", "client_secret", "workspace_id")
_SETTINGS: Final = "__settings__"
_CURE: Final = (
    "set DATABRICKS_HOST with DATABRICKS_TOKEN, or with DATABRICKS_CLIENT_ID and "
    "DATABRICKS_CLIENT_SECRET, or write them into a profile of ~/.databrickscfg"
)


@dataclass(frozen=True, slots=True)
class DatabricksAccount:
    """A Databricks workspace and the credentials for it; `origin` says where they came from."""

    url: str
    origin: str
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
    """Return the workspace that `uri` leads to, None where `uri` is none of Databricks.

    With `signed_in` a token comes from elsewhere, and the address is enough.

    Raises:
        RecipeError: there is no such profile, no address, or there are no credentials.
    """
    name = databricks_profile(uri)
    if name is None:
        return None
    if ":" in name:
        raise RecipeError(
            f"{uri}: credentials in a secret scope are readable only inside Databricks", hint=_CURE
        )
    found, origin = _settings(uri, name, env)
    host = found.get("host")
    if not host:
        raise RecipeError(f"{uri}: no Databricks host in {origin}", hint=_CURE)
    account = DatabricksAccount(
        _base_url(host, origin),
        origin,
        found.get("workspace_id"),
        found.get("client_id"),
        found.get("token"),
        found.get("client_secret"),
    )
    if not (signed_in or account.token or (account.client_id and account.client_secret)):
        raise RecipeError(
            f"{uri}: neither a token nor a client id with its secret in {origin}",
            hint=f"{_CURE}; for other ways to sign in, use the output of `databricks auth token`",
        )
    return account


def _settings(uri: str, name: str, env: Mapping[str, str]) -> tuple[Mapping[str, str], str]:
    """Return the settings of an account, and in words where they came from."""
    given = {one: env.get(f"DATABRICKS_{one.upper()}", "").strip() for one in _ATTRIBUTES}
    given = {one: value for one, value in given.items() if value}
    path = Path(env.get("DATABRICKS_CONFIG_FILE") or "~/.databrickscfg").expanduser()
    if name:
        return _profile(path, name), f"the profile {name} of {path}"
    named = env.get("DATABRICKS_CONFIG_PROFILE")
    if named:
        origin = f"the profile {named} of {path}"
        found = {**_profile(path, named), **given}
        return found, f"{origin} and the variables DATABRICKS_*" if given else origin
    if given.keys() - {"workspace_id"}:
        return given, "the environment (DATABRICKS_*)"
    profiles = _profiles(path)
    default = profiles.get(_SETTINGS, {}).get("default_profile") or "DEFAULT"
    if default not in profiles:
        raise RecipeError(f"{uri}: no credentials for Databricks", hint=_CURE)
    return {**profiles[default], **given}, f"the profile {default} of {path}"


def _profile(path: Path, name: str) -> Mapping[str, str]:
    profiles = _profiles(path)
    if name not in profiles or name == _SETTINGS:
        known = ", ".join(sorted(profiles.keys() - {_SETTINGS})) or "none"
        raise RecipeError(
            f"{path} has no profile {name}",
            hint=f"existing profiles: {known}; set DATABRICKS_CONFIG_FILE to use another file",
        )
    return profiles[name]


def _profiles(path: Path) -> Mapping[str, Mapping[str, str]]:
    # DEFAULT is a profile like any other: what it holds is no default of the others.
    parser = configparser.ConfigParser(interpolation=None, default_section="")
    try:
        parser.read(path, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError, OSError):
        # The parser's own words would show the line, and with it a token.
        raise RecipeError(
            f"cannot read {path}", hint="check that it is a Databricks configuration file"
        ) from None
    return {one: dict(parser[one]) for one in parser.sections()}


def _base_url(host: str, origin: str) -> str:
    text = host if "://" in host else f"https://{host}"
    try:
        parts = urlsplit(text)
        if parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0:
            return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    except ValueError:
        pass  # brackets or a port that no address has
    raise RecipeError(f"the host in {origin} is not a valid address", hint=_CURE)
