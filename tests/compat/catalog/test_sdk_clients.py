"""`datahub.sdk` against the catalog: models and groups made, read, changed, patched, deleted."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from datahub.emitter.mcp import MetadataChangeProposalWrapper as Mcp
from datahub.emitter.rest_emitter import DatahubRestEmitter
from datahub.errors import ItemNotFoundError, SdkUsageError
from datahub.ingestion.graph.client import DatahubClientConfig, DataHubGraph
from datahub.metadata import schema_classes as models
from datahub.metadata.urns import MlModelGroupUrn, MlModelUrn
from datahub.sdk.main_client import DataHubClient
from datahub.sdk.mlmodel import MLModel
from datahub.sdk.mlmodelgroup import MLModelGroup
from datahub.specific.dataset import DatasetPatchBuilder

from support.catalog_server import RunningCatalog
from support.sdk_warnings import SDK_WARNINGS

pytestmark = [
    *SDK_WARNINGS,
    pytest.mark.filterwarnings("ignore::datahub.errors.IngestionAttributionWarning"),
]

DATASET = "urn:li:dataset:(urn:li:dataPlatform:postgres,db.people,PROD)"


def on_restli(server: str) -> DataHubGraph:
    return DataHubGraph(DatahubClientConfig(server=server))


def on_openapi(server: str) -> DataHubGraph:
    return DataHubGraph(DatahubClientConfig(server=server, openapi_ingestion=True))


@pytest.fixture(params=[on_restli, on_openapi])
def graph(catalog: RunningCatalog, request: pytest.FixtureRequest) -> Iterator[DataHubGraph]:
    make: Callable[[str], DataHubGraph] = request.param
    with make(catalog.url) as opened:
        yield opened


@pytest.fixture
def client(graph: DataHubGraph) -> DataHubClient:
    return DataHubClient(graph=graph)


def model(**more: Any) -> MLModel:
    return MLModel(id="churn", platform="mlflow", name="Churn", description="first", **more)


def test_a_model_from_its_making_to_its_end(client: DataHubClient) -> None:
    urn = MlModelUrn("mlflow", "churn", "PROD")
    with pytest.raises(ItemNotFoundError):
        client.entities.get(urn)
    group = MLModelGroup(id="g", platform="mlflow", name="Group")
    client.entities.upsert(group)
    client.entities.create(
        model(
            model_group=group.urn,
            training_metrics={"auc": "0.9"},
            hyper_params={"depth": "3"},
            custom_properties={"a": "1"},
            tags=["urn:li:tag:x"],
            owners=["urn:li:corpuser:jane"],
        )
    )
    read = client.entities.get(urn)
    assert (read.name, read.description, read.model_group) == ("Churn", "first", str(group.urn))
    assert read.training_metrics is not None
    assert read.training_metrics[0].value == "0.9"
    read.set_description("second")
    client.entities.update(read)
    assert client.entities.get(urn).description == "second"
    client.entities.upsert(model())
    assert client.entities.get(urn).description == "first"
    client.entities.delete(urn)
    assert client.entities.get(urn).description == "first"
    client.entities.delete(urn, hard=True)
    with pytest.raises(ItemNotFoundError):
        client.entities.get(urn)


def test_a_group_from_its_making_to_its_end(client: DataHubClient) -> None:
    urn = MlModelGroupUrn("mlflow", "g", "PROD")
    client.entities.create(MLModelGroup(id="g", platform="mlflow", name="G", description="d"))
    with pytest.raises(SdkUsageError):
        client.entities.create(MLModelGroup(id="g", platform="mlflow"))
    group = client.entities.get(urn)
    group.set_description("changed")
    client.entities.update(group)
    assert client.entities.get(urn).description == "changed"
    client.entities.delete(urn, hard=True)
    with pytest.raises(ItemNotFoundError):
        client.entities.get(urn)


def test_patches_keep_what_others_wrote(graph: DataHubGraph) -> None:
    owner = models.OwnerClass("urn:li:corpuser:jane", models.OwnershipTypeClass.TECHNICAL_OWNER)
    other = models.OwnerClass("urn:li:corpuser:joe", models.OwnershipTypeClass.DATAOWNER)
    graph.emit(Mcp(entityUrn=DATASET, aspect=models.OwnershipClass([other])))
    builder = DatasetPatchBuilder(DATASET)
    builder.add_owner(owner).add_tag(models.TagAssociationClass("urn:li:tag:a"))
    builder.add_tag(models.TagAssociationClass("urn:li:tag:b")).add_custom_property("k/~", "v")
    for proposal in builder.build():
        graph.emit(proposal)
    ownership = graph.get_ownership(DATASET)
    assert ownership is not None
    assert {held.owner for held in ownership.owners} == {owner.owner, other.owner}
    properties = graph.get_dataset_properties(DATASET)
    assert properties is not None
    assert properties.customProperties == {"k/~": "v"}
    taking = DatasetPatchBuilder(DATASET).remove_tag("urn:li:tag:a").remove_tag("urn:li:tag:none")
    taking.remove_owner("urn:li:corpuser:joe").remove_custom_property("k/~")
    for proposal in taking.build():
        graph.emit(proposal)
    tags = graph.get_tags(DATASET)
    assert tags is not None
    assert [held.tag for held in tags.tags] == ["urn:li:tag:b"]
    ownership = graph.get_ownership(DATASET)
    assert ownership is not None
    assert [held.owner for held in ownership.owners] == [owner.owner]


@pytest.mark.parametrize("openapi", [False, True])
def test_the_emitter_tells_a_conflict(catalog: RunningCatalog, *, openapi: bool) -> None:
    from datahub.configuration.common import OperationalError

    def status(expected: str) -> Mcp:
        return Mcp(
            entityUrn=DATASET,
            aspect=models.StatusClass(removed=False),
            headers={"If-Version-Match": expected},
        )

    with DatahubRestEmitter(catalog.url, openapi_ingestion=openapi) as emitter:
        emitter.emit(status("-1"))
        with pytest.raises(OperationalError, match="Expected version 7, actual version 1"):
            emitter.emit(status("7"))
