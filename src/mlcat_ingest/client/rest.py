"""A catalog service over HTTP, as a recipe names it: ours, or DataHub's."""

from collections.abc import Iterator
from functools import partial

from mlcat_ingest.client.auth import Credentials, resolve
from mlcat_ingest.client.base import Catalog
from mlcat_ingest.client.catalog_client import CatalogClient
from mlcat_ingest.client.checks import findings
from mlcat_ingest.client.config import RestSinkConfig
from mlcat_ingest.client.connection import PEER, Connection
from mlcat_ingest.client.options import http_options
from mlcat_ingest.core.findings import Finding
from mlcat_ingest.net.session import HttpOptions


class RestCatalog(CatalogClient, Catalog):
    """The client of the service that `config` names. Safe to use from several threads."""

    def __init__(self, config: RestSinkConfig) -> None:
        """Keep the configuration; the address and the token are looked for when one is needed."""
        super().__init__(
            connection=Connection(partial(_settings, config)),
            max_proposals=config.batch_size,
            max_bytes=config.batch_bytes,
        )
        self._config = config

    def check(self, *, write: bool = False) -> Iterator[Finding]:
        """Yield what the service answers to each kind of request; see `Catalog.check`."""
        yield from findings(self, _options(self._config).trust, write=write)


def _settings(config: RestSinkConfig) -> tuple[Credentials, HttpOptions]:
    token = config.token.get_secret_value() if config.token is not None else None
    if token is None and ("token" in config.model_fields_set or config.username is not None):
        token = ""  # said to be empty, or not wanted: then none is looked for elsewhere
    options = _options(config)
    return resolve(config.server, token), options


def _options(config: RestSinkConfig) -> HttpOptions:
    return http_options(
        config,
        peer=PEER,
        connections=config.connections,
        connect_timeout_s=config.connect_timeout_s,
    )
