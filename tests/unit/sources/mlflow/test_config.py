import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from mlcat_ingest.errors import RecipeValidationError
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.recipe.values import PatternFilter
from mlcat_ingest.sources.mlflow.config import DEFAULT_TRACKING_URI, MlflowConfig, RunsConfig
from mlcat_ingest.sources.mlflow.values.uris import is_database, is_http, normalise_uri
from mlcat_ingest.workflows.resolve import resolve

SECRET = "hunter2"


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.delenv("MLFLOW_REGISTRY_URI", raising=False)


def test_the_server_comes_from_the_recipe_then_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert MlflowConfig().tracking_uri == DEFAULT_TRACKING_URI
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"https://ada:{SECRET}@mlflow/x")
    monkeypatch.setenv("MLFLOW_REGISTRY_URI", "https://registry")
    config = MlflowConfig()
    assert (config.tracking_uri, config.registry_uri) == ("https://mlflow/x", "https://registry")
    assert config.password is not None
    assert config.password.get_secret_value() == SECRET
    given = MlflowConfig.model_validate({"tracking_uri": "http://other", "registry_uri": None})
    assert (given.tracking_uri, given.registry_uri, given.username) == ("http://other", None, None)


def test_credentials_in_the_address_become_fields_that_are_masked() -> None:
    config = MlflowConfig(tracking_uri=f"http://a%40b:{SECRET}%2F@h:5000/p")
    assert (config.tracking_uri, config.public_uri) == ("http://h:5000/p", "http://h:5000/p")
    assert config.username == "a@b"
    assert config.password is not None
    assert config.password.get_secret_value() == f"{SECRET}/"
    assert SECRET not in f"{config!r} {config} {config.model_dump_json()}"
    own = MlflowConfig.model_validate({"tracking_uri": "http://a:b@h", "username": "mine"})
    assert own.username == "mine"


def test_the_password_of_a_database_is_not_shown() -> None:
    config = MlflowConfig(tracking_uri=f"postgresql://u:{SECRET}@db:5432/mlflow?x=1")
    assert config.public_uri == "postgresql://db:5432/mlflow"
    assert SECRET not in f"{config!r} {config.model_dump_json()}"


def test_keys_of_datahubs_source_mean_the_same() -> None:
    config = MlflowConfig.model_validate(
        {"base_external_url": "https://ui/", "platform_instance": "eu", "env": "prod"}
    )
    assert (config.ui_url, config.instance, config.env) == ("https://ui", "eu", "PROD")


def test_relative_addresses_and_files_start_at_the_recipe(tmp_path: Path) -> None:
    config = MlflowConfig.model_validate(
        {"tracking_uri": "sqlite:///mlflow.db", "ca_bundle": "ca.pem"},
        context={"base_dir": tmp_path},
    )
    assert config.tracking_uri == f"sqlite:///{tmp_path}/mlflow.db"
    assert config.ca_bundle == tmp_path / "ca.pem"


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"experiments": {"allow": ["("]}}, "is not a regular expression"),
        ({"env": "MOON"}, "is not an environment"),
        ({"runs": {"since": "yesterday"}}, "ISO date"),
        ({"runs": {"statuses": ["DONE"]}}, "'RUNNING'"),
        ({"runs": {"select": "none"}}, "with_model"),
        ({"token": SECRET, "username": "a", "password": SECRET}, "`token` excludes"),
        ({"naming": {"model": "{name}"}}, "naming.model"),
        ({"page_size": 50_001}, "less than or equal to 50000"),
        ({"limit": 0}, "greater than or equal to 1"),
        ({"tracking_url": "http://x"}, "Extra inputs"),
        ({"ui_url": "mlflow"}, "http://"),
        ({"experiments": {"deny": ["a\nb"]}}, "control character"),
        ({"owners": {"type": "BOSS"}}, "is not an ownership type"),
    ],
)
def test_mistakes_are_reported_without_values(data: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(sentence)) as reported:
        MlflowConfig.model_validate(data)
    assert SECRET not in str(reported.value)


def test_something_that_is_no_mapping_is_a_plain_mistake() -> None:
    with pytest.raises(ValidationError):
        MlflowConfig.model_validate(3)


