"""The address and the token of a catalog service.

They come from: what is given explicitly, then `MLCAT_SERVER`/`MLCAT_TOKEN`, then
`DATAHUB_GMS_URL`/`DATAHUB_GMS_TOKEN`, then `~/.datahubenv`. A token is only sent to the server it
belongs to: one that is kept beside the address of another server is passed over.
"""

import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from mlcat_ingest.errors import RecipeError
from mlcat_ingest.net.session import BearerAuth

log = logging.getLogger(__name__)

_FILE = "~/.datahubenv"


@dataclass(frozen=True, slots=True)
class Credentials:
    """A service's base address and token, and the places they were found in."""

    server: str
    token: str | None = field(default=None, repr=False)
    server_from: str = "the configuration"
    token_from: str | None = None

    def auth(self) -> BearerAuth | None:
        """Return what puts the token on each request; None without a token."""
        return BearerAuth(self.token) if self.token else None

    def token_origin(self) -> str:
        """Return a sentence's end that says where the token came from, without the token."""
        return f"the token came from {self.token_from}" if self.token else "no token was given"


@dataclass(frozen=True, slots=True)
class _SettingPlace:
    server: str | None
    token: str | None = field(repr=False)
    server_from: str
    token_from: str


def resolve(
    server: str | None = None,
    token: str | None = None,
    *,
    option: str = "--server",
    environ: Mapping[str, str] | None = None,
    home: Path | None = None,
) -> Credentials:
    """Return the base address and token to use; an explicit empty token means none.

    `option` is what gives `server`, for the error that there is none.

    Raises:
        RecipeError: no address is given anywhere, one is not http(s), or a token holds
            characters that no HTTP header carries.
    """
    env = os.environ if environ is None else environ
    given = _clean(server)
    places = _places(given, token, env, home or Path.home())
    places_read: list[_SettingPlace] = []
    chosen: _SettingPlace | None = None
    holder: _SettingPlace | None = None
    for place in places:
        places_read.append(place)
        chosen = chosen or (place if place.server else None)
        if chosen is None:
            continue
        holder = next((p for p in places_read if p.token is not None and _is_same(p, chosen)), None)
        if holder is not None:
            break
    if chosen is None or chosen.server is None:
        raise RecipeError(
            "no address of a catalog service is configured",
            hint=f"set {option}, MLCAT_SERVER or DATAHUB_GMS_URL",
        )
    address = _address(chosen.server, chosen.server_from)
    if holder is None or not holder.token:
        return Credentials(address, server_from=chosen.server_from)
    if not (holder.token.isascii() and holder.token.isprintable()):
        raise RecipeError(
            f"the token from {holder.token_from} contains characters that HTTP headers do not allow"
        )
    return Credentials(address, holder.token, chosen.server_from, holder.token_from)


def _places(
    server: str | None, token: str | None, env: Mapping[str, str], home: Path
) -> Iterator[_SettingPlace]:
    # An explicit "" is an answer too: no token, wherever else one may lie.
    explicit = None if token is None else token.strip()
    yield _SettingPlace(server, explicit, "the configuration", "the configuration")
    datahub, address = _datahub_address(env)
    for server_name, token_name, found in (
        ("MLCAT_SERVER", "MLCAT_TOKEN", env.get("MLCAT_SERVER")),
        (datahub, "DATAHUB_GMS_TOKEN", address),
    ):
        yield _SettingPlace(
            _clean(found),
            _clean(env.get(token_name)),
            f"the environment ({server_name})",
            f"the environment ({token_name})",
        )
    if env.get("DATAHUB_SKIP_CONFIG", "").lower() not in {"1", "true"}:
        yield from _file_place(home / ".datahubenv")


def _datahub_address(env: Mapping[str, str]) -> tuple[str, str | None]:
    """Return the variable that DataHub's address, or its host, comes from; and the address.

    Source: `_get_config_from_env` of DataHub's SDK. Kubernetes sets a DATAHUB_GMS_PORT to a URL.
    """
    host, port = (_clean(env.get(f"DATAHUB_GMS_{name}")) for name in ("HOST", "PORT"))
    if env.get("DATAHUB_GMS_URL") or not host:
        return "DATAHUB_GMS_URL", env.get("DATAHUB_GMS_URL")
    if port and port.isdecimal():
        host = f"{_clean(env.get('DATAHUB_GMS_PROTOCOL')) or 'http'}://{host}:{port}"
    return "DATAHUB_GMS_HOST", host


def _file_place(path: Path) -> Iterator[_SettingPlace]:
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return
    except (OSError, UnicodeDecodeError) as error:
        # Others' settings: where they cannot be read the run may still not need them.
        log.warning("%s cannot be read: %s", _FILE, type(error).__name__)
        return
    try:
        content = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError):
        log.warning("%s is not YAML and is ignored", _FILE)
        return
    settings = content if isinstance(content, dict) else {}
    nested = gms if isinstance(gms := settings.get("gms"), dict) else {}
    yield _SettingPlace(
        _clean(nested.get("server", settings.get("gms.server"))),
        _clean(nested.get("token", settings.get("gms.token"))),
        _FILE,
        _FILE,
    )


def _clean(text: object) -> str | None:
    return text.strip() or None if isinstance(text, str) else None


def _is_same(place: _SettingPlace, chosen: _SettingPlace) -> bool:
    return place.server is None or place.server.rstrip("/") == (chosen.server or "").rstrip("/")


def _address(server: str, origin: str) -> str:
    try:
        parts = urlsplit(server)
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
        parts = urlsplit("")
    if not valid:
        raise RecipeError(
            f"the server's address from {origin} is not an http(s) address",
            hint="for example http://localhost:8080",
        )
    if "@" in parts.netloc:
        raise RecipeError(
            f"the server's address from {origin} contains a user name or a password",
            hint="the service takes a token: set `token` or MLCAT_TOKEN",
        )
    if parts.query or parts.fragment:
        raise RecipeError(f"the server's address from {origin} ends in a query or a fragment")
    return server.rstrip("/")
