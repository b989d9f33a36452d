"""The front of the client: one object with a verb for each thing the catalog service does."""

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from mlcat_ingest.awaiting import Awaited, longest_awaited
from mlcat_ingest.client import search, tasks
from mlcat_ingest.client.auth import Credentials, resolve
from mlcat_ingest.client.capabilities import Capabilities, probe
from mlcat_ingest.client.connection import Connection
from mlcat_ingest.client.deletion import delete_entity
from mlcat_ingest.client.emitter import Emitter
from mlcat_ingest.client.evaluate import Evaluator
from mlcat_ingest.client.graphql import graphql
from mlcat_ingest.client.reader import Reader
from mlcat_ingest.client.results import Evaluation, StoredAspect
from mlcat_ingest.closing import Closing
from mlcat_ingest.errors import AspectRejectedError
from mlcat_ingest.http_session import HttpOptions
from mlcat_ingest.metadata.proposal import Aspect, Proposal
from mlcat_ingest.metadata.reserved import MAX_REQUEST_BYTES, MAX_REQUEST_ITEMS


class CatalogClient(Closing):
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
        credentials: Credentials | None = None,
        options: HttpOptions | None = None,
        max_proposals: int = MAX_REQUEST_ITEMS,
        max_bytes: int = MAX_REQUEST_BYTES,
        system_metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Resolve the address and the token; `credentials`, if given, are those.

        Raises:
            RecipeError: there is no usable address or token.
        """
        self._connection = Connection(credentials or resolve(server, token), options)
        self._lock = threading.Lock()
        self._capabilities: Capabilities | None = None
        self._emitter = Emitter(
            self._connection,
            max_proposals=max_proposals,
            max_bytes=max_bytes,
            system_metadata=system_metadata,
        )
        self._reader = Reader(self._connection)
        self._evaluator = Evaluator(self._connection, self._reader)

    @property
    def server(self) -> str:
        """The base address, without a slash at its end."""
        return self._connection.server

    @property
    def credentials(self) -> Credentials:
        """The address and token in use, and where they came from; its repr shows no token."""
        return self._connection.credentials

    def awaited(self) -> Awaited | None:
        """Return the request that waits longest for its answer; see `Awaits`."""
        return longest_awaited(self._connection)

    @property
    def requests_made(self) -> int:
        """How many requests were sent, retries included."""
        return self._connection.requests_made

    @property
    def clock_skew_s(self) -> float | None:
        """How many seconds the service's clock is ahead of ours, None before it told the time."""
        return self._connection.clock_skew_s

    @property
    def reads_in_batches(self) -> bool:
        """Whether the service has not yet shown that it lacks the batch read."""
        return self._reader.reads_in_batches

    def connect(self) -> Capabilities:
        """Return what the service is and can do; asked once. See `capabilities.probe`."""
        with self._lock:
            if self._capabilities is None:
                self._capabilities = probe(self._connection)
            return self._capabilities

    def emit(self, proposal: Proposal) -> None:
        """Write one proposal, durable when this returns. See `Emitter.emit`."""
        self._emitter.emit(proposal)

    def emit_batch(self, proposals: Sequence[Proposal]) -> list[AspectRejectedError]:
        """Write many and return those refused. See `Emitter.emit_batch`."""
        return self._emitter.emit_batch(proposals)

    def delete_entity(self, urn: str) -> None:
        """Delete an entity for good, its history too. See `deletion.delete_entity`."""
        delete_entity(self._connection, urn)

    def get_aspect(self, urn: str, aspect: str, version: int = 0) -> Aspect | None:
        """Return one aspect, None where the entity has none. See `Reader.get_aspect`."""
        return self._reader.get_aspect(urn, aspect, version)

    def read_many(
        self, urns: Sequence[str], aspects: Collection[str]
    ) -> dict[str, dict[str, StoredAspect]]:
        """Return the stored `aspects` by URN. See `Reader.read_many`."""
        return self._reader.read_many(urns, aspects)

    def graphql(
        self,
        query: str,
        variables: Mapping[str, Any] | None = None,
        operation_name: str | None = None,
    ) -> dict[str, Any]:
        """Return a query's `data`. See `graphql.graphql`."""
        return graphql(self._connection, query, variables, operation_name)

    def owned(self, entity_type: str, source: str) -> search.Owned:
        """Return the entities of a type that a source wrote. See `search.owned`."""
        return search.owned(self.graphql, entity_type, source)

    def members(self, group: str) -> Iterator[list[str]]:
        """Yield the URNs of the models in a group. See `search.members`."""
        return search.members(self.graphql, self._reader.incoming, group)

    def datasets_like(self, texts: Sequence[str]) -> list[list[str]]:
        """Return a few datasets that a search for each text finds. See `search.datasets_like`."""
        return search.datasets_like(self.graphql, texts)

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

    def evaluate(
        self, urn: str, *, should_push: bool = False, test_urns: Sequence[str] = ()
    ) -> Evaluation:
        """Evaluate the metadata tests of one entity. See `Evaluator.evaluate`."""
        return self._evaluator.evaluate(urn, should_push=should_push, test_urns=test_urns)

    def evaluate_batch(
        self, urns: Sequence[str], *, should_push: bool = False, test_urns: Sequence[str] = ()
    ) -> Evaluation:
        """Evaluate the metadata tests of many. See `Evaluator.evaluate_batch`."""
        return self._evaluator.evaluate_batch(urns, should_push=should_push, test_urns=test_urns)

    def close(self) -> None:
        """Close all connections; safe to call twice."""
        self._connection.close()
