import pytest

from mlcat_ingest.client.rest.capabilities import Capabilities
from mlcat_ingest.client.rest.client import CatalogClient
from mlcat_ingest.errors import (
    AuthenticationError,
    CatalogUnavailableError,
    MlcatError,
    ProtocolMismatchError,
)
from mlcat_ingest.net.session import HttpOptions
from support.fake_service import Answer, FakeService

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    ("versions", "expected", "name"),
    [
        (None, Capabilities(datahub=False, datahub_version=None), "the catalog"),
        ({}, Capabilities(datahub=False, datahub_version=None), "the catalog"),
        (
            {"acryldata/datahub": {"version": "v1.2.3"}},
            Capabilities(datahub=True, datahub_version="v1.2.3"),
            "DataHub v1.2.3",
        ),
        (
            {"acryldata/datahub": {"version": "null"}},
            Capabilities(datahub=True, datahub_version=None),
            "DataHub",
        ),
        (
            {"acryldata/datahub": "x"},
            Capabilities(datahub=True, datahub_version=None),
            "DataHub",
        ),
    ],
)
def test_config_tells_the_service(
    service: FakeService, client: CatalogClient, versions: object, expected: Capabilities, name: str
) -> None:
    service.on("GET", "/config", Answer(body={"noCode": "true", "versions": versions}))
    assert client.connect() == expected
    assert client.connect().describe() == name
    assert [asked.path for asked in service.asked] == ["/config"]


@pytest.mark.parametrize("versions", [{}, {"acryldata/datahub": {"version": "v0.13.3"}}])
def test_a_given_version_takes_the_place_of_the_reported_one(
    service: FakeService, versions: object
) -> None:
    service.on("GET", "/config", Answer(body={"noCode": "true", "versions": versions}))
    options = HttpOptions(connections=7)
    with CatalogClient(service.server, "", options=options, server_version="v1.6.0") as client:
        assert client.facts.enforces_conditions is None
        assert client.connect() == Capabilities(datahub=True, datahub_version="v1.6.0")
        facts = client.facts
        assert (facts.enforces_conditions, facts.connections) == (True, 7)


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (Answer(404, b"nothing here"), ProtocolMismatchError, "append /gms"),
        (Answer(200, b"Hello"), ProtocolMismatchError, "not JSON"),
        (Answer(200, b""), ProtocolMismatchError, "not JSON"),
        (Answer(200, {"status": "ok"}), ProtocolMismatchError, "append /gms"),
        (Answer(200, [1]), ProtocolMismatchError, "append /gms"),
        (
            Answer(200, b"<html>Sign in", {"Content-Type": "text/html"}),
            AuthenticationError,
            "append /api/gms",
        ),
        (Answer(401, b""), AuthenticationError, "the token came from"),
        (Answer(500, b"oops"), CatalogUnavailableError, "500: oops"),
    ],
)
def test_what_is_no_catalog_service_is_distinguished(
    service: FakeService,
    client: CatalogClient,
    answer: Answer,
    kind: type[MlcatError],
    message: str,
) -> None:
    service.on("GET", "/config", answer)
    with pytest.raises(kind) as caught:
        client.connect()
    assert type(caught.value) is kind
    assert message in str(caught.value)
    assert "made-up-token" not in str(caught.value)


def test_options_and_client_show_no_secret(client: CatalogClient) -> None:
    options = HttpOptions(headers={"X-Key": "header-secret"})
    assert "secret" not in repr(options)
    assert "made-up-token" not in repr(client.credentials)
