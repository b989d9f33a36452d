"""A registry file in any other object store that fsspec opens (extras `gcs`, `azure`)."""

import sys
from typing import Any, Final
from urllib.parse import urlsplit

from mlcat_ingest.core.extras import require_extra
from mlcat_ingest.errors import (
    AuthenticationError,
    MlcatError,
    NotAuthorizedError,
    RecipeError,
    SourceUnavailableError,
)
from mlcat_ingest.recipe.secrets import mask
from mlcat_ingest.sources.feast.config import FeastConfig
from mlcat_ingest.sources.feast.transport.whole import cut_off, too_large

_EXTRAS: Final = {
    **dict.fromkeys(("gs", "gcs"), "gcs"),
    **dict.fromkeys(("az", "abfs", "abfss", "wasb", "wasbs"), "azure"),
}
_CREDENTIALS: Final = frozenset(
    {"account_key", "anon", "client_secret", "connection_string", "credential", "sas_token"}
)
_SAID_CHARS: Final = 200

# What back ends call the ETag of an object, or in its place the time of its last change.
_VERSIONS: Final = ("etag", "ETag", "md5Hash", "generation", "last_modified", "mtime", "modified")

# Each back end has errors of its own, which have no base in common.
_FOREIGN_ERRORS: Final = (
    ("aiohttp", "ClientError"),
    ("azure.core.exceptions", "AzureError"),
    ("gcsfs.retry", "HttpError"),
    ("google.auth.exceptions", "GoogleAuthError"),
)


class StoredObject:
    """Reads one object by fsspec; see `Content`."""

    def __init__(self, address: str, config: FeastConfig) -> None:
        """Contact nothing yet."""
        options = {
            name: secret.get_secret_value() for name, secret in config.storage_options.items()
        }
        self._url, self._options = _in_fsspec(address, options)
        self._protocol = self._url.partition("://")[0].lower()
        self.shown = address.partition("?")[0]
        self._max_bytes = config.max_bytes
        self.requests = 0

    def identity(self) -> str:
        """Return protocol, account and path."""
        account = str(self._options.get("account_name", ""))
        path = self._url.partition("://")[2]
        return "/".join(part for part in (self._protocol, account, path) if part)

    def fetch(self) -> bytes:
        """Return the object's content; see `Content`.

        Raises:
            MissingExtraError: what reads such stores is not installed.
        """
        system = self._opened()
        self.requests += 1
        try:
            before = system.info(self._url)
            size = before.get("size")
            if size is not None and size > self._max_bytes:
                raise too_large(self.shown, size, self._max_bytes)
            content: bytes = system.cat_file(self._url)
            system.invalidate_cache()
            after = system.info(self._url)
        except _errors() as error:
            raise self._failure(error) from None
        if len(content) > self._max_bytes:
            raise too_large(self.shown, len(content), self._max_bytes)
        if size is not None and len(content) < size:
            raise cut_off(self.shown, len(content), size)
        if _version(before) != _version(after):
            raise SourceUnavailableError(
                f"{self.shown} changed while it was fetched",
                hint="is it being written? try again",
            )
        return content

    def _opened(self) -> Any:
        if self._protocol in _EXTRAS:
            require_extra(_EXTRAS[self._protocol], f"a registry at {self._protocol}://")
        try:
            from fsspec import filesystem

            # Instances are shared otherwise, with what they remember of listings.
            return filesystem(self._protocol, skip_instance_cache=True, **self._options)
        except ImportError as error:
            raise RecipeError(
                f"feast: {self.shown} needs a package that is not installed", hint=_said(error)
            ) from error
        except ValueError as error:
            raise RecipeError(
                f"feast: {self.shown} cannot be opened: {_said(error)}",
                hint="see `storage_options`, and `registry` for the kinds of addresses",
            ) from None
        except _errors() as error:
            raise self._failure(error) from None

    def _failure(self, error: Exception) -> MlcatError:
        name, said = type(error).__name__, _said(error)
        status = getattr(error, "status_code", None) or getattr(error, "code", None)
        if isinstance(error, FileNotFoundError):
            return RecipeError(
                f"there is no registry {self.shown}",
                hint="are bucket and path right, and has `feast apply` been run there?",
            )
        # gcsfs makes a plain OSError of it.
        if isinstance(error, PermissionError) or str(status) == "403" or "Forbidden" in said:
            return NotAuthorizedError(
                f"the registry {self.shown} may not be read: {said}",
                hint="permission to read the object is enough",
            )
        if str(status) == "401" or "Auth" in name or "Credential" in name:
            return AuthenticationError(
                f"the credentials for {self.shown} are refused: {name}",
                hint="give `storage_options`, or what the store's own tools look for",
            )
        return SourceUnavailableError(
            f"the registry {self.shown} cannot be fetched: {name}: {said}",
            hint="can the store be reached from here, and are `storage_options` right?",
        )

    def close(self) -> None:
        """Do nothing: the back ends close their connections themselves."""


def _version(info: dict[str, Any]) -> tuple[object, ...]:
    """Return what tells one content of an object from the next, as far as the store says."""
    return tuple(info.get(name) for name in ("size", *_VERSIONS))


def _in_fsspec(address: str, options: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the address and options that fsspec takes; Feast's own for Azure is an https one."""
    parts = urlsplit(address.partition("?")[0])
    scheme, account = parts.scheme.lower(), parts.netloc.partition(".")[0]
    if scheme in {"http", "https"}:
        return f"az:/{parts.path}", _signed_in({"account_name": account, **options})
    if scheme in {"wasb", "wasbs"}:
        container, _, host = parts.netloc.partition("@")
        account = host.partition(".")[0]
        url = f"abfs://{container}{parts.path}"
        return url, _signed_in({"account_name": account, **options} if account else options)
    url = f"{scheme}://{parts.netloc}{parts.path}"
    return url, _signed_in(options) if _EXTRAS.get(scheme) == "azure" else options


def _signed_in(options: dict[str, Any]) -> dict[str, Any]:
    """Return options by which Azure is asked as whoever the machine is, and not as a stranger."""
    return options if _CREDENTIALS & options.keys() else {**options, "anon": False}


def _errors() -> tuple[type[Exception], ...]:
    """Return what the back ends that are loaded may raise."""
    loaded = ((sys.modules.get(module), name) for module, name in _FOREIGN_ERRORS)
    return (OSError, *(getattr(module, name) for module, name in loaded if module is not None))


def _said(error: Exception) -> str:
    return mask(" ".join(str(error).split()))[:_SAID_CHARS]
