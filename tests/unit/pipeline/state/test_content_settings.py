"""A change of a key needs a full pass if, and only if, the key decides what is written."""

from typing import Any

import pytest

from mlcat_ingest.recipe.connection import ConnectionConfig
from mlcat_ingest.recipe.fields import NotContent, RecipeModel
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.sources.definitions.file_source import DefinitionsConfig
from mlcat_ingest.sources.feast.config import FeastConfig
from mlcat_ingest.sources.feast.source import FeastSource
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.source import partition_of
from mlcat_ingest.sources.sagemaker.config import SagemakerConfig
from mlcat_ingest.workflows.ingest import state_options_of
from support.mlflow_records import a_scope

BARE: dict[str, Any] = {"sources": [{"type": "mlflow", "config": {"tracking_uri": "http://m"}}]}

RECIPE_CONTENT: dict[str, Any] = {
    "enrich": [{"add_tags": ["x"]}],
    "merge": {"mlModelProperties.groups": "union"},
    "reused_names": "clear",
}
RECIPE_OTHERS: dict[str, Any] = {
    "name": "another",
    "writer_id": "another",
    # What a source reads is part of its own settings, below.
    "sources": [{"type": "mlflow", "config": {"tracking_uri": "http://another"}}],
    "sink": {"type": "file", "config": {"path": "out.jsonl"}},
    "evaluate": {"enabled": False},
    "lineage": {"check": False},
    "limits": {"max_new_entities": 7},
    "state": {"full_every": "7d"},
    "dead_letters": "another.jsonl",
    "report_to_catalog": False,
}

MLFLOW_CONTENT: dict[str, Any] = {
    "tracking_uri": "http://another",
    "registry_uri": "http://another",
    "reader": "rest",
    "experiments": {"allow": ["a"]},
    "workspaces": {"allow": ["a"]},
    "runs": {"since": "2026-01-31"},
    "limit": 3,
    "system_metrics": True,
    "env": "DEV",
    "instance": "eu",
    "compat": "datahub",
    "naming": {"model": "run-{run_id}"},
    "ui_url": "http://ui",
    "server_id": "s",
    "alias_tags": True,
    "model_cards": True,
    "include": ["prompts"],
    "owners": {"type": "DATAOWNER"},
    "datasets": {"partitions": "keep"},
    "lineage": {"process_instances": True},
    "features": {"enabled": False},
}
MLFLOW_OTHERS: dict[str, Any] = {
    "username": "u",
    "password": "p4ssword",
    "token": "t0ken",
    "auth": "plugin",
    "headers": {"X-Proxy": "s3cret"},
    "verify": True,
    "disable_ssl_verification": False,
    "ca_bundle": "ca.pem",
    "client_cert": "client.pem",
    "client_key": "key.pem",
    "timeout_s": 9.0,
    "retries": 1,
    "retry_for_s": 9.0,
    "page_size": 9,
    "connections": 1,
    "incremental": {"overlap": "2h"},
}


FEATURE_STORE_CONTENT = {
    *("tables", "env", "instance", "namespace_prefix", "server_id", "owners", "datasets"),
}
FEAST_CONTENT = {
    *FEATURE_STORE_CONTENT,
    *("registry", "repo_path", "feature_store_yaml", "projects", "label_views", "connections"),
    *("spark_platform", "kinesis_region"),
}
FEAST_OTHERS = {
    *ConnectionConfig.model_fields,
    *("authority", "s3", "storage_options", "max_bytes"),
}
SAGEMAKER_CONTENT = {
    *FEATURE_STORE_CONTENT,
    *("region", "endpoint_url", "compat", "resolved_s3", "feature_metadata"),
}
SAGEMAKER_OTHERS = {
    *("timeout_s", "retries", "profile", "access_key_id", "secret_access_key", "session_token"),
}


def recipe_settings(**changed: Any) -> str:
    recipe = Recipe.model_validate({**BARE, **changed})
    return state_options_of(recipe, full=False, accept_renaming=False).settings


def mlflow_settings(**changed: Any) -> str:
    return partition_of(
        MlflowConfig.model_validate(
            {"tracking_uri": "http://m", "client_cert": "c.pem", **changed}
        ),
        a_scope(),
    ).settings


def feast_settings(**changed: Any) -> str:
    given = {"registry": "registry.db", "server_id": "here", **changed}
    source = FeastSource(FeastConfig.model_validate(given))
    return source._partition().settings


def test_every_key_is_in_one_of_the_tables() -> None:
    assert Recipe.model_fields.keys() == RECIPE_CONTENT.keys() | RECIPE_OTHERS.keys()
    assert MlflowConfig.model_fields.keys() == MLFLOW_CONTENT.keys() | MLFLOW_OTHERS.keys()
    assert not RECIPE_CONTENT.keys() & RECIPE_OTHERS.keys()
    assert not MLFLOW_CONTENT.keys() & MLFLOW_OTHERS.keys()


@pytest.mark.parametrize("key", [*RECIPE_CONTENT, *RECIPE_OTHERS])
def test_a_key_of_the_recipe(key: str) -> None:
    value = {**RECIPE_CONTENT, **RECIPE_OTHERS}[key]
    assert (recipe_settings(**{key: value}) != recipe_settings()) == (key in RECIPE_CONTENT)


@pytest.mark.parametrize("key", [*MLFLOW_CONTENT, *MLFLOW_OTHERS])
def test_a_key_of_an_mlflow_source(key: str) -> None:
    value = {**MLFLOW_CONTENT, **MLFLOW_OTHERS}[key]
    assert (mlflow_settings(**{key: value}) != mlflow_settings()) == (key in MLFLOW_CONTENT)


@pytest.mark.parametrize(
    ("config", "content", "others"),
    [
        (FeastConfig, FEAST_CONTENT, FEAST_OTHERS),
        (SagemakerConfig, SAGEMAKER_CONTENT, SAGEMAKER_OTHERS),
        (DefinitionsConfig, FEATURE_STORE_CONTENT | {"path"}, set()),
    ],
)
def test_every_key_of_a_feature_store_is_in_one_of_the_tables(
    config: type[RecipeModel], content: set[str], others: set[str]
) -> None:
    assert config.model_fields.keys() == content | others
    assert not content & others
    outside = {
        name
        for name, field in config.model_fields.items()
        if any(isinstance(mark, NotContent) for mark in field.metadata)
    }
    assert outside == others


def test_a_feature_store_is_not_read_again_for_another_connection() -> None:
    plain = feast_settings()
    assert feast_settings(token="t0ken", retries=1, timeout_sec=9, max_bytes=9999) == plain
    assert feast_settings(label_views=True) != plain
