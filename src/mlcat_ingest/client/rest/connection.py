"""One catalog service over HTTP: requests with the token on, refusals as errors without it.

Address and token come from: what is given explicitly, then `MLCAT_SERVER`/`MLCAT_TOKEN`, then
`DATAHUB_GMS_URL`/`DATAHUB_GMS_TOKEN`, then `~/.datahubenv`. A token is only sent to the server it
belongs to: one that is kept beside the address of another server is passed over.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from mlcat_ingest.client.rest.responses import is_passing_read, refusal, server_message
from mlcat_ingest.core.pending import RequestSide, UnansweredRequest
from mlcat_ingest.errors import (
    AuthenticationError,
    CatalogUnavailableError,
    MlcatError,
    RecipeError,
)
from mlcat_ingest.net.http import Http, IsPassing, Reply, is_unavailable
from mlcat_ingest.net.session import BearerAuth, HttpOptions

log = logging.getLogger(__name__)

_ENVIRONMENT = (("MLCAT_SERVER", "MLCAT_TOKEN"), ("DATAHUB_GMS_URL", "DATAHUB_GMS_TOKEN"))
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
    _check_token(holder.token, holder.token_from)
    return Credentials(address, holder.token, chosen.server_from, holder.token_from)


def _places(
    server: str | None, token: str | None, env: Mapping[str, str], home: Path
) -> Iterator[_SettingPlace]:
    # An explicit "" is an answer too: no token, wherever else one may lie.
    explicit = None if token is None else token.strip()
    yield _SettingPlace(server, explicit, "the configuration", "the configuration")
    for server_name, token_name in _ENVIRONMENT:
        yield _SettingPlace(
            _clean(env.get(server_name)),
            _clean(env.get(token_name)),
            f"the environment ({server_name})",
            f"the environment ({token_name})",
        )
    if env.get("DATAHUB_SKIP_CONFIG", "").lower() not in {"1", "true"}:
        yield from _file_place(home / ".datahubenv")


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
    except yaml.YAMLError:
        log.warning("%s is not YAML and is ignored", _FILE)
        return
    settings = content if isinstance(content, dict) else {}
    gms = settings.get("gms")
    nested = gms if isinstance(gms, dict) else {}
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


def _check_token(token: str, origin: str) -> None:
    if not (token.isascii() and token.isprintable()):
        raise RecipeError(
            f"the token from {origin} contains characters that HTTP headers do not allow"
        )


PEER = "the catalog service"

# What DataHub's own clients say; its Rest.li resources choose their protocol by it.
_HEADERS = {"X-RestLi-Protocol-Version": "2.0.0", "User-Agent": "mlcat-ingest"}


class Connection(RequestSide):
    """The catalog service at one base address. Safe to use from several threads.

    The token, where there is one, is on every request and in no message.
    """

    def __init__(self, find: Callable[[], tuple[Credentials, HttpOptions]]) -> None:
        """Ask `find` for the address, the token and the options when they are needed first."""
        self._find = find
        self._lock = threading.Lock()
        self._found: tuple[Credentials, HttpOptions] | None = None
        self._opened: Http | None = None

    @property
    def _settings(self) -> tuple[Credentials, HttpOptions]:
        with self._lock:
            if self._found is None:
                credentials, options = self._find()
                # Another way to sign in, such as a user name, serves where there is no token.
                auth = credentials.auth() or options.auth
                headers = {**_HEADERS, **options.headers}
                self._found = credentials, replace(options, auth=auth, headers=headers)
            return self._found

    @property
    def _http(self) -> Http:
        credentials, options = self._settings
        with self._lock:
            if self._opened is None:
                self._opened = Http(
                    credentials.server,
                    peer=PEER,
                    unavailable=CatalogUnavailableError,
                    options=options,
                )
            return self._opened

    @property
    def credentials(self) -> Credentials:
        """The address and the token; raises what finding them raises."""
        return self._settings[0]

    @property
    def connections(self) -> int:
        """Requests in flight at once, at most."""
        return self._settings[1].connections

    @property
    def server(self) -> str:
        """The base address, without a slash at its end."""
        return self.credentials.server

    def pending_request(self) -> UnansweredRequest | None:
        """Return the request that waits longest for its answer; see `RequestSide`."""
        return None if self._opened is None else self._opened.pending_request()

    def end_waits(self) -> None:
        """End every pause between attempts."""
        if self._opened is not None:
            self._opened.end_waits()

    def requests_made(self) -> int:
        """Return how many requests were sent, retries included."""
        return 0 if self._opened is None else self._opened.requests_made()

    @property
    def clock_skew_s(self) -> float | None:
        """Seconds that the service's clock is ahead of ours, None before its first answer."""
        return None if self._opened is None else self._opened.clock_skew_s

    def get(self, path: str) -> Reply:
        """Return the reply to a GET of `path`, which is percent-encoded already.

        Raises:
            AuthenticationError: the token is missing or wrong; says where it came from.
            CatalogUnavailableError, RateLimitedError, ProtocolMismatchError: as `Http.request`.
        """
        return self.request("GET", path, None)

    def post(self, path: str, body: bytes) -> Reply:
        """Return the reply to a POST of the JSON text `body` that reads; raises as `get`."""
        return self.request("POST", path, body)

    def write(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        is_passing: IsPassing | None = None,
    ) -> Reply:
        """Return the reply to a request that writes: what it says may be why it fails.

        `is_passing` is that of `Http.request`. Raises as `get`.
        """
        return self.request(method, path, body, is_passing or is_unavailable)

    def request(
        self, method: str, path: str, body: bytes | None, is_passing: IsPassing | None = None
    ) -> Reply:
        """Return the reply to a request of `path`, one that reads without `is_passing`.

        Raises as `get`.
        """
        try:
            return self._http.request(
                method,
                path,
                body=body,
                is_passing=is_passing or is_passing_read,
                reads=is_passing is None,
            )
        except AuthenticationError as error:
            credentials, options = self._settings
            by_token = options.auth is None or credentials.token is not None
            if error.context.get("status") != 401 or not by_token:
                raise
            raise AuthenticationError(
                f"{error.message}; {credentials.token_origin()}",
                hint=error.hint,
                context=error.context,
            ) from error

    def message(self, reply: Reply) -> str:
        """Return the service's words about a refusal, the token masked should it repeat it."""
        return self.mask(server_message(reply))

    def refusal(self, reply: Reply, *, what: str, urn: str | None = None) -> MlcatError:
        """Return the error for a reply that refuses `what`, to be raised by the caller."""
        return refusal(reply, self.message(reply), what=what, urn=urn)

    def mask(self, text: str) -> str:
        """Return `text` without the token."""
        token = self.credentials.token
        return text.replace(token, "***") if token else text

    def close(self) -> None:
        """Close all connections; safe to call twice."""
        if self._opened is not None:
            self._opened.close()
