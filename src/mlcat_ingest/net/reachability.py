"""Reachability of a service: findings of the doctor step by step, and why a request got no answer.

The doctor looks at DNS, connection, TLS and clock before it sends a request. Each step says by
itself what is wrong, and each is over within seconds, also where nothing answers.
"""

import ipaddress
import os
import socket
import ssl
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

import requests
from requests.utils import get_environ_proxies, select_proxy

from mlcat_ingest.core.findings import Finding
from mlcat_ingest.core.redaction import redact_url, redact_urls
from mlcat_ingest.core.resources import start_thread
from mlcat_ingest.net.certificates import Certificate, Trust, fetch_certificate
from mlcat_ingest.net.session import loopback_without_proxy

PATIENCE_S: Final = 5.0
"""Seconds that DNS, each address and each handshake have to answer."""

MAX_SKEW_S: Final = 5.0
"""Seconds that a server's clock may be off before it is worth a warning."""

_PORTS: Final = {"http": 80, "https": 443}
_MAX_ADDRESSES: Final = 4
_SOON_DAYS: Final = 14


@dataclass(frozen=True, slots=True)
class Address:
    """An address to be reached, by the name that findings give it: `MLflow`, `catalog`."""

    name: str
    url: str
    trust: Trust


def reach(address: Address) -> Generator[Finding, None, bool]:
    """Yield what is found on the way to `address`; return whether a request may be tried.

    Through a proxy only the proxy's own address is looked at: names are its to resolve.

    Cost: a look-up and a connection, one handshake more for https, two more where it fails.
    """
    name, parts = address.name, urlsplit(address.url)
    proxy = _proxy_of(address.url)
    if proxy is not None:
        yield Finding(f"{name} proxy", "ok", f"requests are sent through {redact_url(proxy)}")
        parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    finding, addresses = _resolve(name, parts)
    yield finding
    if finding.outcome != "failed":
        finding = _connect(name, parts, addresses)
        yield finding
    if finding.outcome != "failed" and proxy is None and parts.scheme == "https":
        finding = _shake_hands(name, parts, address.trust)
        yield finding
    return finding.outcome != "failed"


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


def _proxy_of(url: str) -> str | None:
    if loopback_without_proxy(url) is not None:
        return None
    proxy: str | None = select_proxy(url, get_environ_proxies(url))
    return proxy


def _port(parts: SplitResult) -> int:
    return parts.port or _PORTS.get(parts.scheme, 80)


def _addresses(parts: SplitResult) -> list[str]:
    rows = socket.getaddrinfo(parts.hostname, _port(parts), type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(row[4][0]) for row in rows))


def _resolve(name: str, parts: SplitResult) -> tuple[Finding, list[str]]:
    what, host = f"{name} DNS", parts.hostname or ""
    hint = "check the address and this machine's DNS"
    if _is_ip(host):
        return Finding(what, "ok", f"{host} is an IP address"), [host]
    try:
        # The system's resolver takes no time limit, so it is left alone when it takes too long.
        addresses = start_thread(lambda: _addresses(parts), "dns").result(PATIENCE_S)
    except TimeoutError:
        detail = f"no DNS answer for {host} within {PATIENCE_S:.0f} s"
        return Finding(what, "failed", detail, hint), []
    except (OSError, UnicodeError):
        return Finding(what, "failed", f"unknown host {host}", hint), []
    shown = addresses[:_MAX_ADDRESSES]
    return Finding(what, "ok", f"{host} is {', '.join(shown)}"), shown


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _connect(name: str, parts: SplitResult, addresses: list[str]) -> Finding:
    what, port = f"{name} connection", _port(parts)
    detail = ""
    for address in addresses:
        try:
            socket.create_connection((address, port), PATIENCE_S).close()
        except TimeoutError:
            detail = f"no answer from {address} port {port} within {PATIENCE_S:.0f} s"
        except OSError as error:
            detail = f"{address} port {port}: {error.strerror or error}"
        else:
            return Finding(what, "ok", f"{address} port {port} answers")
    return Finding(
        what,
        "failed",
        detail,
        "check that it is running, the port is correct and no firewall blocks it",
    )


