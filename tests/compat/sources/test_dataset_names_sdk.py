"""Dataset URNs of ours beside those that DataHub's SDK and its own connectors build."""

from collections.abc import Callable

import pytest
from datahub.emitter.mce_builder import make_dataset_urn, make_dataset_urn_with_platform_instance
from datahub.ingestion.source.aws.s3_util import make_s3_urn_for_lineage
from datahub.ingestion.source.azure.abs_utils import strip_abs_prefix
from datahub.ingestion.source.bigquery_v2.bigquery_audit import BigqueryTableIdentifier
from hypothesis import assume, example, given
from hypothesis import strategies as st

from mlcat_ingest.sources.datasets import Datasets, DatasetsConfig, place_of_uri
from support.names import names

URI = "https://acme.blob.core.windows.net/data/orders"


def urn_of(uri: str, datasets: Datasets | None = None) -> str | None:
    found = datasets or Datasets()
    place = place_of_uri(uri)
    return None if place is None else found.urn(found.resolve(*place), "PROD")


@pytest.mark.parametrize(
    "uri", ["s3://b/k", "s3a://b/k/", "s3n://b/dir/x.csv", "s3://b/odd (1),x%20y.csv", "s3://b"]
)
def test_object_stores_are_named_as_the_sdk_names_them_in_lineage(uri: str) -> None:
    assert urn_of(uri) == make_s3_urn_for_lineage(uri, "PROD")


def test_azure_blobs_are_named_as_their_connector_does() -> None:
    expected = make_dataset_urn("abs", strip_abs_prefix(URI))
    assert urn_of(URI) == urn_of("abfss://data@acme.dfs.core.windows.net/orders/") == expected


@pytest.mark.parametrize(
    "table",
    [
        *("t", "Clicks", "t_20240131", "t20240131", "clicks20240131", "t_*", "t_2024*"),
        *("t$20240131", "t@1624046611000", "t_20241331", "t_1", "t_"),
    ],
)
def test_tables_of_bigquery_are_named_as_their_connector_does(
    table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The connector's default, set when it starts.
    monkeypatch.setattr(BigqueryTableIdentifier, "_BQ_SHARDED_TABLE_SUFFIX", "")
    theirs = BigqueryTableIdentifier("p", "d", table).get_table_name()
    ours = Datasets().resolve("bigquery", f"p.d.{table}").name
    assert ours == theirs


@pytest.mark.parametrize(
    ("platform", "written"),
    [("snowflake", str.lower), ("s3", str), ("postgres", str), ("bigquery", str)],
)
@given(name=names, instance=st.sampled_from([None, "eu", "eu.west"]))
@example(name="100%, (x) %2C", instance="eu")
def test_any_name_is_spelled_as_the_sdk_does(
    platform: str, written: Callable[[str], str], name: str, instance: str | None
) -> None:
    config = {"platforms": {platform: {"instance": instance}}, "partitions": "keep"}
    datasets = Datasets(DatasetsConfig.model_validate(config))
    place = datasets.resolve(platform, name)
    ours = datasets.urn(place, "DEV")
    assume(ours is not None)
    expected = written(name).strip("/") if platform == "s3" else written(name)
    assert ours == make_dataset_urn_with_platform_instance(platform, expected, instance, "DEV")
