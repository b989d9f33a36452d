"""TLS certificates as the doctor shows them: their names, end and signer."""

import math
import os
import socket
import ssl
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from requests.utils import DEFAULT_CA_BUNDLE_PATH
from urllib3.util.ssl_ import create_urllib3_context

# OpenSSL's X509_V_FLAG_NO_CHECK_TIME, which the ssl module has no name for.
_NO_CHECK_TIME: Final = 0x200000
_DAY_S: Final = 86_400
_MAX_NAMES: Final = 3


@dataclass(frozen=True, slots=True)
class Trust:
    """The certificates that are accepted, and the one that is shown, as requests takes them."""

    verify: bool | str = True
    cert: str | tuple[str, str] | None = None

    def context(self) -> ssl.SSLContext:
        """Return a context that verifies as a request would.

        Raises:
            OSError, ssl.SSLError: a PEM file cannot be read.
        """
        # As strict as a request is, which differs from one version of Python to the next.
        context = create_urllib3_context()
        if self.verify is False:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        else:
            bundle = self.verify if isinstance(self.verify, str) else _default_bundle()
            folder = Path(bundle).is_dir()
            context.load_verify_locations(
                None if folder else bundle, capath=bundle if folder else None
            )
        if self.cert is not None:
            cert, key = (self.cert, None) if isinstance(self.cert, str) else self.cert
            context.load_cert_chain(cert, key)
        return context


def _default_bundle() -> str:
    """Return the authorities that requests trusts."""
    named = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE")
    return named or str(DEFAULT_CA_BUNDLE_PATH)


@dataclass(frozen=True, slots=True)
class Certificate:
    """A server's certificate: the names it is for, its end, and its signer."""

    names: tuple[str, ...]
    issuer: str
    ends_s: float

    @property
    def days_left(self) -> int:
        """Whole days until it expires, below zero for one that has."""
        return math.floor((self.ends_s - time.time()) / _DAY_S)

    def __str__(self) -> str:
        """Return it in words for the user."""
        more = len(self.names) - _MAX_NAMES
        names = ", ".join(self.names[:_MAX_NAMES]) or "nobody"
        also = f" and {more} more" if more > 0 else ""
        end = time.strftime("%Y-%m-%d", time.gmtime(self.ends_s))
        verb = "expired" if self.days_left < 0 else "expires"
        return f"for {names}{also}, signed by {self.issuer}, {verb} on {end}"

    @classmethod
    def of(cls, facts: dict[str, Any]) -> Self | None:
        """Return what `SSLSocket.getpeercert()` says, None where it says nothing."""
        if not facts.get("notAfter"):
            return None
        subject = _common_name(facts.get("subject", ()))
        names = tuple(str(value) for _, value in facts.get("subjectAltName", ()))
        return cls(
            names or ((subject,) if subject else ()),
            _common_name(facts.get("issuer", ())) or "nobody",
            float(ssl.cert_time_to_seconds(facts["notAfter"])),
        )


def _common_name(name: Any) -> str:
    parts = {key: value for group in name for key, value in group}
    return str(parts.get("commonName") or parts.get("organizationName") or "")


def fetch_certificate(host: str, port: int, patience_s: float) -> Certificate | None:
    """Return the certificate that a server shows, whether or not it may be trusted.

    The ssl module takes apart only what it could verify; so the certificate is first fetched, and
    then, trusted for this one purpose, shown again.

    Cost: two handshakes.
    """
    try:
        pem = ssl.get_server_certificate((host, port), timeout=patience_s)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.verify_flags |= ssl.VerifyFlags(_NO_CHECK_TIME)
        context.load_verify_locations(cadata=pem)
        with (
            socket.create_connection((host, port), patience_s) as plain,
            context.wrap_socket(plain, server_hostname=host) as secured,
        ):
            return Certificate.of(secured.getpeercert() or {})
    except (OSError, ValueError):
        return None
