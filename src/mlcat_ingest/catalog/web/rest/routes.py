"""The REST endpoints: one table of rows, the routes made of it, and what describes the service.

`/config`, `/health` and the OpenAPI 3.1 document `/openapi.json`, which is made of the table.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache, partial
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, Final

from starlette.convertors import PathConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.routing import Route

from mlcat_ingest.catalog.errors import BadRequestError
from mlcat_ingest.catalog.limits import Limits
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.tasks import Tasks
from mlcat_ingest.catalog.web.http import (
    PREFIXES,
    READING_METHODS,
    Handler,
    RequestContext,
    Schema,
    endpoint,
    is_openapi,
)
from mlcat_ingest.catalog.web.rest import json_schema as js
from mlcat_ingest.catalog.web.rest.endpoint import IN_PATHS, Endpoint, Parameter, Resource
from mlcat_ingest.catalog.web.rest.entities import Aspects, Entities
from mlcat_ingest.catalog.web.rest.openapi_entities import (
    ENTITY,
    ENTITY_ASPECT,
    EntityReads,
    EntityWrites,
    RelationshipReads,
    target_of,
)
from mlcat_ingest.catalog.web.rest.operations import MetadataTests, Operations
from mlcat_ingest.catalog.web.rest.search import SearchReads
from mlcat_ingest.metadata.declaration import RecordType

PATH: Final = "/openapi.json"

# Any request may be refused in these ways.
_ALWAYS: Final = (400, 401, 403, 408, 413, 429, 503)


# Every command of DataHub's asks for the configuration, and reading a version reads a file.
_own_version = cache(partial(version, "mlcat-ingest"))


class _OpenApiDocument(Resource):
    """The endpoint that describes all endpoints, itself too."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        self._document = _describe((*endpoints, *self.endpoints()))

    @Endpoint("GET", PATH, {200: js.OBJECT})
    def get(self, _request: RequestContext) -> Mapping[str, Any]:
        """Read the description of all REST endpoints, an OpenAPI document."""
        return self._document


def _describe(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """Return the OpenAPI document of `endpoints`.

    The actions of a Rest.li resource share a path and a method, so they are one entry there; its
    description tells them apart.
    """
    entries: dict[tuple[str, str], list[Endpoint]] = defaultdict(list)
    for row in endpoints:
        entries[row.path, row.method].append(row)
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
            "schemas": dict(js.COMPONENTS),
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
    parameters = [
        _parameter(Parameter(name, IN_PATHS[name], required=True), "path")
        for name in re.findall(r"{(\w+)}", first.path)
    ]
    parameters += [_parameter(parameter) for parameter in first.parameters]
    if first.action is not None:
        entry["operationId"] = first.path.strip("/")
        entry["summary"] = f"The actions of {first.path}."
        entry["description"] = "\n".join(f"- `{row.action}`: {row.summary}" for row in endpoints)
        names = [row.action for row in endpoints]
        schema = {"type": "string", "enum": names}
        parameters.append(
            _parameter(Parameter("action", "Name of the action.", schema, required=True))
        )
    if parameters:
        entry["parameters"] = parameters
    bodies = [
        js.schema_of(row.body) if isinstance(row.body, RecordType) else row.body
        for row in endpoints
        if row.body is not None
    ]
    if bodies:
        entry["requestBody"] = {"required": True, "content": _content(bodies)}
    entry["responses"] = _responses(endpoints)
    return entry


def _parameter(parameter: Parameter, place: str = "query") -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": place,
        "required": parameter.required,
        "description": parameter.description,
        "schema": parameter.schema,
    }


