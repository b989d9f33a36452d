"""`DataHubGraph` of the unmodified SDK: filters, versions, times, references."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from datahub.emitter.mcp import MetadataChangeProposalWrapper as Mcp
from datahub.ingestion.graph.client import (
    DatahubClientConfig,
    DataHubGraph,
)
from datahub.ingestion.graph.filters import RemovedStatusFilter
from datahub.metadata import schema_classes as models

from support.catalog_server import RunningCatalog, running_catalog

pytestmark = [
    pytest.mark.compat,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::datahub.errors.ExperimentalWarning"),
]

MLFLOW = "urn:li:dataPlatform:mlflow"
FEAST = "urn:li:dataPlatform:feast"
MODEL = f"urn:li:mlModel:({MLFLOW},model,PROD)"
DEV_MODEL = f"urn:li:mlModel:({MLFLOW},model,DEV)"
REMOVED = f"urn:li:mlModel:({MLFLOW},removed,PROD)"
GROUP = f"urn:li:mlModelGroup:({MLFLOW},group,PROD)"
TABLE = f"urn:li:mlFeatureTable:({FEAST},table)"
FEATURE = "urn:li:mlFeature:(table,age)"
DATASET = "urn:li:dataset:(urn:li:dataPlatform:postgres,db.people,PROD)"
CONTAINER = "urn:li:container:abc"
INSTANCE = f"urn:li:dataPlatformInstance:({MLFLOW},emea)"
TAG = "urn:li:tag:pii"
RUN = "urn:li:dataProcessInstance:run-1"

ASPECTS: list[tuple[str, Any]] = [
    (MODEL, models.MLModelPropertiesClass(groups=[GROUP], mlFeatures=[FEATURE])),
    (MODEL, models.GlobalTagsClass([models.TagAssociationClass(TAG)])),
    (MODEL, models.DataPlatformInstanceClass(platform=MLFLOW, instance=INSTANCE)),
    (
        MODEL,
        models.BrowsePathsV2Class([models.BrowsePathEntryClass(id=CONTAINER, urn=CONTAINER)]),
    ),
    (DEV_MODEL, models.MLModelPropertiesClass(groups=[GROUP], description="of the dev fabric")),
    (REMOVED, models.MLModelPropertiesClass(groups=[GROUP])),
    (REMOVED, models.StatusClass(removed=True)),
    (GROUP, models.MLModelGroupPropertiesClass(description="a group")),
    (TABLE, models.MLFeatureTablePropertiesClass(mlFeatures=[FEATURE])),
    (FEATURE, models.MLFeaturePropertiesClass(sources=[DATASET])),
]
ML_TYPES = ["mlModel", "mlModelGroup", "mlFeatureTable", "mlFeature"]


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCatalog]:
    with running_catalog(tmp_path_factory.mktemp("catalog") / "c.db") as running:
        with DataHubGraph(DatahubClientConfig(server=running.url)) as writer:
            writer.emit_mcps([Mcp(entityUrn=urn, aspect=aspect) for urn, aspect in ASPECTS])
        yield running


@pytest.fixture
def graph(catalog: RunningCatalog) -> Iterator[DataHubGraph]:
    with DataHubGraph(DatahubClientConfig(server=catalog.url)) as opened:
        yield opened


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[DataHubGraph]:
    """A catalog of its own, for a test that writes."""
    with (
        running_catalog(tmp_path / "c.db") as running,
        DataHubGraph(DatahubClientConfig(server=running.url)) as opened,
    ):
        yield opened


@pytest.mark.parametrize(
    ("inputs", "found"),
    [
        ({}, {MODEL, DEV_MODEL, GROUP, TABLE, FEATURE}),
        ({"status": RemovedStatusFilter.ALL}, {MODEL, DEV_MODEL, REMOVED, GROUP, TABLE, FEATURE}),
        ({"status": RemovedStatusFilter.ONLY_SOFT_DELETED}, {REMOVED}),
        ({"entity_types": ["mlModel"]}, {MODEL, DEV_MODEL}),
        ({"entity_types": ["mlFeature", "mlModelGroup"]}, {FEATURE, GROUP}),
        ({"platform": "mlflow"}, {MODEL, DEV_MODEL, GROUP}),
        ({"platform": ["feast", "mlflow"]}, {MODEL, DEV_MODEL, GROUP, TABLE}),
        ({"platform": "mlflow", "platform_instance": "emea"}, {MODEL}),
        ({"env": "DEV"}, {DEV_MODEL}),
        ({"env": "PROD", "platform": "mlflow"}, {MODEL, GROUP}),
        ({"container": CONTAINER}, {MODEL}),
        ({"query": "fabric"}, {DEV_MODEL}),
        ({"extraFilters": [{"field": "tags", "values": [TAG], "condition": "EQUAL"}]}, {MODEL}),
        ({"query": "nothingofthekind"}, set()),
        ({"batch_size": 1}, {MODEL, DEV_MODEL, GROUP, TABLE, FEATURE}),
    ],
)
def test_urns_by_filter(graph: DataHubGraph, inputs: dict[str, Any], found: set[str]) -> None:
    inputs = {"entity_types": ML_TYPES, **inputs}
    urns = list(graph.get_urns_by_filter(**inputs))
    assert set(urns) == found
    assert len(urns) == len(found)


def test_sorted_urns_by_filter(graph: DataHubGraph) -> None:
    urns = list(graph.get_urns_by_filter(entity_types=ML_TYPES, sort_by="urn"))
    assert urns == sorted(urns)
    backwards = graph.get_urns_by_filter(
        entity_types=ML_TYPES, sort_by="urn", sort_order="DESCENDING"
    )
    assert list(backwards) == urns[::-1]


def test_results_by_filter(graph: DataHubGraph) -> None:
    found = list(graph.get_results_by_filter(entity_types=["mlModel"], platform="mlflow"))
    assert {hit["entity"]["urn"] for hit in found} == {MODEL, DEV_MODEL}


def test_entities_at_once(graph: DataHubGraph) -> None:
    found = graph.get_entities("mlModel", [MODEL, DEV_MODEL, MODEL.replace("model,", "none,")])
    assert found.keys() == {MODEL, DEV_MODEL}
    semityped = graph.get_entity_semityped(MODEL)
    assert semityped["mlModelProperties"].groups == [GROUP]
    assert "globalTags" in {proposal.aspectName for proposal in graph.get_entity_as_mcps(MODEL)}


def test_known_platforms_are_there_from_the_start(graph: DataHubGraph) -> None:
    info = graph.get_aspect(MLFLOW, models.DataPlatformInfoClass)
    assert info is not None
    assert info.displayName == "MLflow"


def test_default_aspects(graph: DataHubGraph) -> None:
    paths = graph.get_aspect(DEV_MODEL, models.BrowsePathsV2Class)
    assert paths is not None
    assert [entry.id for entry in paths.path] == ["Default"]
    instance = graph.get_aspect(DEV_MODEL, models.DataPlatformInstanceClass)
    assert instance == models.DataPlatformInstanceClass(platform=MLFLOW)


def test_times_and_versions(empty: DataHubGraph) -> None:
    def event(at_ms: int, status: str) -> Mcp:
        value = models.DataProcessInstanceRunEventClass(timestampMillis=at_ms, status=status)
        return Mcp(entityUrn=RUN, aspect=value)

    empty.emit(event(1_000, "STARTED"))
    empty.emit_mcps([event(3_000, "COMPLETE"), event(2_000, "STARTED")])
    latest = empty.get_latest_timeseries_value(
        RUN, models.DataProcessInstanceRunEventClass, filter_criteria_map={}
    )
    assert latest is not None
    assert latest.timestampMillis == 3_000
    values = empty.get_timeseries_values(
        RUN, models.DataProcessInstanceRunEventClass, filter={}, limit=2
    )
    assert [value.timestampMillis for value in values] == [3_000, 2_000]
    assert empty.hard_delete_timeseries_aspect(RUN, "dataProcessInstanceRunEvent", None, None) == 3


def test_old_versions(empty: DataHubGraph) -> None:
    urn = f"urn:li:mlModelGroup:({MLFLOW},versions,PROD)"
    for text in ("one", "two"):
        group = models.MLModelGroupPropertiesClass(description=text)
        empty.emit(Mcp(entityUrn=urn, aspect=group))
    first = empty.get_aspect(urn, models.MLModelGroupPropertiesClass, version=1)
    latest = empty.get_aspect(urn, models.MLModelGroupPropertiesClass)
    assert first is not None
    assert latest is not None
    assert (first.description, latest.description) == ("one", "two")


def test_references_to_a_urn_are_deleted(empty: DataHubGraph) -> None:
    urn = f"urn:li:mlModelGroup:({MLFLOW},tagged,PROD)"
    other = models.TagAssociationClass("urn:li:tag:other")
    goes = models.TagAssociationClass("urn:li:tag:goes")
    empty.emit(Mcp(entityUrn=urn, aspect=models.GlobalTagsClass([goes, other])))
    count, aspects = empty.delete_references_to_urn("urn:li:tag:goes", dry_run=True)
    assert (count, len(aspects)) == (1, 1)
    assert len((empty.get_tags(urn) or models.GlobalTagsClass([])).tags) == 2
    empty.delete_references_to_urn("urn:li:tag:goes", dry_run=False)
    assert empty.get_tags(urn) == models.GlobalTagsClass([other])


def test_urns_beyond_ascii(empty: DataHubGraph) -> None:
    single = f"urn:li:mlModelGroup:({MLFLOW},größe 漢字,PROD)"
    batch = f"urn:li:mlModelGroup:({MLFLOW},größe 漢字 🚀,PROD)"
    group = models.MLModelGroupPropertiesClass(description="ü", customProperties={"clé": "🚀"})
    empty.emit(Mcp(entityUrn=single, aspect=group))
    empty.emit_mcps([Mcp(entityUrn=batch, aspect=group)])
    for urn in (single, batch):
        assert empty.get_aspect(urn, models.MLModelGroupPropertiesClass) == group
        assert empty.exists(urn)
