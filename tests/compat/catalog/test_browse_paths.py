"""The browse paths that a run writes, by DataHub's own processor of them and by its pages' query.

DataHub's sidebar groups entities by these paths (`browseV2`), which is no call of the service.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from datahub.configuration.source_common import PlatformInstanceConfigMixin
from datahub.emitter.mce_builder import make_dataplatform_instance_urn
from datahub.emitter.mcp import MetadataChangeProposalWrapper
from datahub.ingestion.api.common import PipelineContext
from datahub.ingestion.api.source import SourceReport
from datahub.ingestion.api.workunit import MetadataWorkUnit
from datahub.ingestion.api.workunit_processor import WorkunitProcessorContext
from datahub.ingestion.graph.client import DatahubClientConfig, DataHubGraph
from datahub.ingestion.workunit_processors.auto_browse_path_v2 import AutoBrowsePathV2Processor
from datahub.metadata.schema_classes import BrowsePathsV2Class

from mlcat_ingest import Pipeline, Recipe
from mlcat_ingest.testing.mlflow_store import mlflow_client
from support.catalog_checks import everything
from support.catalog_server import RunningCatalog, running_catalog
from support.sdk_warnings import SDK_WARNINGS

pytestmark = SDK_WARNINGS

PATHS = """query ($urn: String!) { entity(urn: $urn) { urn ... on BrowsableEntity { browsePathV2 {
    path { name entity { urn type
        ... on Container { properties { name } }
        ... on DataFlow { properties { name } }
        ... on DataPlatformInstance { platform { name properties { displayName } } instanceId }
    } } } } } }"""
"""What DataHub's pages select of a path, as their fragment `browsePathV2Fields` has it."""

HOSTILE = "a/b ␟ ,(c)%"


@dataclass(frozen=True)
class Browsed:
    """A catalog that a recipe with an instance, or without one, has filled from a store."""

    instance: str | None
    catalog: RunningCatalog
    entities: Mapping[str, Mapping[str, str]]

    @property
    def paths(self) -> dict[str, Any]:
        """The stored path of each entity that has one."""
        return {
            urn: json.loads(aspects["browsePathsV2"])["path"]
            for urn, aspects in self.entities.items()
            if "browsePathsV2" in aspects
        }


@pytest.fixture(scope="module", params=[None, "eu"])
def browsed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Browsed]:
    folder = tmp_path_factory.mktemp("browsed")
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    with mlflow_client(uri) as client:
        for name in ("churn", HOSTILE):
            experiment = client.create_experiment(name)
            parent = client.create_run(experiment).info.run_id
            client.create_run(experiment, tags={"mlflow.parentRunId": parent})
        client.create_registered_model("scorer")
        client.create_model_version("scorer", f"{folder}/model")
    with running_catalog(folder / "c.db") as catalog:
        config = {"tracking_uri": uri, "platform_instance": request.param}
        lineage = {"lineage": {"process_instances": True}}
        recipe = {
            "source": {"type": "mlflow", "config": {**config, **lineage}},
            "sink": {"type": "rest", "config": {"server": catalog.url}},
        }
        assert Pipeline(Recipe.parse(json.dumps(recipe))).run().exit_code == 0
        yield Browsed(request.param, catalog, everything(catalog.store))


def test_each_entity_is_in_one_folder_below_its_instance(browsed: Browsed) -> None:
    folders = Counter(tuple(step["id"] for step in path) for path in browsed.paths.values())
    models: dict[tuple[str, ...], int]
    models = {("churn",): 2, (HOSTILE.replace("␟", "\ufffd"),): 2, ("scorer",): 1}
    if browsed.instance is None:
        assert folders == models
        return
    start = make_dataplatform_instance_urn("mlflow", browsed.instance)
    assert folders == {(start,): 4, **{(start, *path): count for path, count in models.items()}}


def test_datahubs_processor_leaves_them_as_they_are(browsed: Browsed) -> None:
    """It puts the instance before each path that lacks it, and reports paths that come twice."""
    context = WorkunitProcessorContext(
        SourceReport(),
        PipelineContext(run_id="test"),
        PlatformInstanceConfigMixin(platform_instance=browsed.instance),
        platform="mlflow",
    )
    units = [
        MetadataWorkUnit.from_metadata(
            MetadataChangeProposalWrapper(
                entityUrn=urn, aspect=BrowsePathsV2Class.from_obj({"path": path})
            )
        )
        for urn, path in browsed.paths.items()
    ]
    processor = AutoBrowsePathV2Processor.create(context)
    processed: dict[str, Any] = {
        one.get_urn(): one.get_aspect_of_type(BrowsePathsV2Class)
        for one in processor.process(units)
    }
    assert {urn: one.to_obj()["path"] for urn, one in processed.items()} == browsed.paths
    assert processor.report.num_browse_path_v2_emitted == len(browsed.paths)
    assert processor.report.num_out_of_batch == 0


def test_the_pages_query_gets_each_step(browsed: Browsed) -> None:
    graph = DataHubGraph(DatahubClientConfig(server=browsed.catalog.url))
    for urn, path in browsed.paths.items():
        entity = graph.execute_graphql(PATHS, variables={"urn": urn})["entity"]
        found = entity["browsePathV2"]["path"]
        assert [step["name"] for step in found] == [step["id"] for step in path]
        entities = [step["entity"] for step in found if step["entity"]]
        if browsed.instance is None:
            assert entities == []
            continue
        (instance,) = entities
        assert instance == {
            "urn": path[0]["urn"],
            "type": "DATA_PLATFORM_INSTANCE",
            "platform": {"name": "mlflow", "properties": {"displayName": "MLflow"}},
            "instanceId": "eu",
        }
