"""A registry that is one file: fetched as a whole from this machine or from an object store.

S3 is read by boto3 (extra `aws`), other object stores by fsspec; the extras `gcs` and `azure` have
the back ends of fsspec for Google and Azure.
"""

import os
import sys
import time
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from mlcat_ingest.core.environment import local_path, require_extra
from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import (
    AuthenticationError,
    MlcatError,
    NotAuthorizedError,
    RecipeError,
    SourceUnavailableError,
)
from mlcat_ingest.recipe.loader import stable_content
from mlcat_ingest.recipe.secrets import mask
from mlcat_ingest.sources.aws import aws_error, client_settings, open_session
from mlcat_ingest.sources.feast.config import FeastConfig
from mlcat_ingest.sources.feast.registry import (
    RawObject,
    RegistryTransport,
    split_registry,
    too_large,
)

_ATTEMPTS: Final = 10
_PAUSE_S: Final = 0.1
_RETRIES: Final = 5
"""Further attempts where the recipe sets no `retries`."""
_BROKEN_BODY: Final = frozenset({"IncompleteReadError", "ResponseStreamingError"})
_EXTRAS: Final = {
    **dict.fromkeys(("gs", "gcs"), "gcs"),
    **dict.fromkeys(("az", "abfs", "abfss", "wasb", "wasbs"), "azure"),
}
_CREDENTIALS: Final = frozenset(
    {"account_key", "anon", "client_secret", "connection_string", "credential", "sas_token"}
)
_DETAIL_CHARS: Final = 200

# Names that back ends give to the ETag of an object, or else to the time of its last change.
_VERSIONS: Final = ("etag", "ETag", "md5Hash", "generation", "last_modified", "mtime", "modified")

# Each back end has errors of its own, which have no base in common.
_FOREIGN_ERRORS: Final = (
    ("aiohttp", "ClientError"),
    ("azure.core.exceptions", "AzureError"),
    ("gcsfs.retry", "HttpError"),
    ("google.auth.exceptions", "GoogleAuthError"),
)


class _FileRegistry(RegistryTransport):
    """Reads a registry that is one message, in a file or an object store."""

    @abstractmethod
    def fetch(self) -> bytes:
        """Return the registry as it is at one moment.

        Raises: as `Source.read`; RecipeError where there is none, or it is too large;
        MissingExtraError where a package that reads it is not installed.
        """

    def objects(self) -> Iterator[RawObject]:
        """Yield every object; the registry is fetched anew each time.

        Cost: one request, and memory for the registry.
        """
        yield from split_registry(self.fetch(), self.shown)


class LocalFile(_FileRegistry):
    """Reads a registry file; Feast writes it in place, so that a reader may meet half of one."""

    def __init__(self, address: str, config: FeastConfig) -> None:
        """Keep the path; the file is opened by `fetch`."""
        self._path = local_path(address)
        self.shown = str(self._path)
        self._max_bytes = config.max_bytes

    def server_id(self) -> str:
        """Return the absolute path, without links."""
        return str(self._path.resolve())

    def fetch(self) -> bytes:
        """Return the content, which did not change while it was read."""
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(_PAUSE_S)
            try:
                content = stable_content(self._path, self._max_bytes)
                if content is not None and len(content) > self._max_bytes:
                    raise too_large(self.shown, self._path.stat().st_size, self._max_bytes)
            except OSError as error:
                raise self._failure(error) from None
            # An empty file is one that has been cut and not written yet: Feast writes a header.
            if content:
                return content
        raise SourceUnavailableError(
            f"the registry {self.shown} is empty or kept changing during {_ATTEMPTS} attempts",
            hint="run `feast apply` again; it may have been interrupted",
        )

    def _failure(self, error: OSError) -> MlcatError:
        reason = error.strerror or type(error).__name__
        sentence = f"the registry {self.shown} cannot be read: {reason}"
        match error:
            case FileNotFoundError() | IsADirectoryError():
                return RecipeError(
                    sentence,
                    hint="run `feast apply`, or correct the path; a relative path starts at the "
                    "recipe's folder, in feature_store.yaml at the repository's",
                )
            case PermissionError():
                return NotAuthorizedError(sentence, hint="grant read permission on the file")
            case _:
                return SourceUnavailableError(sentence)


