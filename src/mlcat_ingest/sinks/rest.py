"""The sink that writes to a catalog service over HTTP: ours, or DataHub's."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from mlcat_ingest.certificates import Trust
from mlcat_ingest.client.catalog_client import CatalogClient
from mlcat_ingest.client.connection import ConnectionOptions
from mlcat_ingest.client.evaluate import DialectChoice
from mlcat_ingest.client.results import Evaluation, StoredEntity
from mlcat_ingest.client.search import Owned
from mlcat_ingest.errors import AspectRejectedError
from mlcat_ingest.findings import Finding
from mlcat_ingest.metadata.proposal import Aspect, Proposal
from mlcat_ingest.sinks.checks import findings
from mlcat_ingest.sinks.config import RestSinkConfig
from mlcat_ingest.sinks.probe import probe


class RestSink:
    """Writes to the service that `config` names. Safe to use from several threads."""

    def __init__(self, config: RestSinkConfig, *, dialect: DialectChoice = "auto") -> None:
        """Keep the configuration; `dialect` names the parameters of the evaluate endpoint."""
        self._config = config
        self._dialect = dialect
        self._made: CatalogClient | None = None

    @property
    def _client(self) -> CatalogClient:
        if self._made is None:
            self._made = _client(self._config, self._dialect)
        return self._made

    def address(self) -> str:
        """Return the address of the service.

        Raises:
            RecipeError: no address is given anywhere, or one that cannot be used.
        """
        return self._client.server

    def open(self) -> str:
        """Ask the service what it is, and return its kind and address; see `Sink.open`.

        Raises:
            RecipeError: no address is given anywhere, or one that cannot be used.
        """
        return f"{self._client.connect().describe()} at {self._client.server}"

    def open_to_read(self) -> str:
        """Do what `open` does, which changes nothing."""
        return self.open()

    def read_many(
        self, urns: Sequence[str], aspects: Collection[str]
    ) -> Mapping[str, StoredEntity]:
        """Return the stored `aspects` of each of `urns`; see `Sink.read_many`."""
        return self._client.read_many(urns, aspects)

    def read_version(self, urn: str, aspect: str, version: int) -> Aspect | None:
        """Return an earlier version of an aspect; see `Sink.read_version`."""
        return self._client.get_aspect(urn, aspect, version)

    def owned(self, entity_type: str, source: str) -> Owned:
        """Return the entities of a type that a source wrote; see `Sink.owned`."""
        return self._client.owned(entity_type, source)

    def members(self, group: str) -> Iterator[list[str]]:
        """Yield the URNs of the models in a group; see `Sink.members`."""
        return self._client.members(group)

    def datasets_like(self, texts: Sequence[str]) -> Sequence[Sequence[str]]:
        """Return a few datasets that a search for each text finds; see `Sink.datasets_like`."""
        return self._client.datasets_like(texts)

    def write(self, proposals: Sequence[Proposal]) -> Sequence[AspectRejectedError]:
        """Write `proposals` durably and return those refused; see `Sink.write`."""
        return self._client.emit_batch(proposals)

    def evaluate(
        self, urns: Sequence[str], *, should_push: bool, test_urns: Sequence[str]
    ) -> Evaluation:
        """Evaluate the metadata tests of `urns`; see `Sink.evaluate`."""
        return self._client.evaluate_batch(urns, should_push=should_push, test_urns=test_urns)

    def requests_made(self) -> int:
        """Return how many requests were sent so far, retries included."""
        return self._made.requests_made if self._made is not None else 0

    def check(self, *, write: bool = False) -> Iterator[Finding]:
        """Yield what the service answers to each kind of request; see `Sink.check`."""
        trust = Trust(self._config.verify, self._config.cert)
        yield from findings(lambda: self._client, trust, write=write)

    def probe(self) -> Iterator[Finding]:
        """Yield what writing, reading back and deleting an entity of its own shows."""
        yield from probe(self._client)

    def close(self, *, complete: bool = True) -> None:
        """Close all connections; safe to call twice."""
        del complete  # what was written is acknowledged and stays
        if self._made is not None:
            self._made.close()


def _client(config: RestSinkConfig, dialect: DialectChoice) -> CatalogClient:
    token = config.token.get_secret_value() if config.token is not None else None
    if token is None and "token" in config.model_fields_set:
        token = ""  # said to be empty: then none is looked for elsewhere
    return CatalogClient(
        config.server,
        token,
        dialect=dialect,
        options=ConnectionOptions(
            headers={name: value.get_secret_value() for name, value in config.headers.items()},
            verify=config.verify,
            cert=config.cert,
            connect_timeout_s=config.connect_timeout_s,
            read_timeout_s=config.timeout_s,
            retries=config.max_attempts - 1,
            connections=config.connections,
        ),
        max_proposals=config.batch_size,
        max_bytes=config.batch_bytes,
    )
