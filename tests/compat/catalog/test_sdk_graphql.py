"""What the unmodified DataHub SDK and command line do over GraphQL."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from datahub.ingestion.graph.client import DatahubClientConfig, DataHubGraph
from datahub.ingestion.graph.filters import RemovedStatusFilter
from datahub.metadata.schema_classes import VersionPropertiesClass

from support.catalog_server import RunningCatalog, running_catalog
from support.catalog_store import feature, group, model, put, table
from support.datahub_cli import DataHubCli
from support.sdk_warnings import SDK_WARNINGS

pytestmark = SDK_WARNINGS

ADA = "urn:li:corpuser:ada"
CONTAINER = "urn:li:container:c"
DATASET = "urn:li:dataset:(urn:li:dataPlatform:s3,bucket/data,PROD)"
DEV = model("dev").replace("PROD", "DEV")
INSTANCE = "urn:li:dataPlatformInstance:(urn:li:dataPlatform:mlflow,eu)"


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCatalog]:
    with running_catalog(tmp_path_factory.mktemp("catalog") / "c.db") as running:
        fill(running)
        yield running


def fill(running: RunningCatalog) -> None:
    store = running.store
    put(store, DATASET, datasetProperties={"name": "data"}, schemaMetadata={
        "fields": [{"fieldPath": "age", "nativeDataType": "int"}]})  # fmt: skip
    put(store, feature("t", "age"), mlFeatureProperties={"sources": [DATASET]})
    put(store, table("t"), mlFeatureTableProperties={"mlFeatures": [feature("t", "age")]})
    put(store, group("churn"), mlModelGroupProperties={"name": "Churn", "description": "all"})
    properties = {"groups": [group("churn")], "mlFeatures": [feature("t", "age")]}
    put(
        store,
        model("m"),
        mlModelProperties={**properties, "customProperties": {"env": "UAT"}},
        ownership={"owners": [{"owner": ADA, "type": "NONE"}]},
        globalTags={"tags": [{"tag": "urn:li:tag:a"}, {"tag": "urn:li:tag:b"}]},
        dataPlatformInstance={"platform": "urn:li:dataPlatform:mlflow", "instance": INSTANCE},
        browsePathsV2={"path": [{"id": CONTAINER, "urn": CONTAINER}]},
    )
    put(store, DEV, mlModelProperties={})
    put(store, model("gone"), mlModelProperties={}, status={"removed": True})


@pytest.fixture
def graph(catalog: RunningCatalog) -> Iterator[DataHubGraph]:
    with DataHubGraph(DatahubClientConfig(server=catalog.url)) as opened:
        yield opened


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ({"platform": "mlflow"}, {model("m"), DEV}),
        ({"platform": ["mlflow", "feast"]}, {model("m"), DEV}),
        ({"platform": "mlflow", "platform_instance": "eu"}, {model("m")}),
        ({"env": "PROD"}, {model("m")}),
        ({"env": "DEV"}, {DEV}),
        ({"env": "UAT"}, {model("m")}),
        ({"container": CONTAINER}, {model("m")}),
        ({"query": "dev"}, {DEV}),
        ({"status": RemovedStatusFilter.ALL}, {model("m"), DEV, model("gone")}),
        ({"status": RemovedStatusFilter.ONLY_SOFT_DELETED}, {model("gone")}),
        ({"status": None}, {model("m"), DEV}),
        ({"batch_size": 1}, {model("m"), DEV}),
        ({"sort_by": "urn", "sort_order": "DESCENDING", "batch_size": 1}, {model("m"), DEV}),
        (
            {"extraFilters": [{"field": "owners", "values": [ADA], "condition": "EQUAL"}]},
            {model("m")},
        ),
        ({"skip_cache": True}, {model("m"), DEV}),
        ({"include_draft": True, "include_hidden_lifecycle_stages": True}, {model("m"), DEV}),
    ],
)
def test_urns_by_filter(graph: DataHubGraph, inputs: dict[str, Any], expected: set[str]) -> None:
    found = list(graph.get_urns_by_filter(entity_types=["mlModel"], **inputs))
    assert set(found) == expected
    assert len(found) == len(expected)


def test_urns_of_every_type(graph: DataHubGraph) -> None:
    found = set(graph.get_urns_by_filter())
    assert found >= {model("m"), group("churn"), feature("t", "age"), table("t"), DATASET}
    results = list(graph.get_results_by_filter(entity_types=["mlModelGroup"]))
    assert [result["entity"]["urn"] for result in results] == [group("churn")]
    types = ["mlFeature", "mlFeatureTable", "dataset", "mlPrimaryKey"]
    assert set(graph.get_urns_by_filter(entity_types=types)) == {
        feature("t", "age"), table("t"), DATASET}  # fmt: skip


def test_the_schemas_of_datasets(graph: DataHubGraph) -> None:
    ((urn, schema),) = graph._bulk_fetch_schema_info_by_filter(platform="s3")
    assert urn == DATASET
    assert [field["fieldPath"] for field in schema["fields"]] == ["age"]


def test_the_search_client(catalog: RunningCatalog) -> None:
    from datahub.sdk.main_client import DataHubClient
    from datahub.sdk.search_filters import FilterDsl

    client = DataHubClient(server=catalog.url, token=None)
    filters = FilterDsl.and_(
        FilterDsl.entity_type("mlModel"), FilterDsl.platform("mlflow"), FilterDsl.env("PROD")
    )
    assert [str(urn) for urn in client.search.get_urns(filter=filters)] == [model("m")]
    removed = FilterDsl.soft_deleted(RemovedStatusFilter.ONLY_SOFT_DELETED)
    assert [str(urn) for urn in client.search.get_urns(filter=removed)] == [model("gone")]
    assert str(next(iter(client.search.get_urns("churn")))) == group("churn")


def test_the_lineage_client(catalog: RunningCatalog) -> None:
    from datahub.sdk.main_client import DataHubClient
    from datahub.sdk.search_filters import FilterDsl

    client = DataHubClient(server=catalog.url, token=None)

    def upstream(**more: Any) -> dict[str, int]:
        results = client.lineage.get_lineage(
            source_urn=group("churn"), direction="upstream", **more
        )
        return {result.urn: result.hops for result in results}

    assert upstream(max_hops=1) == {model("m"): 1}
    assert upstream(max_hops=3) == {model("m"): 1, feature("t", "age"): 2, DATASET: 3}
    about = FilterDsl.entity_type("dataset")
    assert upstream(max_hops=3, filter=about) == {DATASET: 3}
    (dataset,) = client.lineage.get_lineage(
        source_urn=feature("t", "age"), direction="upstream", max_hops=1
    )
    assert (dataset.platform, dataset.type) == ("s3", "DATASET")


def test_tags(graph: DataHubGraph) -> None:
    assert graph.create_tag("fresh") == "urn:li:tag:fresh"
    assert graph.exists("urn:li:tag:fresh")
    assert graph.remove_tag("urn:li:tag:a", model("m")) is True
    tags = graph.get_tags(model("m"))
    assert tags is not None
    assert [one.tag for one in tags.tags] == ["urn:li:tag:b"]


def test_versions(graph: DataHubGraph) -> None:
    made = graph.link_asset_to_version_set(model("m"), None, "v1")
    assert made is not None
    assert graph.link_asset_to_versioned_asset(DEV, model("m"), "v2") == made
    newest = graph.get_aspect(DEV, VersionPropertiesClass)
    assert newest is not None
    assert (newest.version.versionTag, newest.isLatest) == ("v2", True)
    assert graph.unlink_latest_asset_from_version_set(made) == made
    before = graph.get_aspect(model("m"), VersionPropertiesClass)
    assert before is not None
    assert before.isLatest
    assert graph.unlink_asset_from_version_set(model("m")) == made
    assert graph.get_aspect(model("m"), VersionPropertiesClass) is None


@pytest.fixture
def datahub(catalog: RunningCatalog, tmp_path: Path) -> Callable[..., str]:
    cli = DataHubCli(catalog.url, tmp_path)
    return lambda *arguments: cli.run(*arguments).stdout


def test_datahub_search(datahub: Callable[..., str]) -> None:
    found = json.loads(datahub("search", "churn", "--format", "json"))
    first = found["searchResults"][0]["entity"]
    assert first["urn"] == group("churn")
    assert first["properties"]["description"] == "all"
    assert first["platform"]["name"] == "mlflow"
    only = datahub("search", "*", "--filter", "entity_type=mlFeature", "--urns-only")
    assert only.split() == [feature("t", "age")]
    assert "platform" in datahub("search", "*", "--facets-only", "--format", "json")
    assert "Keyword" in datahub("search", "diagnose")


def test_datahub_graphql(datahub: Callable[..., str]) -> None:
    query = f'{{ mlModel(urn: "{model("m")}") {{ name properties {{ groups {{ urn }} }} }} }}'
    found = json.loads(datahub("graphql", "--query", query, "--format", "json"))
    assert found == {"mlModel": {"name": "m", "properties": {"groups": [{"urn": group("churn")}]}}}
    assert "searchAcrossEntities" in datahub("graphql", "--list-queries")
    assert "createTag" in datahub("graphql", "--list-mutations")
    assert "RelationshipsInput" in datahub("graphql", "--describe", "RelationshipsInput")
    me = json.loads(datahub("graphql", "--operation", "me", "--format", "json"))
    assert me["me"]["corpUser"]["username"] == "unknown"
