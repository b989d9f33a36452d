"""Which workspace a URI of Databricks leads to, with which credentials."""

from pathlib import Path
from typing import Any

import pytest
import requests

from mlcat_ingest.errors import RecipeError
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.databricks import DatabricksAccount, find_account
from mlcat_ingest.sources.mlflow.read.databricks_reader import DatabricksReader
from mlcat_ingest.sources.mlflow.read.reader import SplitReader, open_reader
from mlcat_ingest.sources.mlflow.read.rest import RestReader
from mlcat_ingest.sources.mlflow.read.signin import sign_in
from mlcat_ingest.sources.mlflow.source import MlflowSource

SECRET = "hunter2"
HOST = "https://acme.cloud.databricks.com"
BY_TOKEN = {"DATABRICKS_HOST": HOST, "DATABRICKS_TOKEN": SECRET}
PROFILES = f"""
[DEFAULT]
host = {HOST}
token = default-{SECRET}

[robot]
host = robot.cloud.databricks.com/?o=1
client_id = robot
client_secret = %{SECRET}
workspace_id = 4711

[browser]
host = {HOST}
auth_type = databricks-cli
"""


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("HOST", "TOKEN", "CLIENT_ID", "CLIENT_SECRET", "CONFIG_PROFILE", "CONFIG_FILE"):
        monkeypatch.delenv(f"DATABRICKS_{name}", raising=False)
    return tmp_path


@pytest.fixture
def profiles(home: Path) -> Path:
    file = home / ".databrickscfg"
    file.write_text(PROFILES, encoding="utf-8")
    return file


def account(uri: str, **env: str) -> DatabricksAccount:
    found = find_account(uri, env)
    assert found is not None
    assert SECRET not in repr(found)
    return found


def test_other_addresses_are_none_of_databricks() -> None:
    for uri in ("http://h", HOST, "sqlite:///x", "databricks:/x", "uc:http://h"):
        assert find_account(uri, BY_TOKEN) is None


def test_the_environment_counts_before_the_default_profile(profiles: Path) -> None:
    found = account("databricks", **BY_TOKEN)
    assert (found.url, found.token) == (HOST, SECRET)
    assert account("databricks").token == f"default-{SECRET}"
    assert account("databricks").origin == f"the profile DEFAULT of {profiles}"


@pytest.mark.usefixtures("profiles")
@pytest.mark.parametrize("uri", ["databricks://robot", "databricks-uc://robot"])
def test_a_profile_in_the_uri_counts_alone(uri: str) -> None:
    found = account(uri, **BY_TOKEN)
    assert (found.client_id, found.client_secret) == ("robot", f"%{SECRET}")
    assert (found.token, found.workspace_id) == (None, "4711")
    assert found.url == "https://robot.cloud.databricks.com"
    assert found.address == "https://robot.cloud.databricks.com?o=4711"


@pytest.mark.usefixtures("profiles")
def test_variables_count_before_the_profile_that_a_variable_names() -> None:
    named = {"DATABRICKS_CONFIG_PROFILE": "robot"}
    assert account("databricks", **named).client_id == "robot"
    found = account("databricks", **named, DATABRICKS_HOST="other.example")
    assert (found.url, found.client_id) == ("https://other.example", "robot")


def test_the_file_may_be_elsewhere_and_name_its_default(home: Path) -> None:
    file = home / "my.cfg"
    file.write_text(PROFILES + "[__settings__]\ndefault_profile = robot\n", encoding="utf-8")
    assert account("databricks", DATABRICKS_CONFIG_FILE=str(file)).client_id == "robot"


