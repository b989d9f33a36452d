"""What no client should send: always a 4xx in the shape of its path, and nothing written."""

import http.client
import json
import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import requests

from mlcat_ingest.catalog.limits import DEFAULT_LIMITS
from support.catalog_server import RunningCatalog, running_catalog
from support.catalog_store import counts
from support.refusals import refusal_message

MODEL = "urn:li:mlModel:(urn:li:dataPlatform:mlflow,m,PROD)"
GOOD = {
    "entityType": "mlModel",
    "entityUrn": MODEL,
    "changeType": "UPSERT",
    "aspectName": "mlModelProperties",
    "aspect": {"value": "{}", "contentType": "application/json"},
}
SINGLE = "/aspects?action=ingestProposal"
BATCH = "/aspects?action=ingestProposalBatch"
TASK = "/operations?action=getEsTaskStatus"
TEST = "/test?action=evaluate"
TESTS = "/test?action=batchEvaluate"
BATCH_GET = "/openapi/v3/entity/mlModel/batchGet"


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCatalog]:
    limits = replace(DEFAULT_LIMITS, proposals=3, batch_urns=3, body_bytes=200_000)
    path = tmp_path_factory.mktemp("hostile") / "c.db"
    with running_catalog(path, limits=limits) as running:
        yield running


def refused(answer: requests.Response, status: int, catalog: RunningCatalog) -> str:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert catalog.store.read(counts) == {}
    return refusal_message(answer.url, status, answer.json())


def nested(depth: int) -> str:
    return '{"a":' * depth + "1" + "}" * depth


def envelope(text: str) -> dict[str, str]:
    return {"value": text, "contentType": "application/json"}


