"""The catalog's store with a server's limits, and copies of it that lag behind."""

import re
import sqlite3
import time
from collections.abc import Collection
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Lock
from typing import Any, Final

from starlette.types import ASGIApp

from mlcat_ingest.catalog.errors import CatalogError
from mlcat_ingest.catalog.schema.values import AspectVersion, Direction, EdgeQuery, RelatedPage
from mlcat_ingest.catalog.search.request import SearchPage, SearchRequest
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.tasks import Tasks
from mlcat_ingest.catalog.web.app import create_app
from support.gms.requests import SeenRequest

_GRAPHQL: Final = frozenset({"/api/graphql", "/api/v2/graphql"})
_SEARCH_FIELDS: Final = re.compile(
    rb"\b(search|searchAcrossEntities|scrollAcrossEntities|relationships|lineage"
    rb"|searchAcrossLineage|scrollAcrossLineage)\b"
)
_SEARCH_PATHS: Final = re.compile(
    r"/openapi/v3/entity/(scroll|[^/]+)|/openapi/v3/(relationship|lineage).*"
    r"|/openapi/relationships/.*|/openapi/v2/.*"
)
_EDGE_PATH: Final = re.compile(r"/openapi/v3/relationship/[^/]+/(urn:li:.+)")
_READ_PATHS: Final = re.compile(r"/openapi/v3/entity/.+/.+|/aspects/.+|/entitiesV2/.+")

_KEPT_VERSIONS: Final = 20
"""How many versions of an aspect can be read. Source: retention.yaml."""

_RELATIONSHIP_WINDOW: Final = 10_000
"""Where pages of relationships by `start` end. Source: GraphQueryBaseDAO.java."""

_SEARCHED_CHARACTERS: Final = 4_095
"""The longest custom property, with its key, that a search finds. Source: FieldExtractor.java."""


class LimitedStore(Store):
    """A store that keeps as many versions, and finds as much, as a GMS does."""

    def get_version(self, urn: str, name: str, version: int) -> AspectVersion | None:
        """Return a version of an aspect, unless retention has taken it away."""
        aspect = super().get_version(urn, name, version)
        latest = super().get_version(urn, name, 0)
        if latest is None:  # a deletion takes the history with it: GenericEntitiesController.java
            return None
        if aspect is None or version == 0:
            return aspect
        return aspect if latest.version - version < _KEPT_VERSIONS else None

    def search(self, request: SearchRequest) -> SearchPage:
        """Return a page of hits, none for a custom property that is too long to be indexed."""
        for criterion in (one for alternative in request.any_of for one in alternative):
            if criterion.field == "customProperties" and any(
                len(value) > _SEARCHED_CHARACTERS for value in criterion.values
            ):
                return SearchPage(total=0, hits=())
        return super().search(request)

    def related_entities(self, urns: Collection[str], query: EdgeQuery) -> dict[str, RelatedPage]:
        """Return edges page by page; a page beyond the window of the index is an error."""
        if query.start + query.count > _RELATIONSHIP_WINDOW:
            raise CatalogError("Search query failed:")
        return super().related_entities(urns, query)


class LaggingCopy:
    """A copy of a database, as of its last refresh, and the service over it.

    It stands for the search index, or for a replica from which aspects are read.
    """

    def __init__(self, source: Path, name: str, refresh_s: float) -> None:
        """Copy `source` beside itself, and again `refresh_s` after the last time."""
        self._source = source
        self._name = name
        self._refresh_s = refresh_s
        self._lock = Lock()
        self._open = ExitStack()
        self._copies = 0
        self._app = self._copy()

    def app(self) -> ASGIApp:
        """Return the service over the copy, refreshed if it is time."""
        with self._lock:
            if time.monotonic() - self._copied_at >= self._refresh_s:
                self._app = self._copy()
            return self._app

    def refresh(self) -> None:
        """Show the current content of the database."""
        with self._lock:
            self._app = self._copy()

    def close(self) -> None:
        """Close every copy."""
        self._open.close()

    def _copy(self) -> ASGIApp:
        self._copied_at = time.monotonic()
        self._copies += 1
        # A request may still read the copy before, so that each has a file of its own.
        target = self._source.with_name(f"{self._source.name}.{self._name}{self._copies}")
        with (
            closing(sqlite3.connect(self._source)) as source,
            closing(sqlite3.connect(target)) as copy,
        ):
            source.backup(copy)
        store = self._open.enter_context(closing(LimitedStore.open(target)))
        tasks = self._open.enter_context(closing(Tasks(store)))
        return create_app(store, tasks=tasks)


def asks_index(request: SeenRequest) -> bool:
    """Return whether the search index answers a request, not the database."""
    if request.path in _GRAPHQL:
        return _SEARCH_FIELDS.search(request.body) is not None
    if request.path == "/entities":
        return request.query.get("action") in {"search", "listUrns"}
    is_listing = request.method == "GET" or request.path == "/openapi/v3/entity/scroll"
    is_search = _SEARCH_PATHS.fullmatch(request.path) is not None
    return is_search and (is_listing or not request.path.startswith("/openapi/v3/entity/"))


def relationship_page(store: Store, request: SeenRequest) -> dict[str, Any] | None:
    """Return a page of the incoming edges of one entity, as the scroll lists them.

    None for another request. Source: GenericRelationshipController.java.
    """
    found = _EDGE_PATH.fullmatch(request.path)
    if found is None or request.method != "GET":
        return None
    urn, kind = found[1], request.query["relationshipType[]"]
    start, count = int(request.query.get("scrollId", 0)), int(request.query["count"])
    query = EdgeQuery([kind], Direction.INCOMING, start, count)
    page = Store.related_entities(store, [urn], query)[urn]
    results = [
        {
            "relationshipType": kind,
            "source": {"urn": edge.urn},
            "destination": {"urn": urn},
        }
        for edge in page.entities
    ]
    ends = start + len(results)
    return {"scrollId": str(ends) if ends < page.total else None, "results": results}


def reads_aspects(request: SeenRequest) -> bool:
    """Return whether a request reads aspects of entities that it names."""
    is_read = request.method == "GET" or request.path.endswith("/batchGet")
    return is_read and _READ_PATHS.fullmatch(request.path) is not None
