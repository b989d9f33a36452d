"""A registry server over gRPC, a remote registry in Feast's words (extra `feast`).

Source: `feast.registry.RegistryServer` of feast 0.67. Its `Proto` sends the objects of all projects
without saying whose they are, and loads their functions first; so each project's are listed.
"""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from google.protobuf.message import DecodeError
from requests import Request

from mlcat_ingest.errors import (
    AuthenticationError,
    MlcatError,
    NotAuthorizedError,
    ProtocolMismatchError,
    RateLimitedError,
    RecipeError,
    SourceUnavailableError,
)
from mlcat_ingest.net.session import PendingRequest, RetryPolicy
from mlcat_ingest.recipe.http_options import auth_of
from mlcat_ingest.recipe.secrets import MASK, mask
from mlcat_ingest.sources.feast.config import FeastConfig
from mlcat_ingest.sources.feast.registry import (
    LATE_KINDS,
    MESSAGES,
    PLURALS,
    RawObject,
    RegistryTransport,
    bounded,
    created,
    raw_object,
    split_registry,
    too_large,
)

log = logging.getLogger(__name__)

_SERVICE: Final = "/feast.registry.RegistryServer/"
_DEFAULT_PORT: Final = 6570
_LARGEST: Final = 2**31 - 1
_FIRST_PAUSE_S: Final = 0.3
_DETAIL_CHARS: Final = 200
_LOOPBACK: Final = ("localhost:", "127.", "[::1]:")

_FAILURES: Final[Mapping[str, tuple[type[MlcatError], str, str | None]]] = {
    "UNAUTHENTICATED": (AuthenticationError, "refused the credentials", "check `token`"),
    "PERMISSION_DENIED": (
        NotAuthorizedError,
        "denied read access",
        "grant the user DESCRIBE on the projects and objects to read",
    ),
    "RESOURCE_EXHAUSTED": (
        RateLimitedError,
        "rejected the request: rate limit exceeded",
        "try again later",
    ),
    "UNKNOWN": (SourceUnavailableError, "failed", "see the server's log"),
    "INTERNAL": (SourceUnavailableError, "failed", "see the server's log"),
}
"""The error, its sentence and its hint for a status of gRPC; others mean that nothing answers."""

_RETRIED: Final = frozenset({"UNAVAILABLE", "ABORTED"})


_LISTINGS: Final[Mapping[str, str]] = {
    kind: f"List{named.title().replace('_', '')}"
    for kind, named in PLURALS.items()
    if kind != "project"
}


