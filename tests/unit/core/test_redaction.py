"""No address that goes out holds a credential, wherever it goes out."""

from collections.abc import Callable

import pytest
import requests
from sqlalchemy.exc import OperationalError

from mlcat_ingest.core.redaction import (
    _may_have_credentials,
    redact_secrets,
    redact_tree,
    redact_url,
    redact_urls,
    user_info,
)
from mlcat_ingest.errors import SourceUnavailableError
from mlcat_ingest.metadata.codec import dumps, text_of
from mlcat_ingest.net.http import Http
from mlcat_ingest.net.session import HttpOptions
from mlcat_ingest.recipe.secrets import mask
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.mapping.model import _commit_url
from mlcat_ingest.sources.mlflow.values.uris import normalise_uri
from mlcat_ingest.sql.readonly import DatabaseOwner, failure

PASSWORD = "head@tail"
TEXT = f"cannot reach http://bob:{PASSWORD}@db.example.com:5000/x, nor //me:{PASSWORD}@other"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://u:p@h:1/x?token=1#y", "https://h:1/x"),
        ("http://host/x#token=1", "http://host/x"),
        ("http://bob:p@ss@host/", "http://host/"),
        ("http://bob:p/s@host/p", "http://host/p"),
        ("http://bob:p?s#s@host:80/p", "http://host:80/p"),
        ("http://me@corp:p/s@[::1]:80/p", "http://[::1]:80/p"),
        ("http://token@host/p", "http://host/p"),
        ("http://host:8080/models@v1", "http://host:8080/models@v1"),
        ("http://[::1]:80/models@v1", "http://[::1]:80/models@v1"),
        ("http://host/?mail=a@b", "http://host/"),
        ("http://[broken", "an unreadable address"),
        ("http://[::1/x", "an unreadable address"),
        ("postgresql://u:p@h/db", "postgresql://h/db"),
        ("postgresql://me:p/w@d?x@h/db?sslmode=require", "postgresql://h/db"),
        ("mysql+pymysql://me:12/34@h:3306/db", "mysql+pymysql://h:3306/db"),
        ("sqlite:////x/m.db", "sqlite:////x/m.db"),
        ("sqlite:///m.db?mode=ro", "sqlite:///m.db"),
        ("s3://bucket/key@2", "s3://bucket/key@2"),
        ("./mlruns", "./mlruns"),
        ("databricks://profile", "databricks://profile"),
    ],
)
def test_an_address_is_shown_without_credentials(url: str, shown: str) -> None:
    assert redact_url(url) == shown


