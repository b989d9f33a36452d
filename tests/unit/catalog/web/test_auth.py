"""Permissions of the writing token, of the reading token, and of tokens that nearly match."""

import json
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette

from mlcat_ingest.catalog.errors import TooManyRequestsError
from mlcat_ingest.catalog.limits import DEFAULT_LIMITS, WRONG_TOKENS, WRONG_TOKENS_SECONDS
from mlcat_ingest.catalog.server.serve import serve
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.tasks import Tasks
from mlcat_ingest.catalog.web.app import create_app
from mlcat_ingest.catalog.web.auth import Authenticator, client_address, is_loopback
from mlcat_ingest.catalog.web.rest.endpoint import Endpoint
from mlcat_ingest.catalog.web.rest.routes import rest_endpoints
from mlcat_ingest.errors import RecipeError
from support.asgi import Answer, call
from support.catalog_store import model, put

TOKEN, READ_TOKEN = "write-token", "read-token"
EVERYWHERE = "0.0.0.0"  # noqa: S104 - refused
READING_POSTS = {
    "/entities?action=search",
    "/openapi/v3/entity/scroll",
    "/aspects?action=getTimeseriesAspectValues",
    "/operations?action=getEsTaskStatus",
    "/test?action=evaluate",
    "/test?action=batchEvaluate",
    "/openapi/v3/entity/{entityType}/batchGet",
}


@pytest.fixture
def app(store: Store) -> Iterator[Starlette]:
    served = create_app(store, token=TOKEN, read_token=READ_TOKEN)
    yield served
    served.state.tasks.close()


def send(app: Starlette, method: str, target: str, body: Any = None, token: str = "") -> Answer:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    return call(app, method, target, b"" if body is None else json.dumps(body).encode(), headers)


def target_of(endpoint: Endpoint) -> str:
    return endpoint.path + (f"?action={endpoint.action}" if endpoint.action else "")


def test_the_reading_token_reads_and_does_not_write(store: Store, app: Starlette) -> None:
    with closing(Tasks(store)) as tasks:
        endpoints = rest_endpoints(store, tasks, DEFAULT_LIMITS)
    for endpoint in endpoints:
        name = target_of(endpoint)
        target = name.replace("{entityType}", "tag").replace("{aspectName}", "status")
        target = target.replace("{urn}", "urn:li:tag:x")
        reads = endpoint.method in {"GET", "HEAD"} or name in READING_POSTS
        for prefix in ("", "/gms"):
            answer = send(app, endpoint.method, prefix + target, token=READ_TOKEN)
            assert (answer.status != 403) is reads, f"{endpoint.method} {name}: {answer.status}"
            assert answer.status != 401
            assert reads or "this token only permits reading" in answer.text
        if not reads:
            assert send(app, endpoint.method, target, token=TOKEN).status not in {401, 403}


def test_the_reading_token_evaluates_and_does_not_push(store: Store, app: Starlette) -> None:
    urn = put(store, model("m"), mlModelProperties={})
    for action, what in (("evaluate", {"urn": urn}), ("batchEvaluate", {"urns": [urn]})):
        target = f"/test?action={action}"
        assert send(app, "POST", target, what, READ_TOKEN).status == 200
        for push in ("shouldPush", "push"):
            assert send(app, "POST", target, {**what, push: True}, READ_TOKEN).status == 403
            assert send(app, "POST", target, {**what, push: True}, TOKEN).status == 200