class GrpcRegistry(RegistryTransport):
    """Reads a registry from its server, project by project, over a connection with retries."""

    def __init__(self, address: str, config: FeastConfig) -> None:
        """Prepare address and credentials; the connection is opened on first use."""
        if config.verifies is False:
            raise RecipeError(
                "feast: `verify: false` is not supported; gRPC always verifies certificates",
                hint="set `ca_bundle` to the CA of the server's certificate",
            )
        scheme, _, rest = address.rpartition("://")
        host = rest.rstrip("/").lower()
        self.shown = host if host.rpartition(":")[2].isdigit() else f"{host}:{_DEFAULT_PORT}"
        self._config = config
        self._secure = (
            scheme.lower() == "grpcs"
            or config.verifies is not None
            or any((config.ca_bundle, config.client_cert))
        )
        # As requests would send them; gRPC takes names in lower case only.
        headers = {name: value.get_secret_value() for name, value in config.headers.items()}
        auth = auth_of(config, "the Feast registry server")
        sent = Request("GET", "http://_", headers, auth=auth).prepare().headers
        self._metadata = [(name.lower(), value) for name, value in sent.items()]
        self._channel: Any = None
        self._retry = RetryPolicy(
            "the Feast registry server",
            self.shown,
            retry_for_s=config.retry_for_s,
            retries=config.retries,
            first_pause_s=_FIRST_PAUSE_S,
        )

    def end_waits(self) -> None:
        """End every pause between attempts."""
        self._retry.end()

    def objects(self) -> Iterator[RawObject]:
        """Yield every object of every project that the user may see.

        Cost: eight requests a project and one more; memory for the objects of one kind.
        """
        projects = self._list("project", "ListProjects", "")
        if projects is None:
            # Before there were projects in it, a registry itself was sent.
            content = self._call("Proto")
            if content is None:
                raise self._mismatch("supports neither ListProjects nor Proto")
            yield from split_registry(content, self.shown)
            return
        yield from bounded(self._of(projects), self.shown, self._config.max_bytes)

    def _of(self, projects: Iterable[RawObject]) -> Iterator[RawObject]:
        for project in sorted(projects, key=created):
            yield project
            yield from self._list("project_metadata", "ListProjectMetadata", project.name) or ()
            for kind, method in _LISTINGS.items():
                objects = self._list(kind, method, project.name)
                if objects is None and kind not in LATE_KINDS:
                    raise self._mismatch(f"does not support {method}")
                yield from objects or ()

    def _list(self, kind: str, method: str, project: str) -> list[RawObject] | None:
        # The server looks at the registry itself, unless a request says `allow_cache`.
        # Its only field is the first one of a `ProjectSpec`: the name, empty for all projects.
        answer = self._call(method, MESSAGES["ProjectSpec"](name=project).SerializeToString())
        if answer is None:
            return None
        try:
            objects = MESSAGES["ListFrame"].FromString(answer).objects
        except DecodeError:
            raise self._mismatch(f"answered {method} with an unexpected message") from None
        return [raw_object(kind, proto, project) for proto in objects]

    def _mismatch(self, what: str) -> ProtocolMismatchError:
        return ProtocolMismatchError(
            f"{self.shown} is not a Feast registry server: it {what}",
            hint="check that the address is that of a server started with `feast serve_registry`",
        )

    def _call(self, method: str, request: bytes = b"") -> bytes | None:
        """Return the answer of a method, None where the server lacks it; both are messages."""
        import grpc

        pending = PendingRequest(self.shown, time.monotonic())
        while True:
            try:
                answer = self._send(method, request)
            except grpc.RpcError as error:
                status, details = error.code().name, str(error.details() or "")
                if status == "UNIMPLEMENTED":
                    self._retry.note_answer()
                    return None
                passing = status in _RETRIED and not _of_tls(details)
                if not passing or not self._retry.pause(pending, f"answers {status}"):
                    raise self._failure(status, details) from None
            else:
                self._retry.note_answer()
                return answer

    def _send(self, method: str, request: bytes) -> bytes:
        if self._channel is None:
            self._channel = self._open()
        self.requests += 1
        # Without serializers, bytes go out and come in as they are.
        call = self._channel.unary_unary(_SERVICE + method)
        content: bytes = call(request, timeout=self._config.timeout_s, metadata=self._metadata)
        return content

    def _open(self) -> Any:
        import grpc

        options: list[tuple[str, Any]] = [
            ("grpc.max_receive_message_length", min(self._config.max_bytes, _LARGEST)),
            # The retries here count requests; gRPC's own would hide them.
            ("grpc.enable_retries", 0),
        ]
        if not self._secure:
            if self._metadata and not self.shown.startswith(_LOOPBACK):
                log.warning(
                    "the token for %s is sent unencrypted; use grpcs:// or `verify: true`",
                    self.shown,
                )
            return grpc.insecure_channel(self.shown, options)
        if self._config.authority is not None:
            options.append(("grpc.ssl_target_name_override", self._config.authority))
        ca, cert = _pem(self._config.ca_bundle, "ca_bundle"), self._config.client_cert
        chain = _pem(cert, "client_cert")
        key = _pem(self._config.client_key or cert, "client_key")
        credentials = grpc.ssl_channel_credentials(ca, key, chain)
        return grpc.secure_channel(self.shown, credentials, options)

    def _failure(self, status: str, details: str) -> MlcatError:
        where = f"the Feast registry server at {self.shown}"
        for _, value in self._metadata:
            secret = value.removeprefix("Bearer ").removeprefix("Basic ")
            details = details.replace(secret, MASK)
        reason = f"{status}: {mask(' '.join(details.split()))[:_DETAIL_CHARS]}"
        if status == "RESOURCE_EXHAUSTED" and "larger than max" in details:
            return too_large(self.shown, None, self._config.max_bytes)
        tls = "used TLS" if self._secure else "did not use TLS; `verify: true` enables it"
        cure = f"check that it is running and the address is correct; the request {tls}"
        unanswered = SourceUnavailableError, "does not answer", cure
        kind, failure, hint = _FAILURES.get(status, unanswered)
        if status not in _FAILURES and _of_tls(details):
            failure = "presented a certificate that is not trusted"
            hint = "set `ca_bundle` to its CA, and `authority` to the name in the certificate"
        return kind(f"{where} {failure} ({reason})", hint=hint)

    def close(self) -> None:
        """Close the connection; safe to call twice."""
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()


def _of_tls(details: str) -> bool:
    """Return whether a handshake failed, which no retry will mend."""
    return any(word in details.lower() for word in ("certificate", "ssl", "verification check"))


def _pem(path: Path | None, option: str) -> bytes | None:
    try:
        return None if path is None else path.read_bytes()
    except OSError as error:
        raise RecipeError(f"{option}: {path} cannot be read: {error.strerror}") from None
