"""The unmodified DataHub SDK over OpenAPI v3, and its calls that use OpenAPI whatever is set."""

from typing import Any

import pytest

from support.catalog_server import RunningCatalog
from support.catalog_store import feature, group, model, named, put

pytestmark = [
    pytest.mark.compat,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::datahub.errors.ExperimentalWarning"),
]

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


def test_a_condition_that_does_not_hold_is_reported(catalog: RunningCatalog) -> None:
    with emitter.DatahubRestEmitter(catalog.url, openapi_ingestion=True) as rest:
        rest.emit_mcp(wrapper(M, schema.StatusClass(removed=False)))
        conditional = wrapper(
            M, schema.StatusClass(removed=True), headers={"If-Version-Match": "7"}
        )
        with pytest.raises(errors.OperationalError, match="Expected version 7, actual version 1"):
            rest.emit_mcp(conditional)


def test_related_entities(catalog: RunningCatalog, graph: Any) -> None:
    for name in ("a", "b"):
        put(
            catalog.store,
            model(name),
            mlModelProperties={"groups": [group("g")], "mlFeatures": [feature("t", "x")]},
        )
    found = graph.get_related_entities(
        group("g"), ["MemberOf"], openapi.RelationshipDirection.INCOMING
    )
    assert [(one.urn, one.relationship_type) for one in found] == [
        (model("a"), "MemberOf"),
        (model("b"), "MemberOf"),
    ]
    found = graph.get_related_entities(
        model("a"), ["MemberOf", "Consumes"], openapi.RelationshipDirection.OUTGOING
    )
    assert {one.urn for one in found} == {group("g"), feature("t", "x")}


def test_entities_are_scrolled(catalog: RunningCatalog, graph: Any) -> None:
    for name in "abcde":
        put(catalog.store, model(name), mlModelProperties={"name": f"churn {name}"})
    put(catalog.store, group("g"), mlModelGroupProperties={"name": "other"})
    found: list[str] = []
    scroll_id = None
    while True:
        page = graph.scroll_entities(
            entity_names=["mlModel"], count=2, scroll_id=scroll_id, aspects=None
        )
        assert page.total_count == 5
        found += page.entities
        scroll_id = page.scroll_id
        if scroll_id is None:
            break
    assert found == [model(name) for name in "abcde"]
    page = graph.scroll_entities(
        aspects=["mlModelProperties"],
        with_system_metadata=True,
        skip_aggregation=True,
        pit_keep_alive="5m",
        filter=[
            {"and": [{"field": "name", "values": ["churn b"], "condition": "EQUAL"}]},
            {"and": [{"field": "urn", "values": [model("d")], "condition": "EQUAL"}]},
        ],
        sort_criteria=[{"field": "urn", "order": "DESCENDING"}],
    )
    assert list(page.entities) == [model("d"), model("b")]
    aspect, metadata = page.entities[model("b")]["mlModelProperties"]
    assert aspect.name == "churn b"
    assert metadata.version == "1"


def test_urns_are_listed_by_an_elasticsearch_query(catalog: RunningCatalog, graph: Any) -> None:
    client = pytest.importorskip("datahub.utilities.openapi_utils").OpenAPIGraphClient(graph)
    query = pytest.importorskip("datahub.utilities.search_utils").ElasticDocumentQuery
    for name in ("a", "b"):
        put(catalog.store, model(name), mlModelProperties={"name": f"churn {name}"})
    wanted = query.create_from(("name", "churn b"))
    assert list(client.scroll_urns_by_filter("mlModel", wanted)) == [model("b")]


def test_the_registry_says_what_is_supported(graph: Any) -> None:
    specs = graph.get_entity_aspect_specs()
    assert specs.supports("mlModel", "mlModelProperties")
    assert not specs.supports("mlModelGroup", "versionProperties")


def test_single_proposals_beyond_ascii_arrive_where_batches_do(
    catalog: RunningCatalog, graph: Any
) -> None:
    for name in ("größe", "モデル", "模型a", "модель"):
        proposal = wrapper(model(name), schema.MLModelPropertiesClass(description=name))
        graph.emit_mcp(proposal)
        graph.emit_mcps([proposal])
        assert graph.get_aspect(model(name), schema.MLModelPropertiesClass).description == name
    assert len(named(catalog.store)) == 4


def test_snapshots_are_stored(graph: Any) -> None:
    snapshot = schema.MLModelSnapshotClass(
        urn=M, aspects=[schema.MLModelPropertiesClass(description="d"), schema.StatusClass()]
    )
    graph.emit_mce(schema.MetadataChangeEventClass(proposedSnapshot=snapshot))
    assert graph.get_aspect(M, schema.MLModelPropertiesClass).description == "d"


def test_relationships_and_lineage_are_scrolled(catalog: RunningCatalog, graph: Any) -> None:
    for name in ("a", "b"):
        put(catalog.store, model(name), mlModelProperties={"groups": [group("g")]})
    page = graph.scroll_relationships(
        relationship_types=["MemberOf"],
        source_types=["mlModel"],
        direction=openapi.RelationshipDirection.OUTGOING,
        destination_urns=[group("g")],
        include_soft_delete=False,
        count=1,
    )
    [first] = page.relationships
    assert (first.source_urn, first.destination_entity_type) == (model("a"), "mlModelGroup")
    rest = graph.scroll_relationships(
        relationship_types=["MemberOf"],
        source_types=["mlModel"],
        destination_urns=[group("g")],
        scroll_id=page.scroll_id,
    )
    assert [one.source_urn for one in rest.relationships] == [model("b")]
    assert rest.scroll_id is None
    flow = graph.scroll_lineage(
        urns=[group("g")], direction=openapi.LineageDirection.UPSTREAM, count=10
    )
    assert {(one.upstream_urn, one.downstream_urn) for one in flow.relationships} == {
        (model("a"), group("g")),
        (model("b"), group("g")),
    }
