"""Step by step to an address: what is wrong with DNS, the connection, TLS or the clock."""

import socket
import ssl
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from mlcat_ingest.core.findings import Finding
from mlcat_ingest.net import reachability as module
from mlcat_ingest.net.certificates import Trust
from mlcat_ingest.net.reachability import Address, clock, reach
from mlcat_ingest.net.session import skew_s
from mlcat_ingest.testing.service import ServiceAnswer, failing_service
from support.certificates import make_certificate

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def reached(url: str, trust: Trust | None = None) -> tuple[dict[str, Finding], bool]:
    steps = reach(Address("it", url, trust or Trust()))
    found: dict[str, Finding] = {}
    while True:
        try:
            finding = next(steps)
        except StopIteration as end:
            return found, end.value
        found[finding.what.removeprefix("it ")] = finding


def test_an_address_that_answers() -> None:
    with failing_service([ServiceAnswer()]) as server:
        found, well = reached(server.url)
        assert well
        assert {what: one.outcome for what, one in found.items()} == {
            "DNS": "ok",
            "connection": "ok",
        }
        assert server.requests == []


def test_a_host_that_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    found, well = reached("https://nowhere.invalid/x")
    assert not well
    assert list(found) == ["DNS"]
    assert found["DNS"].outcome == "failed"
    assert found["DNS"].detail == "unknown host nowhere.invalid"


def test_a_resolver_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    ended = threading.Event()

    def waits(*_: object, **__: object) -> list[object]:
        over.wait()
        ended.set()
        return []

    monkeypatch.setattr(socket, "getaddrinfo", waits)
    monkeypatch.setattr(module, "PATIENCE_S", 0.01)
    try:
        found, well = reached("http://slow.invalid")
    finally:
        over.set()
    assert (found["DNS"].outcome, well) == ("failed", False)
    assert "no DNS answer for slow.invalid" in found["DNS"].detail
    assert ended.wait(30)


def test_a_port_that_nobody_listens_on() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody else gets it
        found, well = reached(f"http://127.0.0.1:{taken.getsockname()[1]}")
    assert not well
    assert "Connection refused" in found["connection"].detail


def test_the_next_address_of_a_host_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    with failing_service([ServiceAnswer()]) as server:
        name = [(0, 0, 0, "", (address, 0)) for address in ("127.0.0.9", "127.0.0.1")]
        with monkeypatch.context() as patch:
            patch.setattr(module, "_addresses", lambda _: [one[4][0] for one in name])
            found, well = reached(f"http://two.invalid:{server.port}")
        assert well
        assert found["connection"].detail == f"127.0.0.1 port {server.port} answers"


def test_only_the_proxy_is_looked_at_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with failing_service([ServiceAnswer()]) as proxy:
        monkeypatch.setenv("https_proxy", proxy.url.replace("//", "//user:hunter2@"))
        found, well = reached("https://nowhere.invalid")
        assert well
        assert list(found) == ["proxy", "DNS", "connection"]
        assert found["proxy"].detail == f"requests are sent through {proxy.url}"
        assert proxy.requests == []


# --- TLS -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("tls"))


def tls(certificate: Path, trust: Trust) -> Finding:
    with failing_service([ServiceAnswer()], certificate=certificate) as server:
        found, well = reached(server.url, trust)
    assert well == (found["TLS"].outcome != "failed")
    return found["TLS"]


def test_a_certificate_that_is_trusted_is_shown(pem: Path) -> None:
    found = tls(pem, Trust(str(pem)))
    assert found.outcome == "ok"
    assert "certificate for 127.0.0.1, signed by 127.0.0.1, expires on 20" in found.detail


def test_the_variables_of_requests_name_whom_to_trust(
    pem: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(pem))
    assert tls(pem, Trust()).outcome == "ok"


def test_a_certificate_that_signs_itself(pem: Path) -> None:
    found = tls(pem, Trust())
    assert found.outcome == "failed"
    assert "self-signed certificate" in found.detail
    assert "it is for 127.0.0.1, signed by 127.0.0.1" in found.detail
    assert found.hint is not None
    assert "PEM file" in found.hint


def test_a_certificate_that_has_expired(tmp_path: Path) -> None:
    expired = make_certificate(tmp_path, ends_in=timedelta(days=-3))
    found = tls(expired, Trust(str(expired)))
    assert found.outcome == "failed"
    assert "certificate has expired" in found.detail
    assert ", expired on 20" in found.detail
    assert found.hint == "renew the certificate, or set this machine's clock"


def test_a_certificate_that_soon_expires(tmp_path: Path) -> None:
    soon = make_certificate(tmp_path, ends_in=timedelta(days=5))
    found = tls(soon, Trust(str(soon)))
    assert (found.outcome, found.hint) == ("warning", "renew the certificate")


def test_a_certificate_for_another_name(tmp_path: Path) -> None:
    other = make_certificate(tmp_path, name="DNS:mlflow.example.org")
    found = tls(other, Trust(str(other)))
    assert found.outcome == "failed"
    assert "mismatch" in found.detail
    assert "it is for mlflow.example.org" in found.detail
    assert found.hint == "use the name that the certificate is for"


def test_a_certificate_that_is_not_checked_is_warned_about(pem: Path) -> None:
    found = tls(pem, Trust(verify=False))
    assert found.outcome == "warning"
    assert "not verified" in found.detail
    assert "for 127.0.0.1" in found.detail


def test_a_server_without_tls() -> None:
    with failing_service([ServiceAnswer(400)]) as server:
        found, well = reached(server.url.replace("http:", "https:"))
    assert not well
    assert "the handshake failed" in found["TLS"].detail


def test_a_pem_file_that_is_none(tmp_path: Path, pem: Path) -> None:
    (tmp_path / "empty.pem").write_text("nothing")
    found = tls(pem, Trust(str(tmp_path / "empty.pem")))
    assert found.outcome == "failed"
    assert "empty.pem cannot be used" in found.detail


def test_a_certificate_of_our_own_is_shown(pem: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[tuple[object, ...]] = []
    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", lambda _, *files: loaded.append(files))
    Trust(str(pem), (str(pem), "key")).context()
    Trust(str(pem), str(pem)).context()
    assert loaded == [(str(pem), "key"), (str(pem), None)]


# --- clocks --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent_s", "heard_s", "expected"),
    [
        (100.0, 100.2, 0.0),
        (100.9, 101.1, 0.0),
        (95.0, 96.0, 4.0),
        (120.0, 121.0, -19.0),
        (50.0, 130.0, 0.0),
    ],
)
def test_a_clock_is_only_as_far_off_as_has_to_be(
    sent_s: float, heard_s: float, expected: float
) -> None:
    assert skew_s("Thu, 01 Jan 1970 00:01:40 GMT", sent_s, heard_s) == expected


def test_what_is_reported_of_a_clock() -> None:
    assert skew_s("yesterday", 1, 2) is None
    assert clock("it", None).outcome == "warning"
    assert clock("it", -4.9).outcome == "ok"
    slow = clock("it", -90.0)
    assert (slow.outcome, slow.detail) == ("warning", "90 s behind this machine's")
    assert clock("it", 7200.0).detail == "7,200 s ahead of this machine's"


@pytest.fixture(autouse=True)
def _threads_end() -> Iterator[None]:
    yield
    for thread in threading.enumerate():
        if thread.name == "dns":
            thread.join(30)
