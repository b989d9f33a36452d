import base64
import gzip
import io
import logging
import socket
import threading
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest
import requests
import urllib3
from requests.auth import HTTPBasicAuth

from mlcat_ingest.core.redaction import redact_url
from mlcat_ingest.core.resources import start_thread
from mlcat_ingest.errors import (
    AuthenticationError,
    MlcatError,
    ProtocolMismatchError,
    RateLimitedError,
    RecipeError,
    SourceUnavailableError,
)
from mlcat_ingest.net import session as http_session
from mlcat_ingest.net.http import Http, Reply
from mlcat_ingest.net.session import BearerAuth, HttpOptions, Trust
from mlcat_ingest.testing.service import (
    FailingService,
    ServiceAnswer,
    ServiceRequest,
    failing_service,
)
from support.certificates import make_certificate
from support.fake_service import web_page
from support.pauses import Clock
from support.ports import free_port

pytestmark = pytest.mark.process

SECRET = "hunter2"
RUNNING = "that it is running and the address is correct"
DNS = "the address and this machine's DNS"


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "REQUESTS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "no-netrc"))


def client(url: str, **options: Any) -> Http:
    backoff_s = options.pop("backoff_s", 0)
    given = HttpOptions(**{"retries": 2, "read_timeout_s": 5.0, **options})
    unavailable = SourceUnavailableError
    return Http(
        url, peer="the service", unavailable=unavailable, options=given, backoff_s=backoff_s
    )


def sent(server: FailingService) -> list[tuple[str, str, bytes]]:
    return [(one.method, one.path, one.body) for one in server.requests]


def test_a_reply_is_given_as_it_came() -> None:
    with (
        failing_service([ServiceAnswer(422, b'{"a": 1}')]) as server,
        client(server.url + "/base/") as http,
    ):
        reply = http.request("POST", "/x%2Fy", params=[("q", "1"), ("q", "é")], body=b"{}")
        assert (reply.status, reply.ok, reply.json()) == (422, False, {"a": 1})
        assert sent(server) == [("POST", "/base/x%2Fy?q=1&q=%C3%A9", b"{}")]
        assert server.requests[0].headers["Content-Type"] == "application/json"
        assert reply.url == f"{server.url}/base/x%2Fy"
        assert http.requests_made() == 1


@pytest.mark.parametrize("status", sorted(http_session.UNAVAILABLE))
def test_a_post_is_sent_again_after_a_passing_fault(status: int) -> None:
    with failing_service(
        [ServiceAnswer(status), ServiceAnswer(status), ServiceAnswer(200)]
    ) as server:
        http = client(server.url)
        assert http.request("POST", "/", body=b"{}").status == 200
        assert sent(server) == [("POST", "/", b"{}")] * 3
        assert http.requests_made() == 3


def test_too_many_requests_to_the_end_is_its_own_error() -> None:
    with failing_service([ServiceAnswer(429)]) as server:
        http = client(server.url)
        with pytest.raises(RateLimitedError, match=r"rejects requests"):
            http.request("POST", "/", body=b"{}")
        assert len(server.requests) == http.requests_made() == 3


def test_other_faults_to_the_end_are_for_the_caller_to_judge() -> None:
    with failing_service([ServiceAnswer(503, b'{"message": "no"}')]) as server:
        reply = client(server.url).request("GET", "/")
        assert (reply.status, len(server.requests)) == (503, 3)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock.installed(monkeypatch)


def patient(url: str, **options: Any) -> Http:
    return client(url, **{"retries": None, "retry_for_s": 300.0, "backoff_s": 0.3, **options})


@pytest.mark.parametrize(("asked", "waited"), [("1", 1), ("90", 90), ("7200", 120), ("soon", None)])
def test_a_server_may_ask_to_wait_but_not_for_ever(
    asked: str, waited: int | None, clock: Clock
) -> None:
    with failing_service(
        [ServiceAnswer(429, headers={"Retry-After": asked}), ServiceAnswer()]
    ) as server:
        assert patient(server.url).request("POST", "/", body=b"{}").ok
    assert clock.pauses == ([waited] if waited is not None else [pytest.approx(0.225, abs=0.075)])


def test_pauses_double_and_end_with_the_time_for_retries(clock: Clock) -> None:
    with failing_service([ServiceAnswer(503)]) as server:
        assert patient(server.url).request("GET", "/").status == 503
        assert len(server.requests) == len(clock.pauses) + 1
    assert sum(clock.pauses) == pytest.approx(300)
    for i, pause_s in enumerate(clock.pauses[:-1]):
        longest_s = min(10, 0.3 * 2**i)
        assert longest_s / 2 <= pause_s <= longest_s


