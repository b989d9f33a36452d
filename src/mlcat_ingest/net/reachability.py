"""Why a request got no answer, by the exception that requests raised; and a server's clock."""

import os
import re
import ssl
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import requests
from requests.utils import get_environ_proxies, select_proxy

from mlcat_ingest.core.findings import Finding
from mlcat_ingest.core.redaction import redact_url, redact_urls

MAX_SKEW_S: Final = 5.0
"""Seconds that a server's clock may be off before it is worth a warning."""

_HANDSHAKE_S: Final = 2.0
_SPEAKS_TLS: Final = (
    b"plain HTTP request was sent to HTTPS port",
    b"HTTP request to an HTTPS server",
    b"speaking plain HTTP to an SSL-enabled server port",
)
"""The answers of nginx, Go's server and Apache to http on a port of https."""

_CERTIFICATE: Final = "CERTIFICATE_VERIFY_FAILED.*"
_UNKNOWN_HOST: Final = "unknown host"
_CURES: Final = {
    f"{_UNKNOWN_HOST}|name resolution": "check the address and this machine's DNS",
    f"{_CERTIFICATE}(expired|not yet valid)": "renew the certificate, or set this machine's clock",
    f"{_CERTIFICATE}(mismatch|not valid for)": "use the name that the certificate is for",
    _CERTIFICATE: "set `ca_bundle` to the PEM file of the authority that signed the certificate",
    "": "check that it is running and the address is correct",
}
"""The cure of a cause by its pattern; the first match counts."""


def clock(name: str, skew_s: float | None) -> Finding:
    """Return the finding about a server's clock, `skew_s` seconds ahead of ours."""
    what = f"{name} clock"
    if skew_s is None:
        return Finding(what, "warning", "the server does not report its time")
    if abs(skew_s) <= MAX_SKEW_S:
        return Finding(what, "ok", "as this machine's")
    way = "ahead of" if skew_s > 0 else "behind"
    return Finding(
        what,
        "warning",
        f"{abs(skew_s):,.0f} s {way} this machine's",
        "synchronize both by NTP: incremental runs rely on these clocks",
    )


class NoAnswer(NamedTuple):
    """The failure of a service to answer, as the rest of a sentence about it; and the cure.

    A wrong address, certificate or protocol stays wrong: such a failure `is_lasting`.
    """

    what: str
    hint: str
    is_lasting: bool = False


def no_answer_of(error: BaseException, url: str) -> NoAnswer:
    """Return why a request to `url` got no answer.

    Cost: one handshake where http was spoken to a port that hung up.
    """
    chain = _chain(error)
    cause = _sentence(chain[-1])
    if isinstance(error, requests.TooManyRedirects):
        return NoAnswer(
            f"redirect loop: {cause}",
            "check that the address is that of the service itself",
            is_lasting=True,
        )
    if isinstance(error, requests.exceptions.ProxyError):
        proxy, variable = _proxy(url)
        return NoAnswer(
            f"cannot be reached through the proxy {proxy} of {variable}: {cause}",
            f"correct {variable}, or add the host to NO_PROXY",
        )
    if "WRONG_VERSION_NUMBER" in cause:
        return NoAnswer(
            f"does not speak https: {cause}",
            "use http:// in the address, or another port",
            is_lasting=True,
        )
    if any(isinstance(inner, ConnectionError) for inner in chain) and _shows_certificate(url):
        return NoAnswer(
            f"does not speak http: {cause}",
            "use https:// in the address, or another port",
            is_lasting=True,
        )
    hint = next(cure for pattern, cure in _CURES.items() if re.search(pattern, cause))
    is_lasting = cause == _UNKNOWN_HOST or "CERTIFICATE_VERIFY" in cause
    return NoAnswer(f"does not answer: {cause}", hint, is_lasting)


def wants_tls(status: int, content: bytes) -> bool:
    """Return whether a reply to http shows that the port speaks https."""
    return status == 400 and any(words in content for words in _SPEAKS_TLS)


def _shows_certificate(url: str) -> bool:
    """Return whether the port of an http address speaks TLS."""
    parts = urlsplit(url)
    if parts.scheme != "http":
        return False
    try:
        address = (parts.hostname or "", parts.port or 80)
        return bool(ssl.get_server_certificate(address, timeout=_HANDSHAKE_S))
    except OSError:
        return False


def _proxy(url: str) -> tuple[str, str]:
    """Return the proxy of a request to `url`, and the variable that names it."""
    proxy = str(select_proxy(url, get_environ_proxies(url)) or "")
    names = (f"{urlsplit(url).scheme}_proxy", "all_proxy")
    variables = [case(name) for name in names for case in (str.upper, str)]
    variable = next((name for name in variables if os.environ.get(name) == proxy), variables[0])
    return redact_url(proxy), variable


def _chain(error: BaseException) -> list[BaseException]:
    """Return an error and the errors that it wraps, the innermost last."""
    chain = [error]
    while True:
        inner: Any = getattr(chain[-1], "reason", None)
        if not isinstance(inner, BaseException):
            inner = next((arg for arg in chain[-1].args if isinstance(arg, BaseException)), None)
        if inner is None:
            return chain
        chain.append(inner)


def _sentence(error: BaseException) -> str:
    """Return a network error as a short sentence."""
    text = (str(error) or type(error).__name__).rpartition("): ")[2]
    text = text.split(": ", 1)[1] if "object at 0x" in text and ": " in text else text
    if "Temporary failure in name resolution" in text:
        text = "temporary failure in name resolution"
    # The name in the address says it better than urllib3's wording of a failed look-up.
    elif "Name or service not known" in text or "Failed to resolve" in text:
        text = _UNKNOWN_HOST
    return redact_urls(text)
