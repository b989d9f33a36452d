"""One catalog service over HTTP: requests with the token on, refusals as errors without it.

Address and token come from: what is given explicitly, then `MLCAT_SERVER`/`MLCAT_TOKEN`, then
`DATAHUB_GMS_URL`/`DATAHUB_GMS_TOKEN`, then `~/.datahubenv`. A token is only sent to the server it
belongs to: one that is kept beside the address of another server is passed over.

One table has the facts of DataHub's releases by which a client decides. `/config` names the
release, unless the recipe does. Facts that the release does not decide are learned from the
server's answers, such as privileges and the evaluation of metadata tests.
"""

import logging
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import yaml
from requests.auth import AuthBase

from mlcat_ingest.client.rest.responses import (
    ADDRESS_HINT,
    TOO_LARGE_HINT,
    is_passing_read,
    server_message,
)
from mlcat_ingest.core.environment import package_version
from mlcat_ingest.core.findings import RequestSide, UnansweredRequest
from mlcat_ingest.errors import (
    LACKS_PERMISSION,
    AuthenticationError,
    CatalogRequestError,
    CatalogUnavailableError,
    MlcatError,
    NotAuthorizedError,
    ProtocolMismatchError,
    RecipeError,
)
from mlcat_ingest.metadata.aspects.common import SUB_TYPES
from mlcat_ingest.metadata.aspects.ml import ML_MODEL_GROUP_PROPERTIES
from mlcat_ingest.metadata.proposal import IF_VERSION_MATCH
from mlcat_ingest.metadata.urn import FABRICS
from mlcat_ingest.net.http import Http, IsPassing, Reply, is_unavailable
from mlcat_ingest.net.session import BearerAuth, HttpOptions

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
    _check_token(holder.token, holder.token_from)
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
            return self._found or self._look_up()

    def _look_up(self) -> tuple[Credentials, HttpOptions]:
        credentials, options = self._find()
        # Another way to sign in, such as a user name, serves where there is no token.
        auth = credentials.auth() or options.auth
        headers = {**_HEADERS, **options.headers}
        self._found = credentials, replace(options, auth=auth, headers=headers, renew=self._renew)
        return self._found

    def _renew(self) -> AuthBase | None:
        """Look for the token once more: who rotates it writes another one to where it is from."""
        with self._lock:
            return self._look_up()[1].auth

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
        """Return the error for a reply that refuses `what` (a noun phrase), about `urn` if one is.

        The caller raises it.
        """
        message, status = self.message(reply), reply.status
        about = f" of {urn}" if urn else ""
        sentence = f"{reply.peer} at {reply.url} refused {what}{about} with {status}: {message}"
        context = {"status": status, "urn": urn, "reason": f"{status} {message}"}
        if status == HTTPStatus.FORBIDDEN:
            return NotAuthorizedError(sentence, hint=LACKS_PERMISSION, context=context)
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return CatalogUnavailableError(sentence, hint="see the service's log", context=context)
        hint = TOO_LARGE_HINT if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE else None
        return CatalogRequestError(sentence, status=status, hint=hint, urn=urn)

    def wrong_address(self, reply: Reply) -> ProtocolMismatchError:
        """Return the error for an address at which the catalog service's endpoints are missing."""
        return ProtocolMismatchError(
            f"{reply.peer} at {reply.url} has no such endpoint "
            f"({reply.status}: {self.message(reply)})",
            hint=ADDRESS_HINT,
            context={"status": reply.status},
        )

    def mask(self, text: str) -> str:
        """Return `text` without the token."""
        token = self.credentials.token
        return text.replace(token, "***") if token else text

    def close(self) -> None:
        """Close all connections; safe to call twice."""
        if self._opened is not None:
            self._opened.close()


_DATAHUB: Final = "acryldata/datahub"
_OURS: Final = "mlcat-ingest"
_FRONTENDS_PATH: Final = "/api/gms"
_VERSION = re.compile(r"v?(\d+)\.(\d+)")

SMALLEST_RELEASE: Final = (1, 0)
"""The oldest supported release of DataHub: older ones acknowledge some aspects of models, and drop
them. Source: entity-registry.yml and MLModelProperties.pdl of v0.15 and v1.0."""

_CONDITIONS_SINCE: Final = (0, 14)
"""The first release of DataHub that enforces conditions. Source: `ConditionalWriteValidator`."""

ENVIRONMENTS_SINCE: Final = {
    "SANDBOX": (0, 15),
    **dict.fromkeys(("PRD", "TST", "SIT", "SBX"), (1, 2)),
    "CERT": (1, 7),
}
"""Releases of DataHub by the environments that they added. Source: `FabricType.pdl`."""