@pytest.mark.parametrize(
    "path", [SINGLE, BATCH, TASK, TEST, TESTS, BATCH_GET, "/entities?action=delete", "/api/graphql"]
)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"not json",
        b"null",
        b"3",
        b'"text"',
        b"[[]]",
        b"[3]",
        b'[{"urn": 3}]',
        b'[{"urn": "x"}]',
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": 1e999}',
        b'{"a": "\xff\xfe"}',
        b'{"a": "\\ud800"}',
        b"\xef\xbb\xbf{}",
        b"\x00",
        b"{}",
        b'{"urn": null, "proposal": null, "proposals": null, "urns": null, "query": null}',
        b'{"urn": [], "proposal": [], "proposals": {}, "urns": {}, "task": [], "query": []}',
        b'{"urn": "", "proposal": "", "proposals": "", "urns": "", "task": "", "query": ""}',
        b'{"urn": "x", "proposal": {}, "proposals": [{}], "urns": ["x"], "task": "x"}',
        b'{"urn": "x", "proposal": {"entityUrn": "\\u0000"}, "proposals": [null], "urns": [null]}',
        nested(400).encode(),
        nested(30_000).encode(),
        b"[" * 100_000,
        b'{"a": ' + b"9" * 50_000 + b"}",
    ],
    ids=lambda body: repr(body[:30]),
)
def test_no_body_makes_the_service_fail(catalog: RunningCatalog, path: str, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    answer = requests.post(catalog.url + path, data=body, headers=headers, timeout=30)
    if path == BATCH_GET and answer.status_code == 200:
        assert answer.json() == []  # no list, so no entity is named
        return
    if path == "/api/graphql" and b'"query"' in body:
        # What is no text is read as one, and is no query.
        assert answer.json()["errors"][0]["extensions"] == {"classification": "InvalidSyntax"}
        return
    assert answer.status_code in {400, 422}
    refused(answer, answer.status_code, catalog)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"aspect": envelope(nested(400)), "aspectName": "forms"}, "faithful"),
        ({"aspect": json.loads(nested(400)), "aspectName": "forms"}, "faithful"),
        ({"aspect": envelope('{"a": NaN}')}, "JSON"),
        ({"aspect": envelope('{"customProperties": {"a": 1}}')}, "customProperties"),
        ({"aspect": envelope('{"a": "\\ud800"}')}, "JSON"),
        ({"aspect": envelope('{"a": %s}' % ("9" * 40)), "aspectName": "forms"}, "JSON"),
        ({"entityUrn": "urn:li:mlModel:(urn:li:dataPlatform:mlflow,m,MARS)"}, "MARS"),
        ({"entityUrn": "urn:li:mlModel:(urn:li:corpuser:mlflow,m,PROD)"}, "dataPlatform"),
        ({"entityUrn": "urn:li:mlModel:(((", "entityType": "mlModel"}, "parenthes"),
        ({"entityUrn": MODEL + "x" * 5000}, "entityUrn"),
        ({"entityUrn": "urn:li:mlFeature:(a,b)"}, "URN entity type does not match"),
        ({"entityType": "mlGizmo", "entityUrn": "urn:li:mlGizmo:x"}, "mlGizmo"),
        ({"aspectName": "mlFeatureProperties"}, "Unknown aspect"),
        ({"aspectName": "a" * 5000}, "Unknown aspect"),
        ({"changeType": "PATCH"}, "Invalid JSON Patch"),
        ({"changeType": "upsert"}, "upsert"),
        ({"systemMetadata": {"a": 2}, "headers": {"If-Unmodified-Since": "x"}}, "If-Unmodified-"),
    ],
    ids=lambda value: repr(value)[:50],
)
def test_no_proposal_makes_the_service_fail(
    catalog: RunningCatalog, changes: dict[str, Any], message: str
) -> None:
    proposal = {**GOOD, **changes}
    for path, sent in (
        (SINGLE, {"proposal": proposal}),
        (BATCH, {"proposals": [GOOD, proposal]}),
    ):
        answer = requests.post(catalog.url + path, json=sent, timeout=30)
        assert answer.status_code in {400, 422}
        assert message in refused(answer, answer.status_code, catalog)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/gms", 404),
        ("GET", "/api/gms/", 404),
        ("POST", "/nowhere", 404),
        ("GET", "/gms/nowhere/%FF", 404),
        ("GET", "/aspects", 400),
        ("GET", SINGLE, 400),
        ("PUT", SINGLE, 400),
        ("DELETE", "/config", 405),
        ("POST", "/config", 405),
        ("POST", "/aspects", 400),
        ("POST", "/aspects?action=", 400),
        ("POST", "/aspects?action=ingest", 400),
        ("POST", "/aspects?action=%FF%00", 400),
        ("POST", "/aspects/x?action=ingestProposal", 400),
        ("POST", "/operations", 400),
        ("POST", "/test?action=evaluated", 400),
        ("GET", "/aspects/x", 400),
        ("GET", "/aspects/x?aspect=status", 400),
        ("GET", "/aspects/x?aspect=status&version=0", 404),
        ("GET", "/aspects/%FF?aspect=status&version=0", 400),
        ("GET", "/aspects/%00?aspect=status&version=0", 400),
        ("GET", "/aspects/?aspect=status&version=0", 400),
        ("GET", f"/aspects/{quote(MODEL)}", 400),
        ("GET", f"/aspects/{quote(MODEL)}?aspect=", 400),
        ("GET", f"/aspects/{quote(MODEL)}?aspect=status&version=x", 400),
        ("GET", f"/aspects/{quote(MODEL)}?aspect=status&version=-1", 404),
        ("GET", f"/aspects/{quote(MODEL)}?aspect=status&version=1e3", 400),
        ("GET", f"/aspects/{quote(MODEL)}?aspect=status&version={2**63}", 400),
        ("GET", f"/aspects/{quote(MODEL)}?aspect=status&version={'9' * 5000}", 400),
        ("GET", f"/aspects/{quote(MODEL)}?aspect=%00&version=0", 404),
        ("GET", f"/aspects/{quote('urn:li:chart:' + 'x' * 5000)}?aspect=status&version=0", 404),
        ("GET", "/entitiesV2/x", 400),
        ("GET", "/entitiesV2/urn%3Ali%3Anothing%3Ax", 404),
        ("GET", "/entitiesV2", 404),
        ("GET", "/entitiesV2/urn%3Ali%3AmlFeature%3A%28a%29", 400),
        ("GET", "/entitiesV2/urn%3Ali%3AmlFeature%3A%28a%2C%29", 400),
        ("GET", "/openapi/v3/entity/mlModel/x", 404),
        ("GET", "/openapi/v3/entity/mlModel/urn:li:mlModel:((x)", 400),
        ("GET", "/entitiesV2/%ED%A0%80", 400),
        ("POST", "/openapi/v3/entity/mlModel/batchPut", 404),
    ],
)
def test_no_path_makes_the_service_fail(
    catalog: RunningCatalog, method: str, path: str, status: int
) -> None:
    answer = requests.request(method, catalog.url + path, timeout=30)
    refused(answer, status, catalog)


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        (BATCH, {"proposals": [GOOD] * 4}, "proposals has 4 items; the limit is 3"),
        (TESTS, {"urns": [MODEL] * 4}, "urns has 4 items; the limit is 3"),
        (BATCH_GET, [{"urn": MODEL}] * 4, "the body has 4 items; the limit is 3"),
        (BATCH_GET, [{"urn": "urn:li:mlModel:((a)"}], r"\[0\].urn: .* unbalanced parentheses"),
        (TESTS, {"urns": [], "testUrns": [3]}, r"testUrns\[0\]: expected a string"),
        (TESTS, {"urns": [], "push": "yes"}, "push: expected true or false, not a string"),
        ("/entities?action=delete", {"urn": MODEL, "aspectName": 3}, "aspectName: expected"),
        ("/operations?action=restoreIndices", [], "the body must be a JSON object, not a list"),
        ("/operations?action=restoreIndices", {"urn": "urn:li:mlModel"}, "urn:li:mlModel"),
    ],
)
def test_parameters_are_named(catalog: RunningCatalog, path: str, body: Any, message: str) -> None:
    answer = requests.post(catalog.url + path, json=body, timeout=30)
    assert re.search(message, refused(answer, 400, catalog))


