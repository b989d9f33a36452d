"""A registry in S3, as moto's server has it; AWS itself was not asked."""

from collections.abc import Iterator

import pytest

from mlcat_ingest.errors import (
    AuthenticationError,
    MlcatError,
    NotAuthorizedError,
    ProtocolMismatchError,
    RateLimitedError,
    RecipeError,
    SourceUnavailableError,
)
from mlcat_ingest.testing.service import ServiceAnswer, failing_service
from support.feast import REGISTRY
from support.feast_transports import objects_of, transport_of
from support.ports import free_port
from support.s3 import s3_server

KEY = "feast/registry.db"
ADDRESS = f"s3://lake/{KEY}"


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    with s3_server({KEY: REGISTRY.read_bytes(), "page.html": b"<html>"}) as url:
        yield url


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret-key")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "FEAST_S3_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)


def options_of(url: str) -> dict[str, object]:
    return {"s3": {"endpoint_url": url, "region": "us-east-1"}, "retries": 0}


def refused(url: str, address: str = ADDRESS, **options: object) -> MlcatError:
    with pytest.raises(MlcatError) as raised:
        objects_of(address, **{**options_of(url), **options})
    assert "s3cret-key" not in str(raised.value)
    return raised.value


def test_an_object_holds_the_same_as_the_file(s3: str) -> None:
    assert objects_of(ADDRESS, **options_of(s3)) == objects_of(str(REGISTRY))
    assert objects_of(ADDRESS.replace("s3:", "s3a:"), **options_of(s3)) == objects_of(str(REGISTRY))


def test_feasts_own_variable_names_the_service_too(
    s3: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEAST_S3_ENDPOINT_URL", s3)
    transport = transport_of(ADDRESS, s3={"region": "us-east-1"})
    assert len(list(transport.objects())) == 47
    assert transport.server_id() == f"{s3.removeprefix('http://')}/lake/{KEY}"
    assert transport.requests_made() == 1
    transport.close()


def test_the_identity_in_s3_itself_is_bucket_and_key() -> None:
    assert transport_of(ADDRESS).server_id() == f"s3/lake/{KEY}"


def test_a_wrong_bucket_or_key_and_a_page_are_named(s3: str) -> None:
    assert "no such bucket" in refused(s3, "s3://laek/registry.db").message
    missing = refused(s3, "s3://lake/none.db")
    assert isinstance(missing, RecipeError)
    assert "feast apply" in str(missing.hint)
    assert isinstance(refused(s3, "s3://lake/page.html"), ProtocolMismatchError)
    assert isinstance(refused(s3, "s3://lake"), RecipeError)
    assert isinstance(refused(s3, "s3://la ke!/k"), RecipeError)
    assert "max_bytes" in str(refused(s3, max_bytes=2048).hint)


@pytest.mark.parametrize(
    ("status", "code", "error", "cure"),
    [
        (403, "AccessDenied", NotAuthorizedError, "s3:GetObject"),
        (403, "InvalidAccessKeyId", AuthenticationError, "environment"),
        (400, "ExpiredToken", AuthenticationError, "renew"),
        (400, "AuthorizationHeaderMalformed", RecipeError, "`region`"),
        (503, "SlowDown", RateLimitedError, "later"),
        (500, "InternalError", SourceUnavailableError, "`endpoint_url`"),
    ],
)
def test_each_refusal_of_s3_says_what_to_do(
    status: int, code: str, error: type[MlcatError], cure: str
) -> None:
    body = f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode()
    with failing_service(
        [ServiceAnswer(status, body, {"Content-Type": "application/xml"})]
    ) as server:
        raised = refused(server.url)
    assert isinstance(raised, error)
    assert ADDRESS in raised.message
    assert cure in str(raised.hint)


def test_a_body_that_breaks_off_is_asked_for_again() -> None:
    content = REGISTRY.read_bytes()
    script = [ServiceAnswer(body=content, cut=100), ServiceAnswer(body=content)]
    with failing_service(script) as server:
        assert len(objects_of(ADDRESS, **{**options_of(server.url), "retries": 1})) == 47
        assert len(server.requests) == 2
    with failing_service(script[:1]) as server:
        assert isinstance(refused(server.url), SourceUnavailableError)


def test_nobody_there_no_credentials_and_no_profile_are_distinguished(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    assert isinstance(refused(nobody), SourceUnavailableError)
    assert "AWS profile does not exist" in refused(nobody, s3={"profile": "none"}).message
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("HOME", "/nonexistent")
    assert isinstance(refused(nobody), AuthenticationError)