def _responses(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    bodies: dict[int, list[Schema | None]] = defaultdict(list)
    for row in endpoints:
        for status, schema in row.answers.items():
            bodies[status].append(schema)
    responses = {
        str(status): _answer(status, [body for body in schemas if body is not None])
        for status, schemas in bodies.items()
    }
    first = endpoints[0]
    error = js.ref("OpenApiError" if is_openapi(first.path) else "RestliError")
    has_body = first.method != "HEAD"
    refused = sorted(
        {*_ALWAYS, *(status for row in endpoints for status in row.refuses)}
        | (set() if first.method in READING_METHODS else {HTTPStatus.INSUFFICIENT_STORAGE.value})
    )
    for status in refused:
        responses[str(status)] = _answer(status, [error] if has_body else [])
    return responses


def _answer(status: int, schemas: Sequence[Schema]) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    return answer | ({"content": _content(schemas)} if schemas else {})


def _content(schemas: Sequence[Schema]) -> dict[str, Any]:
    schema = schemas[0] if len(schemas) == 1 else {"anyOf": list(schemas)}
    return {"application/json": {"schema": schema}}


class _Config(Resource):
    """The endpoints that every client may read, without a token too."""

    @Endpoint("GET", "/config", {200: js.record("noCode", noCode={"const": "true"})})
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

    @Endpoint("GET", "/health", {200: js.record("status", status=js.TEXT)})
    def health(self, _request: RequestContext) -> dict[str, Any]:
        """Say that the service answers."""
        return {"status": "ok"}


OPEN_PATHS: Final = frozenset({"/config", "/health"})
"""The paths that a client may read without a token."""


_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")


class _UrnConvertor(PathConvertor):
    """A URN as the rest of a path: slashes belong to it, and so do line breaks."""

    regex = r"[\s\S]*"


register_url_convertor("urn", _UrnConvertor())


def rest_endpoints(store: Store, tasks: Tasks, limits: Limits) -> Sequence[Endpoint]:
    """Return the table of everything but GraphQL and the pages."""
    rows = [
        row
        for resource in (
            Aspects(store, limits),
            Entities(store, limits),
            SearchReads(store, limits),
            Operations(store, tasks, limits),
            MetadataTests(store, limits),
            EntityReads(store, limits),
            EntityWrites(store, limits),
            RelationshipReads(store, limits),
            _Config(store, limits),
        )
        for row in resource.endpoints()
    ]
    return (*rows, *_OpenApiDocument(rows).endpoints())


def rest_routes(endpoints: Sequence[Endpoint], limits: Limits) -> Sequence[Route]:
    """Return the routes of `endpoints`, without a prefix.

    A path may end with a slash or not, as clients differ over it.
    """
    rows: dict[str, list[Endpoint]] = defaultdict(list)
    for row in endpoints:
        # A route cannot tell where a URN ends and the name of an aspect begins.
        rows[ENTITY if row.path == ENTITY_ASPECT else row.path].append(row)
    return [
        Route(
            pattern,
            endpoint(_dispatcher(path, endpoints_of_path), limits),
            # A wrong method is Rest.li's to refuse, which has no status 405.
            methods={row.method for row in endpoints_of_path}
            if path.startswith("/openapi") or path in OPEN_PATHS
            else _METHODS,
        )
        # The rest of any path may look like a URN.
        for path, endpoints_of_path in sorted(rows.items(), key=lambda row: row[0] == ENTITY)
        for pattern in _patterns(path)
    ]


def _patterns(path: str) -> tuple[str, ...]:
    if path.endswith("{urn}"):
        return (path.replace("{urn}", "{urn:urn}"),)
    return path.rstrip("/"), f"{path.rstrip('/')}/"


def _dispatcher(path: str, rows: Sequence[Endpoint]) -> Handler:
    """Return what answers a path: the row that the method and the parameters select."""
    by_method: dict[str, list[Endpoint]] = defaultdict(list)
    for row in rows:
        by_method[row.method].append(row)

    def dispatch(request: RequestContext) -> object:
        candidates = by_method.get(request.method) or (
            request.method == "HEAD" and by_method["GET"]
        )
        if not candidates:
            raise BadRequestError(f"{request.method} operation not supported for {path}")
        if path == ENTITY:
            return _of_target(candidates, request).answer(request)
        if candidates[0].action is not None:
            return _of_action(candidates, request).answer(request)
        return candidates[0].answer(request)

    return dispatch


def _of_action(rows: Sequence[Endpoint], request: RequestContext) -> Endpoint:
    """Return the row of a Rest.li action: the query parameter `action` names it."""
    named = request.query.get("action", "")
    for row in rows:
        if row.action == named:
            return row
    known = ", ".join(sorted(str(row.action) for row in rows))
    raise BadRequestError(f"action: {named!r} is not an action of {rows[0].path}; it has {known}")


def _of_target(rows: Sequence[Endpoint], request: RequestContext) -> Endpoint:
    path = ENTITY if target_of(request).aspect is None else ENTITY_ASPECT
    named = next((row for row in rows if row.path == path), None)
    if named is None:
        raise HTTPException(HTTPStatus.METHOD_NOT_ALLOWED)
    return named
