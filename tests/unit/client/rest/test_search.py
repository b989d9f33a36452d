"""What the searches ask a DataHub server, which hides old versions and bounds what is asked."""

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    OperationDefinitionNode,
    SelectionSetNode,
    parse,
    validate,
)

from mlcat_ingest.catalog.web.graphql.schema import executable_schema
from mlcat_ingest.client.rest.client import CatalogClient
from mlcat_ingest.client.rest.search import SEARCHABLE
from mlcat_ingest.errors import CatalogRequestError, ProtocolMismatchError
from mlcat_ingest.pipeline.report.tally import EXAMPLES
from support.fake_service import Answer, Asked, FakeService
from support.fakes import group_urn, model_urn

pytestmark = pytest.mark.process

GROUP = group_urn("g")

# The limits of a DataHub server: `GraphQLEngine.java` and its configuration of search.
MAX_COMPLEXITY = 2_000
MAX_DEPTH = 50
MAX_PAGE = 10_000


def scroll_page(after: str | None, *urns: str) -> dict[str, Any]:
    found = [{"entity": {"urn": urn}} for urn in urns]
    return {"nextScrollId": after, "total": 2, "searchResults": found}


def test_old_versions_are_found_and_counted(service: FakeService, client: CatalogClient) -> None:
    pages = iter((scroll_page("next", model_urn("m_1")), scroll_page(None, model_urn("m_2"))))
    service.on(
        "POST",
        "/api/graphql",
        lambda _: Answer(body={"data": {"scrollAcrossEntities": next(pages)}}),
    )
    found = client.search.entities_of_source("mlModel", "mlflow:s:default")
    assert found.total == 2
    assert list(found.pages) == [[model_urn("m_1")], [model_urn("m_2")]]
    asked = [one.json()["variables"]["input"] for one in service.to("/api/graphql")]
    assert [one["scrollId"] for one in asked] == [None, "next"]
    assert [one["searchFlags"] for one in asked] == [{"filterNonLatestVersions": False}] * 2


class Members:
    """A group of so many models, listed by GraphQL up to the end of the search engine's window."""

    def __init__(self, count: int, window: int = 10_000) -> None:
        self.urns = [model_urn(f"m{n}") for n in range(count)]
        self.window = window

    def page(self, asked: Asked) -> Answer:
        wanted = asked.json()["variables"]
        start, end = wanted["start"], wanted["start"] + wanted["count"]
        if end > self.window:
            refused = [{"message": "Search query failed: Result window is too large"}]
            return Answer(body={"errors": refused, "data": {"mlModelGroup": None}})
        found = [{"entity": {"urn": urn}} for urn in self.urns[start:end]]
        relationships = {"total": len(self.urns), "relationships": found}
        return Answer(body={"data": {"mlModelGroup": {"relationships": relationships}}})

    def edges(self, asked: Asked) -> Answer:
        query = {name: values[0] for name, values in parse_qs(urlsplit(asked.path).query).items()}
        assert query["relationshipType[]"] == "MemberOf"
        assert query["direction"] == "INCOMING"
        assert query["includeSoftDelete"] == "true"
        start = int(query.get("scrollId", "0"))
        end = start + int(query["count"])
        results = [
            {"relationshipType": "MemberOf", "source": {"urn": urn}, "destination": {"urn": GROUP}}
            for urn in self.urns[start:end]
        ]
        return Answer(body={"results": results, "scrollId": str(end) if results else None})


def listed(client: CatalogClient) -> set[str]:
    return {urn for page in client.search.members(GROUP) for urn in page}


def test_a_group_of_more_than_the_search_engines_window_is_scrolled(
    service: FakeService, client: CatalogClient
) -> None:
    many = Members(12_500)
    service.on("POST", "/api/graphql", many.page)
    service.on("GET", "/openapi/v3/relationship/mlModelGroup/", many.edges)
    assert listed(client) == set(many.urns)


@pytest.mark.parametrize("count", [0, 12_499])
def test_a_scroll_without_all_members_is_no_whole_list(
    service: FakeService, client: CatalogClient, count: int
) -> None:
    """Servers that exchange the directions list what leaves the group, or nothing."""

    def edges(asked: Asked) -> Answer:
        page = lacking.edges(asked).body
        assert isinstance(page, dict)
        leaving = {"source": {"urn": GROUP}, "destination": {"urn": model_urn("m")}}
        return Answer(body={**page, "results": page["results"] or [leaving]})

    lacking = Members(count)
    service.on("POST", "/api/graphql", Members(12_500).page)
    service.on("GET", "/openapi/v3/relationship/mlModelGroup/", edges)
    with pytest.raises(ProtocolMismatchError, match=f"listed only {count:,} of 12,500 models"):
        listed(client)


def test_a_small_group_costs_no_scroll(service: FakeService, client: CatalogClient) -> None:
    few = Members(1_200)
    service.on("POST", "/api/graphql", few.page)
    assert listed(client) == set(few.urns)
    assert len(service.asked) == 3


def test_without_a_scroll_the_end_of_the_window_is_an_error(
    service: FakeService, client: CatalogClient
) -> None:
    service.on("POST", "/api/graphql", Members(12_500).page)
    with pytest.raises(CatalogRequestError, match="Result window"):
        listed(client)


