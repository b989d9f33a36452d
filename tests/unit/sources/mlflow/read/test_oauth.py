"""Tokens of the OAuth client-credentials flow, from an endpoint that answers by script."""

import json
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import requests

from mlcat_ingest.errors import AuthenticationError, MlcatError, ProtocolMismatchError
from mlcat_ingest.net.session import HttpOptions
from mlcat_ingest.sources.mlflow.read import signin
from mlcat_ingest.sources.mlflow.read.signin import DatabricksAccount, OAuthToken
from mlcat_ingest.testing.service import ServiceAnswer, ServiceRequest, failing_service

pytestmark = pytest.mark.process

SECRET = "hunter2"


def token_of(url: str) -> OAuthToken:
    account = DatabricksAccount(url, client_id="robot", client_secret=SECRET)
    return OAuthToken(account, HttpOptions(retries=0))


def signed_by(auth: OAuthToken) -> str:
    request = requests.Request("GET", "http://h", auth=auth).prepare()
    return str(request.headers["Authorization"])


def endpoint(lasts_s: float) -> Callable[[ServiceRequest], ServiceAnswer]:
    issued: list[int] = []

    def answer(request: ServiceRequest) -> ServiceAnswer:
        assert (request.method, request.path) == ("POST", "/oidc/v1/token")
        issued.append(1)
        token = {"access_token": f"t{len(issued)}", "expires_in": lasts_s}
        return ServiceAnswer(body=json.dumps(token).encode())

    return answer


@pytest.mark.parametrize(("lasts_s", "kept_s"), [(3600, 3540), (100, 50)])
def test_a_token_is_kept_until_shortly_before_its_end(
    lasts_s: float, kept_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 1_000.0
    monkeypatch.setattr(signin, "time", SimpleNamespace(monotonic=lambda: now_s))
    with failing_service(endpoint(lasts_s)) as service:
        auth = token_of(service.url)
        assert not service.requests
        assert signed_by(auth) == "Bearer t1"
        now_s += kept_s - 1
        assert signed_by(auth) == "Bearer t1"
        now_s += 1
        assert signed_by(auth) == "Bearer t2"
    assert "t1" not in repr(auth)


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (401, b'{"error": "invalid_client", "error_description": "hunter2"}', AuthenticationError),
        (400, b'{"error": "invalid_scope"}', AuthenticationError),
        (404, b"nothing here", AuthenticationError),
        (200, b'{"expires_in": 1}', AuthenticationError),
        (200, b'["hunter2"]', AuthenticationError),
        (200, b"not JSON", ProtocolMismatchError),
    ],
)
def test_a_refusal_is_one_sentence_without_the_secret(
    status: int, body: bytes, error: type[MlcatError]
) -> None:
    with failing_service([ServiceAnswer(status, body)]) as service:
        auth = token_of(service.url)
        with pytest.raises(error) as refused:
            signed_by(auth)
    assert SECRET not in f"{refused.value} {refused.value.hint}"
    if status == 400:
        assert "answered 400 (invalid_scope)" in str(refused.value)
        assert refused.value.hint == "check DATABRICKS_CLIENT_ID and DATABRICKS_CLIENT_SECRET"
