"""What a recipe says about datasets: instance, environment, case, and other names."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from pydantic import ValidationError

from mlcat_ingest.sources.datasets import FOLDING, PLATFORMS, Datasets, DatasetsConfig
from mlcat_ingest.sources.feast.config import FeastConfig
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from support.venvs import REPOSITORY

FEAST: Callable[..., Any] = partial(FeastConfig, registry="data/registry.db")  # type: ignore[arg-type]


def datasets(**config: Any) -> Datasets:
    return Datasets(DatasetsConfig.model_validate(config))


def urn_of(found: Datasets, platform: str, name: str, env: str = "PROD") -> str | None:
    return found.urn(found.resolve(platform, name), env)


def test_instance_environment_and_case_go_by_platform() -> None:
    found = datasets(
        platforms={
            "snowflake": {"platform_instance": "eu", "env": "prod"},
            "mysql": {"convert_urns_to_lowercase": True},
        }
    )
    start = "urn:li:dataset:(urn:li:dataPlatform:"
    assert urn_of(found, "snowflake", "ML.T", "DEV") == f"{start}snowflake,eu.ml.t,PROD)"
    assert urn_of(found, "mysql", "Shop.T", "DEV") == f"{start}mysql,shop.t,DEV)"
    assert urn_of(found, "s3", "b/K", "DEV") == f"{start}s3,b/K,DEV)"


def test_a_rewritten_name_keeps_the_rules_of_its_new_platform() -> None:
    rules = [
        {"match": "dbfs:/mnt/lake/", "to": "s3:lake-bucket/"},
        {"match": r"s3:warehouse/(\w+)/(\w+)", "to": r"snowflake:ML.\1.\2"},
        {"match": "s3:", "to": "gcs:"},
    ]
    found = datasets(rewrite=rules)
    assert found.resolve("dbfs", "/mnt/lake/orders/dt=1")[:2] == ("s3", "lake-bucket/orders")
    assert found.resolve("s3", "warehouse/Public/Orders")[:2] == ("snowflake", "ml.public.orders")
    assert found.resolve("s3", "other/orders")[:2] == ("gcs", "other/orders")
    assert found.resolve("dbfs", "/tmp/x")[:2] == ("dbfs", "/tmp/x")


def test_partitions_can_be_kept() -> None:
    assert datasets(partitions="keep").resolve("s3", "b/t/dt=1").name == "b/t/dt=1"


@pytest.mark.parametrize(
    "config",
    [
        {"rewrite": [{"match": "(", "to": "s3:"}]},
        {"rewrite": [{"match": "s3:", "to": r"gcs:\1"}]},
        {"platforms": {"": {}}},
        {"platforms": {"s3": {"env": "nowhere"}}},
        {"partitions": "some"},
    ],
)
def test_what_cannot_work_is_refused_when_the_recipe_is_read(config: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        DatasetsConfig.model_validate(config)


@pytest.mark.parametrize(
    ("source", "config", "says"),
    [
        (MlflowConfig, {"platforms": {"snowflke": {}}}, "did you mean `snowflake`?"),
        (MlflowConfig, {"platforms": {"S3": {}}}, "did you mean `s3`?"),
        (FEAST, {"platforms": {"postgresql": {}}}, "did you mean `postgres`?"),
        (FEAST, {"platforms": {"warehouse": {}}}, "`platforms`"),
    ],
)
def test_options_of_a_platform_that_no_dataset_is_on_are_refused(
    source: Callable[..., Any], config: dict[str, Any], says: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        source(datasets=config)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "config",
    [
        {"platforms": {platform: {"env": "DEV"} for platform in PLATFORMS}},
        {"platforms": {"warehouse": {}}, "source_types": {"acme": "warehouse"}},
        {"platforms": {"lake": {}}, "rewrite": [{"match": "s3:lake/", "to": "lake:"}]},
        {"platforms": {"lake": {}}, "rewrite": [{"match": r"s3:(\w+)/", "to": r"\1:"}]},
    ],
)
def test_options_of_a_platform_that_datasets_may_be_on_are_taken(config: dict[str, Any]) -> None:
    assert MlflowConfig(datasets=config).datasets.platforms.keys() == config["platforms"].keys()  # type: ignore[arg-type]


def test_connections_of_a_platform_without_databases_are_refused() -> None:
    with pytest.raises(ValidationError, match="did you mean `redshift`"):
        FEAST(connections={"redhsift": {"database": "d"}})


def test_what_fits_in_no_urn_has_none() -> None:
    assert urn_of(Datasets(), "s3", "x" * 600) is None
    assert urn_of(Datasets(), "file", "/") is None
    assert urn_of(datasets(rewrite=[{"match": ".*", "to": "nothing"}]), "s3", "b/k") is None


def test_the_page_on_lineage_names_the_platforms_with_names_in_lower_case() -> None:
    page = (REPOSITORY / "docs/reference/lineage.md").read_text("utf-8")
    listed = re.search(r"^- Names on (.+) are in lower case", page, re.MULTILINE)
    assert listed is not None
    named = {name.lower() for name in re.split(", | and ", listed[1])}
    assert named == {platform for platform, case in FOLDING.items() if case == "all"}
