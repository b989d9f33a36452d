"""What an endpoint is: one row of the table that makes the routes and the document of the service.

A row is declared beside the function that answers it; its summary is that function's docstring.
An endpoint that no client calls has no row.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from mlcat_ingest.catalog.web.http import Call, Work

Schema: TypeAlias = Mapping[str, Any]
"""A JSON Schema, as OpenAPI 3.1 has it."""

TEXT: Final[Schema] = {"type": "string"}
FLAG: Final[Schema] = {"type": "boolean"}
WHOLE: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}
READING_METHODS: Final = frozenset({"GET", "HEAD"})

CONNECTOR: Final = "connector"
"""The client `mlcat_ingest.client`."""
INTERFACE: Final = "interface"
"""Whoever is written against the service interface, or against a DataHub server's."""
OPERATOR: Final = "operator"
"""Whoever runs the catalog: monitoring, and tools that read OpenAPI documents."""
OBJECT: Final[Schema] = {"type": "object"}
URN: Final[Schema] = {"type": "string", "pattern": "^urn:li:[A-Za-z][A-Za-z0-9]*:"}


def ref(name: str) -> Schema:
    """Return the reference to a schema of `schemas.COMPONENTS`."""
    return {"$ref": f"#/components/schemas/{name}"}


def array(items: Schema) -> Schema:
    """Return the schema of a list of `items`."""
    return {"type": "array", "items": items}


def record(*required: str, **properties: Schema) -> Schema:
    """Return the schema of an object with `properties`; others may be there too."""
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    return schema | ({"required": list(required)} if required else {})


def value_of(schema: Schema) -> Schema:
    """Return the schema of what a Rest.li action answers, its result in `value`."""
    return record("value", value=schema)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter in the query or in the path of a request."""

    name: str
    description: str
    schema: Schema = field(default_factory=lambda: TEXT)
    place: Literal["query", "path"] = "query"
    required: bool = False


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One endpoint.

    Attributes:
        method: the HTTP method.
        path: the path, its parameters in braces, without the prefix of a gateway.
        work: what answers it.
        answers: the successes, by HTTP status, each with the schema of its body; None is none.
        refuses: the statuses of errors beyond those that every endpoint may answer with.
        parameters: the parameters in the path and in the query.
        client: one who calls it: `CONNECTOR`, `INTERFACE`, `OPERATOR`, or DataHub's SDK or command
            line with what calls it: `SDK <class>.<method>`, `CLI <command>`.
        body: the schema of the request's body; None where it takes none.
        action: the Rest.li action, which the query parameter of that name selects.
        reads: whether it only reads, although its method is not GET or HEAD.
    """

    method: str
    path: str
    work: Work
    answers: Mapping[int, Schema | None]
    refuses: tuple[int, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    body: Schema | None = None
    action: str | None = None
    reads: bool = False
    client: str = field(kw_only=True)

    def answer(self, call: Call) -> object:
        """Return what the endpoint answers to `call`.

        Raises:
            ForbiddenError: the endpoint writes, and the request may not.
        """
        if not self.reads and self.method not in READING_METHODS:
            call.check_may_write()
        return self.work(call)

    @property
    def name(self) -> str:
        """Return the name of the endpoint, unique in the table."""
        return getattr(self.work, "__qualname__", "").replace(".", "_").lstrip("_")

    @property
    def summary(self) -> str:
        """Return what the endpoint does, in one sentence."""
        lines = (self.work.__doc__ or "").splitlines()
        return lines[0] if lines else ""


def action(
    path: str,
    name: str,
    work: Work,
    *,
    client: str,
    body: Schema,
    returns: Schema | None,
    refuses: tuple[int, ...] = (),
    reads: bool = False,
) -> Endpoint:
    """Return the row of a Rest.li action: a POST whose query parameter `action` names it."""
    return Endpoint(
        "POST",
        path,
        work,
        {200: returns},
        refuses,
        client=client,
        body=body,
        action=name,
        reads=reads,
    )
