"""Discovery: `/config`, `/health` and the OpenAPI 3.1 document.

The document, `/openapi.json`, is made from the table of endpoints.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache, partial
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, Final

from mlcat_ingest.catalog.web.http import READING_METHODS, RequestContext
from mlcat_ingest.catalog.web.refusals import PREFIXES, is_openapi
from mlcat_ingest.catalog.web.rest.endpoint import (
    COMPONENTS,
    CONNECTOR,
    OBJECT,
    OPERATOR,
    TEXT,
    Endpoint,
    Parameter,
    Resource,
    Schema,
    error_schema,
    record,
)

PATH: Final = "/openapi.json"

# Any request may be refused in these ways.
_ALWAYS: Final = (400, 401, 403, 408, 413, 429, 503)


# Every command of DataHub's asks for the configuration, and reading a version reads a file.
_own_version = cache(partial(version, "mlcat-ingest"))


class OpenApiDocument(Resource):
    """The endpoint that describes all endpoints, itself too."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        """Describe `endpoints`."""
        self._document = describe((*endpoints, *self.endpoints()))

    @Endpoint("GET", PATH, {200: OBJECT}, client=OPERATOR)
    def get(self, _request: RequestContext) -> Mapping[str, Any]:
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
        "info": {"title": "mlcat-ingest catalog", "version": _own_version()},
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
        entry["description"] = "\n".join(
            f"- `{endpoint.action}`: {endpoint.summary}" for endpoint in endpoints
        )
        names = [endpoint.action for endpoint in endpoints]
        schema = {"type": "string", "enum": names}
        parameters.append(
            _parameter(Parameter("action", "Name of the action.", schema, required=True))
        )
    if parameters:
        entry["parameters"] = parameters
    bodies = [endpoint.body for endpoint in endpoints if endpoint.body is not None]
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
        str(status): _answer(status, [body for body in schemas if body is not None])
        for status, schemas in bodies.items()
    }
    first = endpoints[0]
    error = error_schema(is_openapi=is_openapi(first.path))
    has_body = first.method != "HEAD"
    refused = sorted(
        {*_ALWAYS, *(status for endpoint in endpoints for status in endpoint.refuses)}
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


class Config(Resource):
    """The endpoints that every client may read, without a token too."""

    @Endpoint("GET", "/config", {200: record("noCode", noCode={"const": "true"})}, client=CONNECTOR)
    def config(self, _request: RequestContext) -> dict[str, Any]:
        """Say what this service can do, in the terms in which DataHub's clients ask.

        `noCode` has to be a text. There is no version under DataHub's own name, so its clients
        stay on Rest.li, which alone has conditional writes for them.
        """
        return {
            "noCode": "true",
            "models": {},
            "versions": {"mlcat-ingest": {"version": _own_version()}},
            "datahub": {"serverType": "mlcat-ingest", "serverEnv": "core"},
            "managedIngestion": {"enabled": False, "defaultCliVersion": None},
            "statefulIngestionCapable": True,
            "supportsImpactAnalysis": False,
            "patchCapable": True,
            "retention": "true",
            "telemetry": {"enabledCli": False, "enabledIngestion": False},
            "timeZone": "GMT",
        }

    @Endpoint("GET", "/health", {200: record("status", status=TEXT)}, client=OPERATOR)
    def health(self, _request: RequestContext) -> dict[str, Any]:
        """Say that the service answers."""
        return {"status": "ok"}
