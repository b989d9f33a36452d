"""Why a service gave no answer, in words for the user, and what to do about it."""

import os
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import requests
from requests.utils import get_environ_proxies, select_proxy

from mlcat_ingest.core.redaction import redact_url, redact_urls
from mlcat_ingest.net.certificates import unverified

_PROBE_S: Final = 2.0
_SPEAKS_TLS: Final = (
    b"plain HTTP request was sent to HTTPS port",
    b"HTTP request to an HTTPS server",
    b"speaking plain HTTP to an SSL-enabled server port",
)
"""What nginx, Go's server and Apache answer to http on a port of https."""


class NoAnswer(NamedTuple):
    """What a service did instead of answering, as the rest of a sentence about it; and the cure."""

    what: str
    hint: str


def no_answer_of(error: BaseException, url: str) -> NoAnswer:
    """Return why a request to `url` got no answer.

    Cost: one connection where http was spoken to a port that hung up.
    """
    cause = _cause(error)
    if isinstance(error, requests.TooManyRedirects):
        return NoAnswer(
            f"redirects in a circle: {cause}", "is it the address of the service itself?"
        )
    if isinstance(error, requests.exceptions.ProxyError):
        proxy, variable = _proxy(url)
        return NoAnswer(
            f"cannot be reached through the proxy {proxy} of {variable}: {cause}",
            f"correct {variable}, or add the host to NO_PROXY",
        )
    if "CERTIFICATE_VERIFY_FAILED" in cause:
        return NoAnswer(f"does not answer: {cause}", _certificate_hint(cause))
    if "WRONG_VERSION_NUMBER" in cause:
        return NoAnswer(
            f"does not speak https: {cause}", "write http:// in the address, or name another port"
        )
    if isinstance(error, requests.ConnectionError) and _wants_tls(error, url):
        return NoAnswer(
            f"does not speak http: {cause}", "write https:// in the address, or name another port"
        )
    return NoAnswer(f"does not answer: {cause}", "is it running, and is the address right?")


def wants_tls(status: int, content: bytes) -> bool:
    """Return whether a reply to http says that the port speaks https."""
    return status == 400 and any(words in content for words in _SPEAKS_TLS)


def _certificate_hint(cause: str) -> str:
    if "expired" in cause or "not yet valid" in cause:
        return "renew the certificate, or set this machine's clock"
    if "mismatch" in cause or "not valid for" in cause:
        return "use the name that the certificate is for"
    return "name the PEM file of the authority that signed the certificate as `ca_bundle`"


def _wants_tls(error: requests.ConnectionError, url: str) -> bool:
    """Return whether a port that hung up on http speaks TLS."""
    parts = urlsplit(url)
    hung_up = any(isinstance(one, ConnectionError) for one in _chain(error))
    if parts.scheme != "http" or not hung_up or "refused" in str(error):
        return False
    return unverified(parts.hostname or "", parts.port or 80, _PROBE_S) is not None


def _proxy(url: str) -> tuple[str, str]:
    """Return the proxy that a request to `url` goes through, and the variable that names it."""
    proxy = str(select_proxy(url, get_environ_proxies(url)) or "")
    names = (f"{urlsplit(url).scheme}_proxy", "all_proxy")
    spelled = (one for name in names for one in (name.upper(), name))
    variable = next((name for name in spelled if os.environ.get(name) == proxy), names[0].upper())
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


def _cause(error: BaseException) -> str:
    """Return the innermost reason of a chain of wrapped network errors, as a short sentence."""
    reason = _chain(error)[-1]
    text = str(reason) or type(reason).__name__
    text = text.split(": ", 1)[1] if "object at 0x" in text and ": " in text else text
    # The name in the address says it better than urllib3's wording of a failed look-up.
    if "Name or service not known" in text or "Failed to resolve" in text:
        text = "there is no host of that name"
    return redact_urls(text)
