"""`/openapi.json`: the REST endpoints as an OpenAPI 3.1 document, made from the table of rows."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, Final

from mlcat_ingest.catalog.web.http import Call
from mlcat_ingest.catalog.web.refusals import PREFIXES, is_openapi
from mlcat_ingest.catalog.web.rest.endpoint import (
    OBJECT,
    OPERATOR,
    READING_METHODS,
    Endpoint,
    Parameter,
    Schema,
)
from mlcat_ingest.catalog.web.rest.schemas import COMPONENTS, error_schema

PATH: Final = "/openapi.json"

# Any request may be refused in these ways.
_ALWAYS: Final = (400, 401, 403, 408, 413, 429, 503)


class OpenApiDocument:
    """The endpoint that describes all endpoints, itself too."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        """Describe `endpoints`."""
        self._document = describe((*endpoints, *self.endpoints()))

    def endpoints(self) -> Sequence[Endpoint]:
        """Return the endpoint."""
        return (Endpoint("GET", PATH, self.get, {200: OBJECT}, client=OPERATOR),)

    def get(self, _call: Call) -> Mapping[str, Any]:
        """Read the description of all REST endpoints, an OpenAPI document."""
        return self._document


def describe(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """Return the OpenAPI document of `endpoints`.

    The actions of a Rest.li resource share a path and a method, so they are one entry there; its
    description tells them apart.
    """
    entries: dict[tuple[str, str], list[Endpoint]] = defaultdict(list)
    for endpoint in endpoints:
        entries[endpoint.path, endpoint.method].append(endpoint)
    paths: dict[str, dict[str, Any]] = defaultdict(dict)
    for (path, method), several in entries.items():
        paths[path][method.lower()] = _entry(several)
    return {
        "openapi": "3.1.0",
        "info": {"title": "mlcat-ingest catalog", "version": version("mlcat-ingest")},
        "servers": [{"url": prefix or "/"} for prefix in PREFIXES],
        "security": [{}, {"token": []}],
        "paths": dict(paths),
        "components": {
            "schemas": dict(COMPONENTS),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _entry(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    first = endpoints[0]
    entry: dict[str, Any] = {
        "operationId": first.name,
        "summary": first.summary,
        "tags": [first.path.split("/")[1] if first.action else "OpenAPI"],
    }
    parameters = [_parameter(parameter) for parameter in first.parameters]
    if first.action is not None:
        entry["operationId"] = first.path.strip("/")
        entry["summary"] = f"The actions of {first.path}."
        entry["description"] = "\n".join(f"- `{one.action}`: {one.summary}" for one in endpoints)
        names = [one.action for one in endpoints]
        schema = {"type": "string", "enum": names}
        parameters.append(_parameter(Parameter("action", "Which of them.", schema, required=True)))
    if parameters:
        entry["parameters"] = parameters
    bodies = [one.body for one in endpoints if one.body is not None]
    if bodies:
        entry["requestBody"] = {"required": True, "content": _json(_any_of(bodies))}
    entry["responses"] = _responses(endpoints)
    return entry


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.required or parameter.place == "path",
        "description": parameter.description,
        "schema": parameter.schema,
    }


def _responses(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    bodies: dict[int, list[Schema | None]] = defaultdict(list)
    for endpoint in endpoints:
        for status, schema in endpoint.answers.items():
            bodies[status].append(schema)
    responses = {
        str(status): _answer(status, [one for one in schemas if one is not None])
        for status, schemas in bodies.items()
    }
    first = endpoints[0]
    error = error_schema(is_openapi=is_openapi(first.path))
    has_body = first.method != "HEAD"
    refused = sorted(
        {*_ALWAYS, *(status for one in endpoints for status in one.refuses)}
        | (set() if first.method in READING_METHODS else {HTTPStatus.INSUFFICIENT_STORAGE.value})
    )
    for status in refused:
        responses[str(status)] = _answer(status, [error] if has_body else [])
    return responses


def _answer(status: int, schemas: Sequence[Schema]) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    return answer | ({"content": _json(_any_of(schemas))} if schemas else {})


def _any_of(schemas: Sequence[Schema]) -> Schema:
    return schemas[0] if len(schemas) == 1 else {"anyOf": list(schemas)}


def _json(schema: Schema) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
