"""The unmodified DataHub SDK over OpenAPI v3, and its calls that use OpenAPI whatever is set."""

from typing import Any

import pytest

from support.catalog_server import RunningCatalog
from support.catalog_store import group, model, named
from support.sdk_warnings import SDK_WARNINGS

pytestmark = SDK_WARNINGS

openapi = pytest.importorskip("datahub.ingestion.graph.openapi")
emitter = pytest.importorskip("datahub.emitter.rest_emitter")
mcp = pytest.importorskip("datahub.emitter.mcp")
patches = pytest.importorskip("datahub.specific.dataset")
schema = pytest.importorskip("datahub.metadata.schema_classes")
errors = pytest.importorskip("datahub.configuration.common")

M = model("a b/c")
DATASET = "urn:li:dataset:(urn:li:dataPlatform:hive,a.b,PROD)"


def wrapper(urn: str, aspect: Any, **more: Any) -> Any:
    return mcp.MetadataChangeProposalWrapper(entityUrn=urn, aspect=aspect, **more)


def test_writes_patches_and_deletions_go_by_openapi(catalog: RunningCatalog, graph: Any) -> None:
    properties = schema.MLModelPropertiesClass(
        description="é", hyperParameters={"lr": 0.5}, groups=[group("g")]
    )
    with emitter.DatahubRestEmitter(catalog.url, openapi_ingestion=True) as rest:
        rest.emit_mcp(wrapper(M, properties))
        rest.emit_mcp(wrapper(M, schema.StatusClass(removed=False)), async_flag=True)
        rest.emit_mcps(
            [
                wrapper(group("g"), schema.MLModelGroupPropertiesClass(description="d")),
                wrapper(model("größe"), schema.StatusClass(removed=False)),
            ]
        )
        patch = patches.DatasetPatchBuilder(DATASET)
        patch.add_custom_property("a", "1").add_tag(schema.TagAssociationClass(tag="urn:li:tag:x"))
        for proposal in patch.build():
            rest.emit_mcp(proposal)
        assert graph.get_aspect(M, schema.MLModelPropertiesClass) == properties
        assert graph.exists(model("größe"))
        assert graph.get_aspect(DATASET, schema.DatasetPropertiesClass).customProperties == {
            "a": "1"
        }
        assert [one.tag for one in graph.get_tags(DATASET).tags] == ["urn:li:tag:x"]
        key = schema.MLModelKeyClass(
            platform="urn:li:dataPlatform:mlflow", name="a b/c", origin="PROD"
        )
        rest.emit_mcp(wrapper(M, key, changeType=schema.ChangeTypeClass.DELETE))
    assert not graph.exists(M)


def test_single_proposals_beyond_ascii_arrive_where_batches_do(
    catalog: RunningCatalog, graph: Any
) -> None:
    for name in ("größe", "モデル", "模型a", "модель"):
        proposal = wrapper(model(name), schema.MLModelPropertiesClass(description=name))
        graph.emit_mcp(proposal)
        graph.emit_mcps([proposal])
        assert graph.get_aspect(model(name), schema.MLModelPropertiesClass).description == name
    assert len(named(catalog.store)) == 4