def test_patterns_match_from_the_start_of_any_name() -> None:
    chosen = PatternFilter(allow=("churn", ".*x$"), deny=("churn-old",))
    names = ["churn", "churn-2", "churn-old", "my churn", "a\nx", "prefix"]
    assert [name for name in names if chosen.allows(name)] == ["churn", "churn-2", "prefix"]
    assert PatternFilter().allows("two\nlines")
    assert not PatternFilter(allow=()).allows("any")


@pytest.mark.parametrize(
    ("since", "expected"),
    [
        (None, None),
        ("2026-01-31", 1_769_817_600_000),
        ("2026-01-31T01:00:00+01:00", 1_769_817_600_000),
        ("7d", 10**12 - 7 * 86_400_000),
        ("2 w", 10**12 - 14 * 86_400_000),
        ("30m", 10**12 - 1_800_000),
    ],
)
def test_since_is_a_moment_or_an_age(since: str | None, expected: int | None) -> None:
    assert RunsConfig(since=since).since_ms(now_ms=10**12) == expected


def test_an_age_counts_from_now() -> None:
    earlier, later = RunsConfig(since="2h").since_ms(), RunsConfig(since="1h").since_ms()
    assert earlier is not None
    assert later is not None
    assert earlier < later


def test_every_field_says_what_it_is() -> None:
    def undocumented(model: type[BaseModel]) -> list[str]:
        fields = model.model_json_schema()["properties"].items()
        return [name for name, field in fields if not field.get("description")]

    assert undocumented(MlflowConfig) == []
    assert undocumented(RunsConfig) == []
    schema = MlflowConfig.model_json_schema()
    assert schema["properties"]["base_external_url"]["deprecated"]


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("HTTPS://User:pw@MLflow.Example:443/base/?q#f", "https://mlflow.example/base"),
        ("http://h:5000/", "http://h:5000"),
        ("http://[::1]:80", "http://[::1]"),
        ("sqlite:////tmp/mlflow.db?timeout=3", "sqlite:////tmp/mlflow.db"),
        ("postgresql://u:p@DB/m", "postgresql://DB/m"),
        ("http://[::1", "an unreadable address"),
    ],
)
def test_an_address_has_one_spelling(uri: str, expected: str) -> None:
    assert normalise_uri(uri) == expected


def test_kinds_of_addresses() -> None:
    assert is_http("HTTP://x")
    assert not is_http("sqlite:///x")
    assert is_database("postgresql+psycopg2://x")
    assert not is_database("databricks")
    assert MlflowConfig(tracking_uri="http://a").over_http
    assert MlflowConfig(tracking_uri="http://a", registry_uri="databricks-uc").over_http
    assert MlflowConfig(tracking_uri="databricks://profile").over_http
    assert not MlflowConfig(tracking_uri="http://a", registry_uri="uc:http://a").over_http
    with pytest.raises(ValueError, match="`databricks-uc` is a model registry"):
        MlflowConfig(tracking_uri="databricks-uc")


@pytest.mark.parametrize(
    ("key", "cure"),
    [
        ("model_name_separator", "`naming.version`"),
        ("materialize_dataset_inputs", "`lineage: {datasets: create}`"),
        ("source_mapping_to_platform", "`datasets.source_types`"),
        ("platform_instance_map", "`datasets.platforms`"),
    ],
)
def test_a_key_of_datahubs_own_source_is_reported_what_to_do(key: str, cure: str) -> None:
    text = f"source: {{type: mlflow, config: {{{key}: x}}}}"
    with pytest.raises(RecipeValidationError) as reported:
        resolve(Recipe.parse(text))
    assert f"source.config.{key}: " in str(reported.value)
    assert cure in str(reported.value)


def test_what_mlflow_client_cannot_read_is_refused_before_a_run() -> None:
    MlflowConfig(tracking_uri="http://h", reader="client", include=("prompts", "agents"))
    with pytest.raises(ValidationError, match="reads no mcp_servers: delete it from `include`"):
        MlflowConfig(tracking_uri="http://h", reader="client", include=("skills", "mcp_servers"))
