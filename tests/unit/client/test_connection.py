import socket

import pytest

from mlcat_ingest.client.catalog_client import CatalogClient
from mlcat_ingest.client.connection import Capabilities
from mlcat_ingest.errors import (
    AuthenticationError,
    CatalogUnavailableError,
    MlcatError,
    ProtocolMismatchError,
)
from mlcat_ingest.metadata.urn import FABRICS
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


@pytest.mark.parametrize(
    ("version", "supported"),
    [
        ("v0.15.0.1", False),
        ("0.14.1", False),
        ("v1.0.0rc2", True),
        ("v1.0.0", True),
        ("v1.10.0", True),
        ("a4f6b1c", True),
        (None, True),
    ],
)
def test_releases_below_the_smallest_are_not_supported(
    version: str | None, *, supported: bool
) -> None:
    reported = Capabilities(datahub=True, datahub_version=version)
    assert reported.is_supported == supported


@pytest.mark.parametrize(
    ("version", "lacks"),
    [
        ("v0.14.1", {"SANDBOX", "PRD", "TST", "SIT", "SBX", "CERT"}),
        ("v1.0.0", {"PRD", "TST", "SIT", "SBX", "CERT"}),
        ("1.1.0.3rc2", {"PRD", "TST", "SIT", "SBX", "CERT"}),
        ("v1.2.0", {"CERT"}),
        ("v1.6.0", {"CERT"}),
        ("v1.10.0", set()),
        ("a4f6b1c", set()),
        (None, set()),
    ],
)
def test_environments_by_release(version: str | None, lacks: set[str]) -> None:
    assert FABRICS - Capabilities(datahub=True, datahub_version=version).environments == lacks


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


def test_nobody_there_is_unavailable() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: refuses connections
        server = f"http://127.0.0.1:{taken.getsockname()[1]}"
        options = HttpOptions(retries=0)
        with (
            CatalogClient(server, "", options=options) as client,
            pytest.raises(CatalogUnavailableError, match="does not answer"),
        ):
            client.connect()


def test_options_and_client_show_no_secret(client: CatalogClient) -> None:
    options = HttpOptions(headers={"X-Key": "header-secret"})
    assert "secret" not in repr(options)
    assert "made-up-token" not in repr(client.credentials)
