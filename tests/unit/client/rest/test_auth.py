import logging
from pathlib import Path

import pytest
import requests

from mlcat_ingest.client.rest.credentials import Credentials, resolve
from mlcat_ingest.errors import RecipeError
from mlcat_ingest.net.session import BearerAuth


def datahubenv(home: Path, text: str) -> Path:
    (home / ".datahubenv").write_text(text, "utf-8")
    return home


def test_what_is_given_explicitly_wins(tmp_path: Path) -> None:
    env = {"MLCAT_SERVER": "http://other:1", "MLCAT_TOKEN": "other"}
    found = resolve("http://here:8080/", "mine", environ=env, home=tmp_path)
    assert (found.server, found.token) == ("http://here:8080", "mine")
    assert found.server_from == found.token_from == "the configuration"


def test_our_variables_come_before_datahubs(tmp_path: Path) -> None:
    env = {
        "MLCAT_SERVER": "http://ours:1/gms/",
        "MLCAT_TOKEN": " ours ",
        "DATAHUB_GMS_URL": "http://theirs:2",
        "DATAHUB_GMS_TOKEN": "theirs",
    }
    found = resolve(environ=env, home=tmp_path)
    assert (found.server, found.token) == ("http://ours:1/gms", "ours")
    assert found.token_origin() == "the token came from the environment (MLCAT_TOKEN)"


def test_datahubs_variables_are_a_fall_back(tmp_path: Path) -> None:
    env = {"DATAHUB_GMS_URL": "http://theirs:2/api/gms", "DATAHUB_GMS_TOKEN": "theirs"}
    found = resolve(environ=env, home=tmp_path)
    assert (found.server, found.token) == ("http://theirs:2/api/gms", "theirs")
    assert found.server_from == "the environment (DATAHUB_GMS_URL)"


@pytest.mark.parametrize(
    ("parts", "address"),
    [
        (("gms", "8080", "https"), "https://gms:8080"),
        (("gms", "8080", None), "http://gms:8080"),
        (("https://gms/api/gms", None, None), "https://gms/api/gms"),
        (("https://gms/api/gms", "tcp://10.0.0.1:8080", "http"), "https://gms/api/gms"),
    ],
)
def test_the_token_of_an_address_in_parts_goes_to_no_other_server(
    tmp_path: Path, parts: tuple[str | None, ...], address: str
) -> None:
    names = ("HOST", "PORT", "PROTOCOL")
    env = {f"DATAHUB_GMS_{name}": part for name, part in zip(names, parts, strict=True) if part}
    env["DATAHUB_GMS_TOKEN"] = "theirs"
    found = resolve(environ=env, home=tmp_path)
    assert (found.server, found.token) == (address, "theirs")
    assert found.server_from == "the environment (DATAHUB_GMS_HOST)"
    assert resolve("https://other", environ=env, home=tmp_path).token is None
    less_safe = address.replace("https", "http")
    assert resolve(less_safe, environ=env, home=tmp_path).token == (
        "theirs" if less_safe == address else None
    )


@pytest.mark.parametrize(
    "text",
    [
        "gms:\n  server: http://file:8080\n  token: abc\n",
        "gms.server: http://file:8080\ngms.token: abc\n",
    ],
)
def test_datahubenv_is_the_last_fall_back(tmp_path: Path, text: str) -> None:
    found = resolve(environ={}, home=datahubenv(tmp_path, text))
    assert (found.server, found.token) == ("http://file:8080", "abc")
    assert found.server_from == found.token_from == "~/.datahubenv"


def test_datahubenv_can_be_switched_off(tmp_path: Path) -> None:
    home = datahubenv(tmp_path, "gms: {server: 'http://file:8080', token: abc}")
    with pytest.raises(RecipeError, match="no address of a catalog service"):
        resolve(environ={"DATAHUB_SKIP_CONFIG": "true"}, home=home)


def test_a_token_goes_only_to_the_server_it_is_kept_beside(tmp_path: Path) -> None:
    home = datahubenv(tmp_path, "gms: {server: 'http://file:8080', token: abc}")
    assert resolve("http://elsewhere:1", environ={}, home=home).token is None
    assert resolve("http://file:8080/", environ={}, home=home).token == "abc"


def test_a_token_without_a_server_beside_it_goes_to_any(tmp_path: Path) -> None:
    found = resolve("http://here:1", environ={"DATAHUB_GMS_TOKEN": "loose"}, home=tmp_path)
    assert found.token == "loose"


def test_an_empty_token_is_none_and_stops_the_search(tmp_path: Path) -> None:
    found = resolve("http://here:1", "  ", environ={"MLCAT_TOKEN": "loose"}, home=tmp_path)
    assert found.token is None
    assert found.auth() is None
    assert found.token_origin() == "no token was given"


@pytest.mark.parametrize(
    "text",
    [
        "gms: [",
        pytest.param("[" * 9_999, id="deep"),
        "gms: 2026-99-99",
        "- just\n- a list\n",
        "gms: 5\n",
        "gms: {token: 7}",
    ],
)
def test_a_datahubenv_that_says_nothing_usable_is_left_out(tmp_path: Path, text: str) -> None:
    home = datahubenv(tmp_path, text)
    assert resolve("http://here:1", environ={}, home=home).token is None


def test_a_datahubenv_that_cannot_be_read_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / ".datahubenv").mkdir()
    with caplog.at_level(logging.WARNING):
        assert resolve("http://here:1", environ={}, home=tmp_path).server == "http://here:1"
    assert "~/.datahubenv cannot be read: IsADirectoryError" in caplog.text


@pytest.mark.parametrize(
    ("server", "message"),
    [
        ("my-host:8080", "is not an http"),
        ("ftp://host", "is not an http"),
        ("http://?", "is not an http"),
        ("http://host:99999", "is not an http"),
        ("http://[::1", "is not an http"),
        ("http://user:pw@host", "user name or a password"),
        ("http://host?x=1", "query or a fragment"),
        ("http://host#x", "query or a fragment"),
    ],
)
def test_addresses_that_cannot_work_are_refused_unechoed(
    tmp_path: Path, server: str, message: str
) -> None:
    with pytest.raises(RecipeError, match=message) as caught:
        resolve(environ={"MLCAT_SERVER": server}, home=tmp_path)
    assert "the environment (MLCAT_SERVER)" in str(caught.value)
    assert server not in str(caught.value)


@pytest.mark.parametrize("token", ["two\nlines", "tökën", "a\x00b"])
def test_a_token_that_no_header_carries_is_refused_unechoed(tmp_path: Path, token: str) -> None:
    with pytest.raises(RecipeError, match="HTTP headers") as caught:
        resolve("http://here:1", token, environ={}, home=tmp_path)
    assert token not in str(caught.value)


def test_the_process_environment_and_home_are_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MLCAT_TOKEN", "DATAHUB_GMS_URL", "DATAHUB_GMS_TOKEN", "DATAHUB_SKIP_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MLCAT_SERVER", "http://from-env:1")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolve() == Credentials(
        "http://from-env:1", server_from="the environment (MLCAT_SERVER)"
    )


def test_no_repr_shows_the_token() -> None:
    credentials = Credentials("http://here:1", "s3cret-token")
    auth = credentials.auth()
    assert auth is not None
    assert "s3cret" not in f"{credentials!r} {auth!r} {vars(BearerAuth)}"
    sent = auth(requests.Request("GET", "http://here:1").prepare())
    assert sent.headers["Authorization"] == "Bearer s3cret-token"