def test_a_pause_is_no_longer_than_what_is_left_of_the_time_for_retries(clock: Clock) -> None:
    throttled = ServiceAnswer(429, headers={"Retry-After": "100"})
    with failing_service([throttled]) as server:
        http = patient(server.url, retry_for_s=150.0)
        with pytest.raises(RateLimitedError):
            http.request("GET", "/")
    assert clock.pauses == [100, 50]


def test_a_server_that_answered_another_client_is_waited_for_while_it_refuses_connections(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"

    def answer(listener: socket.socket) -> None:
        with listener:
            connection, _ = listener.accept()
            with connection:
                connection.recv(10_000)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    def start() -> None:
        listener = socket.create_server(("127.0.0.1", port))
        start_thread(lambda: answer(listener), "answer")

    def wait(ended: threading.Event, seconds: float) -> bool:
        if clock.now_s < 1200 <= clock.now_s + seconds:
            start()
        return clock.wait(ended, seconds)

    monkeypatch.setattr(http_session, "wait", wait)
    start()
    assert patient(url).request("GET", "/").ok
    assert patient(url).request("GET", "/").ok
    assert 1200 <= clock.now_s <= 1210


def test_a_server_that_has_never_answered_is_given_up_soon(clock: Clock) -> None:
    http = patient(f"http://127.0.0.1:{free_port()}")
    for _ in range(2):
        with pytest.raises(SourceUnavailableError, match=r"Connection refused"):
            http.request("GET", "/")
    assert sum(clock.pauses) == pytest.approx(2 * http_session.FIRST_CONTACT_S)
    assert 4 <= http.requests_made() <= 20


def test_an_overloaded_server_is_waited_for_from_its_first_answer_on(clock: Clock) -> None:
    with failing_service([ServiceAnswer(503)]) as server:
        assert patient(server.url).request("GET", "/").status == 503
    assert sum(clock.pauses) == pytest.approx(300)


@pytest.mark.parametrize("answered", [True, False])
def test_an_unknown_host_is_waited_for_only_once_the_server_has_answered(
    clock: Clock, *, answered: bool
) -> None:
    moved = ServiceAnswer(302, headers={"Location": "http://nowhere.invalid/"})
    with failing_service([*[ServiceAnswer()] * answered, moved, ServiceAnswer()]) as server:
        http = patient(server.url)
        if answered:
            assert http.request("GET", "/").ok
            assert http.request("GET", "/").ok
        else:
            with pytest.raises(SourceUnavailableError, match=r"nowhere\.invalid/ .*unknown host"):
                http.request("GET", "/")
    assert len(clock.pauses) == answered


def test_a_name_server_that_is_away_is_waited_for(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_up = socket.getaddrinfo
    away = [socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")]

    def getaddrinfo(*args: Any, **kwargs: Any) -> Any:
        if away:
            raise away.pop()
        return look_up(*args, **kwargs)

    with failing_service([ServiceAnswer()]) as server:
        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        assert patient(server.url).request("GET", "/").ok
    assert len(clock.pauses) == 1


def test_a_wait_is_reported_once_until_there_is_an_answer(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mlcat_ingest")
    outage = [ServiceAnswer(503), *[ServiceAnswer(429)] * 9, ServiceAnswer()]
    with failing_service([ServiceAnswer(503), ServiceAnswer(), *outage, *outage]) as server:
        http = patient(server.url)
        for _ in range(3):
            assert http.request("GET", "/x").ok
    waiting = (
        f"waiting for the service at {server.url}/x, which answers 429 (throttled); it is tried "
        "again for up to 5 min"
    )
    assert caplog.messages == [waiting, "the service answers again"] * 2
    assert clock.now_s < 1200


def test_the_end_of_a_run_ends_its_waits_at_once() -> None:
    with failing_service([ServiceAnswer(503, headers={"Retry-After": "100"})]) as server:
        http = patient(server.url)
        asking = start_thread(lambda: http.request("GET", "/"), "ask")
        while http.pending_request() is None or not server.requests:
            time.sleep(0.01)
        http.end_waits()
        assert asking.result(timeout=20).status == 503
        assert http.request("GET", "/").status == 503
        assert len(server.requests) == 2


@pytest.mark.parametrize(
    "broken",
    [
        ServiceAnswer(body=b"[1, 2, 3]", cut=4),
        ServiceAnswer(body=b"[1, 2, 3]", cut=4, stall=True),
        ServiceAnswer(body=b"not gzip", headers={"Content-Encoding": "gzip"}),
        ServiceAnswer(hang_up=True),
    ],
    ids=["broken off", "stalled", "garbled", "hung up"],
)
def test_a_broken_body_is_one_more_attempt(broken: ServiceAnswer) -> None:
    with failing_service([broken, ServiceAnswer(body=b"[4]")]) as server:
        http = client(server.url, read_timeout_s=0.2)
        assert http.request("POST", "/", body=b"{}").json() == [4]
        assert len(server.requests) == http.requests_made() == 2


def test_broken_bodies_and_faults_share_one_budget() -> None:
    script = [
        ServiceAnswer(503),
        ServiceAnswer(body=b"[1]", cut=1),
        ServiceAnswer(503),
        ServiceAnswer(body=b"[1]", cut=1),
    ]
    with failing_service(script) as server:
        http = client(server.url, retries=3)
        with pytest.raises(SourceUnavailableError, match=r"the service at .* does not answer"):
            http.request("GET", "/")
        assert len(server.requests) == http.requests_made() == 4


def test_a_server_that_never_answers_is_unavailable() -> None:
    with failing_service([ServiceAnswer(hang_up=True)]) as server:
        http = client(server.url, retries=1)
        with pytest.raises(SourceUnavailableError, match=r"without response") as reported:
            http.request("POST", "/", body=b"{}")
        assert reported.value.hint == f"check {RUNNING}"
        assert len(server.requests) == http.requests_made() == 2


def test_an_unknown_host_and_a_closed_port_are_one_sentence_each() -> None:
    for url, why, hint in (
        (f"http://user:{SECRET}@nowhere.invalid", "unknown host", DNS),
        (f"http://user:{SECRET}@127.0.0.1:{free_port()}", "refused", RUNNING),
    ):
        with pytest.raises(SourceUnavailableError, match=why) as reported:
            client(url, retries=0).request("GET", "/")
        assert reported.value.hint == f"check {hint}"
        assert "\n" not in str(reported.value)
        assert "object at" not in str(reported.value)
        assert SECRET not in f"{reported.value!s} {reported.value!r} {reported.value.context}"


@pytest.mark.parametrize("status", [200, 403])
def test_a_login_page_is_a_failure_to_sign_in(status: int) -> None:
    with (
        failing_service([web_page(status=status)]) as server,
        pytest.raises(AuthenticationError, match=r"a web page instead of JSON"),
    ):
        client(server.url).request("GET", "/")


def test_pages_of_other_statuses_and_plain_text_called_html_are_replies() -> None:
    plain = ServiceAnswer(body=b"3.17.2", headers={"Content-Type": "text/html"})
    with failing_service([web_page(status=404), plain]) as server:
        http = client(server.url)
        assert http.request("GET", "/").is_page
        assert http.request("GET", "/version").content == b"3.17.2"


def test_401_is_a_failure_to_sign_in_and_403_is_for_the_caller() -> None:
    with failing_service([ServiceAnswer(401), ServiceAnswer(403, b'{"m": 1}')]) as server:
        http = client(server.url)
        with pytest.raises(
            AuthenticationError, match=r"refused the credentials \(401\)"
        ) as reported:
            http.request("GET", "/")
        assert reported.value.context == {"status": 401}
        assert http.request("GET", "/").json() == {"m": 1}
        assert len(server.requests) == 2


@pytest.mark.parametrize("password", ["word\n", " word", b"word\r\n"])
def test_401_names_a_password_with_a_blank_or_line_break_at_its_end(password: str | bytes) -> None:
    auth = HTTPBasicAuth("ann", password)
    with (
        failing_service([ServiceAnswer(401)]) as server,
        pytest.raises(AuthenticationError) as reported,
    ):
        client(server.url, auth=auth).request("GET", "/")
    assert "ends with a blank or a line break" in str(reported.value.hint)
    assert "word\n" not in str(reported.value)


def test_what_is_not_json_says_so() -> None:
    with failing_service([ServiceAnswer(body=b"hello <\xff")]) as server:
        reply = client(server.url).request("GET", "/")
        with pytest.raises(ProtocolMismatchError, match=r"not JSON at .*: 'hello <"):
            reply.json()


# --- redirects -----------------------------------------------------------------------------------


def redirecting(target: str, status: int = 302) -> Callable[[ServiceRequest], ServiceAnswer]:
    def answer(request: ServiceRequest) -> ServiceAnswer:
        if request.path == "/old":
            return ServiceAnswer(status, headers={"Location": target})
        return ServiceAnswer(body=b'{"here": true}')

    return answer


def test_a_get_follows_a_redirect_and_both_count() -> None:
    with failing_service(redirecting("/new")) as server:
        http = client(server.url)
        assert http.request("GET", "/old").json() == {"here": True}
        assert http.requests_made() == 2


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_post_follows_none(status: int) -> None:
    with failing_service(redirecting("/login?next=/old", status)) as server:
        http = client(server.url)
        with pytest.raises(AuthenticationError, match=r"redirects to .*/login \(") as reported:
            http.request("POST", "/old", body=b"{}")
        assert reported.value.context == {"status": status}
        assert len(server.requests) == 1
    with failing_service(redirecting("https://u:p@other.example/old/")) as server:
        http = client(server.url)
        with pytest.raises(ProtocolMismatchError, match=r"to https://other.example/old/ .use that"):
            http.request("POST", "/old", body=b"{}")


def test_credentials_do_not_follow_to_another_host_nor_come_from_netrc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text(f"default login bob password {SECRET}\n")
    monkeypatch.setenv("NETRC", str(netrc))
    with (
        failing_service([ServiceAnswer()]) as other,
        failing_service(redirecting(f"{other.url}/x")) as server,
    ):
        for auth in (None, HTTPBasicAuth("ada", "pw")):
            client(server.url, auth=auth).request("GET", "/old")
            own = server.requests[-1].headers.get("Authorization")
            assert own == (None if auth is None else "Basic " + b64("ada:pw"))
            assert "Authorization" not in other.requests[-1].headers
    with failing_service(redirecting("/new")) as server:
        client(server.url, auth=HTTPBasicAuth("ada", "pw")).request("GET", "/old")
        assert [one.headers["Authorization"] for one in server.requests] == [
            "Basic " + b64("ada:pw")
        ] * 2


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_secret_follows_to_another_port(status: int) -> None:
    secrets = {"X-Api-Key": SECRET, "Cookie": f"a={SECRET}", "User-Agent": SECRET}
    session = {"Set-Cookie": f"session={SECRET}; Path=/"}

    def answer(request: ServiceRequest) -> ServiceAnswer:
        if request.path == "/old":
            return ServiceAnswer(status, headers={"Location": f"{other.url}/x", **session})
        return ServiceAnswer(headers=session)

    def on(request: ServiceRequest) -> ServiceAnswer:
        return ServiceAnswer(status, headers={"Location": "/y"}) if request.path == "/x" else here

    here = ServiceAnswer(body=b'{"here": true}')
    with failing_service(on) as other, failing_service(answer) as server:
        http = client(server.url, headers=secrets, auth=BearerAuth(SECRET))
        http.request("GET", "/")
        assert http.request("GET", "/old", headers={"X-More": SECRET}).json() == {"here": True}
        own = server.requests[-1].headers
        assert {own["X-Api-Key"], own["X-More"]} == {SECRET}
        assert [request.path for request in other.requests] == ["/x", "/y"]
        for request in other.requests:
            assert SECRET not in str(request.headers)


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        ("https://h.example/x", "own.pem"),
        ("https://H.example:443/x", "own.pem"),
        ("http://h.example/x", None),
        ("https://h.example:444/x", None),
        ("https://h.example.evil/x", None),
        ("https://h.example@evil/x", None),
    ],
)
def test_a_client_certificate_stays_with_its_scheme_host_and_port(
    target: str, shown: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificates = []

    def send(
        _: object, request: requests.PreparedRequest, *, cert: object, **__: object
    ) -> requests.Response:
        certificates.append(cert)
        response = requests.Response()
        response.request, response.url = request, request.url or ""
        response.raw = urllib3.HTTPResponse(io.BytesIO(), preload_content=False)
        response.status_code = 200 if len(certificates) > 1 else 302
        response.headers["Location"] = target
        return response

    monkeypatch.setattr(requests.adapters.HTTPAdapter, "send", send)
    client("https://h.example", trust=Trust(cert="own.pem")).request("GET", "/old")
    assert certificates == ["own.pem", shown]


def test_refused_credentials_that_did_not_follow_say_so() -> None:
    with (
        failing_service([ServiceAnswer(401)]) as other,
        failing_service(redirecting(f"{other.url}/x")) as server,
        pytest.raises(AuthenticationError, match=f"at {other.url}/x refused") as reported,
    ):
        client(server.url, auth=BearerAuth(SECRET)).request("GET", "/old")
    assert "use that address" in (reported.value.hint or "")


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


# --- credentials and headers ---------------------------------------------------------------------


def test_credentials_in_the_address_are_used_and_not_shown() -> None:
    with failing_service([ServiceAnswer(), ServiceAnswer(401)]) as server:
        http = client(server.url.replace("//", f"//ada:p%C3%A4ss%20{SECRET}@"))
        http.request("GET", "/")
        assert server.requests[0].headers["Authorization"] == "Basic " + b64(f"ada:päss {SECRET}")
        assert http.base_url == server.url
        with pytest.raises(AuthenticationError) as reported:
            http.request("GET", "/")
        assert SECRET not in str(reported.value)


def test_given_auth_and_headers_are_sent() -> None:
    with failing_service([ServiceAnswer()]) as server:
        http = client(
            server.url.replace("//", "//x:y@"), auth=HTTPBasicAuth("a", "b"), headers={"X-A": "1"}
        )
        http.request("GET", "/", headers={"X-B": "2"})
        got = server.requests[0].headers
        assert (got["X-A"], got["X-B"]) == ("1", "2")
        assert got["Authorization"] == "Basic " + b64("a:b")


class Raw(requests.auth.AuthBase):
    def __init__(self, text: str) -> None:
        self.text = text

    def __call__(self, r: requests.PreparedRequest) -> requests.PreparedRequest:
        r.headers["Authorization"] = self.text
        return r


@pytest.mark.parametrize(
    "options",
    [
        {"headers": {"X-Token": f"{SECRET}\n"}},
        {"auth": Raw(f"Bearer {SECRET}\nX")},
        {"auth": Raw(f"Bearer {SECRET}€")},
    ],
)
def test_a_token_that_http_cannot_carry_is_reported_without_it(options: dict[str, Any]) -> None:
    with failing_service([ServiceAnswer()]) as server:
        with pytest.raises(RecipeError, match=r"characters that HTTP does not allow") as reported:
            client(server.url, **options).request("GET", "/")
        assert SECRET not in str(reported.value)
        assert reported.value.__suppress_context__
        assert server.requests == []


@pytest.mark.parametrize("url", ["http://", "ftp://host", "host:5000", "http://[::1", "http://*x"])
def test_an_address_that_cannot_be_used_is_a_mistake_of_the_recipe(url: str) -> None:
    with pytest.raises(RecipeError, match=r"invalid address of the service"):
        client(url).request("GET", "/x")


def test_a_fault_of_our_own_is_not_called_one_of_the_network(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def wrong(*_: object, **__: object) -> None:
        raise ValueError("of our own")

    http = client("http://127.0.0.1:1")
    monkeypatch.setattr(http._session, "request", wrong)
    with pytest.raises(ValueError, match=r"of our own"):
        http.request("GET", "/")


def test_a_request_without_an_answer_is_reported_while_it_lasts() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        http = client(url.replace("//", f"//u:{SECRET}@"), retries=1, read_timeout_s=0.5)
        assert http.pending_request() is None
        asking = start_thread(lambda: http.request("GET", "/x?q=1"), "ask")
        seen = []
        while not asking.done():
            seen.append(http.pending_request())
            time.sleep(0.05)
    first, *_, last = [one for one in seen if one is not None]
    assert str(first) == f"waiting for the service ({url}/x, {first.seconds:.0f} s)"
    failure = "does not answer: Read timed out. (read timeout=0.5)"
    assert str(last) == f"{url}/x {failure}; trying again for {last.seconds:.0f} s"
    assert first.seconds < last.seconds
    assert http.pending_request() is None


# --- TLS -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("tls"))


def test_a_certificate_that_nobody_vouches_for_is_refused_at_once(certificate: Path) -> None:
    with failing_service([ServiceAnswer()], certificate=certificate) as server:
        http = client(server.url, retries=5)
        with pytest.raises(SourceUnavailableError, match=r"certificate verify failed") as reported:
            http.request("GET", "/")
        assert reported.value.hint is not None
        assert reported.value.hint.startswith("set `ca_bundle` to the PEM file")
        assert http.requests_made() == 1
        assert server.requests == []


def test_https_that_is_spoken_to_a_port_of_http_is_reported_at_once() -> None:
    with failing_service([ServiceAnswer()]) as server:
        http = client(server.url.replace("http:", "https:"), retries=5)
        with pytest.raises(SourceUnavailableError, match=r"does not speak https") as reported:
            http.request("GET", "/")
        assert http.requests_made() == 1
    assert reported.value.hint == "use http:// in the address, or another port"


def test_http_that_is_spoken_to_a_port_of_https_is_reported(certificate: Path) -> None:
    with failing_service([ServiceAnswer()], certificate=certificate) as server:
        http = client(server.url.replace("https:", "http:"), retries=1)
        with pytest.raises(SourceUnavailableError, match=r"does not speak http:") as reported:
            http.request("GET", "/")
    assert reported.value.hint == "use https:// in the address, or another port"


@pytest.mark.parametrize(
    "words",
    [
        "The plain HTTP request was sent to HTTPS port",
        "Client sent an HTTP request to an HTTPS server.",
    ],
)
def test_a_server_that_says_itself_that_it_speaks_https_is_believed(words: str) -> None:
    with (
        failing_service([ServiceAnswer(400, words.encode())]) as server,
        pytest.raises(ProtocolMismatchError, match=r"does not speak http .use https://"),
    ):
        client(server.url).request("GET", "/")


def test_a_redirect_in_a_circle_is_reported() -> None:
    with (
        failing_service([ServiceAnswer(302, headers={"Location": "/x"})]) as server,
        pytest.raises(SourceUnavailableError, match=r"redirect loop") as reported,
    ):
        client(server.url).request("GET", "/x")
    assert reported.value.hint == "check that the address is that of the service itself"


def test_an_authority_of_our_own_is_believed(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with failing_service([ServiceAnswer()], certificate=certificate) as server:
        assert client(server.url, trust=Trust(str(certificate))).request("GET", "/").ok
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
        assert client(server.url).request("GET", "/").ok


def test_checking_can_be_switched_off_whatever_the_environment_says(
    certificate: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nowhere")
    with (
        failing_service([ServiceAnswer()], certificate=certificate) as server,
        warnings.catch_warnings(),
    ):
        assert client(server.url, trust=Trust(verify=False)).request("GET", "/").ok
    assert "is not verified" in caplog.text


# --- proxies -------------------------------------------------------------------------------------


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[FailingService]:
    with failing_service([ServiceAnswer(body=b'"by the proxy"')]) as server:
        monkeypatch.setenv("HTTP_PROXY", server.url)
        monkeypatch.setenv("http_proxy", server.url)
        yield server


def test_a_proxy_of_the_environment_is_used(proxy: FailingService) -> None:
    assert client("http://mlflow.example:5000").request("GET", "/x").json() == "by the proxy"
    assert proxy.requests[0].path == "http://mlflow.example:5000/x"


@pytest.mark.parametrize(("scheme", "variable"), [("http", "HTTP_PROXY"), ("https", "ALL_PROXY")])
def test_a_dead_proxy_is_named_by_its_variable(
    scheme: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = f"http://u:{SECRET}@127.0.0.1:{free_port()}"
    monkeypatch.setenv(variable, dead)
    with pytest.raises(SourceUnavailableError) as reported:
        client(f"{scheme}://mlflow.example:5000", retries=0).request("GET", "/x")
    where = dead.replace(f"u:{SECRET}@", "")
    words = f"cannot be reached through the proxy {where} of {variable}: "
    assert words in str(reported.value)
    assert reported.value.hint == f"correct {variable}, or add the host to NO_PROXY"
    assert SECRET not in str(reported.value)


def test_no_proxy_is_honoured(proxy: FailingService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "mlflow.invalid")
    monkeypatch.setenv("no_proxy", "mlflow.invalid")
    with pytest.raises(SourceUnavailableError):
        client("http://mlflow.invalid:5000", retries=0).request("GET", "/x")
    assert proxy.requests == []


def test_loopback_addresses_need_no_proxy(proxy: FailingService) -> None:
    with failing_service([ServiceAnswer(body=b'"direct"')]) as server:
        for host in ("127.0.0.1", "localhost"):
            http = client(f"http://{host}:{server.port}")
            assert http.request("GET", "/").json() == "direct"
    assert proxy.requests == []


# --- connections ---------------------------------------------------------------------------------


def test_connections_are_kept_and_made_anew_when_the_server_closed_them() -> None:
    closing = ServiceAnswer(headers={"Connection": "close"})
    with (
        failing_service([ServiceAnswer(), closing, ServiceAnswer(), ServiceAnswer()]) as server,
        client(server.url) as http,
    ):
        for _ in range(4):
            assert http.request("POST", "/", body=b"{}").ok
        http.close()
        assert http.request("GET", "/").ok


def test_a_stopped_server_is_unavailable_not_a_hang() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        http = client(f"http://127.0.0.1:{port}", retries=1, read_timeout_s=0.1)
        with pytest.raises(SourceUnavailableError, match=r"timed out"):
            http.request("GET", "/")
        assert http.requests_made() == 2


def test_a_reply_has_no_credentials_in_its_repr() -> None:
    assert SECRET not in repr(Reply(200, {}, b"", "p", redact_url(f"http://a:{SECRET}@h/")))


# --- answers without end -------------------------------------------------------------------------

OK = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"
LONG = b"Content-Length: 99999999999\r\n\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
PART = b"x" * 65_536
BOMB = gzip.compress(bytes(20_000_000))


@contextmanager
def sending(head: bytes, part: bytes, pause_s: float) -> Iterator[tuple[str, list[bytes]]]:
    """Serve an answer of `head` and then `part` without end."""
    over = threading.Event()
    asked: list[bytes] = []

    def answer(connection: socket.socket) -> None:
        with closing(connection), suppress(OSError):
            asked.append(connection.recv(65_536))
            for sent in chain([head], repeat(part)):
                connection.sendall(sent)
                if over.wait(pause_s):
                    return

    def accept() -> None:
        with suppress(OSError):
            while True:
                start_thread(partial(answer, listener.accept()[0]), "answer")

    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        start_thread(accept, "accept")
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", asked
        finally:
            over.set()
            listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    ("head", "part", "pause_s", "what"),
    [
        (OK + LONG, PART, 0, "has more than 1 MiB"),
        (OK + CHUNKED, b"10000\r\n" + PART + b"\r\n", 0, "has more than 1 MiB"),
        (OK + b"\r\n", PART, 0, "has more than 1 MiB"),
        (OK + b"Content-Encoding: gzip\r\n" + LONG, BOMB, 0, "has more than 1 MiB"),
        (
            OK.replace(b"200", b"302") + b"Location: /\r\nContent-Encoding: gzip\r\n" + LONG,
            BOMB,
            0,
            "redirect",
        ),
        (OK + b"Content-Encoding: gzip, gzip\r\n" + LONG, PART, 0, "the unwanted encoding"),
        (OK + b"Content-Encoding: br\r\n" + LONG, PART, 0, "the unwanted encoding 'br'"),
        (OK + LONG, b"x", 0.02, "takes more than 0 s"),
        (OK + CHUNKED + b"fffff\r\n", b"x", 0.02, "takes more than 0 s"),
        (b"HTTP/1.1 200 OK\r\nX: ", b"x", 0.02, "takes more than 0 s"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n", 0.02, "takes more"),
    ],
)
def test_an_answer_without_end_is_an_error_at_once(
    head: bytes, part: bytes, pause_s: float, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_session, "MAX_ANSWER_BYTES", 1024**2)
    monkeypatch.setattr(http_session, "MAX_ANSWER_S", 0.3)
    with sending(head, part, pause_s) as (url, asked), client(url) as http:
        with pytest.raises(MlcatError, match=what) as caught:
            http.request("GET", "/x?token=hunter2", is_passing=lambda _: True)
        assert f"{url}/" in str(caught.value)
        assert SECRET not in str(caught.value)
    assert len(asked) == 1 or what == "redirect"
    assert b"Accept-Encoding: gzip, deflate\r\n" in asked[0]


@pytest.mark.parametrize("encoding", ["gzip", "GZip", "deflate", "identity", ""])
def test_a_large_answer_in_an_encoding_arrives_whole(encoding: str) -> None:
    body = b'["' + b"x" * 5_000_000 + b'"]'
    packed: dict[str, Callable[[bytes], bytes]]
    packed = {"gzip": gzip.compress, "deflate": zlib.compress}
    pack = packed.get(encoding.lower(), bytes)
    answer = ServiceAnswer(200, pack(body), {"Content-Encoding": encoding})
    with failing_service([answer]) as server, client(server.url) as http:
        assert [http.request("GET", "/").content for _ in range(2)] == [body] * 2


# --- garbled answers -----------------------------------------------------------------------------

GARBLED = (b"", b'{"runs": [{"info": ', b"<html>busy</html>", b"upstream error", b"\xff{}")


def garbled(body: bytes) -> ServiceAnswer:
    kind = "text/html" if body.startswith(b"<") else "application/json"
    return ServiceAnswer(200, body, {"Content-Type": kind})


@pytest.mark.parametrize("body", GARBLED)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_read_that_arrives_garbled_is_asked_for_once_more(method: str, body: bytes) -> None:
    good = ServiceAnswer(200, b'{"a": 1}')
    with failing_service([garbled(body), good]) as server, client(server.url) as http:
        assert http.request(method, "/x", reads=True).json() == {"a": 1}
        assert len(server.requests) == 2
    with failing_service([garbled(body)]) as server, client(server.url) as http:
        with pytest.raises(MlcatError, match=r"/x, twice|JSON, twice"):
            http.request(method, "/x", reads=True).json()
        assert len(server.requests) == 2


@pytest.mark.parametrize("body", GARBLED)
def test_a_write_that_arrives_garbled_is_not_repeated(body: bytes) -> None:
    with failing_service([garbled(body)]) as server, client(server.url) as http:
        with pytest.raises(MlcatError) as caught:
            http.request("POST", "/x").json()
        assert "twice" not in str(caught.value)
        assert len(server.requests) == 1


def test_an_error_after_a_garbled_read_is_no_content() -> None:
    answers = [garbled(b"{"), ServiceAnswer(404, b'{"runs": []}')]
    with failing_service(answers) as server, client(server.url) as http:
        with pytest.raises(ProtocolMismatchError, match="something that is not JSON"):
            http.request("GET", "/x", reads=True).json()
        assert len(server.requests) == 2


PAGE = ServiceAnswer(200, b"<html>Sorry", {"Content-Type": "text/html"})


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (ServiceAnswer(401), r"credentials \(401\); it accepted them until \d\d:\d\d:\d\d"),
        (PAGE, "web page"),
    ],
    ids=["refused credentials", "a proxy's page"],
)
def test_what_the_service_itself_would_not_answer_is_tried_again_for_a_minute(
    clock: Clock, answer: ServiceAnswer, why: str
) -> None:
    with failing_service([ServiceAnswer(), answer, answer, ServiceAnswer(body=b"[1]")]) as server:
        http = patient(server.url, auth=BearerAuth(SECRET))
        http.request("GET", "/")
        assert http.request("POST", "/", body=b"{}").content == b"[1]"
    begun_s = clock.now_s
    with failing_service([ServiceAnswer(), answer]) as server:
        http = patient(server.url, auth=BearerAuth(SECRET))
        http.request("GET", "/")
        with pytest.raises(AuthenticationError, match=why) as refused:
            http.request("POST", "/", body=b"{}")
    assert clock.now_s - begun_s == pytest.approx(http_session.MAX_REFUSED_S)
    assert SECRET not in str(refused.value)


def test_the_wait_for_an_accepted_token_begins_with_its_first_refusal(clock: Clock) -> None:
    def answer(_: ServiceRequest) -> ServiceAnswer:
        if len(server.requests) == 1:
            return ServiceAnswer()
        return ServiceAnswer(503 if clock.now_s < 1100 else 401 if clock.now_s < 1130 else 200)

    with failing_service(answer) as server:
        http = patient(server.url, auth=BearerAuth(SECRET))
        http.request("GET", "/")
        assert http.request("GET", "/").status == 200


BASIC = {"WWW-Authenticate": 'Basic realm="mlflow"'}
WANTS_PASSWORD = "a user name and a password, no token: set `username` and `password`"


@pytest.mark.parametrize(
    ("auth", "headers", "cure"),
    [
        (None, BASIC, WANTS_PASSWORD),
        (BearerAuth(SECRET), BASIC, WANTS_PASSWORD),
        (BearerAuth(SECRET), {"WWW-Authenticate": "Bearer"}, "check the token"),
        (HTTPBasicAuth("me", SECRET), BASIC, "check the user name and password"),
    ],
)
def test_the_cure_of_a_refusal_is_what_the_server_wants(
    auth: Any, headers: dict[str, str], cure: str
) -> None:
    with failing_service([ServiceAnswer(401, headers=headers)]) as server:
        http = patient(server.url, auth=auth, variables=("THE_USER", "THE_PASSWORD"))
        with pytest.raises(AuthenticationError) as refused:
            http.request("GET", "/")
    assert len(server.requests) == 1, "they were never accepted"
    hint = str(refused.value.hint)
    assert cure in hint
    assert ("or THE_USER and THE_PASSWORD" in hint) == (cure is WANTS_PASSWORD)


def test_a_refused_token_is_read_anew_and_the_request_sent_again() -> None:
    def answer(request: ServiceRequest) -> ServiceAnswer:
        return ServiceAnswer(200 if request.headers["Authorization"] == "Bearer new" else 401)

    tokens = ["old", "new"]
    with failing_service(answer) as server:
        http = client(server.url, auth=BearerAuth("old"), renew=lambda: BearerAuth(tokens[-1]))
        assert http.request("GET", "/").status == 200
        tokens.append("gone")
        assert http.request("GET", "/").status == 200
    assert len(server.requests) == 3


@pytest.mark.parametrize("fault", [{"silent": True}, {"cut": 1, "stall": True}])
def test_a_write_that_timed_out_is_not_sent_again_if_its_sender_says_so(
    fault: dict[str, Any],
) -> None:
    script = [ServiceAnswer(**fault), ServiceAnswer()]
    with failing_service(script) as server:
        assert client(server.url, read_timeout_s=0.2).request("POST", "/", body=b"{}").ok
    assert len(server.requests) == 2
    with failing_service(script) as server:
        http = client(server.url, read_timeout_s=0.2)
        with pytest.raises(SourceUnavailableError) as failed:
            http.request(
                "POST", "/", body=b"{}", is_passing=lambda reply: reply.status in {429, 503}
            )
    assert failed.value.context["status"] == http_session.LATE
    assert len(server.requests) == 1
