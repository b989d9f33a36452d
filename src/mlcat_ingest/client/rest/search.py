"""Searches of the catalog: the entities of one source, members of a group, similar names, tests.

Source: DataHub's GraphQL, `scrollAcrossEntities`, `search` and an entity's `relationships`;
`SearchFlags.pdl` for the versions that a search leaves out by default, `GraphQueryBaseDAO.java` for
the end of its pages, `GenericRelationshipController.java` for the scroll that goes on.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from mlcat_ingest.client.base import SourceEntities
from mlcat_ingest.client.rest.responses import in_parts, incompatible
from mlcat_ingest.core.paging import ListingPage, RecentIds, chunks, follow
from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import ProtocolMismatchError
from mlcat_ingest.metadata.mlflow_keys import RUN_ID
from mlcat_ingest.metadata.registry import ENTITY_TYPES
from mlcat_ingest.metadata.reserved import SOURCE_KEY

Query = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]
"""Asks GraphQL and returns the reply's `data`."""

Scroll = Callable[[str, str, str | None], Mapping[str, Any] | None]
"""Returns a page of an entity's incoming edges of one relationship, behind a scroll id; None where
the service has no such call."""

SEARCHABLE: Final[Mapping[str, str]] = {
    entity_type: ENTITY_TYPES[entity_type].enum
    for entity_type in (
        *("mlModel", "mlModelGroup", "mlFeatureTable", "mlFeature", "mlPrimaryKey"),
        *("dataProcessInstance", "dataset"),
    )
}
"""Entity types that a source owns, and what GraphQL calls them."""

_PAGE: Final = 1_000
_MAX_START: Final = 10_000
"""The end of the pages of relationships on a DataHub server: `from` + `size` of its search."""
_ALIKE: Final = 10

_SCROLL: Final = """
query scroll($input: ScrollAcrossEntitiesInput!) {
  scrollAcrossEntities(input: $input) {
    nextScrollId
    total
    searchResults { entity { urn } }
  }
}
"""

_PAGE_OF_EDGES: Final = """
query edges($urn: String!, $start: Int!, $count: Int!) {
  %s(urn: $urn) {
    relationships(
      input: {types: ["%s"], direction: INCOMING, start: $start, count: $count}
    ) {
      total
      relationships { entity { urn } }
    }
  }
}
"""

_AT_ONCE: Final = 20
"""Features whose first users one request asks for."""

_FIRST: Final = 100
"""Users of a feature that this request lists."""

_USERS: Final = f"""
fragment users on MLFeature {{
  relationships(input: {{types: ["Consumes"], direction: INCOMING, start: 0, count: {_FIRST}}}) {{
    total
    relationships {{ entity {{ urn }} }}
  }}
}}
"""


_LISTING: Final = "the catalog service's search"

_FOUND: Final = "fragment found on SearchResults { searchResults { entity { urn } } }"


