"""Who gets in: tokens, pages of other sites, and addresses."""

import socket
from pathlib import Path

import pytest
import requests

from mlcat_ingest.catalog.server.serve import listen, serve
from mlcat_ingest.catalog.web.auth import is_loopback
from mlcat_ingest.errors import RecipeError
from support.catalog_server import running_catalog

TOKEN = "tök-en"
EVERYWHERE = "0.0.0.0"  # noqa: S104 - refused, or behind a token


@pytest.mark.parametrize("prefix", ["", "/gms", "/api/gms"])
def test_with_a_token_only_config_and_health_are_open(tmp_path: Path, prefix: str) -> None:
    with running_catalog(tmp_path / "c.db", token=TOKEN) as catalog:
        base = catalog.url + prefix
        right = {"Authorization": f"bearer {TOKEN}".encode()}
        for path in ("/config", "/health"):
            assert requests.get(base + path, timeout=30).status_code == 200
        for headers in (
            {},
            {"Authorization": ""},
            {"Authorization": "Bearer"},
            {"Authorization": "Bearer wrong"},
            {"Authorization": f"Basic {TOKEN}".encode()},
            {"Authorization": f"Bearer {TOKEN}x".encode()},
            {"Authorization": b"Bearer \xff"},
        ):
            for method, path in (
                ("POST", "/test?action=evaluate"),
                ("POST", "/api/graphql"),
                ("GET", "/aspects/x"),
                ("GET", "/nowhere"),
            ):
                answer = requests.request(method, base + path, headers=headers, timeout=30)
                assert answer.status_code == 401
                assert answer.json()["message"] == "Unauthorized to perform this action."
                assert answer.headers["WWW-Authenticate"] == "Bearer"
        answer = requests.post(
            f"{base}/operations?action=restoreIndices", headers=right, timeout=30
        )
        assert answer.status_code == 200


@pytest.mark.parametrize("token", [None, ""])
def test_without_a_token_any_authorization_is_ignored(tmp_path: Path, token: str | None) -> None:
    with running_catalog(tmp_path / "c.db", token=token) as catalog:
        for value in ("Bearer anything", "Basic x:y", "nonsense"):
            answer = requests.post(
                f"{catalog.url}/test?action=batchEvaluate",
                json={"urns": []},
                headers={"Authorization": value},
                timeout=30,
            )
            assert answer.status_code == 200


def test_pages_of_other_sites_cannot_use_the_browser_of_somebody_here(tmp_path: Path) -> None:
    with running_catalog(tmp_path / "c.db") as catalog:
        url = f"{catalog.url}/test?action=batchEvaluate"
        for origin in ("https://evil.example", "null", "http://127.0.0.1:1", "http://["):
            answer = requests.post(url, json={"urns": []}, headers={"Origin": origin}, timeout=30)
            assert answer.status_code == 403
            assert origin in answer.json()["message"]
        own = requests.post(url, json={"urns": []}, headers={"Origin": catalog.url}, timeout=30)
        assert own.status_code == 200


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("localhost", True),
        ("::1", True),
        (EVERYWHERE, False),
        ("::", False),
        ("", False),
        ("192.0.2.1", False),
        ("no.such.name.invalid", False),
    ],
)
def test_only_loopback_addresses_count_as_this_machine(host: str, *, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_other_addresses_need_a_token(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"cannot listen on 0\.0\.0\.0 without a token"):
        serve(tmp_path / "c.db", EVERYWHERE, 0)
    with pytest.raises(RecipeError, match="without a token"):
        serve(tmp_path / "c.db", EVERYWHERE, 0, token="")
    assert list(tmp_path.iterdir()) == []


def test_an_address_that_is_taken_or_not_ours_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RecipeError, match=f"port {port}: Address already in use"):
            listen("127.0.0.1", port)
    with pytest.raises(RecipeError, match=r"cannot listen on no\.such\.name"):
        listen("no.such.name.invalid", 0)
