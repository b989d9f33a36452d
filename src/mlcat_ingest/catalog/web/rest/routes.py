"""The REST endpoints: one table of rows, and the routes that are made of it."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from starlette.convertors import PathConvertor, register_url_convertor
from starlette.routing import Route

from mlcat_ingest.catalog.errors import BadRequestError
from mlcat_ingest.catalog.limits import Limits
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.tasks import Tasks
from mlcat_ingest.catalog.web.http import Handler, RequestContext, endpoint
from mlcat_ingest.catalog.web.rest.aspects import Aspects
from mlcat_ingest.catalog.web.rest.discovery import Config, OpenApiDocument
from mlcat_ingest.catalog.web.rest.endpoint import Endpoint
from mlcat_ingest.catalog.web.rest.entities import Entities
from mlcat_ingest.catalog.web.rest.metadata_tests import MetadataTests
from mlcat_ingest.catalog.web.rest.openapi_entities import (
    ENTITY,
    ENTITY_ASPECT,
    EntityReads,
    EntityWrites,
    target_of,
)
from mlcat_ingest.catalog.web.rest.operations import Operations

OPEN_PATHS: Final = frozenset({"/config", "/health"})
"""The paths that a client may read without a token."""


_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")


class UrnConvertor(PathConvertor):
    """A URN as the rest of a path: slashes belong to it, and so do line breaks."""

    regex = r"[\s\S]*"


register_url_convertor("urn", UrnConvertor())


def rest_endpoints(store: Store, tasks: Tasks, limits: Limits) -> Sequence[Endpoint]:
    """Return the table of everything but GraphQL and the pages."""
    rows = [
        row
        for resource in (
            Aspects(store, limits),
            Entities(store, limits),
            Operations(store, tasks, limits),
            MetadataTests(store, limits),
            EntityReads(store, limits),
            EntityWrites(store, limits),
            Config(store, limits),
        )
        for row in resource.endpoints()
    ]
    return (*rows, *OpenApiDocument(rows).endpoints())


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
            methods=_METHODS if _is_restli(path) else {row.method for row in endpoints_of_path},
        )
        for path, endpoints_of_path in rows.items()
        for pattern in _patterns(path)
    ]


def _is_restli(path: str) -> bool:
    """Return whether wrong methods are the endpoint's to refuse: Rest.li has no status 405."""
    return not path.startswith("/openapi") and path not in OPEN_PATHS


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
    return next(row for row in rows if row.path == path)
