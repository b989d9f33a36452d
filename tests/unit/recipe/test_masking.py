from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, SecretStr

from mlcat_ingest.recipe.draft import _Expander
from mlcat_ingest.recipe.fields import OptionalSecret, Public, PublicStr, RecipeModel, ServiceUrl
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.recipe.secrets import mask
from mlcat_ingest.recipe.validate import mask_secrets
from mlcat_ingest.recipe.values import RecipePath, RecipeUrl
from mlcat_ingest.sources.mlflow.config import MlflowConfig


class Kind(Enum):
    ALPHA = "alpha-kind"


class Inner(RecipeModel):
    names: list[PublicStr] = Field(default_factory=list)
    headers: dict[str, SecretStr] = Field(default_factory=dict)
    words: list[str] = Field(default_factory=list)


class Model(RecipeModel):
    name: PublicStr | None = None
    word: str = ""
    env: Literal["PRODUCTION", "DEVELOPMENT"] | None = None
    kind: Kind = Kind.ALPHA
    port: int | None = None
    mixed: int | str | None = None
    patterns: Annotated[list[str], Public()] = Field(default_factory=list)
    inner: Inner = Inner()
    several: dict[str, Inner] = Field(default_factory=dict)
    url: RecipeUrl = "http://h"
    server: ServiceUrl = "http://h"
    path: RecipePath = Path()
    token: OptionalSecret = None
    headers: dict[str, SecretStr] = Field(default_factory=dict)
    free: dict[str, Any] = Field(default_factory=dict)
    plain_password: str = ""
    deep: list[dict[str, list[SecretStr]]] = Field(default_factory=list)


def settle(data: dict[str, Any], **environ: str) -> None:
    expander = _Expander(environ, Path())
    filled = expander.value(data)
    assert expander.failures == []
    mask_secrets(Model.model_validate(filled), filled)


def test_values_of_public_fields_are_not_masked() -> None:
    settle(
        {
            "name": "${V1}",
            "env": "${V2}",
            "kind": "${V3}",
            "port": "${V4}",
            "patterns": ["${V5}"],
            "inner": {"names": ["${V6}"]},
            "several": {"k": {"names": ["${V7}"]}},
            "path": "/etc/${V8}",
        },
        V1="the-team",
        V2="PRODUCTION",
        V3="alpha-kind",
        V4="54321",
        V5="pattern-.*",
        V6="inner-name",
        V7="several-name",
        V8="some-file",
    )
    text = "the-team PRODUCTION alpha-kind 54321 pattern-.* inner-name several-name some-file"
    assert mask(text) == text


def test_values_of_other_fields_stay_masked() -> None:
    settle(
        {
            "word": "${V1}",
            "mixed": "${V2}",
            "inner": {"words": ["${V3}"]},
            "free": {"a": {"b": "${V4}"}},
            "token": "${V5}",
            "headers": {"X": "${V6}"},
        },
        **{f"V{i}": f"value-{i}" for i in range(1, 7)},
    )
    assert mask(" ".join(f"value-{i}" for i in range(1, 7))) == "*** " * 5 + "***"


def test_a_variable_whose_name_is_secret_is_masked_whatever_it_fills() -> None:
    settle({"name": "${MY_TOKEN}"}, MY_TOKEN="the-token")
    assert mask("the-token") == "***"


def test_secret_fields_are_masked_without_substitution_too() -> None:
    settle(
        {
            "token": "literal-token",
            "headers": {"X": "header-value"},
            "free": {"api_key": ["free-key"], "size": 1},
            "plain_password": "plain-password",
            "deep": [{"k": ["deep-value"]}],
        }
    )
    text = "literal-token header-value free-key plain-password deep-value"
    assert mask(text) == "*** *** *** *** ***"


def test_addresses_are_public_less_what_is_secret_in_them() -> None:
    settle(
        {"url": "${URL}", "server": "http://${HOST}:${PORT}/${PATH_PART}"},
        URL="http://user:p%40ss-word@mlflow.internal/x?token=query-token&size=1234",
        HOST="catalog.internal",
        PORT="45678",
        PATH_PART="hook-key",
    )
    assert mask("catalog.internal:45678/hook-key") == "catalog.internal:45678/hook-key"
    assert mask("mlflow.internal") == "mlflow.internal"
    assert mask("p%40ss-word p@ss-word query-token 1234") == "*** *** *** 1234"


