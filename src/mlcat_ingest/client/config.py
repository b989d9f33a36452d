"""Configurations of the sinks, and the table of sinks; cheap to import."""

from collections.abc import Mapping
from typing import Annotated, ClassVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field

from mlcat_ingest.metadata.reserved import MAX_PROPOSALS, MAX_REQUEST_BYTES
from mlcat_ingest.recipe.connection import ConnectionConfig
from mlcat_ingest.recipe.fields import RecipeModel, ServiceUrl, none_if_empty
from mlcat_ingest.recipe.values import RecipePath, RecipeUrl

_ALWAYS_SYNC = "is not needed: acknowledged writes are always durable; delete it"
_ALWAYS_RESTLI = "is not needed: the service reports its capabilities; delete it"


def _no_credentials(server: str | None) -> str | None:
    if server is None:
        return None
    parts = urlsplit(server)
    if "@" in parts.netloc:
        raise ValueError("must not contain a user name or a password; use `token`")
    if parts.query or parts.fragment:
        raise ValueError("must not end in a query or a fragment")
    return server


class RestSinkConfig(ConnectionConfig):
    """A catalog service over HTTP: ours, or DataHub's.

    Without `token` and `username`, the token is looked for as the address is, `MLCAT_TOKEN` first.
    """

    key_hints: ClassVar[Mapping[str, str]] = {
        "mode": _ALWAYS_SYNC,
        "default_emit_mode": _ALWAYS_SYNC,
        "endpoint": _ALWAYS_RESTLI,
        "openapi_ingestion": _ALWAYS_RESTLI,
        "retry_status_codes": "cannot be set: 429, 502, 503 and 504 are always retried; delete it",
        "max_pending_requests": "cannot be set: queues are always bounded; delete it",
    }

    server: Annotated[
        ServiceUrl | None, BeforeValidator(none_if_empty), AfterValidator(_no_credentials)
    ] = None
    """Base address; `/gms` and `/api/gms` at its end work. Default: `MLCAT_SERVER`,
    `DATAHUB_GMS_URL`, then `~/.datahubenv`."""
    connect_timeout_s: float = Field(default=5.0, gt=0, le=600)
    """Seconds to wait for a connection."""
    connections: int = Field(
        default=4, ge=1, le=64, validation_alias=AliasChoices("connections", "max_threads")
    )
    """Maximum number of concurrent requests. A run has as many batches in flight, up to 16."""
    batch_size: int = Field(
        default=MAX_PROPOSALS,
        ge=1,
        le=MAX_PROPOSALS,
        validation_alias=AliasChoices("batch_size", "max_per_batch"),
    )
    """Maximum number of proposals in a request. A run begins with 200, sends fewer where the
    catalog takes over five seconds for them, and more where it takes less than two."""
    batch_bytes: int = Field(default=MAX_REQUEST_BYTES, ge=65_536, le=64 * 1024 * 1024)
    """Maximum size of a request body in bytes."""
    server_version: Annotated[
        Annotated[str, Field(pattern=r"^v?[0-9]+\.[0-9]+")] | None, BeforeValidator(none_if_empty)
    ] = None
    """Version of DataHub's server, such as `"v1.6.0"`, in place of the version that it reports."""
    ui_url: Annotated[ServiceUrl | None, BeforeValidator(none_if_empty)] = None
    """Address of the catalog's pages, for links. Default: `server` without `/gms` or `/api/gms`;
    DataHub has none at the address of GMS itself."""


class FileSinkConfig(RecipeModel):
    """A file of proposals: nothing is merged or evaluated."""

    path: RecipePath = Field(validation_alias=AliasChoices("path", "filename"))
    """Output file: JSON Lines, or one JSON list if the name ends in `.json`."""


class EmbeddedSinkConfig(RecipeModel):
    """The embedded catalog (extra `catalog`), in a child process that ends with the run."""

    db: RecipeUrl = "sqlite:///mlcat-catalog.db"
    """Database of the catalog: a path, or the address of an SQLite database."""


_REST = (RestSinkConfig, "mlcat_ingest.client.rest.catalog:RestCatalog")

SINKS: Mapping[str, tuple[type[RecipeModel], str]] = {
    "rest": _REST,
    "file": (FileSinkConfig, "mlcat_ingest.client.file:FileCatalog"),
    "embedded": (EmbeddedSinkConfig, "mlcat_ingest.client.embedded:EmbeddedCatalog"),
    "datahub-rest": _REST,  # its name in DataHub's recipes
}
"""Type in the recipe to its configuration and its class, the latter as `module:Class`."""
