"""No address that goes out holds a credential, wherever it goes out."""

import pytest
import requests
from sqlalchemy.exc import OperationalError

from mlcat_ingest.core.redaction import redact_url, redact_urls, user_info
from mlcat_ingest.errors import SourceUnavailableError
from mlcat_ingest.net.http import Http
from mlcat_ingest.net.session import HttpOptions
from mlcat_ingest.recipe.secrets import mask
from mlcat_ingest.sources.feast.config import password_in
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.mapping.model import commit_url
from mlcat_ingest.sources.mlflow.mapping.properties import PropertiesBuilder
from mlcat_ingest.sources.mlflow.mapping.text import Truncator
from mlcat_ingest.sources.mlflow.values.uris import normalise_uri
from mlcat_ingest.sql.engine import DatabaseOwner, failure

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


def test_user_name_and_password_of_an_address() -> None:
    assert user_info("http://bob:p@s:s@h/x") == ("bob", "p@s:s")
    assert user_info("http://token@h") == ("token", None)
    assert user_info("http://h:80/x@y") == ("", None)


def test_every_place_that_shows_an_address_hides_all_of_the_password() -> None:
    url = f"http://bob:{PASSWORD}@db.example.com:5000/x"
    driver = OperationalError("SELECT 1", None, ValueError(TEXT))
    custom = PropertiesBuilder(Truncator())
    custom.add_tags({"mlflow.source.name": url, "mlflow.gitRepoURL": url})
    shown = [
        mask(TEXT),
        str(failure(DatabaseOwner("MLflow", "database"), "x", driver, None)),
        normalise_uri(url),
        MlflowConfig(tracking_uri=f"postgresql://bob:{PASSWORD}@h/db").public_uri,
        commit_url(f"{url}/repo.git", "abcdef12"),
        *custom.values.values(),
    ]
    for text in shown:
        assert text
        assert "head" not in text
        assert "tail" not in text
    assert password_in(f"postgresql://bob:{PASSWORD}@h/db") == PASSWORD


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
