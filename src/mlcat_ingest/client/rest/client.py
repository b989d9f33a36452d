"""The client of a catalog service: one object with a verb for each thing that the service does."""

import logging
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic, sleep
from typing import Any

from mlcat_ingest.client.base import CatalogFacts, Searches, StoredAspect
from mlcat_ingest.client.rest.capabilities import Capabilities, read_capabilities
from mlcat_ingest.client.rest.connection import Connection
from mlcat_ingest.client.rest.credentials import Credentials, resolve
from mlcat_ingest.client.rest.emitter import Emitter
from mlcat_ingest.client.rest.evaluate import ServiceEvaluator
from mlcat_ingest.client.rest.reader import AspectReader
from mlcat_ingest.client.rest.responses import NO_SUCH_CALL, incompatible, one_line
from mlcat_ingest.client.rest.search import Search
from mlcat_ingest.core.findings import RequestSide
from mlcat_ingest.core.resources import Closing
from mlcat_ingest.errors import (
    AspectRejectedError,
    CatalogRequestError,
    CatalogUnavailableError,
    CodecError,
    RecipeError,
)
from mlcat_ingest.metadata.codec import dumps, loads
from mlcat_ingest.metadata.proposal import Proposal
from mlcat_ingest.metadata.reserved import MAX_REQUEST_BYTES, MAX_REQUEST_ITEMS
from mlcat_ingest.metadata.urn import FABRICS, OWN_KINDS, entity_type_of
from mlcat_ingest.net.http import Reply
from mlcat_ingest.net.session import HttpOptions

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """The status of a search-index task; `error` is set where it cannot be found or read.

    `task` is ``<node id>:<task id>``; `run_time_ns` counts nanoseconds; `status` holds the
    counters (total, updated, created, deleted, …) as the service gives them.
    """

    task: str
    completed: bool = False
    run_time_ns: int | None = None
    status: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None