STORED_SINCE: Final = {
    f"mlModelGroup: {ML_MODEL_GROUP_PROPERTIES}.externalUrl": (1, 1),
    **dict.fromkeys(
        (f"{kind}: {SUB_TYPES}" for kind in ("mlModel", "mlModelGroup", "mlFeatureTable")), (1, 1)
    ),
}
"""First releases that store a part of what runs write, of those that a supported one drops, named
as the report names what is dropped. Source: `docs/reference/compatibility.md`."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """A service as it describes itself: `datahub_version` is None for all but DataHub.

    One of the `same_version` is the embedded catalog of this version of the program.
    """

    datahub: bool
    datahub_version: str | None
    same_version: bool = False

    @property
    def release(self) -> tuple[int, int] | None:
        """The release of DataHub, None where the version is not known."""
        numbers = _VERSION.match(self.datahub_version or "")
        return None if numbers is None else (int(numbers[1]), int(numbers[2]))

    @property
    def is_supported(self) -> bool:
        """False for a release that is known to be older than the smallest supported one."""
        return self.release is None or self.release >= SMALLEST_RELEASE

    @property
    def enforces_conditions(self) -> bool | None:
        """Whether it compares the version that a write names, None where that is not known."""
        return None if self.release is None else self.release >= _CONDITIONS_SINCE

    @property
    def environments(self) -> frozenset[str]:
        """The environments that entities may have; all where the version is not known."""
        release = self.release
        if release is None:
            return FABRICS
        return FABRICS - {env for env, since in ENVIRONMENTS_SINCE.items() if release < since}

    @property
    def dropped(self) -> list[str]:
        """Parts of what runs write that the release drops, as the report names them."""
        release = self.release
        if release is None:
            return []
        return [part for part, since in STORED_SINCE.items() if release < since]

    @property
    def may_drop(self) -> bool:
        """True unless it is known to store all parts of what runs write."""
        if self.datahub:
            return self.release is None or bool(self.dropped)
        return not self.same_version

    @property
    def behaviour(self) -> str:
        """The row of a known release, as words for the user."""
        missing = sorted(FABRICS - self.environments)
        facts = [
            f"{'enforces' if self.enforces_conditions else 'ignores'} {IF_VERSION_MATCH}",
            f"has no environment {', '.join(missing)}" if missing else "has all environments",
            f"acknowledges and drops {' and '.join(self.dropped)}"
            if self.dropped
            else "stores all aspects that runs write",
        ]
        return f"{self.describe()} {'; '.join(facts)}"

    def group_page(self, server: str, ui_url: str | None) -> str:
        """Return the address of a group's page, with `{urn}` for its percent-encoded URN.

        It is empty for DataHub's GMS, unless `server` is a path of the frontend: GMS has no pages.

        Source: `make_url_for_urn` of DataHub's SDK.
        """
        if not self.datahub:
            return f"{ui_url or pages_of(server)}/entity/{{urn}}"
        pages = ui_url or (pages_of(server) if server.endswith(_FRONTENDS_PATH) else "")
        return f"{pages}/mlModelGroup/{{urn}}" if pages else ""

    def upgrade_message(self) -> str:
        """Return the sentence for the user about a release that is not supported."""
        smallest = ".".join(map(str, SMALLEST_RELEASE))
        return (
            f"{self.describe()} is older than v{smallest}.0, the oldest supported release: "
            "it acknowledges some aspects of models but drops them"
        )

    def describe(self) -> str:
        """Return a name for the service in a line for the user."""
        if not self.datahub:
            return "the catalog"
        return f"DataHub {self.datahub_version}" if self.datahub_version else "DataHub"


def pages_of(server: str) -> str:
    """Return the address of the pages of a service whose API is at `server`."""
    return server.rstrip("/").removesuffix(_FRONTENDS_PATH).removesuffix("/gms")


def read_capabilities(connection: Connection) -> Capabilities:
    """Return what the service says it is.

    Raises:
        ProtocolMismatchError: what answers is not a catalog service.
        AuthenticationError: a web page answers in its place.
        CatalogUnavailableError: nothing answers.

    Source: ``/config``, where ``noCode`` is the text "true" on every supported server.
    Cost: one request.
    """
    try:
        reply = connection.get("/config")
    except AuthenticationError as error:
        if error.context.get("status") == 401:
            raise
        raise AuthenticationError(
            error.message,
            hint="a login page may protect the service; for DataHub's web address, append /api/gms",
            context=error.context,
        ) from error
    if reply.status == 404:
        raise connection.wrong_address(reply)
    if not reply.ok:
        raise connection.refusal(reply, what="the request for its configuration")
    config = reply.json()
    if not isinstance(config, dict) or str(config.get("noCode")).lower() != "true":
        raise ProtocolMismatchError(
            f"{reply.peer} at {reply.url} is not a catalog service",
            hint=ADDRESS_HINT,
        )
    return _read_config(config)


def _read_config(config: Mapping[str, Any]) -> Capabilities:
    versions = config.get("versions")
    listed = versions if isinstance(versions, dict) else {}
    version = _version_in(listed.get(_DATAHUB))
    known = isinstance(version, str) and version not in {"", "null"}
    return Capabilities(
        datahub=listed.get(_DATAHUB) is not None,
        datahub_version=version if known else None,
        same_version=_version_in(listed.get(_OURS)) == package_version(),
    )


def _version_in(entry: Any) -> Any:
    return entry.get("version") if isinstance(entry, dict) else None
