from pathlib import Path
from types import SimpleNamespace

import pytest
from pydantic import ValidationError

from mlcat_ingest.recipe.fields import RecipeModel
from mlcat_ingest.recipe.values import BASE_DIR, RecipePath, RecipeUrl, resolved_url

BASE = Path("/the/recipes")


class Config(RecipeModel):
    file: RecipePath | None = None
    url: RecipeUrl = "sqlite:///default.db"


@pytest.mark.parametrize(
    ("written", "resolved"),
    [
        ("sqlite:///mlflow.db", "sqlite:////the/recipes/mlflow.db"),
        ("sqlite:///./a/b.db?timeout=5", "sqlite:////the/recipes/a/b.db?timeout=5"),
        ("sqlite+pysqlite:///x.db", "sqlite+pysqlite:////the/recipes/x.db"),
        ("sqlite:////abs/x.db", "sqlite:////abs/x.db"),
        ("sqlite://", "sqlite://"),
        ("sqlite:///", "sqlite:///"),
        ("sqlite:///:memory:", "sqlite:///:memory:"),
        ("sqlite:///file:x.db?mode=ro&uri=true", "sqlite:///file:x.db?mode=ro&uri=true"),
        ("./mlruns", "/the/recipes/mlruns"),
        ("mlruns", "/the/recipes/mlruns"),
        ("../x", "/the/recipes/../x"),
        ("/abs/mlruns", "/abs/mlruns"),
        ("file:mlruns", "file:///the/recipes/mlruns"),
        ("file:./my%20runs", "file:///the/recipes/my%20runs"),
        ("file:///abs/mlruns", "file:///abs/mlruns"),
        ("http://h:5000", "http://h:5000"),
        ("postgresql://u@h/db", "postgresql://u@h/db"),
        ("databricks", "databricks"),
        ("databricks://profile", "databricks://profile"),
        ("databricks-uc", "databricks-uc"),
        ("arn:aws:sagemaker:r:1:mlflow-app/x", "arn:aws:sagemaker:r:1:mlflow-app/x"),
    ],
)
def test_relative_addresses_start_at_the_recipes_folder(written: str, resolved: str) -> None:
    config = Config.model_validate({"url": written}, context={BASE_DIR: BASE})
    assert config.url == resolved


def test_without_a_folder_addresses_and_paths_stay_as_they_are() -> None:
    config = Config(url="sqlite:///x.db", file=Path("a"))
    assert (config.url, config.file) == ("sqlite:///x.db", Path("a"))
    assert resolved_url("./x", None) == "./x"


@pytest.mark.parametrize("context", [None, SimpleNamespace(), {}, {BASE_DIR: "text"}])
def test_other_contexts_are_none(context: object) -> None:
    assert Config.model_validate({"url": "./x"}, context=context).url == "./x"


def test_defaults_are_resolved_as_well() -> None:
    config = Config.model_validate({}, context={BASE_DIR: BASE})
    assert config.url == "sqlite:////the/recipes/default.db"


@pytest.mark.parametrize(
    ("written", "resolved"),
    [("a/b.pem", "/the/recipes/a/b.pem"), ("/a.pem", "/a.pem"), ("~/x", "/h/x")],
)
def test_relative_paths(written: str, resolved: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/h")
    config = Config.model_validate({"file": written}, context={BASE_DIR: BASE})
    assert config.file == Path(resolved)


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("file", "~nobody-here/x", "begins with ~, but that home folder does not exist"),
        ("url", "~nobody-here/x", "begins with ~, but that home folder does not exist"),
        ("url", "http://h\n/x", "contains a line break or another control character"),
        ("url", "", "at least 1 character"),
    ],
)
def test_what_is_no_path_or_address(field: str, value: str, sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        Config.model_validate({field: value}, context={BASE_DIR: BASE})
