"""Whether an address can be reached, step by step: DNS, connection, TLS; and how its clock goes.

What the doctor looks at before it asks a service for anything: each step says by itself what is
wrong, and each is over within seconds, also where nothing answers.
"""

import ipaddress
import socket
import ssl
from collections.abc import Generator
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, urlsplit

from requests.utils import get_environ_proxies, select_proxy

from mlcat_ingest.core.findings import Finding
from mlcat_ingest.core.redaction import redact_url
from mlcat_ingest.core.threads import start
from mlcat_ingest.net.certificates import Certificate, Trust, unverified
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
        yield Finding(f"{name} proxy", "ok", f"requests go through {redact_url(proxy)}")
        parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    found, addresses = _resolved(name, parts)
    yield found
    if found.outcome == "failed":
        return False
    found = _connected(name, parts, addresses)
    yield found
    if found.outcome == "failed":
        return False
    if proxy is not None or parts.scheme != "https":
        return True
    found = _shaken(name, parts, address.trust)
    yield found
    return found.outcome != "failed"


def clock(name: str, skew_s: float | None) -> Finding:
    """Return what is to be said of a server's clock, `skew_s` seconds ahead of ours."""
    what = f"{name} clock"
    if skew_s is None:
        return Finding(what, "warning", "the server does not tell the time")
    if abs(skew_s) <= MAX_SKEW_S:
        return Finding(what, "ok", "as this machine's")
    way = "ahead of" if skew_s > 0 else "behind"
    return Finding(
        what,
        "warning",
        f"{abs(skew_s):,.0f} s {way} this machine's",
        "set both by NTP: what changed since the last run is told by these clocks",
    )


def _proxy_of(url: str) -> str | None:
    if loopback_without_proxy(url) is not None:
        return None
    proxy: str | None = select_proxy(url, get_environ_proxies(url))
    return proxy


def _port(parts: SplitResult) -> int:
    return parts.port or _PORTS.get(parts.scheme, 80)


def _addresses(parts: SplitResult) -> list[str]:
    found = socket.getaddrinfo(parts.hostname, _port(parts), type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(one[4][0]) for one in found))


def _resolved(name: str, parts: SplitResult) -> tuple[Finding, list[str]]:
    what, host = f"{name} DNS", parts.hostname or ""
    hint = "is the address right, and does this machine's DNS know the host?"
    if _is_ip(host):
        return Finding(what, "ok", f"{host} is an IP address"), [host]
    try:
        # The system's resolver takes no time limit, so it is left alone when it takes too long.
        found = start(lambda: _addresses(parts), "dns").result(PATIENCE_S)
    except TimeoutError:
        told = f"no answer about {host} within {PATIENCE_S:.0f} s"
        return Finding(what, "failed", told, hint), []
    except (OSError, UnicodeError):
        return Finding(what, "failed", f"there is no host of the name {host}", hint), []
    shown = found[:_MAX_ADDRESSES]
    return Finding(what, "ok", f"{host} is {', '.join(shown)}"), shown


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _connected(name: str, parts: SplitResult, addresses: list[str]) -> Finding:
    what, port = f"{name} connection", _port(parts)
    told = ""
    for address in addresses:
        try:
            socket.create_connection((address, port), PATIENCE_S).close()
        except TimeoutError:
            told = f"no answer from {address} port {port} within {PATIENCE_S:.0f} s"
        except OSError as error:
            told = f"{address} port {port}: {error.strerror or error}"
        else:
            return Finding(what, "ok", f"{address} port {port} answers")
    return Finding(
        what, "failed", told, "is it running, is the port right, does a firewall stand between?"
    )


def _shaken(name: str, parts: SplitResult, trust: Trust) -> Finding:
    what, host, port = f"{name} TLS", parts.hostname or "", _port(parts)
    try:
        context = trust.context()
    except (OSError, ssl.SSLError) as error:
        where = trust.verify if isinstance(trust.verify, str) else trust.cert
        return Finding(what, "failed", f"{where} cannot be used: {error}", "name another PEM file")
    try:
        with (
            socket.create_connection((host, port), PATIENCE_S) as plain,
            context.wrap_socket(plain, server_hostname=host) as secured,
        ):
            facts, version = secured.getpeercert(), secured.version() or "TLS"
    except ssl.SSLCertVerificationError as error:
        return _refused(what, error, unverified(host, port, PATIENCE_S))
    except (OSError, ssl.SSLError) as error:
        told = f"the handshake failed: {getattr(error, 'reason', None) or error}"
        return Finding(what, "failed", told, "is https right, and not http?")
    if trust.verify is False:
        return _accepted(what, version, trust, unverified(host, port, PATIENCE_S))
    return _accepted(what, version, trust, Certificate.of(facts or {}))


def _refused(what: str, error: ssl.SSLCertVerificationError, shown: Certificate | None) -> Finding:
    certificate = f"; it is {shown}" if shown is not None else ""
    reason = error.verify_message or str(error)
    hint = "name the authority that signed it in the config's PEM file, or mend the certificate"
    if "expired" in reason or "not yet valid" in reason:
        hint = "renew the certificate, or set this machine's clock"
    elif "mismatch" in reason:
        hint = "use the name that the certificate is for"
    return Finding(what, "failed", f"the certificate is refused: {reason}{certificate}", hint)


def _accepted(what: str, version: str, trust: Trust, shown: Certificate | None) -> Finding:
    told = version if shown is None else f"{version}, certificate {shown}"
    if trust.verify is False:
        hint = "trust its authority instead of any certificate"
        return Finding(what, "warning", f"{told}; it is not checked", hint)
    if shown is not None and shown.days_left < _SOON_DAYS:
        return Finding(what, "warning", f"{told}, soon", "renew the certificate")
    return Finding(what, "ok", told)