class CatalogClient(AspectReader, Emitter, Closing):
    """A catalog service: DataHub, or the embedded catalog. Safe to use from several threads.

    Without `server` or `token` they come from the environment or ``~/.datahubenv``, see
    `credentials.resolve`. Nothing is contacted before the first verb; `connect` tells early whether
    the address is right. Each verb says in its own module what it costs and what it raises, apart
    from `CatalogUnavailableError` where the service does not answer, and `FatalError` where it
    refuses the token or is no catalog service.
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
        server_version: str | None = None,
        ui_url: str | None = None,
    ) -> None:
        """Resolve the address and the token; `connection`, if given, has them and the options.

        `server_version` is DataHub's version, in place of what the service says; `ui_url` is the
        address of its pages, if it is not that of the service.

        Raises:
            RecipeError: there is no usable address or token.
        """
        if connection is None:
            settings = resolve(server, token), options or HttpOptions()
            connection = Connection(lambda: settings)
        AspectReader.__init__(self, connection)
        Emitter.__init__(self, connection, max_proposals=max_proposals, max_bytes=max_bytes)
        self._lock = threading.Lock()
        self._server_version = server_version
        self._capabilities: Capabilities | None = None
        self._facts = CatalogFacts(batch_size=max_proposals, may_drop=True)
        self._ui_url = ui_url
        self._search = Search(self.graphql, self.incoming)
        self._evaluator = ServiceEvaluator(connection, self)

    @property
    def search(self) -> Searches:
        """The search of the service."""
        return self._search

    @property
    def evaluator(self) -> ServiceEvaluator:
        """The evaluator of the service's metadata tests."""
        return self._evaluator

    @property
    def server(self) -> str:
        """The base address, without a slash at its end."""
        return self._connection.server

    @property
    def facts(self) -> CatalogFacts:
        """The facts of the service, as far as it is open."""
        return self._facts

    @property
    def address(self) -> str:
        """The identity of this catalog: its base address."""
        return self.server

    @property
    def credentials(self) -> Credentials:
        """The address and token in use, and where they came from; its repr shows no token."""
        return self._connection.credentials

    @property
    def traffic(self) -> RequestSide:
        """The requests to the service."""
        return self._connection

    @property
    def clock_skew_s(self) -> float | None:
        """Seconds that the service's clock is ahead of ours, None before its first answer."""
        return self._connection.clock_skew_s

    def connect(self) -> Capabilities:
        """Return what the service is and can do; asked once. See `read_capabilities`."""
        with self._lock:
            if self._capabilities is None:
                capabilities = read_capabilities(self._connection)
                if self._server_version is not None:
                    capabilities = Capabilities(datahub=True, datahub_version=self._server_version)
                self._facts = replace(
                    self._facts,
                    connections=self._connection.connections,
                    enforces_conditions=capabilities.enforces_conditions,
                    may_drop=capabilities.may_drop,
                    lacking_types=capabilities.lacking_types,
                    index="current" if capabilities.same_version else "behind",
                    group_page=capabilities.group_page(self.server, self._ui_url),
                )
                self._capabilities = capabilities
            return self._capabilities

    def open(self, *, read_only: bool = False) -> str:
        """Ask the service what it is, and return its kind and address; nothing is changed.

        Raises:
            RecipeError: there is no usable address or token; and what `connect` raises.
        """
        del read_only
        service = self.connect()
        if not service.is_supported:
            log.warning("%s", service.upgrade_message())
        return f"{service.describe()} at {self.server}"

    def read_many(
        self, urns: Sequence[str], aspects: Collection[str]
    ) -> dict[str, dict[str, StoredAspect]]:
        """Return the stored `aspects` by URN; URNs that have none of them are left out.

        Raises:
            RecipeError: one is of an environment that the service cannot have entities of.

        Cost: one request for a batch of URNs of one entity type; one a URN, over all connections,
        where the service has no batch read.
        """
        self._refuse_environments(urns)
        return self._read(urns, aspects, values=True)

    def write(self, proposals: Sequence[Proposal]) -> list[AspectRejectedError]:
        """Write many and return those refused. See `Emitter.write`.

        Raises:
            RecipeError: as `read_many`; nothing was written.
        """
        self._refuse_environments([proposal.entity_urn for proposal in proposals])
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
            if urn.endswith(endings) and entity_type_of(urn) in OWN_KINDS:
                env = urn[urn.rindex(",") + 1 : -1]
                known = ", ".join(sorted(service.environments))
                raise RecipeError(
                    f"{service.describe()} has no environment {env}, and would drop {urn}",
                    hint=f"set `env` of the source to one of {known}",
                )

    def delete_entity(self, urn: str) -> None:
        """Delete an entity for good, with its history; one that does not exist is no error.

        Raises:
            CatalogRequestError: the service has no such call, or refused it.

        Source: DataHub's Rest.li resource ``/entities``, action ``delete``.
        Cost: one request.
        """
        reply = self._connection.request("POST", "/entities?action=delete", dumps({"urn": urn}))
        if not reply.ok:
            raise self._connection.refusal(reply, what="the deletion", urn=urn)

    def graphql(
        self,
        query: str,
        variables: Mapping[str, Any] | None = None,
        operation_name: str | None = None,
    ) -> dict[str, Any]:
        """Return the `data` of a GraphQL query, keyed by the root fields of `query`.

        Raises:
            CatalogRequestError: the query is refused or fails; its errors are in the message.

        Source: ``POST /api/graphql``; a failed query is a 200 with a list `errors`.
        Cost: one request.
        """
        body: dict[str, Any] = {"query": query}
        if variables:
            body["variables"] = dict(variables)
        if operation_name:
            body["operationName"] = operation_name
        path, content = "/api/graphql", dumps(body)
        if "mutation" in query:
            reply = self._connection.request("POST", path, content)
        else:
            reply = self._connection.read(path, content)
        if reply.status in NO_SUCH_CALL:
            raise self._connection.wrong_address(reply)
        # A refused query may come with its errors in GraphQL's own shape.
        is_json = reply.content.lstrip()[:1] == b"{"
        answer = reply.json() if reply.ok or is_json else None
        errors = answer.get("errors") if isinstance(answer, dict) else None
        if errors:
            raise CatalogRequestError(
                f"the query failed: {self._connection.mask(_error_messages(errors))}",
                status=reply.status,
            )
        if not reply.ok:
            raise self._connection.refusal(reply, what="the query")
        data = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(data, dict):
            raise incompatible(
                f"{reply.peer} at {reply.url} answered a GraphQL query without `data`"
            )
        return data

    def task_status(self, task: str) -> TaskStatus:
        """Return the status of `task`, which is ``<node id>:<task id>``.

        Raises:
            CatalogRequestError: the service does not take the task's name.

        Source: ``POST /operations?action=getEsTaskStatus``. The status is a JSON text in the
        reply's `value`, and on DataHub a part of it is JSON text once more.
        Cost: one request.
        """
        reply = self._connection.read("/operations?action=getEsTaskStatus", dumps({"task": task}))
        if reply.status in NO_SUCH_CALL:
            raise self._connection.wrong_address(reply)
        if not reply.ok:
            raise self._connection.refusal(reply, what="the status of a task")
        return _status_of(reply, task)

    def wait(self, task: str, *, timeout_s: float = 300.0, poll_s: float = 1.0) -> TaskStatus:
        """Return the status of `task` once it is complete or cannot be read.

        `poll_s` lies between two requests; at least one is made, whatever `timeout_s` is.

        Raises:
            CatalogUnavailableError: the task was still at work after `timeout_s`; and what
                `task_status` raises.
        """
        end = monotonic() + timeout_s
        while True:
            status = self.task_status(task)
            if status.completed or status.error is not None:
                return status
            left_s = end - monotonic()
            if left_s <= 0:
                raise CatalogUnavailableError(
                    f"task {status.task} is still running after {timeout_s:g} s",
                    hint="try again later, or increase the timeout",
                )
            sleep(min(poll_s, left_s))

    def close(self, *, complete: bool = True) -> None:
        """Close all connections; safe to call twice."""
        del complete  # what was written is acknowledged and stays
        self._connection.close()


def _error_messages(errors: object) -> str:
    """Return the messages of GraphQL errors, in order, on one line."""
    listed = errors if isinstance(errors, list) else [errors]
    messages = [
        str(error["message"]) if isinstance(error, dict) and "message" in error else str(error)
        for error in listed
    ]
    return one_line("; ".join(dict.fromkeys(messages)))


def _status_of(reply: Reply, task: str) -> TaskStatus:
    body = reply.json()
    answer = _decode(body["value"] if isinstance(body, dict) and "value" in body else body)
    if not isinstance(answer, dict):
        raise incompatible(
            f"{reply.peer} at {reply.url} answered a task's status in an unknown shape"
        )
    if "error" in answer:
        return TaskStatus(task, error=str(answer["error"]))
    nanos = answer.get("runTimeNanos")
    status = _decode(answer.get("status"))
    return TaskStatus(
        str(answer.get("taskId", task)),
        completed=answer.get("completed") is True,
        run_time_ns=nanos if isinstance(nanos, int) else None,
        status=status if isinstance(status, dict) else {"status": status},
    )


def _decode(value: Any) -> Any:
    """Return what a JSON text says; what is not JSON text stays as it is."""
    if not isinstance(value, str):
        return value
    try:
        return loads(value)
    except CodecError:
        return value
