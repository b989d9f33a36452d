"""A connection to a registry server over gRPC: bytes in, bytes out, and errors of ours."""

import logging
import time
from pathlib import Path
from typing import Any, Final

from requests import Request

from mlcat_ingest.client.options import auth_of
from mlcat_ingest.errors import (
    AuthenticationError,
    MlcatError,
    NotAuthorizedError,
    RateLimitedError,
    RecipeError,
    SourceUnavailableError,
)
from mlcat_ingest.recipe.secrets import MASK, mask
from mlcat_ingest.sources.feast.config import FeastConfig
from mlcat_ingest.sources.feast.transport.whole import too_large

log = logging.getLogger(__name__)

_SERVICE: Final = "/feast.registry.RegistryServer/"
_DEFAULT_PORT: Final = 6570
_LARGEST: Final = 2**31 - 1
_FIRST_PAUSE_S: Final = 0.3
_MAX_PAUSE_S: Final = 10.0
_SAID_CHARS: Final = 200
_LOOPBACK: Final = ("localhost:", "127.", "[::1]:")

_RETRIED: Final = frozenset({"UNAVAILABLE", "ABORTED"})


class RegistryChannel:
    """A connection to one registry server, opened when it is first used."""

    def __init__(self, address: str, config: FeastConfig) -> None:
        """Contact nothing yet.

        Raises:
            RecipeError: it is to accept any certificate; or as `auth_of`.
        """
        if config.verify is False:
            raise RecipeError(
                "feast: `verify: false` is for REST interfaces; over gRPC a certificate is checked",
                hint="name its authority in `ca_bundle`",
            )
        scheme, _, rest = address.rpartition("://")
        host = rest.rstrip("/").lower()
        self.target = host if host.rpartition(":")[2].isdigit() else f"{host}:{_DEFAULT_PORT}"
        self._config = config
        self._secure = (
            scheme.lower() == "grpcs"
            or config.verify is not None
            or any((config.ca_bundle, config.client_cert))
        )
        # As requests would send them; gRPC takes names in lower case only.
        headers = {name: value.get_secret_value() for name, value in config.headers.items()}
        auth = auth_of(config, "the Feast registry server")
        sent = Request("GET", "http://_", headers, auth=auth).prepare().headers
        self._metadata = [(name.lower(), value) for name, value in sent.items()]
        self._channel: Any = None
        self.requests = 0

    def call(self, method: str, request: bytes = b"") -> bytes | None:
        """Return the answer of a method of the registry server, None where it has no such method.

        Both are serialized messages.

        Raises:
            SourceUnavailableError: the server does not answer, or fails.
            AuthenticationError, NotAuthorizedError: it refuses to.
            RecipeError: the answer is too large, or a PEM file cannot be read.
        """
        import grpc

        pause_s = _FIRST_PAUSE_S
        for left in range(self._config.retries, -1, -1):
            try:
                return self._asked(method, request)
            except grpc.RpcError as error:
                status, said = error.code().name, str(error.details() or "")
                if status == "UNIMPLEMENTED":
                    return None
                if not left or status not in _RETRIED or _of_tls(said):
                    raise self._failure(status, said) from None
            time.sleep(pause_s)
            pause_s = min(_MAX_PAUSE_S, pause_s * 2)
        raise AssertionError

    def _asked(self, method: str, request: bytes) -> bytes:
        if self._channel is None:
            self._channel = self._opened()
        self.requests += 1
        # Without serializers, bytes go out and come in as they are.
        ask = self._channel.unary_unary(_SERVICE + method)
        content: bytes = ask(request, timeout=self._config.timeout_s, metadata=self._metadata)
        return content

    def _opened(self) -> Any:
        import grpc

        options: list[tuple[str, Any]] = [
            ("grpc.max_receive_message_length", min(self._config.max_bytes, _LARGEST)),
            # The retries here count requests; gRPC's own would hide them.
            ("grpc.enable_retries", 0),
        ]
        if not self._secure:
            if self._metadata and not self.target.startswith(_LOOPBACK):
                log.warning("the token for %s goes over the network unencrypted", self.target)
            return grpc.insecure_channel(self.target, options)
        if self._config.authority is not None:
            options.append(("grpc.ssl_target_name_override", self._config.authority))
        ca, cert = _pem(self._config.ca_bundle, "ca_bundle"), self._config.client_cert
        chain = _pem(cert, "client_cert")
        key = _pem(self._config.client_key or cert, "client_key")
        credentials = grpc.ssl_channel_credentials(ca, key, chain)
        return grpc.secure_channel(self.target, credentials, options)

    def _failure(self, status: str, said: str) -> MlcatError:
        """Return the error that stands for a status of gRPC."""
        where = f"the Feast registry server at {self.target}"
        for _, value in self._metadata:
            secret = value.removeprefix("Bearer ").removeprefix("Basic ")
            said = said.replace(secret, MASK)
        told = f"{status}: {mask(' '.join(said.split()))[:_SAID_CHARS]}"
        match status:
            case "UNAUTHENTICATED":
                return AuthenticationError(
                    f"{where} refuses the credentials ({told})", hint="check `token`"
                )
            case "PERMISSION_DENIED":
                return NotAuthorizedError(
                    f"{where} does not permit to read ({told})",
                    hint="the user needs DESCRIBE on what shall be read",
                )
            case "RESOURCE_EXHAUSTED" if "larger than max" in said:
                return too_large(where, None, self._config.max_bytes)
            case "RESOURCE_EXHAUSTED":
                return RateLimitedError(f"{where} asks for fewer requests ({told})")
            case "UNKNOWN" | "INTERNAL":
                return SourceUnavailableError(f"{where} fails ({told})", hint="its log says why")
            case _ if _of_tls(said):
                return SourceUnavailableError(
                    f"{where} shows a certificate that is refused ({told})",
                    hint="`ca_bundle` names who may sign it, `authority` whom it is for",
                )
            case _:
                return SourceUnavailableError(f"{where} does not answer ({told})", hint=self._cure)

    @property
    def _cure(self) -> str:
        speaks = "TLS" if self._secure else "no TLS: `verify: true` makes it speak it"
        return f"is it running, and is the address right? it was asked with {speaks}"

    def close(self) -> None:
        """Close the connection; safe to call twice."""
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()


def _of_tls(said: str) -> bool:
    """Say whether a handshake failed, which no later attempt will mend."""
    return any(word in said.lower() for word in ("certificate", "ssl", "verification check"))


def _pem(path: Path | None, option: str) -> bytes | None:
    try:
        return None if path is None else path.read_bytes()
    except OSError as error:
        raise RecipeError(f"{option}: {path} cannot be read: {error.strerror}") from None
