"""Tracking URIs: what may be shown of them, and the one spelling that identifies a server."""

import re
from typing import Final
from urllib.parse import urlsplit, urlunsplit

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_HTTP: Final = ("http://", "https://")
_USER_INFO: Final = re.compile(r"//[^/@\s]*@")
_DATABASE: Final = re.compile(r"(sqlite|postgresql|postgres|mysql|mssql)(\+\w+)?:", re.IGNORECASE)


def is_http(uri: str) -> bool:
    """Return whether `uri` is that of a tracking server."""
    return uri.lower().startswith(_HTTP)


def is_database(uri: str) -> bool:
    """Return whether `uri` is that of a database that MLflow opens itself."""
    return _DATABASE.match(uri) is not None


def is_readable_database(uri: str) -> bool:
    """Return whether `uri` is that of a database whose tables we can read ourselves."""
    found = _DATABASE.match(uri)
    return found is not None and found[1].lower() != "mssql"


def public_uri(uri: str) -> str:
    """Return `uri` without user name, password and query."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return "an address that cannot be read"
    if not parts.netloc:
        # sqlite:///path has no host; urlunsplit would drop one of its slashes.
        return uri.partition("?")[0]
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def public_text(text: str) -> str:
    """Return a sentence with the user names and passwords in its addresses left out."""
    return _USER_INFO.sub("//", text)


def normalised(uri: str) -> str:
    """Return the one spelling of `uri`: lower-case host, no default port, slash or credentials."""
    shown = public_uri(uri.strip())
    if not is_http(shown):
        return shown
    parts = urlsplit(shown)
    host = (parts.hostname or "").lower()
    if ":" in host:
        host = f"[{host}]"
    scheme = parts.scheme.lower()
    if parts.port is not None and parts.port != _DEFAULT_PORTS[scheme]:
        host = f"{host}:{parts.port}"
    return f"{scheme}://{host}{parts.path.rstrip('/')}"
