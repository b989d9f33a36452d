"""Which workspace a URI of Databricks leads to, with which credentials."""

from typing import Any

import pytest
import requests

from mlcat_ingest.errors import RecipeError
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.client import ClientReader
from mlcat_ingest.sources.mlflow.read.databricks import DatabricksReader
from mlcat_ingest.sources.mlflow.read.rest import RestReader
from mlcat_ingest.sources.mlflow.read.signin import DatabricksAccount, find_account, sign_in
from mlcat_ingest.sources.mlflow.source import MlflowSource, open_reader

SECRET = "hunter2"
HOST = "https://acme.cloud.databricks.com"
BY_TOKEN = {"DATABRICKS_HOST": HOST, "DATABRICKS_TOKEN": SECRET}
BY_CLIENT = {
    "DATABRICKS_HOST": "robot.cloud.databricks.com/?o=1",
    "DATABRICKS_CLIENT_ID": "robot",
    "DATABRICKS_CLIENT_SECRET": SECRET,
}


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOST", "TOKEN", "CLIENT_ID", "CLIENT_SECRET", "WORKSPACE_ID"):
        monkeypatch.delenv(f"DATABRICKS_{name}", raising=False)


def account(uri: str, **env: str) -> DatabricksAccount:
    found = find_account(uri, env)
    assert found is not None
    assert SECRET not in repr(found)
    return found


def test_other_addresses_are_none_of_databricks() -> None:
    for uri in ("http://h", HOST, "sqlite:///x", "databricks:/x", "uc:http://h"):
        assert find_account(uri, BY_TOKEN) is None


def test_the_variables_name_the_workspace_and_the_credentials() -> None:
    by_token = account("databricks", **BY_TOKEN)
    assert (by_token.url, by_token.token, by_token.address) == (HOST, SECRET, HOST)
    by_client = account("databricks-uc", **BY_CLIENT, DATABRICKS_WORKSPACE_ID="4711")
    assert (by_client.client_id, by_client.client_secret) == ("robot", SECRET)
    assert by_client.token is None
    assert by_client.address == "https://robot.cloud.databricks.com?o=4711"


@pytest.mark.parametrize(
    ("uri", "env", "sentence"),
    [
        ("databricks", {}, "no credentials for Databricks: DATABRICKS_HOST is not set"),
        ("databricks", {"DATABRICKS_TOKEN": SECRET}, "DATABRICKS_HOST is not set"),
        ("databricks", {"DATABRICKS_HOST": HOST}, "neither a token"),
        ("databricks", {"DATABRICKS_HOST": HOST, "DATABRICKS_CLIENT_ID": "x"}, "neither a token"),
        ("databricks", {**BY_TOKEN, "DATABRICKS_HOST": "ftp://x"}, "is not a valid address"),
        ("databricks", {**BY_TOKEN, "DATABRICKS_HOST": "https://[x"}, "is not a valid address"),
        ("databricks://robot", BY_TOKEN, "profiles and secret scopes .* are not read"),
        ("databricks-uc://scope:prefix", BY_TOKEN, "profiles and secret scopes .* are not read"),
    ],
)
def test_what_is_missing_is_one_sentence_with_the_cure(
    uri: str, env: dict[str, str], sentence: str
) -> None:
    with pytest.raises(RecipeError, match=sentence) as refused:
        find_account(uri, env)
    assert refused.value.hint
    assert SECRET not in f"{refused.value} {refused.value.hint}"


def test_a_source_without_credentials_is_refused_before_anything_is_contacted() -> None:
    for given in ({"tracking_uri": "databricks"}, {"registry_uri": "databricks-uc"}):
        config = {"tracking_uri": "http://h", **given}
        with pytest.raises(RecipeError, match="no credentials for Databricks"):
            MlflowSource(MlflowConfig.model_validate(config))


def test_a_profile_is_left_to_mlflows_own_client() -> None:
    MlflowSource(MlflowConfig(tracking_uri="databricks://robot", reader="client"))


def signed(env: dict[str, str], **config: Any) -> tuple[str | None, str]:
    found = sign_in(MlflowConfig(tracking_uri="databricks", **config), env)
    request = requests.Request("GET", found.url, auth=found.options.auth).prepare()
    assert SECRET not in f"{found!r} {found.how}"
    return request.headers.get("Authorization"), found.how


def test_requests_are_signed_with_the_token() -> None:
    assert signed(BY_TOKEN) == (f"Bearer {SECRET}", "DATABRICKS_TOKEN")
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
        ("http://h", "databricks-uc", ClientReader),
        ("databricks", "http://h", ClientReader),
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
    reader.connection.close()


def test_a_workspace_is_identified_by_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    def server_id(uri: str, **env: str) -> str:
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        reader = open_reader(MlflowConfig(tracking_uri=uri))
        found = reader.server_id()
        reader.connection.close()
        return found

    alone = server_id("databricks", **BY_TOKEN)
    assert alone == server_id(HOST)
    first = server_id("databricks", DATABRICKS_WORKSPACE_ID="4711")
    second = server_id("databricks", DATABRICKS_WORKSPACE_ID="4712")
    assert len({alone, first, second}) == 3
