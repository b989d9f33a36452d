"""Tracking URIs: what kind each is, and the one spelling that identifies a server."""

import os
import re
from difflib import get_close_matches
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from mlcat_ingest.core.redaction import redact_url

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_HTTP: Final = ("http://", "https://")
_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_SCHEMES: Final = (
    *("http", "https", "file", "databricks", "databricks-uc", "uc"),
    *("sqlite", "postgresql", "postgres", "mysql", "mssql"),
)
_PLUGINS: Final = ("mlflow.tracking_store", "mlflow.model_registry_store")
"""Entry points by which further packages bring MLflow schemes of their own."""

_DATABASE: Final = re.compile(r"(sqlite|postgresql|postgres|mysql|mssql)(\+\w+)?:", re.IGNORECASE)


def with_known_scheme(uri: str) -> str:
    """Return `uri`, if MLflow or an installed plug-in of it can open addresses of its scheme.

    Raises:
        ValueError: nobody can; says which schemes there are.
    """
    found = _SCHEME.match(uri)
    if found is None or is_database(uri):
        return uri
    plugins = (entry_points(group=group) for group in _PLUGINS)
    known = sorted({*_SCHEMES, *(one.name for some in plugins for one in some)})
    scheme = found[1].lower()
    if scheme in known:
        return uri
    near = get_close_matches(scheme, known, 1)
    guess = f" (did you mean {near[0]}://?)" if near else ""
    raise ValueError(
        f"nothing opens an address that begins with {found[0]}{guess}; possible schemes are "
        f"{', '.join(known)}"
    )


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


def folder_of(uri: str) -> Path | None:
    """Return the folder that `uri` names, None for any other kind of address."""
    if uri.startswith("file:"):
        return Path(unquote(urlsplit(uri).path))
    is_path = os.sep in uri or uri.startswith(".") or Path(uri).exists()
    return Path(uri) if "://" not in uri and is_path else None


def normalised(uri: str) -> str:
    """Return the one spelling of `uri`: lower-case host, no default port, slash or credentials."""
    shown = redact_url(uri.strip())
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
