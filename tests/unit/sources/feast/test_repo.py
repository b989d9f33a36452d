"""What feature_store.yaml says fills in what a recipe leaves open, and nothing of it is run."""

from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.errors import RecipeError, RecipeValidationError
from mlcat_ingest.recipe.secrets import mask
from mlcat_ingest.sources.feast.config import FeastConfig, with_repo_options


def repo(folder: Path, text: str, **options: Any) -> FeastConfig:
    (folder / "feature_store.yaml").write_text(text)
    return with_repo_options(FeastConfig.model_validate({"repo_path": folder, **options}))


def path_of(config: FeastConfig) -> str:
    assert config.registry is not None
    return config.registry.path


def test_project_registry_and_offline_store_are_taken_from_the_repository(tmp_path: Path) -> None:
    config = repo(
        tmp_path,
        "project: my.shop\nprovider: local\nregistry: data/registry.db\n"
        "offline_store:\n  type: snowflake.offline\n  database: ANALYTICS\n  schema: FEATURES\n",
    )
    assert path_of(config) == str(tmp_path / "data/registry.db")
    assert config.projects.allows("my.shop")
    assert not config.projects.allows("my.shop2")
    assert not config.projects.allows("my-shop")
    found = config.connections["snowflake"]
    assert (found.database, found.schema_name) == ("ANALYTICS", "FEATURES")


def test_what_the_recipe_says_wins(tmp_path: Path) -> None:
    config = repo(
        tmp_path,
        "project: shop\nregistry: s3://theirs/registry.db\n"
        "offline_store: {type: postgres, host: h, database: theirs, db_schema: s}\n",
        registry="s3://ours/registry.db",
        projects={"allow": ["a"]},
        connections={"postgres": {"database": "ours"}},
    )
    assert path_of(config) == "s3://ours/registry.db"
    assert config.projects.allow == ("a",)
    assert config.connections["postgres"].database == "ours"


def test_a_repository_that_names_no_registry_has_feasts_default(tmp_path: Path) -> None:
    assert path_of(repo(tmp_path, "project: p\n")) == str(tmp_path / "data/registry.db")


def test_variables_are_those_of_the_environment_as_feast_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGISTRY_HOST", "db.example.com")
    monkeypatch.setenv("REGISTRY_PASSWORD", "s3cret-word")
    config = repo(
        tmp_path,
        "project: p\nregistry:\n  registry_type: sql\n"
        "  path: postgresql://feast:${REGISTRY_PASSWORD}@$REGISTRY_HOST/feast\n",
    )
    assert path_of(config) == "postgresql://feast:s3cret-word@db.example.com/feast"
    assert mask("s3cret-word") == "***"


def test_a_variable_that_is_not_set_is_an_error_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(
        RecipeValidationError, match=r"feature_store\.yaml:3: .*NOT_THERE"
    ) as raised:
        repo(tmp_path, "project: p\nregistry:\n  path: s3://${NOT_THERE}/registry.db\n")
    assert "registry.path" in raised.value.message


def test_a_dollar_in_a_password_is_left_alone(tmp_path: Path) -> None:
    config = repo(tmp_path, "project: p\nregistry: {path: 'mysql://u:a$bc_none@h/d'}\n")
    assert path_of(config) == "mysql://u:a$bc_none@h/d"


def test_the_password_in_an_address_is_masked_as_it_is_meant(tmp_path: Path) -> None:
    repo(tmp_path, "project: p\nregistry: {path: 'mysql://u:qu%40rtz-word@h/d'}\n")
    assert mask("no qu@rtz-word here") == "no *** here"


def test_a_variable_in_what_is_not_used_does_not_matter(tmp_path: Path) -> None:
    text = (
        "project: p\nonline_store: {type: redis, connection_string: '${REDIS_THAT_IS_NOT_SET}'}\n"
    )
    assert path_of(repo(tmp_path, text)).endswith("registry.db")


def test_a_remote_registry_brings_its_certificates(tmp_path: Path) -> None:
    config = repo(
        tmp_path,
        "project: p\nregistry:\n  registry_type: remote\n  path: feast.example.com:443\n"
        "  cert: certs/ca.pem\n  client_cert: certs/me.pem\n  client_key: /k.pem\n"
        "  authority: feast\n  is_tls: true\n  cache_ttl_seconds: 5\n",
    )
    assert path_of(config) == "feast.example.com:443"
    assert config.ca_bundle == tmp_path / "certs/ca.pem"
    assert config.client_cert == tmp_path / "certs/me.pem"
    assert config.client_key == Path("/k.pem")
    assert (config.authority, config.verify) == ("feast", True)


def test_a_database_is_read_where_feast_reads_it(tmp_path: Path) -> None:
    config = repo(
        tmp_path,
        "project: p\nregistry: {registry_type: sql, path: 'sqlite:///w.db',"
        " read_path: 'sqlite:///r.db'}\n",
    )
    assert path_of(config) == f"sqlite:///{tmp_path}/r.db"


def test_a_snowflake_registry_is_refused_at_its_line(tmp_path: Path) -> None:
    with pytest.raises(RecipeValidationError, match=r"feature_store\.yaml:2: .*serve_registry"):
        repo(tmp_path, "project: p\nregistry: {registry_type: snowflake.registry, path: x}\n")


def test_a_file_of_another_name_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "prod.yaml"
    path.write_text("project: p\nregistry: r.db\n")
    config = with_repo_options(FeastConfig.model_validate({"feature_store_yaml": path}))
    assert path_of(config) == str(tmp_path / "r.db")


def test_a_repository_without_the_file_is_an_error_only_where_it_is_needed(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"feature_store\.yaml"):
        with_repo_options(FeastConfig.model_validate({"repo_path": tmp_path}))
    given = FeastConfig.model_validate({"repo_path": tmp_path, "registry": "s3://b/k"})
    assert with_repo_options(given) is given


def test_an_unknown_offline_store_and_a_file_that_is_no_mapping_say_nothing(tmp_path: Path) -> None:
    assert repo(tmp_path, "project: p\noffline_store: file\n").connections == {}
    assert repo(tmp_path, "- a\n").projects.allow == (".*",)