def test_a_service_without_a_scroll_and_without_a_window_goes_on(
    service: FakeService, client: CatalogClient
) -> None:
    many = Members(10_200, window=1_000_000)
    service.on("POST", "/api/graphql", many.page)
    assert listed(client) == set(many.urns)


def test_a_search_that_goes_on_without_anything_new_ends(
    service: FakeService, client: CatalogClient
) -> None:
    def again(_: Asked) -> Answer:
        page = scroll_page(str(len(service.asked)), model_urn("m_1"))
        return Answer(body={"data": {"scrollAcrossEntities": page}})

    service.on("POST", "/api/graphql", again)
    with pytest.raises(ProtocolMismatchError, match="search returned 20 pages in a row"):
        list(client.search.metadata_tests())


@pytest.mark.parametrize("scrolls", [True, False])
def test_members_that_come_again_and_again_end(
    service: FakeService, client: CatalogClient, *, scrolls: bool
) -> None:
    results = [{"source": {"urn": model_urn("m")}, "destination": {"urn": GROUP}}]
    found = {"total": 99_999, "relationships": [{"entity": {"urn": model_urn("m")}}] * 1_000}
    endless = Answer(body={"data": {"mlModelGroup": {"relationships": found}}})
    service.on("POST", "/api/graphql", Members(12_500).page if scrolls else lambda _: endless)
    if scrolls:
        service.on(
            "GET",
            "/openapi/v3/relationship/mlModelGroup/",
            lambda _: Answer(body={"results": results, "scrollId": str(len(service.asked))}),
        )
    with pytest.raises(ProtocolMismatchError, match="search returned 20 pages in a row"):
        listed(client)


def test_searches_that_a_proxy_finds_too_large_are_sent_in_parts(
    service: FakeService, client: CatalogClient
) -> None:
    def limited(asked: Asked) -> Answer:
        variables = asked.json()["variables"]
        if len(variables) > 3:
            return Answer(413, b"too large")
        users = {"total": 1, "relationships": [{"entity": {"urn": model_urn("m")}}]}
        data = {
            f"r{name[1:]}": {"relationships": users}
            if name[0] == "u"
            else {"searchResults": [{"entity": {"urn": value["query"]}}]}
            for name, value in variables.items()
        }
        return Answer(body={"data": data})

    service.on("POST", "/api/graphql", limited)
    names = [f"f{number}" for number in range(23)]
    assert list(client.search.consumers(names)) == [(name, [model_urn("m")]) for name in names]
    assert client.search.datasets_like(names) == [[name] for name in names]


def test_pages_that_end_before_the_members_do_are_no_whole_list(
    service: FakeService, client: CatalogClient
) -> None:
    many = Members(5)
    del many.urns[2:]
    service.on("POST", "/api/graphql", lambda asked: _with_total(many.page(asked), 5))
    with pytest.raises(ProtocolMismatchError, match=r"listed only 2 of 5 models"):
        listed(client)


def _with_total(answer: Answer, total: int) -> Answer:
    answer.body["data"]["mlModelGroup"]["relationships"]["total"] = total
    return answer


def sent(service: FakeService, client: CatalogClient) -> Iterator[Mapping[str, Any]]:
    """Every query that the client has of its own, as it goes over the wire."""
    empty = {"scrollAcrossEntities": scroll_page(None), "mlModelGroup": None}
    service.on("POST", "/api/graphql", Answer(body={"data": empty}))
    for entity_type in SEARCHABLE:
        client.search.entities_of_source(entity_type, "mlflow:s:default")
    list(client.search.members(GROUP))
    client.search.datasets_like(["words"] * EXAMPLES)
    yield from (one.json() for one in service.to("/api/graphql"))


def test_queries_fit_the_limits_of_a_datahub_server(
    service: FakeService, client: CatalogClient
) -> None:
    for asked in sent(service, client):
        document = parse(asked["query"])
        assert validate(executable_schema(), document) == []
        fields, depth = measured(document)
        assert fields <= MAX_COMPLEXITY
        assert depth <= MAX_DEPTH
        # With this fragment the server multiplies the fields by the size of the page.
        assert "searchResultFields" not in asked["query"]
        variables = json.dumps(asked["variables"])
        assert all(count <= MAX_PAGE for count in _counts(json.loads(variables)))


def _counts(value: Any) -> Iterator[int]:
    if isinstance(value, dict):
        yield from (one for name, one in value.items() if name == "count")
        for one in value.values():
            yield from _counts(one)


def measured(document: DocumentNode) -> tuple[int, int]:
    """The fields of a document with its fragments in their place, and how deep they go."""
    fragments = {
        one.name.value: one.selection_set
        for one in document.definitions
        if isinstance(one, FragmentDefinitionNode)
    }

    def of(selected: SelectionSetNode | None) -> tuple[int, int]:
        fields = depth = 0
        for one in selected.selections if selected else ():
            if isinstance(one, FieldNode):
                below = of(one.selection_set)
                more = (1 + below[0], 1 + below[1])
            else:
                assert isinstance(one, FragmentSpreadNode)
                more = of(fragments[one.name.value])
            fields, depth = fields + more[0], max(depth, more[1])
        return fields, depth

    operations = (one for one in document.definitions if isinstance(one, OperationDefinitionNode))
    return of(next(operations).selection_set)
