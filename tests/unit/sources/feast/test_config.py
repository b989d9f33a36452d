"""What an address says: how its registry is fetched, and what of it may be shown."""

import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from mlcat_ingest.core.environment import local_path
from mlcat_ingest.errors import MissingExtraError
from mlcat_ingest.recipe.loader import Origin
from mlcat_ingest.recipe.validate import validate_config
from mlcat_ingest.sources.feast.config import FeastConfig, RegistryKind, kind_of
from mlcat_ingest.sources.feast.files import S3Object

KINDS: list[tuple[str, RegistryKind]] = [
    ("registry.db", "file"),
    ("data/registry.db", "file"),
    ("/srv/a:b/registry.db", "file"),
    ("file:///srv/registry.db", "file"),
    ("s3://bucket/registry.db", "s3"),
    ("s3a://bucket/registry.db", "s3"),
    ("gs://bucket/registry.db", "object"),
    ("abfss://c@account.dfs.core.windows.net/registry.db", "object"),
    ("https://account.blob.core.windows.net/c/registry.db", "object"),
    ("hdfs://name:8020/registry.db", "object"),
    ("memory://registry.db", "object"),
    ("sqlite:///registry.db", "sql"),
    ("postgresql+psycopg://u:p@h/db", "sql"),
    ("mysql://u@h/db", "sql"),
    ("cockroachdb+psycopg2://u@h/db", "sql"),
    ("feast:6570", "remote"),
    ("127.0.0.1:6570", "remote"),
    ("[::1]:6570", "remote"),
    ("grpcs://feast.example.com", "remote"),
]


@pytest.mark.parametrize(("address", "kind"), KINDS)
def test_an_address_tells_how_it_is_fetched(address: str, kind: RegistryKind) -> None:
    assert kind_of(address) == kind


def test_the_type_that_feast_names_comes_first() -> None:
    assert kind_of("feast.example.com", "remote") == "remote"
    assert kind_of("feast:6570", "file") == "file"
    assert kind_of("s3://b/k", "file") == "s3"
    assert kind_of("duckdb:///x", "sql") == "sql"


def test_the_path_in_an_address() -> None:
    assert local_path("file:///a%20b") == Path("/a b")


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("registry.db", "/recipes/registry.db"),
        ("sqlite:///registry.db", "sqlite:////recipes/registry.db"),
        ("127.0.0.1:6570", "127.0.0.1:6570"),
        ("gs://b/k", "gs://b/k"),
        ({"path": "feast", "registry_type": "remote"}, "feast"),
        ({"registry_type": "file", "path": "a:1"}, "a:1"),
    ],
)
def test_relative_files_start_at_the_folder_of_the_recipe(given: object, path: str) -> None:
    config = FeastConfig.model_validate({"registry": given}, context={"base_dir": Path("/recipes")})
    assert config.registry is not None
    assert config.registry.path == path


def problems_of(raw: dict[str, object]) -> str:
    _, problems = validate_config(FeastConfig, raw, (), Origin())
    return "\n".join(problem.render() for problem in problems)


def test_what_datahubs_own_source_and_feast_call_otherwise_is_explained() -> None:
    message = problems_of(
        {"path": "repo", "environment": "PROD", "registry": {"path": "x", "cert": "c"}}
    )
    assert "path: is `repo_path` here" in message
    assert "environment: is `env` here" in message
    assert "registry.cert: is `ca_bundle` beside `registry` here" in message


def test_a_registry_in_snowflake_is_refused_with_two_ways_out() -> None:
    message = problems_of({"registry": {"registry_type": "snowflake.registry", "path": "x"}})
    assert "feast serve_registry" in message
    assert "SerializeToString" in message


@pytest.mark.parametrize(
    "registry",
    [
        "http://feast:6572/api/v1",
        "HTTPS://feast.example.com",
        {"registry_type": "rest", "path": "feast:6572"},
    ],
    ids=str,
)
def test_a_registry_server_over_rest_is_refused_with_the_one_over_grpc(registry: object) -> None:
    message = problems_of({"registry": registry})
    assert "registry_type: remote" in message
    assert "feast serve_registry" in message


def test_a_recipe_has_to_name_a_registry_and_certificates_go_with_their_keys() -> None:
    assert "`registry`" in problems_of({})
    assert "client_cert" in problems_of({"registry": "x", "client_key": "k.pem"})
    assert "control character" in problems_of({"registry": "a\nb"})


def test_secrets_are_masked_and_are_in_no_schema() -> None:
    config = FeastConfig.model_validate(
        {
            "registry": "postgresql://me:hunter22@h/db",
            "token": "t0ken-value",
            "headers": {"X-Key": "h3ader-value"},
            "storage_options": {"account_key": "acc0unt-key"},
        }
    )
    shown = repr(config) + config.model_dump_json()
    for secret in ("hunter22", "t0ken-value", "h3ader-value", "acc0unt-key"):
        assert secret not in shown


def test_options_cannot_be_misspelt() -> None:
    with pytest.raises(ValidationError):
        FeastConfig.model_validate({"registry": "x", "repopath": "y"})


def test_a_registry_in_s3_without_boto3_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    address = "s3://bucket/registry.db"
    config = FeastConfig.model_validate({"registry": address})
    with pytest.raises(MissingExtraError, match=r"a registry in S3 needs .*mlcat-ingest\[aws\]"):
        S3Object(address, config).fetch()
