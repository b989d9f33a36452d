"""An endpoint: one row of the table that makes the routes of the service.

A row is declared beside the function that answers it. An endpoint that no client calls has no row.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from mlcat_ingest.catalog.limits import Limits
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.http import Call, Work

Method = TypeVar("Method", bound=Callable[..., object])

READING_METHODS: Final = frozenset({"GET", "HEAD"})

CONNECTOR: Final = "connector"
"""The client `mlcat_ingest.client`."""
INTERFACE: Final = "interface"
"""A client that is written against the service interface, or against a DataHub server's."""
OPERATOR: Final = "operator"
"""Monitoring of a catalog."""


def _unbound(_call: Call) -> object:
    raise NotImplementedError("the endpoint belongs to no resource")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One endpoint; as a decorator it marks the method of a `Resource` that answers it.

    Attributes:
        method: the HTTP method.
        path: the path, its parameters in braces, without the prefix of a gateway.
        action: the Rest.li action, which the query parameter of that name selects.
        reads: whether it only reads, although its method is not GET or HEAD.
        work: the function that answers it.
        client: a caller: `CONNECTOR`, `INTERFACE`, `OPERATOR`, or DataHub's SDK or command line
            with the method or command that sends the request: `SDK <class>.<method>`,
            `CLI <command>`.
    """

    method: str
    path: str
    action: str | None = None
    reads: bool = False
    work: Work = _unbound
    client: str = field(kw_only=True)

    def __call__(self, work: Method) -> Method:
        """Mark `work` as the method that answers this endpoint."""
        vars(work)["endpoint"] = self
        return work

    def answer(self, call: Call) -> object:
        """Return what the endpoint answers to `call`; a Rest.li action answers in `value`.

        Raises:
            ForbiddenError: the endpoint writes, and the request may not.
        """
        if not self.reads and self.method not in READING_METHODS:
            call.check_may_write()
        result = self.work(call)
        if self.action is None:
            return result
        return {} if result is None else {"value": result}


class Resource:
    """Endpoints that belong together: the methods that an `Endpoint` marks."""

    def __init__(self, store: Store, limits: Limits) -> None:
        """Answer from `store` within `limits`."""
        self._store = store
        self._limits = limits

    def endpoints(self) -> Sequence[Endpoint]:
        """Return the endpoints, in the order of their methods."""
        return [
            replace(vars(method)["endpoint"], work=getattr(self, name))
            for name, method in vars(type(self)).items()
            if callable(method) and "endpoint" in vars(method)
        ]
