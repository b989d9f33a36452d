"""The unmodified DataHub SDK against the catalog: what a client does in its first minutes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.catalog_server import RunningCatalog, running_catalog
from support.sdk_warnings import SDK_WARNINGS

pytestmark = SDK_WARNINGS

sdk = pytest.importorskip("datahub.ingestion.graph.client")
emitter = pytest.importorskip("datahub.emitter.rest_emitter")
mcp = pytest.importorskip("datahub.emitter.mcp")
schema = pytest.importorskip("datahub.metadata.schema_classes")

MODEL = "urn:li:mlModel:(urn:li:dataPlatform:mlflow,a b/c,PROD)"
GROUP = "urn:li:mlModelGroup:(urn:li:dataPlatform:mlflow,g,PROD)"


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[RunningCatalog]:
    with running_catalog(tmp_path / "c.db", token="secret") as running:
        yield running


@pytest.mark.parametrize("suffix", ["", "/gms", "/api/gms"])
def test_single_and_batch_emission_and_reads(catalog: RunningCatalog, suffix: str) -> None:
    server = catalog.url + suffix
    properties = schema.MLModelPropertiesClass(
        description="é", groups=[GROUP], hyperParams=[schema.MLHyperParamClass("lr", value="1")]
    )
    proposals = [
        mcp.MetadataChangeProposalWrapper(entityUrn=MODEL, aspect=properties),
        mcp.MetadataChangeProposalWrapper(
            entityUrn=GROUP, aspect=schema.MLModelGroupPropertiesClass(description="d")
        ),
    ]
    with emitter.DatahubRestEmitter(server, token="secret") as rest:
        rest.test_connection()
        rest.emit(proposals[0])
        rest.emit_mcps(proposals)
    graph = sdk.DataHubGraph(sdk.DatahubClientConfig(server=server, token="secret"))
    assert graph.get_aspect(MODEL, schema.MLModelPropertiesClass) == properties
    assert graph.exists(MODEL)
    assert not graph.exists(MODEL.replace("a b", "gone"))
    assert graph.get_aspect(MODEL, schema.StatusClass) is None
    assert set(graph.get_entity_raw(MODEL)["aspects"]) == {
        "mlModelKey",
        "mlModelProperties",
        "browsePathsV2",
        "dataPlatformInstance",
    }
    found = graph.get_entities("mlModel", [MODEL], with_system_metadata=True)
    aspect, metadata = found[MODEL]["mlModelProperties"]
    assert aspect == properties
    assert metadata is not None
    assert metadata.version == "1"
    answer = graph.execute_graphql(
        "query m($urn: String!) { mlModel(urn: $urn) { name properties { groups { urn } } } }",
        {"urn": MODEL},
    )
    assert answer == {"mlModel": {"name": "a b/c", "properties": {"groups": [{"urn": GROUP}]}}}


def test_conditional_writes_and_deletes(catalog: RunningCatalog) -> None:
    errors = pytest.importorskip("datahub.configuration.common")
    graph = sdk.DataHubGraph(sdk.DatahubClientConfig(server=catalog.url, token="secret"))
    create = mcp.MetadataChangeProposalWrapper(
        entityUrn=MODEL,
        aspect=schema.StatusClass(removed=False),
        changeType=schema.ChangeTypeClass.CREATE,
    )
    graph.emit(create)
    with pytest.raises(errors.OperationalError, match="already exists"):
        graph.emit(create)
    graph.soft_delete_entity(MODEL)
    status = graph.get_aspect(MODEL, schema.StatusClass)
    assert status is not None
    assert status.removed
    graph.hard_delete_entity(MODEL)
    assert not graph.exists(MODEL)


def test_a_wrong_token_is_reported(catalog: RunningCatalog) -> None:
    errors = pytest.importorskip("datahub.configuration.common")
    with emitter.DatahubRestEmitter(catalog.url, token="wrong") as rest:
        proposal = mcp.MetadataChangeProposalWrapper(
            entityUrn=MODEL, aspect=schema.StatusClass(removed=False)
        )
        with pytest.raises(errors.OperationalError) as caught:
            rest.emit(proposal)
    assert caught.value.info["message"] == "Unauthorized to perform this action."
