"""`DataHubGraph` of the unmodified SDK: order, entities, relationships, defaults, old versions."""

from typing import Any

import pytest
from datahub.emitter.mcp import MetadataChangeProposalWrapper as Mcp
from datahub.ingestion.graph.client import DataHubGraph
from datahub.metadata import schema_classes as models

from support.sdk_warnings import SDK_WARNINGS

pytestmark = SDK_WARNINGS

MLFLOW = "urn:li:dataPlatform:mlflow"
MODEL = f"urn:li:mlModel:({MLFLOW},model,PROD)"
OTHER = f"urn:li:mlModel:({MLFLOW},other,PROD)"
GROUP = f"urn:li:mlModelGroup:({MLFLOW},group,PROD)"


@pytest.fixture
def graph(graph: Any) -> DataHubGraph:
    aspects = [
        (OTHER, models.MLModelPropertiesClass(groups=[GROUP])),
        (MODEL, models.MLModelPropertiesClass(groups=[GROUP])),
        (MODEL, models.GlobalTagsClass([models.TagAssociationClass("urn:li:tag:pii")])),
        (GROUP, models.MLModelGroupPropertiesClass(description="one")),
        (GROUP, models.MLModelGroupPropertiesClass(description="two")),
    ]
    graph.emit_mcps([Mcp(entityUrn=urn, aspect=aspect) for urn, aspect in aspects])
    filled: DataHubGraph = graph
    return filled


def test_sorted_urns_by_filter(graph: DataHubGraph) -> None:
    types = ["mlModel", "mlModelGroup"]
    urns = list(graph.get_urns_by_filter(entity_types=types, sort_by="urn", batch_size=1))
    assert urns == [MODEL, OTHER, GROUP]
    backwards = graph.get_urns_by_filter(
        entity_types=types, sort_by="urn", sort_order="DESCENDING", batch_size=1
    )
    assert list(backwards) == urns[::-1]


def test_entities_at_once(graph: DataHubGraph) -> None:
    found = graph.get_entities("mlModel", [MODEL, OTHER, MODEL.replace("model,", "none,")])
    assert found.keys() == {MODEL, OTHER}
    semityped = graph.get_entity_semityped(MODEL)
    assert semityped["mlModelProperties"].groups == [GROUP]
    assert "globalTags" in {proposal.aspectName for proposal in graph.get_entity_as_mcps(MODEL)}


def test_related_entities(graph: DataHubGraph) -> None:
    graph.soft_delete_entity(OTHER)
    way = graph.RelationshipDirection
    members = graph.get_related_entities(GROUP, ["MemberOf", "Consumes"], way.INCOMING)
    assert {(member.urn, member.relationship_type) for member in members} == {
        (MODEL, "MemberOf"),
        (OTHER, "MemberOf"),
    }
    both = graph.get_related_entities(MODEL, ["MemberOf", "TaggedWith"], way.OUTGOING)
    assert {other.urn for other in both} == {GROUP, "urn:li:tag:pii"}
    assert not list(graph.get_related_entities(MODEL, ["Consumes"], way.OUTGOING))


def test_a_scroll_over_entities(graph: DataHubGraph) -> None:
    found = graph.scroll_entities(entity_names=["mlModel"], aspects=["mlModelKey"])
    assert list(found.entities) == [MODEL, OTHER]
    assert found.entities[MODEL].keys() == {"mlModelKey"}
    named = graph.scroll_entities(filter=[{"and": [{"field": "urn", "values": [GROUP]}]}])
    assert (list(named.entities), named.total_count) == ([GROUP], 1)


def test_a_domain_by_its_name(graph: DataHubGraph) -> None:
    properties = models.DomainPropertiesClass(name="Sales")
    graph.emit(Mcp(entityUrn="urn:li:domain:s", aspect=properties))
    assert graph.get_domain_urn_by_name("Sales") == "urn:li:domain:s"
    assert graph.get_domain_urn_by_name("Nothing") is None


def test_related_entities_of_more_than_one_page(graph: DataHubGraph) -> None:
    models_of_group = [MODEL.replace("model,", f"model{at},") for at in range(201)]
    graph.emit_mcps(
        [
            Mcp(entityUrn=urn, aspect=models.MLModelPropertiesClass(groups=[GROUP]))
            for urn in models_of_group
        ]
    )
    incoming = graph.RelationshipDirection.INCOMING
    found = [member.urn for member in graph.get_related_entities(GROUP, ["MemberOf"], incoming)]
    assert sorted(found) == sorted([MODEL, OTHER, *models_of_group])


def test_known_platforms_are_there_from_the_start(graph: DataHubGraph) -> None:
    info = graph.get_aspect(MLFLOW, models.DataPlatformInfoClass)
    assert info is not None
    assert info.displayName == "MLflow"


def test_default_aspects(graph: DataHubGraph) -> None:
    paths = graph.get_aspect(MODEL, models.BrowsePathsV2Class)
    assert paths is not None
    assert [entry.id for entry in paths.path] == ["Default"]
    instance = graph.get_aspect(MODEL, models.DataPlatformInstanceClass)
    assert instance == models.DataPlatformInstanceClass(platform=MLFLOW)


def test_old_versions(graph: DataHubGraph) -> None:
    first = graph.get_aspect(GROUP, models.MLModelGroupPropertiesClass, version=1)
    latest = graph.get_aspect(GROUP, models.MLModelGroupPropertiesClass)
    assert first is not None
    assert latest is not None
    assert (first.description, latest.description) == ("one", "two")
