"""A registry server over gRPC: all that it sends arrives, and each refusal says what to do."""

import base64
import logging
import time
from pathlib import Path
from typing import Any

import grpc
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
from mlcat_ingest.net.session import FIRST_CONTACT_S
from support.certificates import make_certificate
from support.feast import REGISTRY
from support.feast_transports import field_of, grpc_server, listing, objects_of, transport_of
from support.pauses import Clock
from support.ports import free_port

TOKEN = "t0ken-of-mine"
BIG = 5 * 1024 * 1024


def feast(method: str, _metadata: object, _context: object) -> bytes | None:
    return listing(method)


def refusing(code: grpc.StatusCode, words: str = "") -> Any:
    def refuse(_method: str, _metadata: object, context: Any) -> bytes:
        context.abort(code, words)
        raise AssertionError

    return refuse


def test_a_server_sends_the_same_objects_as_its_file() -> None:
    with grpc_server(feast) as port:
        expected = objects_of(str(REGISTRY))
        assert objects_of(f"127.0.0.1:{port}") == expected
        assert (
            objects_of({"registry_type": "remote", "path": f"grpc://127.0.0.1:{port}"}) == expected
        )


def test_a_listing_beyond_the_four_megabytes_of_grpc_arrives() -> None:
    def padded(method: str, *_: object) -> bytes | None:
        found = listing(method)
        return found and found + field_of(20, bytes(BIG))

    with grpc_server(padded) as port:
        assert objects_of(f"127.0.0.1:{port}") == objects_of(str(REGISTRY))
        for limit in (BIG, 2048):
            with pytest.raises(RecipeError, match=f"{limit:,} bytes") as raised:
                objects_of(f"127.0.0.1:{port}", max_bytes=limit)
            assert "max_bytes" in str(raised.value.hint)


def test_objects_that_do_not_name_their_project_belong_to_the_one_that_was_asked_for() -> None:
    # Feast's own objects, which a server sends, do not keep it.
    entity = field_of(1, field_of(1, field_of(1, b"driver")))
    projects = b"".join(
        field_of(1, field_of(1, field_of(1, name))) for name in (b"rides", "größe".encode() * 40)
    )

    def nameless(method: str, *_: object) -> bytes | None:
        return {"ListProjects": projects, "ListEntities": entity}.get(method, b"")

    with grpc_server(nameless) as port:
        found = objects_of(f"127.0.0.1:{port}")
    entities = [(raw.project, raw.name) for raw in found if raw.kind == "entity"]
    assert entities == [("größe" * 40, "driver"), ("rides", "driver")]


def test_a_server_without_projects_sends_its_registry_as_a_whole() -> None:
    with grpc_server(
        lambda method, *_: REGISTRY.read_bytes() if method == "Proto" else None
    ) as port:
        assert objects_of(f"127.0.0.1:{port}") == objects_of(str(REGISTRY))


def test_a_server_without_label_views_is_an_older_one_and_without_entities_is_none() -> None:
    def without(missing: str) -> Any:
        return lambda method, *_: None if method == missing else listing(method)

    with grpc_server(without("ListLabelViews")) as port:
        assert "label_view" not in {raw.kind for raw in objects_of(f"127.0.0.1:{port}")}
    with (
        grpc_server(without("ListEntities")) as port,
        pytest.raises(ProtocolMismatchError, match="ListEntities"),
    ):
        objects_of(f"127.0.0.1:{port}")


@pytest.mark.parametrize("answer", [None, b"<html>please sign in</html>"])
def test_what_answers_and_is_no_registry_server_is_reported(answer: bytes | None) -> None:
    with grpc_server(lambda *_: answer) as port, pytest.raises(ProtocolMismatchError) as raised:
        objects_of(f"127.0.0.1:{port}")
    assert "serve_registry" in str(raised.value.hint)


def test_token_and_headers_are_sent_and_an_unencrypted_way_is_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[dict[str, str]] = []

    def answer(method: str, metadata: Any, _context: object) -> bytes | None:
        seen.append(metadata)
        return listing(method)

    with grpc_server(answer) as port, caplog.at_level(logging.WARNING):
        objects_of(f"127.0.0.1:{port}", token=TOKEN, headers={"X-Project": "rides"})
        objects_of(f"127.0.0.1:{port}", username="ada", password=TOKEN)
        assert not caplog.records
        with pytest.raises(SourceUnavailableError):
            objects_of("feast.invalid:6570", token=TOKEN, retries=0, timeout_s=5)
        assert "unencrypted" in caplog.text
    assert seen[0]["authorization"] == f"Bearer {TOKEN}"
    basic = base64.b64encode(f"ada:{TOKEN}".encode()).decode()
    assert seen[-1]["authorization"] == f"Basic {basic}"
    assert seen[0]["x-project"] == "rides"


