from collections.abc import Iterator

import pytest

from mlcat_ingest.client.rest.client import CatalogClient
from mlcat_ingest.client.rest.connection import Connection
from mlcat_ingest.client.rest.credentials import Credentials
from mlcat_ingest.net.session import HttpOptions
from support.fake_service import FakeService, fake_service

TOKEN = "made-up-token-8d1f"


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlcat_ingest.client.rest.emitter.RESEND_PAUSE_S", 0)


@pytest.fixture
def service() -> Iterator[FakeService]:
    with fake_service() as running:
        yield running


@pytest.fixture
def client(service: FakeService) -> Iterator[CatalogClient]:
    credentials = Credentials(service.server, TOKEN, token_from="the environment (MLCAT_TOKEN)")
    found = credentials, HttpOptions(retries=0, connections=4)
    with CatalogClient(connection=Connection(lambda: found)) as made:
        yield made