class S3Object(_FileRegistry):
    """Reads one object of S3, or of a service that speaks S3, as of one moment."""

    def __init__(self, address: str, config: FeastConfig) -> None:
        """Keep the address; S3 is contacted by `fetch`."""
        parts = urlsplit(address)
        self._bucket, self._key = parts.netloc, unquote(parts.path.lstrip("/"))
        self.shown = f"s3://{self._bucket}/{self._key}"
        if not self._bucket or not self._key or self._key.endswith("/"):
            raise RecipeError(
                f"feast: {self.shown} names no object",
                hint="use the form s3://bucket/folder/registry.db",
            )
        self._config = config
        self._endpoint = config.s3.endpoint_url or os.environ.get("FEAST_S3_ENDPOINT_URL") or None
        self._retries = _RETRIES if config.retries is None else config.retries
        self._client: Any = None

    def server_id(self) -> str:
        """Return service, bucket and key."""
        host = urlsplit(self._endpoint).netloc.rpartition("@")[2] if self._endpoint else "s3"
        return f"{host}/{self._bucket}/{self._key}"

    def fetch(self) -> bytes:
        """Return the object's content."""
        require_extra("aws", "a registry in S3")
        from botocore.exceptions import BotoCoreError, ClientError

        for left in range(self._retries, -1, -1):
            try:
                return self._content()
            except (BotoCoreError, ClientError) as error:
                # boto3 tries a request again, but not a body that breaks off.
                if not left or type(error).__name__ not in _BROKEN_BODY:
                    raise aws_error(error, f"s3:GetObject of {self.shown}") from None
        raise AssertionError

    def _content(self) -> bytes:
        if self._client is None:
            options, config = self._config.s3, self._config
            session = open_session(profile_name=options.profile, region_name=options.region)
            settings = client_settings(timeout_s=config.timeout_s, retries=self._retries)
            self._client = session.client("s3", endpoint_url=self._endpoint, config=settings)
        self.requests += 1
        answer = self._client.get_object(Bucket=self._bucket, Key=self._key)
        body, size, limit = answer["Body"], answer["ContentLength"], self._config.max_bytes
        with body:
            if size > limit:
                raise too_large(self.shown, size, limit)
            content: bytes = body.read()
        return content

    def close(self) -> None:
        """Close the connections; safe to call twice."""
        client, self._client = self._client, None
        if client is not None:
            client.close()


class StoredObject(_FileRegistry):
    """Reads one object by fsspec."""

    def __init__(self, address: str, config: FeastConfig) -> None:
        """Keep address and options; the store is contacted by `fetch`."""
        options = {
            name: secret.get_secret_value() for name, secret in config.storage_options.items()
        }
        self._url, self._options = _in_fsspec(address, options)
        self._protocol = self._url.partition("://")[0].lower()
        self.shown = address.partition("?")[0]
        self._max_bytes = config.max_bytes

    def server_id(self) -> str:
        """Return protocol, account and path."""
        account = str(self._options.get("account_name", ""))
        path = self._url.partition("://")[2]
        return "/".join(part for part in (self._protocol, account, path) if part)

    def fetch(self) -> bytes:
        """Return the object's content."""
        system = self._file_system()
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
            problem = f"ends after {len(content):,} of {plural(size, 'byte')}"
        elif any(before.get(name) != after.get(name) for name in ("size", *_VERSIONS)):
            problem = "changed during the download"
        else:
            return content
        hint = "try again once `feast apply` has finished"
        raise SourceUnavailableError(f"{self.shown} {problem}", hint=hint)

    def _file_system(self) -> Any:
        if self._protocol in _EXTRAS:
            require_extra(_EXTRAS[self._protocol], f"a registry at {self._protocol}://")
        try:
            from fsspec import filesystem

            # Instances are shared otherwise, with what they remember of listings.
            return filesystem(self._protocol, skip_instance_cache=True, **self._options)
        except ImportError as error:
            raise RecipeError(
                f"feast: a package for {self.shown} is not installed", hint=_text_of(error)
            ) from error
        except ValueError as error:
            raise RecipeError(
                f"feast: {self.shown} cannot be opened: {_text_of(error)}",
                hint="correct `storage_options` or the address in `registry`",
            ) from None
        except _errors() as error:
            raise self._failure(error) from None

    def _failure(self, error: Exception) -> MlcatError:
        name, text = type(error).__name__, _text_of(error)
        status = getattr(error, "status_code", None) or getattr(error, "code", None)
        if isinstance(error, FileNotFoundError):
            return RecipeError(
                f"no registry at {self.shown}",
                hint="check bucket and path, and run `feast apply`",
            )
        # gcsfs makes a plain OSError of it.
        if isinstance(error, PermissionError) or str(status) == "403" or "Forbidden" in text:
            return NotAuthorizedError(
                f"access to the registry {self.shown} denied: {text}",
                hint="grant read permission on the object",
            )
        if str(status) == "401" or "Auth" in name or "Credential" in name:
            return AuthenticationError(
                f"the credentials for {self.shown} were refused: {name}",
                hint="set `storage_options`, or the credentials that the store's own tools use",
            )
        return SourceUnavailableError(
            f"cannot download the registry {self.shown}: {name}: {text}",
            hint="check that the store is reachable and `storage_options` are correct",
        )


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
    """Return options by which Azure signs in as the machine's identity, and not anonymously."""
    return options if _CREDENTIALS & options.keys() else {**options, "anon": False}


def _errors() -> tuple[type[Exception], ...]:
    """Return the classes of errors that the loaded back ends may raise."""
    loaded = ((sys.modules.get(module), name) for module, name in _FOREIGN_ERRORS)
    return (OSError, *(getattr(module, name) for module, name in loaded if module is not None))


def _text_of(error: Exception) -> str:
    return mask(" ".join(str(error).split()))[:_DETAIL_CHARS]