@pytest.mark.parametrize("path", ["/api/graphql", "/api/v2/graphql"])
def test_the_reading_token_queries_and_does_not_mutate(
    store: Store, app: Starlette, path: str
) -> None:
    put(store, model("m"), mlModelProperties={})
    write = 'createTag(input: {id: "gold", name: "Gold"})'
    read = f'mlModel(urn: "{model("m")}") {{ urn }}'
    both = f"query read {{ {read} }} mutation write {{ {write} }}"
    for body, allowed in (
        ({"query": f"{{ {read} }}"}, True),
        ({"query": both, "operationName": "read"}, True),
        ({"query": both, "operationName": "write"}, False),
        ({"query": f"mutation {{ {write} }}"}, False),
    ):
        answer = send(app, "POST", path, body, READ_TOKEN)
        assert answer.status == (200 if allowed else 403)
        assert not store.exists(["urn:li:tag:gold"])
    assert send(app, "POST", path, {"query": both}, READ_TOKEN).status == 400
    written = send(app, "POST", path, {"query": both, "operationName": "write"}, TOKEN)
    assert written.json()["data"] == {"createTag": "urn:li:tag:gold"}


@pytest.mark.parametrize(
    "target",
    [
        "/config/../openapi.json", "//config", "/config//", "/./config", "/config/x", "/Config",
        "/config%2f..%2fopenapi.json", "/%2fconfig", "/config%00", "/gms//config", "/gms/../config",
        "/static/../openapi.json", "/static/style.css/../../metrics", "/login/../metrics",
        "/login/", "/health/..", "/api/config", "/metrics", "/openapi.json", "/nowhere",
    ],
)  # fmt: skip
def test_nothing_gets_past_the_check_by_a_crooked_path(app: Starlette, target: str) -> None:
    assert send(app, "GET", target).status == 401
    assert send(app, "POST", target, {}).status == 401


@pytest.mark.parametrize("path", ["/config", "/health", "/con%66ig", "/gms/config", "/health/"])
def test_the_open_paths_are_open(app: Starlette, path: str) -> None:
    assert send(app, "GET", path).status == 200


@pytest.mark.parametrize("token", [TOKEN, READ_TOKEN])
def test_a_token_that_is_nearly_right_is_wrong(app: Starlette, token: str) -> None:
    for wrong in (token[:-1], token[1:], f"{token}x", f"x{token}", token.upper(), f"{token} x"):
        assert send(app, "GET", "/openapi.json", token=wrong).status == 401
    for value in (f"Basic {token}", token, "Bearer", f"Bearer,{token}"):
        headers = {"authorization": value}
        assert call(app, "GET", "/openapi.json", headers=headers).status == 401
    assert send(app, "GET", "/openapi.json", token=token).status == 200


@pytest.mark.parametrize(
    ("hosts", "target", "status"),
    [
        *(
            ((host,), "/openapi.json", 200)
            for host in (
                "localhost", "LocalHost:80", "localhost.:7001", "127.0.0.1", "127.9.8.7:1",
                "127.0.0.1.:7001", "[::1]", "[::1]:7001", "desk", "Desk.:7001",
            )
        ),
        *(
            ((host,), path, 421)
            for host in (
                "evil.example", "evil.example:7001", "localhost.evil.example", "127.0.0.1.evil",
                "localhost@evil.example", "evil.example:7001:127.0.0.1", "localhost:evil",
                "[::]", "[::1", "192.0.2.1", "", ":7001", "desk.lan", "[2001:db8::1]:7001",
                "local host", EVERYWHERE,
            )
            for path in ("/openapi.json", "/health", "/gms/config", "/", "/static/style.css")
        ),
        ((), "/openapi.json", 421),
        (("localhost", "evil.example"), "/openapi.json", 421),
        (("localhost", "localhost"), "/openapi.json", 421),
        (("localhost",), "http://evil.example/openapi.json", 421),
        (("localhost",), "http://[/openapi.json", 421),
        (("localhost",), "http://localhost/openapi.json", 404),
        (("localhost",), "*", 404),
    ],
)  # fmt: skip
def test_without_a_token_requests_are_for_this_machine(
    store: Store, hosts: tuple[str, ...], target: str, status: int
) -> None:
    app = create_app(store, host="desk")
    forged = {"x-forwarded-host": "localhost", "forwarded": "host=localhost"}
    answer = call(app, "GET", target, headers=forged, hosts=hosts)
    app.state.tasks.close()
    assert answer.status == status
    if status == 421:
        assert ", ".join(hosts) in answer.text
        assert "start the catalog with a token" in answer.text