def test_an_address_written_out_loses_its_password_too() -> None:
    settle({"url": "postgresql://u:in-the-open@h/db"})
    assert mask("in-the-open") == "***"


def test_of_an_address_made_of_variables_only_the_password_is_masked() -> None:
    settle(
        {"url": "postgresql://${U}:${P}@${H}/${DB}"},
        U="mlflow",
        P="pass-word",
        H="db.internal",
        DB="postgres",
    )
    urn = "urn:li:dataPlatform:mlflow"
    assert mask(f"{urn} pass-word db.internal postgres") == f"{urn} *** db.internal postgres"


@pytest.mark.parametrize("address", ["${URL}", "postgresql://${U}:${PASSWORD}@${H}/${DB}"])
def test_a_password_that_is_also_the_name_of_user_host_or_database_is_masked_in_its_place(
    address: str,
) -> None:
    settle(
        {"url": address, "headers": {"X-Team": "${DB}", "X-Proto": "https", "X-Key": "secretive"}},
        URL="postgresql://churn:churn@db.internal/churn",
        U="churn",
        PASSWORD="churn",
        H="db.internal",
        DB="churn",
    )
    line = "urn:li:mlModel:(urn:li:dataPlatform:mlflow,churn_1,PROD) https://db.internal/churn"
    assert mask(line) == line
    assert mask("postgresql://churn:churn@db.internal: secretive") == (
        "postgresql://***@db.internal: ***"
    )


def test_a_header_is_secret_by_its_name_or_if_it_is_more_than_a_word() -> None:
    headers = {"X-Tenant": "${TENANT}", "Authorization": "sesame", "X-Auth": "a1b2c3d4"}
    settle({"inner": {"headers": headers}, "headers": headers}, TENANT="analytics")
    line = "urn:li:mlModelGroup:(urn:li:dataPlatform:mlflow,analytics,PROD) sesame a1b2c3d4"
    assert mask(line) == line.replace("sesame a1b2c3d4", "*** ***")


def test_a_word_in_a_public_field_from_a_secret_variable_is_masked() -> None:
    settle({"name": "${MY_TOKEN}", "token": "${MY_TOKEN}"}, MY_TOKEN="dragon")
    assert mask("dragon") == "***"


def test_the_content_of_a_file_is_secret_by_its_name_or_its_place(tmp_path: Path) -> None:
    for name in ("db_user", "db_password", "db"):
        (tmp_path / name).write_text(f"{name}-content")
    settle(
        {
            "url": f"postgresql://${{file:{tmp_path}/db_user}}:${{file:{tmp_path}/db}}@h/db",
            "name": f"${{file:{tmp_path}/db_password}}",
        }
    )
    line = "db_user-content db_password-content db-content"
    assert mask(line) == "db_user-content *** ***"


def test_the_password_of_an_address_from_the_environment_alone_is_masked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "postgresql://u:in-the-open@h/db")
    mask_secrets(MlflowConfig(), {})
    assert mask("in-the-open") == "***"


def test_the_password_of_an_address_in_any_field_is_masked() -> None:
    settle({"free": {"a": ["postgresql://u:in-the-open@h/db"]}, "word": "http://h?token=in-query"})
    assert mask("in-the-open in-query") == "*** ***"


def test_the_configuration_of_a_plug_in_is_settled_by_its_own_type() -> None:
    source = "{type: x, config: {server: '${PLACE}', token: my-own-token}}"
    Recipe.parse(f"source: {source}", environ={"PLACE": "a-public-place"})
    assert mask("a-public-place my-own-token") == "a-public-place ***"


def test_what_cannot_be_split_is_public_as_one() -> None:
    settle({"url": "${URL}"}, URL="http://[broken")
    assert mask("http://[broken") == "http://[broken"


def test_keys_that_the_model_lacks_are_passed_over() -> None:
    mask_secrets(Model(), {"unknown": "x", "inner": "text"})
    assert mask("text") == "text"
