"""The REST catalog that a recipe names, ours or DataHub's."""

from collections.abc import Iterator
from functools import partial

from mlcat_ingest.client.base import Catalog
from mlcat_ingest.client.config import RestSinkConfig
from mlcat_ingest.client.rest.checks import check_service
from mlcat_ingest.client.rest.client import CatalogClient
from mlcat_ingest.client.rest.connection import PEER, Connection
from mlcat_ingest.client.rest.credentials import Credentials, resolve
from mlcat_ingest.core.findings import Finding
from mlcat_ingest.net.session import HttpOptions
from mlcat_ingest.recipe.fields import current
from mlcat_ingest.recipe.http_options import http_options


class RestCatalog(CatalogClient, Catalog):
    """The client of the service that `config` names. Safe to use from several threads."""

    def __init__(self, config: RestSinkConfig) -> None:
        """Keep the configuration; the address and the token are looked for when one is needed."""
        super().__init__(
            connection=Connection(partial(_settings, config)),
            max_proposals=config.batch_size,
            max_bytes=config.batch_bytes,
            server_version=config.server_version,
            ui_url=config.ui_url,
        )

    def check(self, *, write: bool = False) -> Iterator[Finding]:
        """Yield what the service answers to each kind of request; see `Catalog.check`.

        Cost: at most five requests, two more for a service that does not evaluate metadata tests;
        six more with `write`, or seven there.
        """
        return check_service(self, write=write)


def credentials_of(config: RestSinkConfig, option: str = "--server") -> Credentials:
    """Return the address and token of a sink; see `credentials.resolve`."""
    token = current(config.token) if config.token is not None else None
    if token is None and ("token" in config.model_fields_set or config.username is not None):
        token = ""  # said to be empty, or not wanted: then none is looked for elsewhere
    return resolve(config.server, token, option=option)


def _settings(config: RestSinkConfig) -> tuple[Credentials, HttpOptions]:
    options = http_options(
        config,
        peer=PEER,
        connections=config.connections,
        connect_timeout_s=config.connect_timeout_s,
    )
    return credentials_of(config), options
