from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from mlcat_ingest.client.base import Catalog, StoredAspect, TestOutcome
from mlcat_ingest.client.config import RestSinkConfig
from mlcat_ingest.client.rest.catalog import RestCatalog
from mlcat_ingest.client.rest.client import CatalogClient
from mlcat_ingest.core.findings import Finding
from mlcat_ingest.errors import CatalogUnavailableError, RecipeError
from mlcat_ingest.metadata.proposal import Proposal
from support.fake_service import Answer, FakeService, fake_service
from support.fakes import model_urn

pytestmark = pytest.mark.process

URN = model_urn("a")
OTHER = model_urn("other")
NOTHING_FOUND = {"scrollAcrossEntities": {"total": 0, "searchResults": []}}


@pytest.fixture
def service() -> Iterator[FakeService]:
    with fake_service() as running:
        running.on("POST", "/aspects", Answer(body={"value": "success"}))
        running.on("POST", "/openapi/v3/entity/mlModel/batchGet", Answer(body=[]))
        running.on("POST", "/api/graphql", Answer(body={"data": {"__typename": "Query"}}))
        empty: dict[str, list[object]] = {"passing": [], "failing": []}
        running.on(
            "POST",
            "/test",
            lambda asked: Answer(
                body={"value": {"results": dict.fromkeys(asked.json()["urns"], empty)}}
            ),
        )
        yield running


def config(service: FakeService, **more: Any) -> RestSinkConfig:
    return RestSinkConfig.model_validate({"server": service.server, "retries": 0, **more})


def test_every_verb_reaches_the_service(service: FakeService) -> None:
    rest = RestCatalog(config(service, token="tok", headers={"X-Team": "ml"}, batch_size=1))
    sink: Catalog = rest
    assert sink.traffic.requests_made() == 0
    assert sink.open() == f"the catalog at {service.server}"
    stored = {"urn": URN, "status": {"value": {"removed": True}}}
    service.on("POST", "/openapi/v3/entity/mlModel/batchGet", Answer(body=[stored]))
    assert sink.read_many([URN], ["status"]) == {URN: {"status": StoredAspect({"removed": True})}}
    assert sink.write([Proposal(URN, "status", {}), Proposal(OTHER, "status", {})]) == []
    service.on("GET", "/aspects/", Answer(body={"aspect": {"com.linkedin.common.Status": {}}}))
    assert rest.get_aspect(URN, "status", 2) == {}
    reported = sink.evaluator.evaluate_batch([URN], should_push=False, test_urns=["urn:li:test:t"])
    assert reported.outcomes == {URN: TestOutcome()}
    assert len(service.to("/aspects?")) == 2
    assert service.to("/aspects/")[0].path.endswith("?aspect=status&version=2")
    assert service.to("/test")[0].json()["testUrns"] == ["urn:li:test:t"]
    assert sink.traffic.requests_made() == len(service.asked) == 6
    assert {asked.headers["Authorization"] for asked in service.asked} == {"Bearer tok"}
    assert {asked.headers["X-Team"] for asked in service.asked} == {"ml"}
    sink.close()
    sink.close()


@pytest.mark.parametrize(("token", "sent"), [({}, "Bearer loose"), ({"token": ""}, None)])
def test_an_empty_token_is_none_and_a_missing_one_is_looked_for(
    service: FakeService, monkeypatch: pytest.MonkeyPatch, token: dict[str, str], sent: str | None
) -> None:
    monkeypatch.setenv("MLCAT_TOKEN", "loose")
    sink = RestCatalog(config(service, **token))
    sink.open()
    sink.close()
    assert service.asked[0].headers.get("Authorization") == sent


def test_options_reach_the_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: dict[str, Any] = {}
    for name in ("ca.pem", "c.pem", "k.pem"):
        (tmp_path / name).touch()
    monkeypatch.setattr(CatalogClient, "__init__", lambda _, **more: made.update(more))
    full = RestSinkConfig.model_validate(
        {
            "server": "http://here:1",
            "token": SecretStr("tok"),
            "headers": {"A": "b"},
            "timeout_s": 7,
            "connect_timeout_s": 3,
            "retries": 3,
            "connections": 2,
            "batch_size": 50,
            "batch_bytes": 100_000,
            "ca_bundle": tmp_path / "ca.pem",
            "client_cert": tmp_path / "c.pem",
            "client_key": tmp_path / "k.pem",
        }
    )
    RestCatalog(full)
    credentials, options = made["connection"]._find()
    assert (credentials.server, credentials.token) == ("http://here:1", "tok")
    assert (made["max_proposals"], made["max_bytes"]) == (50, 100_000)
    assert (options.read_timeout_s, options.connect_timeout_s, options.retries) == (7, 3, 3)
    assert (options.connections, dict(options.headers)) == (2, {"A": "b"})
    assert options.trust.verify == str(tmp_path / "ca.pem")
    assert options.trust.cert == (str(tmp_path / "c.pem"), str(tmp_path / "k.pem"))


def checked(sink: RestCatalog, *, write: bool = False) -> dict[str, Finding]:
    return {one.what.removeprefix("catalog "): one for one in sink.check(write=write)}


