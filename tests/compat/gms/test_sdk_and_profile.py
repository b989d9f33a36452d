"""DataHub's SDK against the GMS profile: it takes it for a DataHub server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.fakes import model_urn
from support.gms import V1_6, RunningGms, running_gms

pytestmark = [
    pytest.mark.compat,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::datahub.errors.ExperimentalWarning"),
]

sdk = pytest.importorskip("datahub.ingestion.graph.client")
emitter = pytest.importorskip("datahub.emitter.rest_emitter")
mcp = pytest.importorskip("datahub.emitter.mcp")
schema = pytest.importorskip("datahub.metadata.schema_classes")
errors = pytest.importorskip("datahub.configuration.common")

MODEL = model_urn("a")


@pytest.fixture
def gms(tmp_path: Path) -> Iterator[RunningGms]:
    with running_gms(tmp_path / "gms.db", V1_6) as running:
        yield running


def test_it_is_a_server_of_its_version(gms: RunningGms) -> None:
    graph = sdk.DataHubGraph(sdk.DatahubClientConfig(server=gms.url))
    assert graph.server_config.parsed_version[:3] == (1, 6, 0)
    assert not graph.server_config.is_datahub_cloud


def test_what_is_emitted_is_read_and_found(gms: RunningGms) -> None:
    aspect = schema.MLModelPropertiesClass(name="a", description="d")
    proposal = mcp.MetadataChangeProposalWrapper(entityUrn=MODEL, aspect=aspect)
    with emitter.DatahubRestEmitter(gms.url) as rest:
        rest.emit(proposal)
        rest.emit_mcps([proposal])
    graph = sdk.DataHubGraph(sdk.DatahubClientConfig(server=gms.url))
    assert graph.get_aspect(MODEL, schema.MLModelPropertiesClass) == aspect
    assert list(graph.get_urns_by_filter(entity_types=["mlModel"])) == [MODEL]


def test_a_conflict_is_an_operational_error_with_the_servers_words(gms: RunningGms) -> None:
    proposal = mcp.MetadataChangeProposalWrapper(
        entityUrn=MODEL,
        aspect=schema.MLModelPropertiesClass(description="d"),
        headers={"If-Version-Match": "9"},
    )
    with (
        emitter.DatahubRestEmitter(gms.url) as rest,
        pytest.raises(errors.OperationalError) as caught,
    ):
        rest.emit(proposal)
    assert caught.value.info["status"] == 422
    assert caught.value.info["message"].endswith("msg=Expected version 9, actual version -1)]}")
