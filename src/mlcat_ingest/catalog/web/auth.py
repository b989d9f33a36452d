"""Permissions of tokens, and addresses of clients."""

import hmac
import ipaddress
import socket
from typing import Final, Literal

from starlette.types import Scope

from mlcat_ingest.catalog.web.throttle import WrongTokens

CSRF: Final = "mlcat.csrf"
"""The key of an ASGI scope under which the pages find the token that their forms send along."""

MAY_WRITE: Final = "mlcat.may_write"
"""The key of an ASGI scope under which endpoints find whether the request may write."""

_IPV6_PREFIX_BITS: Final = 64


class Authenticator:
    """Checks tokens, and refuses addresses that guess at them."""

    def __init__(self, token: str, read_token: str | None, wrong_tokens: WrongTokens) -> None:
        """Allow everything with `token`, and reading only with `read_token` if there is one."""
        self._token = token.encode()
        self._read_token = read_token.encode() if read_token else None
        self._wrong_tokens = wrong_tokens

    def permission(self, given: bytes, address: str) -> Literal["write", "read"] | None:
        """Return what the token `given` allows; None for a wrong one.

        Raises:
            TooManyRequestsError: `address` tried too many wrong tokens.
        """
        self._wrong_tokens.check(address)
        # Both are compared, whichever is right, so that the time says nothing.
        may_write = hmac.compare_digest(given, self._token)
        may_read = self._read_token is not None and hmac.compare_digest(given, self._read_token)
        if may_write or may_read:
            return "write" if may_write else "read"
        if given:
            self._wrong_tokens.add(address, given)
        return None


def client_address(scope: Scope) -> str:
    """Return the address of a client, of IPv6 the network: whoever has one address has them all."""
    host: str = (scope.get("client") or ("", 0))[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if address.version == 4:
        return host
    return str(ipaddress.ip_network((address, _IPV6_PREFIX_BITS), strict=False))


def is_loopback(host: str) -> bool:
    """Return whether `host`, a name or an address, reaches only this machine itself."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return all(ipaddress.ip_address(str(entry[4][0])).is_loopback for entry in found)