@pytest.mark.parametrize(
    ("code", "words", "error", "cure"),
    [
        (grpc.StatusCode.UNAUTHENTICATED, "no", AuthenticationError, "token"),
        (grpc.StatusCode.PERMISSION_DENIED, "no", NotAuthorizedError, "DESCRIBE"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "slow", RateLimitedError, ""),
        (grpc.StatusCode.UNKNOWN, f"boom {TOKEN}", SourceUnavailableError, "log"),
    ],
)
def test_each_refusal_is_reported_with_its_cure_and_without_the_token(
    code: grpc.StatusCode, words: str, error: type[MlcatError], cure: str
) -> None:
    with grpc_server(refusing(code, words)) as port:
        transport = transport_of(f"127.0.0.1:{port}", token=TOKEN, retries=2)
        with pytest.raises(error) as raised:
            list(transport.objects())
        assert transport.requests_made() == 1
        transport.close()
    assert f"127.0.0.1:{port}" in raised.value.message
    assert cure in (raised.value.hint or "")
    assert TOKEN not in str(raised.value)


def test_a_server_that_comes_back_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlcat_ingest.sources.feast.grpc._FIRST_PAUSE_S", 0.01)
    failures = iter([True, True])

    def answer(method: str, _metadata: object, context: Any) -> bytes | None:
        if next(failures, False):
            context.abort(grpc.StatusCode.UNAVAILABLE, "starting")
        return listing(method)

    with grpc_server(answer) as port:
        transport = transport_of(f"127.0.0.1:{port}")
        assert len(list(transport.objects())) == 47
        assert transport.requests_made() == 2 + 9
        transport.close()


def test_a_server_is_waited_for_once_it_has_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock.installed(monkeypatch)
    with grpc_server(feast) as port:
        address = f"127.0.0.1:{port}"
        objects_of(address)
    for waited_s, where in ((300, address), (FIRST_CONTACT_S, f"127.0.0.1:{free_port()}")):
        clock.pauses.clear()
        with pytest.raises(SourceUnavailableError, match="does not answer"):
            objects_of(where, retry_for_s=300.0)
        assert sum(clock.pauses) == pytest.approx(waited_s)


def test_nobody_there_and_nobody_answering_are_reported_within_the_limits() -> None:
    with pytest.raises(SourceUnavailableError, match="does not answer"):
        objects_of(f"127.0.0.1:{free_port()}", retries=0)

    def late(*_: object) -> bytes:
        time.sleep(1)
        return b""

    with grpc_server(late) as port, pytest.raises(SourceUnavailableError, match="DEADLINE"):
        objects_of(f"127.0.0.1:{port}", retries=0, timeout_s=0.2)


def test_tls_is_spoken_and_its_certificate_checked(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path / "good")
    with grpc_server(feast, certificate=certificate) as port:
        address = f"grpcs://127.0.0.1:{port}"
        assert len(objects_of(address, ca_bundle=certificate)) == 47
        assert len(objects_of(f"127.0.0.1:{port}", ca_bundle=certificate)) == 47
        with pytest.raises(SourceUnavailableError, match="certificate") as raised:
            objects_of(address, retries=0)
        assert "ca_bundle" in str(raised.value.hint)
        with pytest.raises(SourceUnavailableError, match="verify: true"):
            objects_of(f"127.0.0.1:{port}", retries=0)


def test_a_certificate_for_another_name_needs_that_name(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path / "other", name="DNS:feast.example.com")
    with grpc_server(feast, certificate=certificate) as port:
        address = f"grpcs://127.0.0.1:{port}"
        assert len(objects_of(address, ca_bundle=certificate, authority="feast.example.com")) == 47
        with pytest.raises(SourceUnavailableError, match="certificate"):
            objects_of(address, ca_bundle=certificate, retries=0)


def test_what_cannot_be_done_is_an_error_of_the_recipe(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"ca_bundle: .*cannot be read"):
        objects_of("grpcs://127.0.0.1:1", ca_bundle=tmp_path / "none.pem")
    with pytest.raises(RecipeError, match="`verify: false`"):
        transport_of("127.0.0.1:1", disable_ssl_verification=True)


def test_the_identity_of_a_server_is_its_address() -> None:
    assert transport_of("Feast.Example.com:6570").server_id() == "feast.example.com:6570"
    assert transport_of("grpcs://feast.example.com/").server_id() == "feast.example.com:6570"