def test_with_a_token_the_catalog_has_any_name(app: Starlette) -> None:
    headers = {"authorization": f"Bearer {TOKEN}"}
    for hosts in ((), ("catalog.example.com",)):
        assert call(app, "GET", "/openapi.json", headers=headers, hosts=hosts).status == 200


@pytest.mark.parametrize(
    ("path", "chars", "status"),
    [("/search?q=", 65_527, 200), ("/search?q=", 65_528, 414), ("/openapi/v3/", 100_000, 414)],
)
def test_a_long_address_is_refused(store: Store, path: str, chars: int, status: int) -> None:
    app = create_app(store)
    answer = call(app, "GET", path + "x" * chars)
    app.state.tasks.close()
    assert answer.status == status
    assert status == 200 or "the limit is 65,536 bytes" in answer.text


def test_without_a_reading_token_there_is_only_one(store: Store) -> None:
    app = create_app(store, token=TOKEN)
    assert send(app, "GET", "/openapi.json", token=READ_TOKEN).status == 401
    assert call(app, "GET", "/openapi.json", headers={"authorization": "Bearer "}).status == 401
    app.state.tasks.close()


def test_tokens_that_do_not_go_together_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="requires a writing token"):
        serve(tmp_path / "c.db", read_token="x")
    with pytest.raises(RecipeError, match="equals the writing token"):
        serve(tmp_path / "c.db", token="x", read_token="x")
    assert list(tmp_path.iterdir()) == []


def test_wrong_tokens_are_counted_for_a_while_and_for_so_many_addresses() -> None:
    now_s = 0.0
    guarded = Authenticator("t", None, lambda: now_s)
    for number in range(WRONG_TOKENS):
        assert guarded.permission(b"%d" % number, "a") is None
    assert guarded.permission(b"x", "b") is None
    now_s = WRONG_TOKENS_SECONDS - 1.5
    with pytest.raises(TooManyRequestsError, match="try again in 2 s") as caught:
        guarded.permission(b"", "a")
    assert caught.value.retry_after_s == 2
    now_s = WRONG_TOKENS_SECONDS
    for _ in range(2):
        assert guarded.permission(b"once more", "a") is None
    for number in range(3_000):
        guarded.permission(b"x", f"other{number}")
    assert len(guarded._windows) == 1_000


def test_an_address_that_may_try_again_is_counted_anew() -> None:
    now_s = 0.0
    guarded = Authenticator("t", None, lambda: now_s)
    for address in ("a", "b"):
        for number in range(WRONG_TOKENS):
            guarded.permission(b"%d" % number, address)
    now_s = WRONG_TOKENS_SECONDS
    for number in range(WRONG_TOKENS):
        guarded.permission(b"%d" % number, "a")
    with pytest.raises(TooManyRequestsError):
        guarded.permission(b"x", "a")
    for number in range(999):
        guarded.permission(b"x", f"other{number}")
    assert "a" in guarded._windows
    assert "b" not in guarded._windows


def test_no_token_is_no_wrong_token() -> None:
    guarded = Authenticator("t", None)
    for _ in range(WRONG_TOKENS + 1):
        assert guarded.permission(b"", "a") is None
    assert guarded._windows == {}


def test_the_addresses_of_one_network_are_one() -> None:
    def address(host: str | None) -> str:
        return client_address({"client": None if host is None else (host, 1)})

    assert address("192.0.2.1") == "192.0.2.1"
    assert address("2001:db8::1") == address("2001:db8::ffff:1") == "2001:db8::/64"
    assert address("2001:db8:0:1::1") != address("2001:db8::1")
    assert address("localhost") == "localhost"
    assert address(None) == ""


def test_a_name_that_has_no_address_is_not_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    assert not is_loopback("nosuch.invalid")
