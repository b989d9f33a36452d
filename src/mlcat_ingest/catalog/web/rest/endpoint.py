"""An endpoint: one row of the table that makes the routes and the OpenAPI document of the service.

A row is declared beside the function that answers it; its summary is that function's docstring.
Each row stands in `docs/reference/catalog.md` with a client that calls it: without one there is
none.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from mlcat_ingest.catalog.limits import Limits
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.http import (
    READING_METHODS,
    Handler,
    RequestContext,
    Schema,
    read_parameter,
    read_value,
)
from mlcat_ingest.catalog.web.rest import json_schema as js
from mlcat_ingest.catalog.web.rest.proposals import read_parameters
from mlcat_ingest.metadata.declaration import RecordType

Method = TypeVar("Method", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter in the query of a request."""

    name: str
    description: str
    schema: Schema = field(default_factory=lambda: js.TEXT)
    required: bool = False


IN_PATHS: Final = {
    "entityType": "The entity type.",
    "urn": "URN of the entity, percent-encoded.",
    "aspectName": "Name of the aspect.",
}
"""The parameters of paths, and what they are."""


def _unbound(_request: RequestContext) -> object:
    raise NotImplementedError("the endpoint belongs to no resource")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One endpoint; as a decorator it marks the method of a `Resource` that answers it.

    Attributes:
        method: the HTTP method.
        path: the path, its parameters in braces, those of `IN_PATHS`, without a gateway's prefix.
        answers: the successes, by HTTP status, each with the schema of its body; None is none.
        refuses: the statuses of errors beyond those that every endpoint may answer with.
        parameters: the parameters in the query.
        body: the schema of the request's body, which checks the members of an action's; or their
            declaration as a record, which checks them in the words of a DataHub server; None
            where it takes none. What the schema names by a reference is read by `handler`.
        action: the Rest.li action, which the query parameter of that name selects.
        reads: whether it only reads, although its method is not GET or HEAD.
        handler: the function that answers it.
    """

    method: str
    path: str
    answers: Mapping[int, Schema | None]
    refuses: tuple[int, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    body: Schema | RecordType | None = None
    action: str | None = None
    reads: bool = False
    handler: Handler = _unbound

    def __call__(self, handler: Method) -> Method:
        """Mark `handler` as the method that answers this endpoint."""
        vars(handler)["endpoint"] = self
        return handler

    def answer(self, request: RequestContext) -> object:
        """Return what the endpoint answers to `request`; a Rest.li action answers in `value`.

        Raises:
            ForbiddenError: the endpoint writes, and the request may not.
            BadRequestError: the parameters are not as they are declared.
        """
        if not self.reads and self.method not in READING_METHODS:
            request.check_may_write()
        result = self.handler(replace(request, params=self._params(request)))
        if self.action is None:
            return result
        return {} if result is None else {"value": result}

    def _params(self, request: RequestContext) -> Any:
        """Return the members of an action's body, else the parameters in the query."""
        if self.action is not None:
            given = request.json() if request.body else {}
            if isinstance(self.body, RecordType):
                return read_parameters(self.action, self.body, given)
            return read_value(given, self.body or js.OBJECT)
        declared = {one.name: one.schema for one in self.parameters}
        given = {name: read_parameter(request.query, name, of) for name, of in declared.items()}
        required = (one.name for one in self.parameters if one.required)
        return read_value(given, js.record(*required, **declared))

    @property
    def name(self) -> str:
        """Return the name of the endpoint, unique in the table."""
        return getattr(self.handler, "__qualname__", "").replace(".", "_").lstrip("_")

    @property
    def summary(self) -> str:
        """Return what the endpoint does, in one sentence."""
        lines = (self.handler.__doc__ or "").splitlines()
        return lines[0] if lines else ""


def action(
    path: str,
    name: str,
    *,
    body: Schema | RecordType,
    returns: Schema | None = None,
    refuses: tuple[int, ...] = (),
    reads: bool = False,
) -> Endpoint:
    """Return the row of a Rest.li action: a POST whose query parameter `action` names it.

    `returns` is the schema of its result; None is an empty object.
    """
    answer = js.OBJECT if returns is None else js.record("value", value=returns)
    return Endpoint("POST", path, {200: answer}, refuses, (), body, name, reads)


class Resource:
    """Endpoints that belong together: the methods that an `Endpoint` marks."""

    def __init__(self, store: Store, limits: Limits) -> None:
        self._store = store
        self._limits = limits

    def endpoints(self) -> Sequence[Endpoint]:
        """Return the endpoints, in the order of their methods."""
        return [
            replace(vars(method)["endpoint"], handler=getattr(self, name))
            for name, method in vars(type(self)).items()
            if callable(method) and "endpoint" in vars(method)
        ]
