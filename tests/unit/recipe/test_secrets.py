import copy
import json
import pickle
from pathlib import PurePosixPath
from urllib.parse import quote

import pytest
from pydantic import SecretStr

from mlcat_ingest.recipe.secrets import (
    SECRETS,
    SubstitutedText,
    _SecretRegistry,
    comparable,
    is_secret_name,
    mask,
    mask_tree,
)


@pytest.mark.parametrize(
    "name",
    [
        "token",
        "api_token",
        "accessToken",
        "MLFLOW_TRACKING_PASSWORD",
        "passwd",
        "pwd",
        "client_secret",
        "api_key",
        "apiKey",
        "X-Api-Key",
        "aws_secret_access_key",
        "AWS_ACCESS_KEY_ID",
        "private_key",
        "Authorization",
        "Cookie",
        "credentials",
        "passphrase",
    ],
)
def test_secret_names(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name", ["name", "tokenizer", "max_tokenized", "key", "keys", "monkey", "server"]
)
def test_other_names(name: str) -> None:
    assert not is_secret_name(name)


def test_masks_in_every_spelling_and_the_longest_first() -> None:
    registry = _SecretRegistry()
    secret = 'pä"ss/wörd'
    registry.add("pass", "password-long", secret)
    for spelled in (
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        quote(secret, safe=""),
    ):
        assert registry.mask(f"<{spelled}>") == "<***>"
    assert registry.mask("password-long pass") == "*** ***"


def test_an_address_is_masked_with_and_without_its_last_slash() -> None:
    registry = _SecretRegistry()
    registry.add("https://hooks.example.com/T0/key/")
    assert registry.mask("POST https://hooks.example.com/T0/key: 404") == "POST ***: 404"


def test_values_too_short_to_tell_apart_are_not_searched_for() -> None:
    registry = _SecretRegistry()
    registry.add("abc", "")
    assert registry.mask("abc abcd") == "abc abcd"


def test_values_are_masked_from_their_addition_until_all_are_cleared() -> None:
    registry = _SecretRegistry()
    assert registry.mask("first second") == "first second"
    registry.add("first")
    assert registry.mask("first second") == "*** second"
    registry.add("second")
    assert registry.mask("first second") == "*** ***"
    registry.clear()
    assert registry.mask("first second") == "first second"


def test_words_are_public_from_their_addition_until_all_is_cleared() -> None:
    registry = _SecretRegistry()
    registry.add("churn", "mlflow")
    assert registry.mask("churn mlflow") == "*** mlflow"
    registry.add(public=["churn"])
    assert registry.mask("churn mlflow") == "churn mlflow"
    registry.clear()
    registry.add("churn", "mlflow")
    assert registry.mask("churn mlflow") == "*** mlflow"


@pytest.mark.parametrize(
    ("template", "names_secret"),
    [("${MY_TOKEN}", True), ("a${TEAM}b${file:db_password}", True), ("token ${TEAM}", False)],
)
def test_a_text_tells_whether_a_secret_variable_is_part_of_it(
    template: str, *, names_secret: bool
) -> None:
    assert SubstitutedText("x", template).names_secret is names_secret


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("GET http://user:pw@host:1/p failed", "GET http://***@host:1/p failed"),
        ("postgresql+psycopg://u:p@ss@h/db", "postgresql+psycopg://***@h/db"),
        ("https://h/?mail=a@b", "https://h/?mail=a@b"),
        ("mail a@b", "mail a@b"),
    ],
)
def test_credentials_in_addresses_are_masked(text: str, masked: str) -> None:
    assert mask(text) == masked


def test_substituted_is_its_value_and_shows_its_template() -> None:
    text = SubstitutedText("hunter2", "${PW}", ("hunter2",))
    assert text == "hunter2"
    assert repr({"a": [text]}) == "{'a': ['${PW}']}"
    for other in (pickle.loads(pickle.dumps(text)), copy.deepcopy(text)):  # noqa: S301 - our own
        assert (other, other.template, other.pieces) == (text, text.template, text.pieces)


def test_a_file_of_a_text_is_read_anew_and_masked_from_then_on() -> None:
    text = SubstitutedText("hunter2", "${file:/run/pw}", ("hunter2",), lambda: "rotated-word")
    now = text.now()
    assert (now, mask("open rotated-word")) == ("rotated-word", "open ***")


def test_a_text_stays_as_it_is_without_a_file_and_where_its_file_cannot_be_read() -> None:
    variable = SubstitutedText("hunter2", "${PW}", ("hunter2",), lambda: "another-word")
    unreadable = SubstitutedText("hunter2", "${file:/run/pw}", ("hunter2",), lambda: None)
    assert [variable.now(), unreadable.now()] == ["hunter2", "hunter2"]
    assert mask("another-word") == "another-word"


def test_mask_tree() -> None:
    SECRETS.add("sesame")
    tree = {
        "plain": ["open sesame", 1, None, True, ("x",)],
        "token": "abc",
        "password": "",
        "api_key": 12345,
        "secret": {"deep": ["v", SubstitutedText("v", "a${V}")]},
        "none_token": None,
        "wrapped": [SecretStr("v"), SecretStr("")],
        "headers": {"X": SubstitutedText("v", "${V:-d}"), "Y": "v"},
        "escaped": [SubstitutedText("sesame ${", "sesame $${"), SubstitutedText("${", "$${")],
        "mail_token": SubstitutedText("v", "${V:-hunter2}"),
        "other_token": SubstitutedText("v", "${V:?say it}"),
        "url": "http://u:p@h",
        "path": PurePosixPath("/open/sesame"),
    }
    assert mask_tree(tree) == {
        "plain": ["open ***", 1, None, True, ("x",)],
        "token": "***",
        "password": "",
        "api_key": "***",
        "secret": {"deep": ["***", "***"]},
        "none_token": None,
        "wrapped": ["***", ""],
        "headers": {"X": "${V:-}", "Y": "***"},
        "escaped": ["***", "$${"],
        "mail_token": "${V:-}",
        "other_token": "${V:-}",
        "url": "http://***@h",
        "path": PurePosixPath("/open/***"),
    }


def test_several_threads_may_add_at_once() -> None:
    from concurrent.futures import ThreadPoolExecutor

    registry = _SecretRegistry()
    values = [f"secret-{i:04}" for i in range(200)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(registry.add, values))
    assert set(registry.mask(" ".join(values)).split()) == {"***"}


def test_what_tells_a_change_hides_secrets_only() -> None:
    message = {
        "token": SecretStr("sesame-1"),
        "none": SecretStr(""),
        "of_people": {"token": ("a", 1)},
    }
    assert comparable(message) == {"token": "***", "none": "", "of_people": {"token": ["a", 1]}}
    assert comparable(PurePosixPath("/data")) == "/data"
    SECRETS.add("sesame-2")
    assert comparable("http://h/?t=sesame-2") == "http://h/?t=***"