class Search:
    """Searches the service by GraphQL; see `Searches`. Safe to use from several threads.

    A reply of another shape, and a listing that ends before its total, is a
    `ProtocolMismatchError`, now or while the pages are read; others are those of the query.
    """

    def __init__(self, query: Query, scroll: Scroll) -> None:
        """Ask by `query`; `scroll` lists the members of groups that it does not list whole."""
        self._query = query
        self._scroll = scroll

    def entities_of_source(
        self, entity_type: str, source: str | None, *, removed: bool = False
    ) -> SourceEntities:
        """Return the entities of a type whose custom property `mlcat.source` names `source`.

        With None they are those that have the property, whatever it names. They are live, or with
        `removed` soft-deleted.

        The total comes with the first page, so who needs no URN asks once.
        """
        wanted = _of_source(entity_type, source, removed=removed)
        first = self._page(wanted)
        total = first.get("total")
        if not isinstance(total, int):
            raise _unknown_shape()
        return SourceEntities(total, self._found(wanted, first))

    def members(self, group: str) -> Iterator[list[str]]:
        """Yield the URNs of the models in a group, removed ones too, in pages; some come twice.

        Cost: one request for each 1,000; for a group of 10,000 and more, ten requests in addition.
        """
        return self._incoming("mlModelGroup", "MemberOf", group)

    def consumers(self, features: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
        """Yield each of `features` with the URNs of a page of what uses it; some come twice."""
        asked = chain.from_iterable(
            in_parts(self._first_users, chunk) for chunk in chunks(features, _AT_ONCE)
        )
        for part, data in asked:
            for n, feature in enumerate(part):
                listed = (data.get(f"r{n}") or {}).get("relationships") or {}
                page = _urns(listed.get("relationships") or [])
                if len(page) >= (listed.get("total") or 0):
                    yield feature, page
                    continue
                for urns in self._incoming("mlFeature", "Consumes", feature):
                    yield feature, urns

    def _first_users(self, features: Sequence[str]) -> Mapping[str, Any]:
        wanted = ", ".join(f"$u{n}: String!" for n in range(len(features)))
        fields = " ".join(
            f"r{n}: mlFeature(urn: $u{n}) {{ ...users }}" for n in range(len(features))
        )
        text = f"query users({wanted}) {{ {fields} }} {_USERS}"
        return self._query(text, {f"u{n}": urn for n, urn in enumerate(features)})

    def _incoming(self, root: str, edge: str, urn: str) -> Iterator[list[str]]:
        """Yield the ends of the edges into an entity; `root` is its type's field of a query."""
        query = _PAGE_OF_EDGES % (root, edge)
        seen = RecentIds(_LISTING)
        start = total = 0
        while True:
            # Behind this a DataHub server refuses; a service without the scroll may have no such
            # end.
            if start == _MAX_START and (edges := self._scroll(urn, edge, None)) is not None:
                yield from self._scrolled_edges(urn, edge, edges, total)
                return
            data = self._query(query, {"urn": urn, "start": start, "count": _PAGE})
            listed = (data.get(root) or {}).get("relationships") or {}
            page = _urns(listed.get("relationships") or [])
            total = listed.get("total") or 0
            if not page:
                _check_whole(start, total, urn)
                return
            seen.new(page)
            yield page
            start += len(page)

    def named(
        self, names: Sequence[str], models: Sequence[str], version: str
    ) -> Iterator[list[str]]:
        """Yield the URNs of live models and groups that may be meant; see `Searches.named`."""
        runs = [f"{RUN_ID}={name}" for name in names]
        alternatives = [[_is("name", names)], [_is("customProperties", runs)]]
        if version:
            # The name of a version is `<model>_<number>`.
            of_models = {"field": "name", "values": list(models), "condition": "START_WITH"}
            alternatives += [[of_models, _is(field, [version])] for field in ("version", "aliases")]
        wanted = {
            "types": [SEARCHABLE["mlModel"], SEARCHABLE["mlModelGroup"]],
            "orFilters": [{"and": [*conditions, _LIVE]} for conditions in alternatives],
            "searchFlags": _ALL_VERSIONS,
        }
        return self._found(wanted)

    def metadata_tests(self) -> Iterator[list[str]]:
        """Yield the URNs of the live metadata tests, in pages."""
        wanted = {"types": [ENTITY_TYPES["test"].enum], "orFilters": [{"and": [_LIVE]}]}
        return self._found(wanted)

    def with_incidents(self) -> Collection[str]:
        """Return the entity types of whose incidents the catalog keeps a summary.

        They have the field `incidents`: a release that lacks it keeps no `incidentsSummary`.
        """
        fields = " ".join(
            f'{kind}: __type(name: "{ENTITY_TYPES[kind].type_name}") {{ fields {{ name }} }}'
            for kind in SEARCHABLE
        )
        data = self._query(f"query incidents {{ {fields} }}", {})
        return {
            kind
            for kind, described in data.items()
            if {"name": "incidents"} in ((described or {}).get("fields") or ())
        }

    def datasets_like(self, texts: Sequence[str]) -> list[list[str]]:
        """Return for each of `texts` the URNs of a few datasets that a search for it finds.

        Cost: one request, none without texts.
        """
        if not texts:
            return []
        return [found for _, part in in_parts(self._alike, texts) for found in part]

    def _alike(self, texts: Sequence[str]) -> list[list[str]]:
        asked = range(len(texts))
        wanted = ", ".join(f"$i{n}: SearchInput!" for n in asked)
        fields = " ".join(f"r{n}: search(input: $i{n}) {{ ...found }}" for n in asked)
        text = f"query alike({wanted}) {{ {fields} }} {_FOUND}"
        inputs = {
            f"i{n}": {"type": "DATASET", "query": words, "start": 0, "count": _ALIKE}
            for n, words in enumerate(texts)
        }
        data = self._query(text, inputs)
        return [_urns((data.get(f"r{n}") or {}).get("searchResults") or []) for n in asked]

    def _scrolled_edges(
        self, urn: str, edge: str, first: Mapping[str, Any], total: int
    ) -> Iterator[list[str]]:
        def fetch(after: str | None) -> ListingPage[tuple[str, str]]:
            page = first if after is None else self._scroll(urn, edge, after) or {"results": []}
            try:
                ends = [
                    (str(result["source"]["urn"]), str(result["destination"]["urn"]))
                    for result in page["results"]
                ]
            except (KeyError, TypeError):
                raise _unknown_shape() from None
            return ListingPage(ends, page.get("scrollId") if ends else None)

        seen, count = RecentIds(_LISTING), 0
        for ends in follow(fetch, listing=_LISTING):
            seen.new([f"{source} {destination}" for source, destination in ends])
            # DataHub servers may exchange INCOMING and OUTGOING, and list the edges that leave.
            page = [source for source, destination in ends if destination == urn]
            if page:
                count += len(page)
                yield page
        _check_whole(count, total, urn)

    def _found(
        self, wanted: Mapping[str, Any], first: Mapping[str, Any] | None = None
    ) -> Iterator[list[str]]:
        """Yield the entities of the types and filters that are `wanted`; `first` is a page read."""

        def fetch(after: str | None) -> ListingPage[str]:
            page = first if first is not None and after is None else self._page(wanted, after)
            urns = _urns(page.get("searchResults") or [])
            return ListingPage(urns, page.get("nextScrollId") if urns else None)

        seen = RecentIds(_LISTING)
        for urns in follow(fetch, listing=_LISTING):
            seen.new(urns)
            if urns:
                yield urns

    def _page(self, wanted: Mapping[str, Any], after: str | None = None) -> Mapping[str, Any]:
        page = {"query": "*", "scrollId": after, "count": _PAGE}
        result = self._query(_SCROLL, {"input": {**wanted, **page}}).get("scrollAcrossEntities")
        if not isinstance(result, dict):
            raise _unknown_shape()
        return result


def _check_whole(count: int, total: int, urn: str) -> None:
    if count < total:
        raise ProtocolMismatchError(
            f"the catalog service listed only {count:,} of {plural(total, 'model')} of {urn}"
        )


_REMOVED: Final = {"field": "removed", "condition": "EQUAL", "values": ["true"]}
_LIVE: Final = {**_REMOVED, "negated": True}

# Without it only the latest version of each registered model is found and counted.
_ALL_VERSIONS: Final = {"filterNonLatestVersions": False}


def _is(field: str, values: Sequence[str]) -> Mapping[str, Any]:
    return {"field": field, "values": list(values), "condition": "EQUAL"}


def _of_source(entity_type: str, source: str | None, *, removed: bool) -> Mapping[str, Any]:
    """Return the filter of the entities of `source`, or of any source if it is None.

    A catalog may not split several sources that are joined in the property.
    """
    conditions = (
        [("START_WITH", f"{SOURCE_KEY}=")]
        if source is None
        else [("EQUAL", f"{SOURCE_KEY}={source}"), ("CONTAIN", f",{source}")]
    )
    return {
        "types": [SEARCHABLE[entity_type]],
        "orFilters": [
            {
                "and": [
                    {"field": "customProperties", "values": [text], "condition": kind},
                    _REMOVED if removed else _LIVE,
                ]
            }
            for kind, text in conditions
        ],
        "searchFlags": _ALL_VERSIONS,
    }


def _urns(results: list[Any]) -> list[str]:
    try:
        return [str(result["entity"]["urn"]) for result in results]
    except (KeyError, TypeError):
        raise _unknown_shape() from None


def _unknown_shape() -> ProtocolMismatchError:
    return incompatible("the catalog service sent an unknown reply to a search")