def test_a_text_keeps_what_stands_beside_credentials() -> None:
    assert redact_urls(TEXT) == "cannot reach http://db.example.com:5000/x, nor //other"
    kept = '{"a": "http://h/x@y", "b": "http://h:80/a@b", "c": "ann@example.com"}'
    assert redact_urls(kept) == kept
    compact = '{"a":"http://u:p@h/x","b":"ann@example.com"}'
    assert redact_urls(compact) == '{"a":"http://h/x","b":"ann@example.com"}'


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://AKIA:SE/KRET@bucket/x", "s3://bucket/x"),
        ("ftp://u:pass@host/x", "ftp://host/x"),
        ('sftp://u:p"w@host/x', "sftp://host/x"),
        ("https://ghp_token@github.com/o/r.git", "https://github.com/o/r.git"),
        ("git+https://u:p@h/r#sub", "git+https://h/r#sub"),
        ("hdfs://nn:8020/user/ann@corp/x", "hdfs://nn:8020/user/ann@corp/x"),
        ("abfss://box@acme.dfs.core.windows.net/x", "abfss://box@acme.dfs.core.windows.net/x"),
        ("wasbs://box:key@acme.example/x", "wasbs://box@acme.example/x"),
        ("jdbc:postgresql://u:p@h/db?user=u&password=p", "jdbc:postgresql://h/db"),
        (
            "JDBC:mysql://h/db?a=1&User_Name=u&x=2, //h?user=1",
            "JDBC:mysql://h/db?a=1&x=2, //h?user=1",
        ),
        ("jdbc:sqlserver://h;userId=u;database=d;uid=v", "jdbc:sqlserver://h;database=d"),
        ("jdbc:x://h/?users=1&superuser=2&user=3", "jdbc:x://h/?users=1&superuser=2"),
        ('"jdbc:x://h","//h?user=1"', '"jdbc:x://h","//h?user=1"'),
        ("https://h/cb?code=a&state=b", "https://h/cb?state=b"),
        ("https://h/?otp=1&ticket=2&assertion=3&SAMLResponse=4&encode=5", "https://h/?encode=5"),
        (
            "https://h/in?next=https%3A%2F%2Fu%3Ap%40i%2Fx%3Ftoken%3D1%26a%3D2&b=1",
            "https://h/in?next=https%3A%2F%2Fi%2Fx%3Fa%3D2&b=1",
        ),
        (
            "https://h/in?a=b=https%253a%252f%252fu%253Ap%2540i%252Fx end",
            "https://h/in?a=b=https%253A%252F%252Fi%252Fx end",
        ),
        (
            "https://h/in?next=https%3A%2f%2Fi%2fx%20y&b=%2F%2Fz",
            "https://h/in?next=https%3A%2f%2Fi%2fx%20y&b=%2F%2Fz",
        ),
        ("https://h/a%2F%2Fu%3Ap%40i", "https://h/a%2F%2Fu%3Ap%40i"),
        ("jdbc:oracle:thin:scott/ti@ger@//h:1/x", "jdbc:oracle:thin:@//h:1/x"),
        ("jdbc:oracle:thin:@//h:1/x", "jdbc:oracle:thin:@//h:1/x"),
        ("jdbc:sqlserver://h:1;database=d;password=p;x=1", "jdbc:sqlserver://h:1;database=d;x=1"),
        (
            "https://a.blob.core.windows.net/c?sv=1&sig=a%2Bb%3D",
            "https://a.blob.core.windows.net/c?sv=1",
        ),
        ("https://h/x?sig=1&v=2", "https://h/x?v=2"),
        ("https://h/x?sig=1&token=2#part", "https://h/x#part"),
        ("https://h/x?a=1&api_key=2&access%5Ftoken=4&key=3&b=2", "https://h/x?a=1&b=2"),
        ("https://h/x#access_token=1", "https://h/x"),
        ("s3://b/k?X-Amz-Credential=A/b&X-Amz-Date=1&X-Amz-Signature=2", "s3://b/k?X-Amz-Date=1"),
        ("gs://b/k?GoogleAccessId=1&Expires=2&Signature=3", "gs://b/k?Expires=2"),
        ("//h/x?AWSAccessKeyId=1&sslpassword=2&clientSecret=3", "//h/x"),
        (
            r'{"u": "http://h/?a=1\u0026sig=2\u0026b=3", "x": 1}',
            r'{"u": "http://h/?a=1\u0026b=3", "x": 1}',
        ),
        (r"{\"u\": \"http://h/?sig=2\"}", r"{\"u\": \"http://h/\"}"),
        ('{"a":"http://h","b":"ann@example.com"}', '{"a":"http://h","b":"ann@example.com"}'),
        (
            "https://h/x?tokenizer=b&max_tokens=5&author=c",
            "https://h/x?tokenizer=b&max_tokens=5&author=c",
        ),
        ("see https://h:80/x?a=b, or mail ann@h", "see https://h:80/x?a=b, or mail ann@h"),
        ("a http://u:p@h b //me:q@i/x", "a http://h b //i/x"),
        ('"https://u:p@h","https://v:q@i"', '"https://h","https://i"'),
        ("git@github.com:o/r.git", "git@github.com:o/r.git"),
        ("token=1", "token=1"),
        ("a@b=1;token=2", "a@b=1;token=2"),
    ],
)
def test_a_text_loses_the_credentials_of_its_addresses(text: str, shown: str) -> None:
    assert redact_urls(text) == shown
    assert redact_urls(shown) == shown


