"""The client of a catalog service: one object with a verb for each thing that the service does."""

import logging
import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from mlcat_ingest.client import tasks
from mlcat_ingest.client.auth import Credentials, resolve
from mlcat_ingest.client.base import Searches, StoredAspect
from mlcat_ingest.client.capabilities import Capabilities, probe
from mlcat_ingest.client.connection import Connection
from mlcat_ingest.client.deletion import delete_entity
from mlcat_ingest.client.emitter import Emitter
from mlcat_ingest.client.evaluate import ServiceEvaluator
from mlcat_ingest.client.graphql import graphql
from mlcat_ingest.client.reader import AspectReader
from mlcat_ingest.client.search import Search
from mlcat_ingest.core.awaiting import Awaited
from mlcat_ingest.core.closing import Closing
from mlcat_ingest.errors import AspectRejectedError, RecipeError
from mlcat_ingest.metadata.proposal import Proposal
from mlcat_ingest.metadata.reserved import MAX_REQUEST_BYTES, MAX_REQUEST_ITEMS
from mlcat_ingest.metadata.urn import FABRICS, KINDS, entity_type_of
from mlcat_ingest.net.session import HttpOptions

_OURS: Final = frozenset(kind.entity_type for kind in KINDS.values() if kind.own)

log = logging.getLogger(__name__)


class CatalogClient(AspectReader, Emitter, Closing):
    """A catalog service: DataHub, or the embedded catalog. Safe to use from several threads.

    Without `server` or `token` they come from the environment or ``~/.datahubenv``, see
    `auth.resolve`. Nothing is contacted before the first verb; `connect` tells early whether the
    address is right. Each verb says in its own module what it costs and what it raises.
    """

    def __init__(
        self,
        server: str | None = None,
        token: str | None = None,
        *,
        connection: Connection | None = None,
        options: HttpOptions | None = None,
        max_proposals: int = MAX_REQUEST_ITEMS,
        max_bytes: int = MAX_REQUEST_BYTES,
        system_metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Resolve the address and the token; `connection`, if given, has them and the options.

        Raises:
            RecipeError: there is no usable address or token.
        """
        if connection is None:
            found = resolve(server, token), options or HttpOptions()
            connection = Connection(lambda: found)
        AspectReader.__init__(self, connection)
        Emitter.__init__(
            self,
            connection,
            max_proposals=max_proposals,
            max_bytes=max_bytes,
            system_metadata=system_metadata,
        )
        self._lock = threading.Lock()
        self._capabilities: Capabilities | None = None
        self._search = Search(self.graphql, self.incoming)
        self._evaluator = ServiceEvaluator(connection, self)

    @property
    def search(self) -> Searches:
        """What searches the service."""
        return self._search

    @property
    def evaluator(self) -> ServiceEvaluator:
        """What evaluates the service's metadata tests."""
        return self._evaluator

    @property
    def server(self) -> str:
        """The base address, without a slash at its end."""
        return self._connection.server

    @property
    def address(self) -> str:
        """What tells this catalog from others: its base address.

        Raises:
            RecipeError: there is no usable address or token.
        """
        return self.server

    @property
    def credentials(self) -> Credentials:
        """The address and token in use, and where they came from; its repr shows no token."""
        return self._connection.credentials

    def awaited(self) -> Awaited | None:
        """Return the request that waits longest for its answer; see `Awaits`."""
        return self._connection.awaited()

    @property
    def requests_made(self) -> int:
        """How many requests were sent, retries included."""
        return self._connection.requests_made

    @property
    def clock_skew_s(self) -> float | None:
        """How many seconds the service's clock is ahead of ours, None before it told the time."""
        return self._connection.clock_skew_s

    def connect(self) -> Capabilities:
        """Return what the service is and can do; asked once. See `capabilities.probe`."""
        with self._lock:
            if self._capabilities is None:
                self._capabilities = probe(self._connection)
            return self._capabilities

    def open(self, *, read_only: bool = False) -> str:
        """Ask the service what it is, and return its kind and address; nothing is changed.

        Raises:
            RecipeError: there is no usable address or token; and what `connect` raises.
        """
        del read_only
        service = self.connect()
        if not service.is_supported:
            log.warning("%s", service.unsupported())
        return f"{service.describe()} at {self.server}"

    def read_many(
        self, urns: Sequence[str], aspects: Collection[str]
    ) -> dict[str, dict[str, StoredAspect]]:
        """Return the stored `aspects` by URN. See `AspectReader.read_many`.

        Raises:
            RecipeError: one is of an environment that the service cannot have entities of.
        """
        self._refuse_environments(urns)
        return super().read_many(urns, aspects)

    def write(self, proposals: Sequence[Proposal]) -> list[AspectRejectedError]:
        """Write many and return those refused. See `Emitter.write`.

        Raises:
            RecipeError: as `read_many`; nothing was written.
        """
        self._refuse_environments([one.entity_urn for one in proposals])
        return super().write(proposals)

    def _refuse_environments(self, urns: Sequence[str]) -> None:
        """Return if the service takes entities of ours with these URNs.

        An older DataHub acknowledges those of an environment that it lacks, and drops them.
        """
        service = self._capabilities
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

    def delete_entity(self, urn: str) -> None:
        """Delete an entity for good, its history too. See `deletion.delete_entity`."""
        delete_entity(self._connection, urn)

    def graphql(
        self,
        query: str,
        variables: Mapping[str, Any] | None = None,
        operation_name: str | None = None,
    ) -> dict[str, Any]:
        """Return a query's `data`. See `graphql.graphql`."""
        return graphql(self._connection, query, variables, operation_name)

    def task_status(
        self, task: str | None = None, *, node_id: str = "", task_id: int = 0
    ) -> tasks.TaskStatus:
        """Return the status of a search-index task. See `tasks.task_status`."""
        return tasks.task_status(self._connection, task, node_id=node_id, task_id=task_id)

    def wait(self, task: str, *, timeout_s: float = 300.0, poll_s: float = 1.0) -> tasks.TaskStatus:
        """Return the status of `task` once it has ended. See `tasks.wait_for_task`."""
        return tasks.wait_for_task(
            lambda: self.task_status(task), timeout_s=timeout_s, poll_s=poll_s
        )

    def close(self, *, complete: bool = True) -> None:
        """Close all connections; safe to call twice."""
        del complete  # what was written is acknowledged and stays
        self._connection.close()
