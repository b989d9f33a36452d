"""Every HTTP side of a recipe takes the same keys, and each other name of a key means the same."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.testing.service import FailingService, ServiceAnswer, failing_service
from mlcat_ingest.workflows.resolve import ResolvedRecipe, resolve
from support.certificates import make_certificate

TOKEN = "the-t0ken"
BUSY = ServiceAnswer(503, headers={"Retry-After": "0"})


def resolved(source: dict[str, Any], sink: dict[str, Any]) -> ResolvedRecipe:
    return resolve(Recipe.parse(json.dumps({"name": "r", "source": source, "sink": sink})))


def ask_mlflow(url: str, **connection: Any) -> None:
    config = {"tracking_uri": url, **connection}
    spec = {"type": "mlflow", "config": config}
    [source] = resolved(spec, {"type": "file", "config": {"path": "out.jsonl"}}).sources
    with closing(source.build()) as built:
        list(built.check())


def ask_sink(url: str, **connection: Any) -> None:
    found = resolved(
        {"type": "mlflow"}, {"type": "rest", "config": {"server": url, **connection}}
    ).sink
    assert found is not None
    with closing(found.build()) as built:
        list(built.check())


SIDES = pytest.mark.parametrize("ask", [ask_mlflow, ask_sink])
Ask = Callable[..., None]


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "MLCAT_TOKEN", "DATAHUB_GMS_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("tls")).parent


@pytest.fixture
def server(folder: Path) -> Iterator[FailingService]:
    """A server that asks for a certificate, and is busy."""
    both = folder / "both.pem"
    with failing_service([BUSY], certificate=both, client_authority=folder / "cert.pem") as running:
        yield running


@SIDES
@pytest.mark.parametrize(
    "keys",
    [
        ("ca_bundle", "client_cert", "client_key", "headers", "timeout_s", "retries"),
        (
            *("ca_certificate_path", "client_certificate_path", "client_key_path"),
            *("extra_headers", "timeout_sec", "retry_max_times"),
        ),
        ("server_cert_path", "client_cert_path", "client_key", "headers", "timeout_s", "retries"),
    ],
    ids=["ours", "DataHub's", "MLflow's"],
)
def test_each_name_reaches_the_request(
    ask: Ask, keys: tuple[str, ...], server: FailingService, folder: Path
) -> None:
    pems = [str(folder / name) for name in ("cert.pem", "cert.pem", "key.pem")]
    values = [*pems, {"X-Proxy": "open"}, 9, 2]
    ask(server.url, token=TOKEN, **dict(zip(keys, values, strict=True)))
    first, *_ = server.requests
    assert first.headers["Authorization"] == f"Bearer {TOKEN}"
    assert first.headers["X-Proxy"] == "open"
    assert attempts(server) == 3


def attempts(server: FailingService) -> int:
    """Return how often the first request was sent."""
    _, same = next(iter(groupby(request.path for request in server.requests)))
    return len(list(same))


@SIDES
@pytest.mark.parametrize(
    ("options", "is_asked"),
    [
        ({}, False),
        ({"verify": False}, True),
        ({"disable_ssl_verification": True}, True),
    ],
    ids=str,
)
def test_a_certificate_is_checked_unless_the_recipe_says_otherwise(
    ask: Ask, options: dict[str, Any], folder: Path, *, is_asked: bool
) -> None:
    with failing_service([ServiceAnswer(404)], certificate=folder / "both.pem") as server:
        ask(server.url, **options)
        assert bool(server.requests) == is_asked