@pytest.mark.parametrize(
    ("uri", "env", "sentence"),
    [
        ("databricks", {}, "no credentials for Databricks"),
        ("databricks", {"DATABRICKS_TOKEN": SECRET}, "no Databricks host"),
        ("databricks", {"DATABRICKS_HOST": HOST}, "neither a token"),
        ("databricks", {"DATABRICKS_HOST": HOST, "DATABRICKS_CLIENT_ID": "x"}, "neither a token"),
        ("databricks", {**BY_TOKEN, "DATABRICKS_HOST": "ftp://x"}, "is not a valid address"),
        ("databricks", {**BY_TOKEN, "DATABRICKS_HOST": "https://[x"}, "is not a valid address"),
        ("databricks://none", BY_TOKEN, "has no profile none"),
        ("databricks://__settings__", BY_TOKEN, "has no profile __settings__"),
        ("databricks://browser", BY_TOKEN, "neither a token"),
        ("databricks://scope:prefix", BY_TOKEN, "secret scope"),
    ],
)
def test_what_is_missing_is_one_sentence_with_the_cure(
    uri: str, env: dict[str, str], sentence: str, home: Path
) -> None:
    if env:
        (home / ".databrickscfg").write_text(PROFILES, encoding="utf-8")
    with pytest.raises(RecipeError, match=sentence) as refused:
        find_account(uri, env)
    assert refused.value.hint
    assert SECRET not in f"{refused.value} {refused.value.hint}"


def test_a_file_that_cannot_be_read_is_not_shown(home: Path) -> None:
    (home / ".databrickscfg").write_text(f"[a\ntoken = {SECRET}", encoding="utf-8")
    with pytest.raises(RecipeError, match=r"cannot read .*\.databrickscfg") as refused:
        find_account("databricks", {})
    assert SECRET not in str(refused.value)
    assert refused.value.__cause__ is None


def test_a_source_without_credentials_is_refused_before_anything_is_contacted() -> None:
    for given in ({"tracking_uri": "databricks"}, {"registry_uri": "databricks-uc"}):
        config = {"tracking_uri": "http://h", **given}
        with pytest.raises(RecipeError, match="no credentials for Databricks"):
            MlflowSource(MlflowConfig.model_validate(config))


def signed(env: dict[str, str], **config: Any) -> tuple[str | None, str]:
    found = sign_in(MlflowConfig(tracking_uri="databricks", **config), env)
    request = requests.Request("GET", found.url, auth=found.options.auth).prepare()
    assert SECRET not in f"{found!r} {found.how}"
    return request.headers.get("Authorization"), found.how


def test_requests_are_signed_with_the_token() -> None:
    origin = "the token in the environment (DATABRICKS_*)"
    assert signed(BY_TOKEN) == (f"Bearer {SECRET}", origin)
    assert signed({"DATABRICKS_HOST": HOST}, token="mine") == ("Bearer mine", "the recipe's token")


@pytest.mark.parametrize("given", [{"auth": "kerberos"}, {"username": "u", "password": SECRET}])
def test_other_ways_to_sign_in_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(RecipeError, match="cannot be used with Databricks"):
        signed(BY_TOKEN, **given)


@pytest.mark.parametrize(
    ("tracking_uri", "registry_uri", "expected"),
    [
        ("databricks", None, DatabricksReader),
        ("databricks", "databricks", DatabricksReader),
        (HOST, None, DatabricksReader),
        ("http://h", "databricks-uc", SplitReader),
        ("databricks", "http://h", SplitReader),
        ("http://h", "http://other", RestReader),
    ],
)
def test_the_addresses_choose_the_reader(
    tracking_uri: str, registry_uri: str | None, expected: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in BY_TOKEN.items():
        monkeypatch.setenv(name, value)
    config = MlflowConfig(tracking_uri=tracking_uri, registry_uri=registry_uri)
    reader = open_reader(config)
    assert type(reader) is expected
    reader.close()


def test_a_workspace_is_identified_by_its_address(
    profiles: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def server_id(uri: str) -> str:
        reader = open_reader(MlflowConfig(tracking_uri=uri))
        found = reader.server_id()
        reader.close()
        return found

    by_default = server_id("databricks")
    assert by_default == server_id(HOST)
    assert server_id("databricks://robot") != by_default
    profiles.write_text(PROFILES.replace("4711", "4712"), encoding="utf-8")
    other = server_id("databricks://robot")
    monkeypatch.setenv("DATABRICKS_CONFIG_PROFILE", "robot")
    assert server_id("databricks") == other
    profiles.write_text(PROFILES, encoding="utf-8")
    assert server_id("databricks") != other
