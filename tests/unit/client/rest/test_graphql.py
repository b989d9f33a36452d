import pytest

from mlcat_ingest.client.rest.client import CatalogClient
from mlcat_ingest.errors import (
    CatalogRequestError,
    CatalogUnavailableError,
    MlcatError,
    ProtocolMismatchError,
)
from support.fake_service import Answer, FakeService

pytestmark = pytest.mark.process

QUERY = "query One($urn: String!) { mlModel(urn: $urn) { name } }"


@pytest.mark.parametrize(("query", "times"), [("{ a }", 2), ("mutation { createTag }", 1)])
def test_only_a_query_that_reads_is_repeated(
    service: FakeService, client: CatalogClient, query: str, times: int
) -> None:
    service.on("POST", "/api/graphql", Answer(200, b'{"data": {'))
    with pytest.raises(MlcatError):
        client.graphql(query)
    assert len(service.to("/api/graphql")) == times


def test_a_query_on_the_wire(service: FakeService, client: CatalogClient) -> None:
    reply = {"data": {"mlModel": {"name": "m"}}, "extensions": {}, "errors": []}
    service.on("POST", "/api/graphql", Answer(body=reply))
    assert client.graphql(QUERY, {"urn": "u"}, "One") == {"mlModel": {"name": "m"}}
    assert client.graphql("{ a }") == {"mlModel": {"name": "m"}}
    assert [asked.json() for asked in service.asked] == [
        {"query": QUERY, "variables": {"urn": "u"}, "operationName": "One"},
        {"query": "{ a }"},
    ]


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (
            Answer(200, {"data": {"a": 1}, "errors": [{"message": "one"}, {"message": "two"}]}),
            CatalogRequestError,
            "the query failed: one; two",
        ),
        (Answer(200, {"errors": [{"x": 1}, "text"]}), CatalogRequestError, "{'x': 1}; text"),
        (Answer(400, {"errors": [{"message": "syntax"}]}), CatalogRequestError, "failed: syntax"),
        (Answer(200, {"errors": "only text made-up-token-8d1f"}), CatalogRequestError, "text ***"),
        (
            Answer(400, {"error": "Invalid GraphQL syntax", "message": "line 1"}),
            CatalogRequestError,
            "refused the query with 400: Invalid GraphQL syntax: line 1",
        ),
        (Answer(400, b"no"), CatalogRequestError, "400: no"),
        (Answer(500, b"oops"), CatalogUnavailableError, "500: oops"),
        (Answer(404, b""), ProtocolMismatchError, "append /gms"),
        (Answer(200, {"extensions": {}}), ProtocolMismatchError, "without `data`"),
        (Answer(200, [1]), ProtocolMismatchError, "without `data`"),
        (Answer(200, b"text"), ProtocolMismatchError, "not JSON"),
    ],
)
def test_a_query_that_fails_raises(
    service: FakeService,
    client: CatalogClient,
    answer: Answer,
    kind: type[MlcatError],
    message: str,
) -> None:
    service.on("POST", "/api/graphql", answer)
    with pytest.raises(kind) as caught:
        client.graphql("{ a }")
    assert message in str(caught.value)
