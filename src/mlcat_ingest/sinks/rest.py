"""The sink that writes to a catalog service over HTTP: ours, or DataHub's."""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from mlcat_ingest.awaiting import Awaited, longest_awaited
from mlcat_ingest.client.capabilities import Capabilities
from mlcat_ingest.client.catalog_client import CatalogClient
from mlcat_ingest.client.connection import PEER
from mlcat_ingest.client.options import http_options
from mlcat_ingest.client.results import Evaluation, StoredEntity
from mlcat_ingest.client.search import Owned
from mlcat_ingest.errors import AspectRejectedError, RecipeError
from mlcat_ingest.findings import Finding
from mlcat_ingest.http_session import HttpOptions
from mlcat_ingest.metadata.proposal import Aspect, Proposal
from mlcat_ingest.metadata.urn import FABRICS, KINDS, entity_type_of
from mlcat_ingest.sinks.checks import findings
from mlcat_ingest.sinks.config import RestSinkConfig
from mlcat_ingest.sinks.probe import probe

_OURS: Final = frozenset(kind.entity_type for kind in KINDS.values() if kind.own)

log = logging.getLogger(__name__)


class RestSink:
    """Writes to the service that `config` names. Safe to use from several threads."""

    def __init__(self, config: RestSinkConfig) -> None:
        """Keep the configuration."""
        self._config = config
        self._made: CatalogClient | None = None
        self._service: Capabilities | None = None

    @property
    def _client(self) -> CatalogClient:
        if self._made is None:
            self._made = _client(self._config)
        return self._made

    @property
    def batch_size(self) -> int:
        """Proposals in one write request at most."""
        return self._config.batch_size

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
        self._service = self._client.connect()
        if not self._service.is_supported:
            log.warning("%s", self._service.unsupported())
        return f"{self._service.describe()} at {self._client.server}"

    def open_to_read(self) -> str:
        """Do what `open` does, which changes nothing."""
        return self.open()

    def read_many(
        self, urns: Sequence[str], aspects: Collection[str]
    ) -> Mapping[str, StoredEntity]:
        """Return the stored `aspects` of each of `urns`; see `Sink.read_many`.

        Raises:
            RecipeError: one is of an environment that the service cannot have entities of.
        """
        self._refuse_environments(urns)
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
        """Write `proposals` durably and return those refused; see `Sink.write`.

        Raises:
            RecipeError: as `read_many`; nothing was written.
        """
        self._refuse_environments([one.entity_urn for one in proposals])
        return self._client.emit_batch(proposals)

    def _refuse_environments(self, urns: Sequence[str]) -> None:
        """Return if the service takes entities of ours with these URNs.

        An older DataHub acknowledges those of an environment that it lacks, and drops them.
        """
        service = self._service
        if service is None or service.environments == FABRICS:
            return
        endings = tuple(f",{env})" for env in FABRICS - service.environments)
        for urn in urns:
            # Datasets of any environment may be looked for.
            if urn.endswith(endings) and entity_type_of(urn) in _OURS:
                env = urn[urn.rindex(",") + 1 : -1]
                known = ", ".join(sorted(service.environments))
                raise RecipeError(
                    f"{service.describe()} has no environment {env}, and would drop {urn}",
                    hint=f"`env` of the source may be one of {known}",
                )

    def evaluate(
        self, urns: Sequence[str], *, should_push: bool, test_urns: Sequence[str]
    ) -> Evaluation:
        """Evaluate the metadata tests of `urns`; see `Sink.evaluate`."""
        return self._client.evaluate_batch(urns, should_push=should_push, test_urns=test_urns)

    def awaited(self) -> Awaited | None:
        """Return the request that waits longest for its answer; see `Awaits`."""
        return longest_awaited(self._made)

    def requests_made(self) -> int:
        """Return how many requests were sent so far, retries included."""
        return self._made.requests_made if self._made is not None else 0

    def check(self, *, write: bool = False) -> Iterator[Finding]:
        """Yield what the service answers to each kind of request; see `Sink.check`."""
        trust = _options(self._config).trust
        yield from findings(lambda: self._client, trust, write=write)

    def probe(self) -> Iterator[Finding]:
        """Yield what writing, reading back and deleting an entity of its own shows."""
        yield from probe(self._client)

    def close(self, *, complete: bool = True) -> None:
        """Close all connections; safe to call twice."""
        del complete  # what was written is acknowledged and stays
        if self._made is not None:
            self._made.close()


def _client(config: RestSinkConfig) -> CatalogClient:
    token = config.token.get_secret_value() if config.token is not None else None
    if token is None and ("token" in config.model_fields_set or config.username is not None):
        token = ""  # said to be empty, or not wanted: then none is looked for elsewhere
    return CatalogClient(
        config.server,
        token,
        options=_options(config),
        max_proposals=config.batch_size,
        max_bytes=config.batch_bytes,
    )


def _options(config: RestSinkConfig) -> HttpOptions:
    return http_options(
        config,
        peer=PEER,
        connections=config.connections,
        connect_timeout_s=config.connect_timeout_s,
    )