def test_check_tells_that_all_is_well(service: FakeService) -> None:
    service.on("POST", "/api/graphql", Answer(body={"data": NOTHING_FOUND}))
    sink = RestCatalog(config(service, token=""))
    findings = checked(sink)
    assert {one.outcome for one in findings.values()} == {"ok"}
    assert list(findings) == [
        "service",
        "clock",
        "permission: read aspects",
        "batch read",
        "permission: search",
        "permission: evaluate metadata tests",
        "permission: write",
    ]
    assert findings["service"].detail == f"the catalog at {service.server}"
    assert service.to("/aspects") == []
    sink.close()


def test_check_has_nothing_to_say_of_a_clock_that_no_answer_shows(
    service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RestCatalog, "clock_skew_s", None)
    sink = RestCatalog(config(service, token=""))
    assert "clock" not in checked(sink)
    sink.close()


def test_check_tells_what_is_missing(service: FakeService) -> None:
    service.on("POST", "/openapi", Answer(404))
    service.on("POST", "/openapi/v3/entity/mlModel/batchGet", Answer(404))
    service.on("GET", "/entitiesV2", Answer(404))
    service.on("POST", "/api/graphql", Answer(403, {"message": "no"}))
    service.on("POST", "/test", Answer(404))
    sink = RestCatalog(config(service, token=""))
    findings = checked(sink)
    warned = {what for what, one in findings.items() if one.outcome == "warning"}
    assert warned == {
        "batch read",
        "permission: search",
        "permission: read metadata tests",
    }
    assert "one request per entity" in findings["batch read"].detail
    assert "403: no" in findings["permission: search"].detail
    assert "a run evaluates itself: " in findings["permission: evaluate metadata tests"].detail
    sink.close()


def test_check_tells_what_fails(service: FakeService) -> None:
    service.on("POST", "/openapi/v3/entity/mlModel/batchGet", Answer(403, {"error": "no"}))
    service.on("POST", "/test", Answer(500))
    service.on("POST", "/api/graphql", Answer(body={"data": NOTHING_FOUND}))
    sink = RestCatalog(config(service, token=""))
    findings = checked(sink)
    denied = findings["permission: read aspects"]
    assert (denied.outcome, denied.hint) == ("failed", "grant the token the missing permission")
    assert findings["permission: search"].outcome == "ok"
    assert findings["permission: evaluate metadata tests"].outcome == "warning"
    service.on("GET", "/config", Answer(500, b"down"))
    broken = checked(RestCatalog(config(service, token="")))["service"]
    assert broken.outcome == "failed"
    assert "500: down" in broken.detail
    sink.close()


@pytest.mark.parametrize(
    ("version", "outcome", "words"),
    [
        ("null", "warning", "DataHub does not report its release"),
        ("a4f6b1c", "warning", "DataHub a4f6b1c does not report its release"),
        ("v0.15.0", "failed", "older than v1.0.0"),
        ("v1.0.0", "warning", "acknowledges and drops mlModelGroup"),
        ("v1.6.0", "ok", "DataHub v1.6.0 enforces If-Version-Match"),
    ],
)
def test_check_tells_what_datahub_it_is(
    service: FakeService, version: str, outcome: str, words: str
) -> None:
    versions = {"acryldata/datahub": {"version": version}}
    service.on("GET", "/config", Answer(body={"noCode": "true", "versions": versions}))
    found = checked(RestCatalog(config(service, token="")))["version"]
    assert found.outcome == outcome
    assert words in found.detail


@pytest.mark.parametrize(
    ("path", "datahub", "ui_url", "page"),
    [
        ("", False, None, "{server}/entity/"),
        ("/gms", False, None, "{server}/entity/"),
        ("", False, "https://pages.example", "https://pages.example/entity/"),
        ("/api/gms", True, None, "{server}/mlModelGroup/"),
        ("/api/gms", True, "https://pages.example/", "https://pages.example/mlModelGroup/"),
        # GMS itself has no pages.
        ("", True, None, ""),
        ("", True, "https://pages.example", "https://pages.example/mlModelGroup/"),
    ],
)
def test_the_pages_of_groups_follow_the_service(
    service: FakeService, path: str, ui_url: str | None, page: str, *, datahub: bool
) -> None:
    versions = {"acryldata/datahub": {"version": "v1.6.0"}} if datahub else {}
    service.on("GET", f"{path}/config", Answer(body={"noCode": "true", "versions": versions}))
    given = config(service, token="", ui_url=ui_url)
    sink = RestCatalog(given.model_copy(update={"server": f"{service.server}{path}"}))
    assert sink.facts.group_page == ""
    sink.open()
    assert sink.facts.group_page == (page and page.format(server=service.server) + "{urn}")
    assert sink.facts is sink.facts


def test_the_recipe_may_name_the_version(service: FakeService) -> None:
    versions = {"acryldata/datahub": {"version": "head"}}
    service.on("GET", "/config", Answer(body={"noCode": "true", "versions": versions}))
    sink = RestCatalog(config(service, token="", server_version="v1.6.0"))
    assert checked(sink)["version"].outcome == "ok"


def test_nothing_is_contacted_or_resolved_before_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MLCAT_SERVER", "DATAHUB_GMS_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    sink = RestCatalog(RestSinkConfig())
    sink.close()
    with pytest.raises(RecipeError, match="no address"):
        sink.open()


def test_a_dead_service_is_unavailable() -> None:
    with fake_service() as gone:
        server = gone.server
    sink = RestCatalog(RestSinkConfig.model_validate({"server": server, "retries": 0}))
    with pytest.raises(CatalogUnavailableError):
        sink.open()
    sink.close()