def test_an_address_inside_a_parameter_is_masked_as_one_outside() -> None:
    shown = redact_urls("https://h/?next=ftp%3A%2F%2Fu%3Ap%40i%2Fx", "***@")
    assert shown == "https://h/?next=ftp%3A%2F%2F***%40i%2Fx"


@pytest.mark.parametrize("json_of", [lambda _: None, text_of])
def test_a_tree_is_copied_only_where_an_address_has_credentials(
    json_of: Callable[[object], bytes | None],
) -> None:
    tree: dict[str, object] = {
        "a": ["https://h/x", {"b": 1}],
        "c": ("x/y", None),
        "d": "urn:li:tag://u:p@h",
    }
    assert redact_tree(tree, json_of) is tree
    leaky = {"a": [{"b": "s3://k:s@b"}, 1], "c": ("s3://k:s@b",), "d": tree}
    shown = redact_tree(leaky, json_of)
    assert shown == {"a": [{"b": "s3://b"}, 1], "c": ["s3://b"], "d": tree}
    assert shown["d"] is tree


def test_json_tells_whether_a_text_may_have_credentials() -> None:
    assert not _may_have_credentials(b'{"a":"https://h:1/#/x/y","b":[1,null]}')
    parameters = ("/?token=1", "/#token=1", "/&token=1", "/;token=1", r"/\u0026token=1")
    for text in ("//u:p@h", *parameters, r"/?token\u003d1", r"/?token\u003D1"):
        assert _may_have_credentials(dumps([text]))
        assert redact_tree([text], text_of) == [redact_urls(text)] != [text]


@pytest.mark.parametrize(
    "data",
    [
        b'["https://h/u0026a=1"]',
        b'["https://h/\\n=1"]',
        b'["https://h/a=1"]',
        b'["https://h/?a\\n"]',
        b'["https://h/?u003d"]',
    ],
)
def test_json_without_a_parameter_and_its_value_has_no_credentials(data: bytes) -> None:
    assert not _may_have_credentials(data)


def test_user_name_and_password_of_an_address() -> None:
    assert user_info("http://bob:p@s:s@h/x") == ("bob", "p@s:s")
    assert user_info("http://token@h") == ("token", None)
    assert user_info("http://h:80/x@y") == ("", None)


def test_every_place_that_shows_an_address_hides_all_of_the_password() -> None:
    url = f"http://bob:{PASSWORD}@db.example.com:5000/x"
    driver = OperationalError("SELECT 1", None, ValueError(TEXT))
    shown = [
        mask(TEXT),
        str(failure(DatabaseOwner("MLflow", "database"), "x", driver)),
        normalise_uri(url),
        MlflowConfig(tracking_uri=f"postgresql://bob:{PASSWORD}@h/db").public_uri,
        _commit_url(f"{url}/repo.git", "abcdef12"),
    ]
    for text in shown:
        assert text
        assert "head" not in text
        assert "tail" not in text
    assert user_info(f"postgresql://bob:{PASSWORD}@h/db") == ("bob", PASSWORD)


def test_an_error_of_the_network_hides_all_of_the_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise requests.ConnectionError(TEXT)

    http = Http(
        f"http://bob:{PASSWORD}@127.0.0.1:1",
        peer="MLflow",
        options=HttpOptions(retries=0),
        unavailable=SourceUnavailableError,
    )
    monkeypatch.setattr(http._session, "request", broken)
    with pytest.raises(SourceUnavailableError) as caught:
        http.request("GET", "/")
    assert "cannot reach http://db.example.com:5000/x" in str(caught.value)
    assert "tail" not in f"{caught.value} {caught.value.hint} {caught.value.context}"


