"""What we send beside what DataHub's own SDK sends for the same calls."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from datahub.emitter.mcp import MetadataChangeProposalWrapper
from datahub.emitter.rest_emitter import (
    BATCH_INGEST_MAX_PAYLOAD_LENGTH,
    INGEST_MAX_PAYLOAD_BYTES,
    DatahubRestEmitter,
)
from datahub.ingestion.graph.client import DataHubGraph
from datahub.ingestion.graph.config import DatahubClientConfig
from datahub.ingestion.graph.links import make_url_for_urn
from datahub.metadata.schema_classes import MLModelPropertiesClass

from mlcat_ingest.client.rest.capabilities import Capabilities
from mlcat_ingest.client.rest.client import CatalogClient
from mlcat_ingest.metadata.proposal import Proposal
from mlcat_ingest.metadata.reserved import MAX_REQUEST_BYTES, MAX_REQUEST_ITEMS
from support.fake_service import Answer, Asked, FakeService, fake_service
from support.fakes import group_urn, model_urn

URN = model_urn("m (1), 100%")
RECORD = MLModelPropertiesClass(name="größe", groups=[group_urn("g")], customProperties={"k": "v"})


@pytest.fixture
def service() -> Iterator[FakeService]:
    with fake_service() as running:
        running.on("POST", "/aspects", Answer(body={"value": "success"}))
        yield running


def unwrapped(asked: Asked) -> dict[str, Any]:
    """A batch as values: the aspects decoded, without what a sender says about itself."""
    body: dict[str, Any] = asked.json()
    for proposal in body["proposals"]:
        proposal.pop("systemMetadata", None)
        proposal["aspect"]["value"] = json.loads(proposal["aspect"]["value"])
    return body


def test_a_batch_says_the_same(service: FakeService) -> None:
    theirs = DatahubRestEmitter(service.server)
    theirs.emit_mcps([MetadataChangeProposalWrapper(entityUrn=URN, aspect=RECORD)])
    theirs.close()
    with CatalogClient(service.server, "") as ours:
        ours.write([Proposal(URN, "mlModelProperties", RECORD.to_obj())])
    their_request, our_request = service.to("/aspects")
    assert our_request.path == their_request.path
    assert unwrapped(our_request) == unwrapped(their_request)
    protocol = "X-RestLi-Protocol-Version"
    assert our_request.headers[protocol] == their_request.headers[protocol]


def test_a_group_has_the_same_page() -> None:
    urn = group_urn("m (1), 100% größe")
    ours = Capabilities(datahub=True, datahub_version=None).group_page("https://dh/api/gms", None)
    assert ours.replace("{urn}", quote(urn, safe="")) == make_url_for_urn("https://dh", urn)[:-1]


def test_reads_ask_the_same(service: FakeService) -> None:
    answer = {"aspect": {"com.linkedin.ml.metadata.MLModelProperties": RECORD.to_obj()}}
    service.on("GET", "/aspects/", Answer(body=answer))
    service.on("GET", "/entitiesV2/", Answer(body={"urn": URN, "aspects": {}}))
    theirs = DataHubGraph(DatahubClientConfig(server=service.server))
    with CatalogClient(service.server, "") as ours:
        assert theirs.get_aspect(URN, MLModelPropertiesClass) is not None
        assert ours.get_aspect(URN, "mlModelProperties") == RECORD.to_obj()
        theirs.get_entity_raw(URN, ["mlModelProperties", "status"])
        ours.read_many([URN], ["mlModelProperties", "status"])  # the fake has no batch read
    theirs.close()
    for path in ("/aspects/", "/entitiesV2/"):
        their_read, our_read = service.to(path)
        assert our_read.path == their_read.path


def test_a_request_is_as_large_as_one_of_the_sdk() -> None:
    assert MAX_REQUEST_ITEMS == BATCH_INGEST_MAX_PAYLOAD_LENGTH
    assert MAX_REQUEST_BYTES == INGEST_MAX_PAYLOAD_BYTES
