"""What a source owns, and who is in a group, asked of the real catalog over HTTP."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mlcat_ingest.client.rest import search
from mlcat_ingest.client.rest.client import CatalogClient
from mlcat_ingest.metadata.proposal import Proposal
from support.catalog_server import running_catalog
from support.fakes import group_urn, model_urn

pytestmark = pytest.mark.integration

OURS = "mlflow:abc:default"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[CatalogClient]:
    with running_catalog(tmp_path / "c.db") as catalog, CatalogClient(catalog.url, "") as client:
        yield client


def model(name: str, source: str, *groups: str) -> Proposal:
    properties = {"customProperties": {"mlcat.source": source}, "groups": list(groups)}
    return Proposal(model_urn(name), "mlModelProperties", properties)


def owned(client: CatalogClient, source: str = OURS) -> tuple[int, list[str]]:
    found = client.search.entities_of_source("mlModel", source)
    return found.total, sorted(urn for page in found.pages for urn in page)


def test_live_entities_of_a_source_are_found_page_by_page(
    client: CatalogClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_PAGE", 3)
    names = [f"m{number}" for number in range(8)]
    others = [model("other", "mlflow:xyz:default"), model("near", f"{OURS}2")]
    client.write([*(model(name, OURS) for name in names), *others])
    client.emit(Proposal(model_urn("m3"), "status", {"removed": True}))
    names.remove("m3")
    assert owned(client) == (7, [model_urn(name) for name in names])
    assert owned(client, "mlflow:none:default") == (0, [])


def test_an_entity_of_several_sources_is_found_by_each(client: CatalogClient) -> None:
    client.emit(model("both", f"feast:f:default,{OURS}"))
    assert owned(client) == owned(client, "feast:f:default") == (1, [model_urn("both")])


def test_all_members_of_a_group_are_found(
    client: CatalogClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_PAGE", 3)
    group = group_urn("g")
    client.emit(Proposal(group, "mlModelGroupProperties", {"name": "g"}))
    client.write([model(f"m{number}", OURS, group) for number in range(7)])
    client.write([model("outside", OURS, group_urn("h"))])
    found = [urn for page in client.search.members(group) for urn in page]
    assert sorted(found) == [model_urn(f"m{number}") for number in range(7)]
    assert list(client.search.members(group_urn("nobody"))) == []