@pytest.mark.parametrize(
    ("value", "left"),
    [
        (
            {"name": "Authorization", "value": "Bearer abc"},
            {"name": "Authorization", "value": "***"},
        ),
        ({"name": "X-Tenant", "value": "acme"}, {"name": "X-Tenant", "value": "acme"}),
        ({"isSecret": True, "value": "x"}, {"isSecret": True, "value": "***"}),
        ({"isSecret": False, "value": "x"}, {"isSecret": False, "value": "x"}),
        (
            {"isSecret": True, "description": "d", "default": "x", "choices": ["x", 1]},
            {"isSecret": True, "description": "d", "default": "***", "choices": ["***", "***"]},
        ),
        ({"isSecret": True, "value": "{pin}"}, {"isSecret": True, "value": "{pin}"}),
        (
            {"isSecret": True, "value": "Bearer ${pin}"},
            {"isSecret": True, "value": "Bearer ${pin}"},
        ),
        ({"isSecret": True, "value": "abc{pin}"}, {"isSecret": True, "value": "***"}),
        ({"isSecret": True, "value": ""}, {"isSecret": True, "value": ""}),
        ({"isSecret": True, "placeholder": "x"}, {"isSecret": True, "placeholder": "***"}),
        (
            {"headers": {"X-Api-Key": "k", "X-Tenant": "a"}},
            {"headers": {"X-Api-Key": "***", "X-Tenant": "a"}},
        ),
        ({"token": {"value": "x", "secret": "y"}}, {"token": {"value": "***", "secret": "***"}}),
        ({"tokenUrl": "https://a.example.com/t"}, {"tokenUrl": "https://a.example.com/t"}),
        (["use Bearer abc.def", "a bearer"], ["use Bearer ***", "a bearer"]),
        (
            ["--token=abc", "TOKEN=abc x", "notoken=1", "REGION=eu"],
            ["--token=***", "TOKEN=*** x", "notoken=***", "REGION=eu"],
        ),
        ("curl 'API_KEY=k' {x}", "curl 'API_KEY=***' {x}"),
        ("run --api-key abc --verbose x", "run --api-key *** --verbose x"),
        ("--token \"a b\" x TOKEN='c d' e", "--token *** x TOKEN=*** e"),
        ("--token \"${X}\" TOKEN='{Y}'", "--token \"${X}\" TOKEN='{Y}'"),
        (["--token", "abc", "-p", "x"], ["--token", "***", "-p", "x"]),
        (["token", "abc", "--", "x"], ["token", "abc", "--", "x"]),
        (["--api-key", "{key}", "--key", "a"], ["--api-key", "{key}", "--key", "***"]),
        (
            [
                {"type": "positional", "value": "--token"},
                {"type": "positional", "value": "abc"},
                {"type": "positional", "value": "abc"},
            ],
            [
                {"type": "positional", "value": "--token"},
                {"type": "positional", "value": "***"},
                {"type": "positional", "value": "abc"},
            ],
        ),
        ("https://u:p@h/x?sig=1", "https://h/x"),
        ({"a": [1, 1.5, None, True]}, {"a": [1, 1.5, None, True]}),
        (
            {
                "variables": {
                    "token": {
                        "description": "d",
                        "format": "f",
                        "name": "n",
                        "type": "t",
                        "default": "x",
                    }
                }
            },
            {
                "variables": {
                    "token": {
                        "description": "d",
                        "format": "f",
                        "name": "n",
                        "type": "t",
                        "default": "***",
                    }
                }
            },
        ),
        (
            {"name": "Authorization", "value": "{t}", "variables": {"t": {"default": "x"}}},
            {"name": "Authorization", "value": "{t}", "variables": {"t": {"default": "***"}}},
        ),
        ({"name": "DB_PASS", "value": 1234}, {"name": "DB_PASS", "value": "***"}),
        ({"name": "X-Auth", "value": "x"}, {"name": "X-Auth", "value": "***"}),
        ({"credentials": [{"x": "y"}, None, True]}, {"credentials": [{"x": "***"}, None, True]}),
        (None, None),
    ],
)
def test_a_document_keeps_no_secret_and_all_else(value: object, left: object) -> None:
    assert redact_secrets(value) == left
