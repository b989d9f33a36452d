"""Addresses of Feast registries: what kind each is."""

import re
from typing import Annotated, Final, Literal
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator, StringConstraints, ValidationInfo

from mlcat_ingest.core.redaction import user_info
from mlcat_ingest.recipe.fields import PublicUrl
from mlcat_ingest.recipe.paths import base_dir_of, resolved_url

RegistryType = Literal["file", "sql", "remote", "rest"]
RegistryKind = Literal["file", "s3", "object", "sql", "remote", "rest"]

_SERVER: Final = re.compile(r"(?:[A-Za-z0-9_-][A-Za-z0-9_.-]*|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9]*)(\+[A-Za-z0-9_]+)?:")
_DATABASES: Final = frozenset(
    {"sqlite", "postgresql", "postgres", "mysql", "mariadb", "mssql", "oracle"}
)
_S3: Final = frozenset({"s3", "s3a", "s3n"})
_AZURE: Final = ".blob.core.windows.net"


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("has a line break or another control character in it")
    return text


def _address(text: str, info: ValidationInfo) -> str:
    # A server's name without a port is no path, if its type is given.
    if kind_of(_printable(text), info.data.get("registry_type")) in {"remote", "rest"}:
        return text
    return resolved_url(text, base_dir_of(info))


RegistryAddress = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1),
    AfterValidator(_address),
    PublicUrl(),
]
"""Where a registry is; relative paths and sqlite files start at the recipe's folder."""


def kind_of(address: str, named: RegistryType | None = None) -> RegistryKind:
    """Return what fetches the registry at `address`, of the type that Feast names, if it does."""
    if named is not None and named != "file":
        return named
    scheme = _SCHEME.match(address)
    if scheme is None or _SERVER.fullmatch(address):
        return "remote" if _SERVER.fullmatch(address) and named is None else "file"
    name = scheme[1].lower()
    if name in _DATABASES or (scheme[2] and named is None):
        return "sql"
    if name in {"grpc", "grpcs"}:
        return "remote"
    if name in {"http", "https"}:
        return "object" if (urlsplit(address).hostname or "").endswith(_AZURE) else "rest"
    if name in _S3:
        return "s3"
    return "file" if name == "file" or "://" not in address else "object"


def password_in(address: str) -> str | None:
    """Return the password in `address`, None where it has none."""
    _, password = user_info(address)
    return None if password is None else unquote(password)


def local_path(address: str) -> str:
    """Return the path of a local file, which may be written as a `file:` address."""
    return unquote(urlsplit(address).path) if address.startswith("file:") else address