def _shake_hands(name: str, parts: SplitResult, trust: Trust) -> Finding:
    what, host, port = f"{name} TLS", parts.hostname or "", _port(parts)
    try:
        context = trust.context()
    except (OSError, ssl.SSLError) as error:
        where = trust.verify if isinstance(trust.verify, str) else trust.cert
        return Finding(
            what, "failed", f"{where} cannot be used: {error}", "configure another PEM file"
        )
    try:
        with (
            socket.create_connection((host, port), PATIENCE_S) as plain,
            context.wrap_socket(plain, server_hostname=host) as secured,
        ):
            facts, version = secured.getpeercert(), secured.version() or "TLS"
    except ssl.SSLCertVerificationError as error:
        return _refusal(what, error, fetch_certificate(host, port, PATIENCE_S))
    except (OSError, ssl.SSLError) as error:
        detail = f"the handshake failed: {getattr(error, 'reason', None) or error}"
        return Finding(what, "failed", detail, "check that the port serves https, not http")
    if trust.verify is False:
        shown = fetch_certificate(host, port, PATIENCE_S)
    else:
        shown = Certificate.of(facts or {})
    detail = version if shown is None else f"{version}, certificate {shown}"
    if trust.verify is False:
        hint = "configure its authority in `ca_bundle` instead"
        return Finding(what, "warning", f"{detail}; not verified", hint)
    if shown is not None and shown.days_left < _SOON_DAYS:
        return Finding(what, "warning", f"{detail}, expires soon", "renew the certificate")
    return Finding(what, "ok", detail)


def _refusal(what: str, error: ssl.SSLCertVerificationError, shown: Certificate | None) -> Finding:
    certificate = f"; it is {shown}" if shown is not None else ""
    reason = error.verify_message or str(error)
    hint = _certificate_hint(reason) or (
        "add the authority that signed it to the config's PEM file, or repair the certificate"
    )
    return Finding(what, "failed", f"certificate rejected: {reason}{certificate}", hint)


_PROBE_S: Final = 2.0
_SPEAKS_TLS: Final = (
    b"plain HTTP request was sent to HTTPS port",
    b"HTTP request to an HTTPS server",
    b"speaking plain HTTP to an SSL-enabled server port",
)
"""The answers of nginx, Go's server and Apache to http on a port of https."""


class NoAnswer(NamedTuple):
    """The failure of a service to answer, as the rest of a sentence about it; and the cure.

    No later attempt meets another certificate, or another protocol: such a failure `is_lasting`.
    """

    what: str
    hint: str
    is_lasting: bool = False


def no_answer_of(error: BaseException, url: str) -> NoAnswer:
    """Return why a request to `url` got no answer.

    Cost: one connection where http was spoken to a port that hung up.
    """
    cause = _cause(error)
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
    if "CERTIFICATE_VERIFY_FAILED" in cause:
        hint = _certificate_hint(cause) or (
            "set `ca_bundle` to the PEM file of the authority that signed the certificate"
        )
        return NoAnswer(f"does not answer: {cause}", hint, is_lasting=True)
    if "WRONG_VERSION_NUMBER" in cause:
        return NoAnswer(
            f"does not speak https: {cause}",
            "use http:// in the address, or another port",
            is_lasting=True,
        )
    if isinstance(error, requests.ConnectionError) and _hung_up_on_http(error, url):
        return NoAnswer(
            f"does not speak http: {cause}",
            "use https:// in the address, or another port",
            is_lasting=True,
        )
    return NoAnswer(
        f"does not answer: {cause}", "check that it is running and the address is correct"
    )


def wants_tls(status: int, content: bytes) -> bool:
    """Return whether a reply to http says that the port speaks https."""
    return status == 400 and any(words in content for words in _SPEAKS_TLS)


def _certificate_hint(reason: str) -> str | None:
    if "expired" in reason or "not yet valid" in reason:
        return "renew the certificate, or set this machine's clock"
    if "mismatch" in reason or "not valid for" in reason:
        return "use the name that the certificate is for"
    return None


def _hung_up_on_http(error: requests.ConnectionError, url: str) -> bool:
    """Return whether a port that hung up on http speaks TLS."""
    parts = urlsplit(url)
    hung_up = any(isinstance(one, ConnectionError) for one in _chain(error))
    if parts.scheme != "http" or not hung_up or "refused" in str(error):
        return False
    return fetch_certificate(parts.hostname or "", parts.port or 80, _PROBE_S) is not None


def _proxy(url: str) -> tuple[str, str]:
    """Return the proxy that a request to `url` goes through, and the variable that names it."""
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


def _cause(error: BaseException) -> str:
    """Return the innermost reason of a chain of wrapped network errors, as a short sentence."""
    reason = _chain(error)[-1]
    text = (str(reason) or type(reason).__name__).rpartition("): ")[2]
    text = text.split(": ", 1)[1] if "object at 0x" in text and ": " in text else text
    # The name in the address says it better than urllib3's wording of a failed look-up.
    if "Name or service not known" in text or "Failed to resolve" in text:
        text = "unknown host"
    return redact_urls(text)
