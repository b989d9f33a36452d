"""Which entities the catalog holds: those of one source, the members of a group, similar names.

Source: DataHub's GraphQL, `scrollAcrossEntities`, `search` and an entity's `relationships`;
`SearchFlags.pdl` for the versions that a search leaves out by default, `GraphQueryBaseDAO.java` for
the end of its pages, `GenericRelationshipController.java` for the scroll that goes on.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from mlcat_ingest.client.base import Owned
from mlcat_ingest.errors import ProtocolMismatchError
from mlcat_ingest.metadata.registry import ENTITIES
from mlcat_ingest.metadata.reserved import SOURCE_KEY

Query = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]
"""Asks GraphQL and returns the reply's `data`."""

Scroll = Callable[[str, str, str | None], Mapping[str, Any] | None]
"""Returns a page of an entity's incoming edges of one relationship, behind a scroll id; None where
the service has no such call."""

SEARCHABLE: Final[Mapping[str, str]] = {
    entity_type: ENTITIES[entity_type].enum
    for entity_type in ("mlModel", "mlModelGroup", "mlFeatureTable", "mlFeature", "mlPrimaryKey")
}
"""Entity types that a source owns, and what GraphQL calls them."""

_PAGE: Final = 1_000
_MAX_START: Final = 10_000
"""Where the pages of relationships end on a DataHub server: the search engine's `from` + `size`."""
_ALIKE: Final = 10

_OWNED: Final = """
query owned($input: ScrollAcrossEntitiesInput!) {
  scrollAcrossEntities(input: $input) {
    nextScrollId
    total
    searchResults { entity { urn } }
  }
}
"""

_MEMBERS: Final = """
query members($urn: String!, $start: Int!, $count: Int!) {
  mlModelGroup(urn: $urn) {
    relationships(
      input: {types: ["MemberOf"], direction: INCOMING, start: $start, count: $count}
    ) {
      total
      relationships { entity { urn } }
    }
  }
}
"""


_FOUND: Final = "fragment found on SearchResults { searchResults { entity { urn } } }"


class Search:
    """Searches the service by GraphQL. Safe to use from several threads."""

    def __init__(self, query: Query, scroll: Scroll) -> None:
        """Ask by `query`; `scroll` lists the members of groups that it does not list whole."""
        self._query = query
        self._scroll = scroll

    def owned(self, entity_type: str, source: str) -> Owned:
        """Return the entities of a type whose custom property `mlcat.source` names `source`.

        The total comes with the first page, so who needs no URN asks once.

        Raises:
            ProtocolMismatchError: the reply has another shape; and what the query raises, now or
                while the pages are read.

        Cost: one request for each 1,000.
        """
        first = _scrolled(self._query, entity_type, source, None)
        return Owned(_int(first.get("total")), _pages(self._query, entity_type, source, first))

    def members(self, group: str) -> Iterator[list[str]]:
        """Yield the URNs of the models in a group, removed ones too, in pages; some come twice.

        Raises:
            ProtocolMismatchError: the reply has another shape, or the pages end before the members
                do; and what the query raises.

        Cost: one request for each 1,000; for a group of 10,000 and more, ten requests in addition.
        """
        start = 0
        while True:
            # Behind this a DataHub server refuses; a service without the scroll may have no such
            # end.
            if start == _MAX_START and (edges := self._scroll(group, "MemberOf", None)) is not None:
                yield from _scrolled_members(self._scroll, group, edges)
                return
            data = self._query(_MEMBERS, {"urn": group, "start": start, "count": _PAGE})
            listed = (data.get("mlModelGroup") or {}).get("relationships") or {}
            page = _urns(listed.get("relationships") or [])
            if not page:
                if start < (listed.get("total") or 0):
                    raise ProtocolMismatchError(
                        f"the catalog service listed {start:,} of the {listed['total']:,} models "
                        f"of {group}, and no more"
                    )
                return
            yield page
            start += len(page)

    def datasets_like(self, texts: Sequence[str]) -> list[list[str]]:
        """Return for each of `texts` the URNs of a few datasets that a search for it finds.

        Raises:
            ProtocolMismatchError: the reply has another shape; and what the query raises.

        Cost: one request, none without texts.
        """
        if not texts:
            return []
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


def _scrolled_members(scroll: Scroll, group: str, edges: Mapping[str, Any]) -> Iterator[list[str]]:
    found: Mapping[str, Any] | None = edges
    while found is not None:
        try:
            page = [str(edge["source"]["urn"]) for edge in found["results"]]
        except (KeyError, TypeError):
            raise _unknown_shape() from None
        if page:
            yield page
        after = found.get("scrollId")
        found = scroll(group, "MemberOf", after) if after and page else None


def _pages(
    query: Query, entity_type: str, source: str, page: Mapping[str, Any]
) -> Iterator[list[str]]:
    while True:
        found = _urns(page.get("searchResults") or [])
        if found:
            yield found
        after = page.get("nextScrollId")
        if not after or not found:
            return
        page = _scrolled(query, entity_type, source, after)


def _scrolled(query: Query, entity_type: str, source: str, after: str | None) -> Mapping[str, Any]:
    live = {"field": "removed", "condition": "EQUAL", "values": ["true"], "negated": True}
    named = {"field": "customProperties", "values": [f"{SOURCE_KEY}={source}"]}
    # Where several sources are joined in the property, the catalog may not split them.
    among = {"field": "customProperties", "values": [f",{source}"], "condition": "CONTAIN"}
    wanted = {
        "types": [SEARCHABLE[entity_type]],
        "query": "*",
        "scrollId": after,
        "count": _PAGE,
        "orFilters": [{"and": [{**named, "condition": "EQUAL"}, live]}, {"and": [among, live]}],
        # Without it only the latest version of each registered model is found and counted.
        "searchFlags": {"filterNonLatestVersions": False},
    }
    found = query(_OWNED, {"input": wanted}).get("scrollAcrossEntities")
    if not isinstance(found, dict):
        raise _unknown_shape()
    return found


def _urns(results: list[Any]) -> list[str]:
    try:
        return [str(one["entity"]["urn"]) for one in results]
    except (KeyError, TypeError):
        raise _unknown_shape() from None


def _int(value: object) -> int:
    if not isinstance(value, int):
        raise _unknown_shape()
    return value


def _unknown_shape() -> ProtocolMismatchError:
    return ProtocolMismatchError(
        "the catalog service answered a search in an unknown shape",
        hint="is it a DataHub-compatible service?",
    )
