"""Configurations of the sinks, and the table of sinks; cheap to import."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    Field,
    SecretStr,
    model_validator,
)

from mlcat_ingest.metadata.reserved import MAX_REQUEST_BYTES, MAX_REQUEST_ITEMS
from mlcat_ingest.recipe.fields import (
    OptionalSecret,
    RecipeModel,
    ServiceUrl,
    none_if_empty,
    printable_secret,
)
from mlcat_ingest.recipe.paths import RecipePath, RecipeUrl

_ALWAYS_SYNC = "is not needed: writes are always durable when they are acknowledged; delete it"
_ALWAYS_RESTLI = "is not needed: the service is asked what it takes; delete it"

HeaderValue = Annotated[SecretStr, AfterValidator(printable_secret)]


def _no_credentials(server: str | None) -> str | None:
    if server is None:
        return None
    parts = urlsplit(server)
    if "@" in parts.netloc:
        raise ValueError("must not hold a user name or a password; the service takes a `token`")
    if parts.query or parts.fragment:
        raise ValueError("must not end in a query or a fragment")
    return server


class RestSinkConfig(RecipeModel):
    """A catalog service over HTTP: ours, or DataHub's."""

    key_hints: ClassVar[Mapping[str, str]] = {
        "mode": _ALWAYS_SYNC,
        "default_emit_mode": _ALWAYS_SYNC,
        "endpoint": _ALWAYS_RESTLI,
        "openapi_ingestion": _ALWAYS_RESTLI,
        "retry_status_codes": "cannot be set: 429, 502, 503 and 504 are retried; delete it",
        "retry_max_times": "write `max_attempts` for it, which counts the first attempt too",
        "disable_ssl_verification": "write `tls: insecure` for it",
        "max_pending_requests": "cannot be set: queues are bounded already; delete it",
    }

    server: Annotated[
        ServiceUrl | None, BeforeValidator(none_if_empty), AfterValidator(_no_credentials)
    ] = None
    """Base address; `/gms` and `/api/gms` at its end work. Left out: `MLCAT_SERVER`,
    `DATAHUB_GMS_URL`, then `~/.datahubenv`."""
    token: OptionalSecret = None
    """Bearer token; empty is none. Left out: as for `server`, `MLCAT_TOKEN` first."""
    headers: dict[str, HeaderValue] = Field(
        default_factory=dict, validation_alias=AliasChoices("headers", "extra_headers")
    )
    """Further headers of every request; their values are secrets."""
    timeout_s: float = Field(
        default=60.0, gt=0, le=3600, validation_alias=AliasChoices("timeout_s", "timeout_sec")
    )
    """Seconds to wait for a reply before the request counts as failed."""
    connect_timeout_s: float = Field(default=5.0, gt=0, le=600)
    """Seconds to wait for a connection."""
    max_attempts: int = Field(default=6, ge=1, le=20)
    """How often a request is sent at most, the first time included."""
    connections: int = Field(
        default=4, ge=1, le=64, validation_alias=AliasChoices("connections", "max_threads")
    )
    """Requests in flight at once."""
    batch_size: int = Field(
        default=MAX_REQUEST_ITEMS,
        ge=1,
        le=MAX_REQUEST_ITEMS,
        validation_alias=AliasChoices("batch_size", "max_per_batch"),
    )
    """Proposals in one request at most."""
    batch_bytes: int = Field(default=MAX_REQUEST_BYTES, ge=65_536, le=64 * 1024 * 1024)
    """Bytes of one request's body at most."""
    tls: Literal["verify", "insecure"] = "verify"
    """`insecure` accepts any certificate of the service: for trials only."""
    ca_bundle: RecipePath | None = Field(
        default=None, validation_alias=AliasChoices("ca_bundle", "ca_certificate_path")
    )
    """PEM file of the authorities to trust in place of the system's."""
    client_cert: RecipePath | None = Field(
        default=None, validation_alias=AliasChoices("client_cert", "client_certificate_path")
    )
    """PEM file of the certificate to show to the service."""
    client_key: RecipePath | None = Field(
        default=None, validation_alias=AliasChoices("client_key", "client_key_path")
    )
    """PEM file of the certificate's key, where it is not in `client_cert`."""

    @model_validator(mode="after")
    def _key_needs_certificate(self) -> Self:
        if self.client_key is not None and self.client_cert is None:
            raise ValueError("`client_key` is of use with `client_cert` only")
        return self

    @property
    def verify(self) -> bool | str:
        """Return what `Http` takes as `verify`: a CA bundle's path, or whether to verify."""
        if self.ca_bundle is not None:
            return str(self.ca_bundle)
        return self.tls == "verify"

    @property
    def cert(self) -> str | tuple[str, str] | None:
        """Return what `Http` takes as `cert`: certificate file, or certificate and key file."""
        if self.client_cert is None:
            return None
        if self.client_key is None:
            return str(self.client_cert)
        return str(self.client_cert), str(self.client_key)


class FileSinkConfig(RecipeModel):
    """A file of proposals: nothing is merged or evaluated."""

    path: RecipePath = Field(validation_alias=AliasChoices("path", "filename"))
    """The file to write: JSON lines, or one JSON list where the name ends in `.json`."""


class EmbeddedSinkConfig(RecipeModel):
    """The catalog in the box, in a child process that ends with the run."""

    db: RecipeUrl = "sqlite:///mlcat-catalog.db"
    """Its database: a path, or the address of an SQLite database."""


SINKS: Mapping[str, tuple[type[RecipeModel], str]] = {
    "rest": (RestSinkConfig, "mlcat_ingest.sinks.rest:RestSink"),
    "file": (FileSinkConfig, "mlcat_ingest.sinks.file:FileSink"),
    "embedded": (EmbeddedSinkConfig, "mlcat_ingest.sinks.embedded:EmbeddedSink"),
}
"""Type in the recipe to its configuration and its class, the latter as `module:Class`."""

SINK_ALIASES: Mapping[str, str] = {"datahub-rest": "rest"}
"""What DataHub's recipes call a sink."""