def test_a_body_beyond_the_limit_is_refused_and_reported(catalog: RunningCatalog) -> None:
    for size in (200_001, 700_000):
        answer = requests.post(catalog.url + SINGLE, data=b"x" * size, timeout=30)
        assert "200,000 bytes" in refused(answer, 413, catalog)
    fits = requests.post(catalog.url + SINGLE, data=b"x" * 200_000, timeout=30)
    refused(fits, 400, catalog)


def test_a_body_without_end_is_cut_off(catalog: RunningCatalog) -> None:
    host, _, port = catalog.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as raw:
        raw.sendall(
            b"POST /aspects?action=ingestProposal HTTP/1.1\r\nHost: localhost\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        with pytest.raises(OSError, match=r"reset|pipe|aborted"):
            raw.sendall(chunk * 1_000)
    assert catalog.store.read(counts) == {}


def test_a_client_that_goes_away_harms_nobody(catalog: RunningCatalog) -> None:
    host, _, port = catalog.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as raw:
        raw.sendall(
            b"POST /aspects?action=ingestProposal HTTP/1.1\r\nHost: localhost\r\n"
            b'Content-Length: 5000\r\n\r\n{"proposal": '
        )
    assert requests.get(f"{catalog.url}/health", timeout=30).status_code == 200
    assert catalog.store.read(counts) == {}


def test_a_body_that_stalls_is_not_waited_for(tmp_path: Path) -> None:
    limits = replace(DEFAULT_LIMITS, body_seconds=0.05)
    with running_catalog(tmp_path / "c.db", limits=limits) as catalog:
        host, _, port = catalog.url.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port)), timeout=30) as raw:
            raw.sendall(
                b"POST /aspects?action=ingestProposal HTTP/1.1\r\nHost: localhost\r\n"
                b'Content-Length: 5000\r\n\r\n{"proposal": '
            )
            reported = b"".join(iter(lambda: raw.recv(10_000), b""))
    assert reported.startswith(b"HTTP/1.1 408")
    assert b"the limit is 0.05 s" in reported


def test_what_is_no_http_is_answered_with_400(catalog: RunningCatalog) -> None:
    host, _, port = catalog.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as raw:
        raw.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        assert raw.recv(100).startswith(b"HTTP/1.1 400")


def test_headers_of_any_bytes_are_taken(catalog: RunningCatalog) -> None:
    connection = http.client.HTTPConnection(catalog.url.removeprefix("http://"), timeout=30)
    connection.putrequest("GET", "/health")
    connection.putheader("Authorization", b"Bearer \xff\xfe")
    connection.endheaders()
    assert connection.getresponse().status == 200
    connection.close()


def test_a_defect_is_answered_in_the_usual_shape_and_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with running_catalog(tmp_path / "c.db") as catalog:
        monkeypatch.setattr(catalog.store, "write", lambda *_args: 1 / 0)
        answer = requests.post(catalog.url + SINGLE, json={"proposal": GOOD}, timeout=30)
        assert refused(answer, 500, catalog) == "Internal server error"
    assert "ZeroDivisionError" in caplog.text
