"""A registry's REST interface: every page of every listing, and what does not answer as it does."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from google.protobuf.message import DecodeError

from mlcat_ingest.errors import (
    AuthenticationError,
    MlcatError,
    NotAuthorizedError,
    ProtocolMismatchError,
    SourceUnavailableError,
)
from mlcat_ingest.sources.feast.messages import MESSAGES
from mlcat_ingest.testing.service import (
    FailingService,
    Script,
    ServiceAnswer,
    ServiceRequest,
    failing_service,
    web_page,
)
from support.certificates import make_certificate
from support.feast_transports import objects_of, paged, transport_of

pytestmark = pytest.mark.integration


def entity(name: str) -> dict[str, Any]:
    return {"spec": {"name": name, "joinKey": f"{name}_id", "valueType": "INT64", "new": 1}}


LISTINGS: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "projects": ("projects", [{"spec": {"name": "rides"}}]),
    "entities": ("entities", [entity(f"e{n:03}") for n in range(230)]),
    "data_sources": (
        "dataSources",
        [{"name": "s", "type": "BATCH_FILE", "fileOptions": {"uri": "s3://b/k"}}],
    ),
    "feature_views": (
        "featureViews",
        [
            {"type": "featureView", "spec": {"name": "v", "ttl": "86400s"}},
            {"type": "streamFeatureView", "spec": {"name": "sv"}},
            {"type": "onDemandFeatureView", "spec": {"name": "odv"}},
        ],
    ),
    "label_views": ("featureViews", [{"type": "labelView", "spec": {"name": "lv"}}]),
    "feature_services": ("featureServices", [{"spec": {"name": "svc"}}]),
}


def feast(request: ServiceRequest) -> ServiceAnswer:
    """Answer as the interface does: `limit` counts only together with `page`."""
    parts = urlsplit(request.path)
    name = parts.path.removeprefix("/api/v1/")
    if name not in LISTINGS:
        return ServiceAnswer(404)
    return paged(*LISTINGS[name], parts.query)


def refused(script: Script, **options: Any) -> MlcatError:
    with failing_service(script) as server, pytest.raises(MlcatError) as raised:
        objects_of(server.url, retries=0, **options)
    return raised.value


def asked(server: FailingService) -> list[str]:
    return [urlsplit(request.path).path.removeprefix("/api/v1/") for request in server.requests]


def test_every_page_of_every_listing_is_read_and_projects_are_filled_in() -> None:
    with failing_service(feast) as server:
        found = objects_of(server.url)
        assert asked(server).count("entities") == 3
    assert len(found) == 1 + 230 + 1 + 3 + 1 + 1
    by_name = {raw.name: raw for raw in found}
    kinds = {name: by_name[name].kind for name in ("v", "sv", "odv", "lv", "svc", "s")}
    assert kinds == {
        "v": "feature_view",
        "sv": "stream_feature_view",
        "odv": "on_demand_feature_view",
        "lv": "label_view",
        "svc": "feature_service",
        "s": "data_source",
    }
    view = MESSAGES["FeatureView"].FromString(by_name["v"].proto)
    assert (view.spec.project, view.spec.ttl.seconds) == ("rides", 86400)
    source = MESSAGES["DataSource"].FromString(by_name["s"].proto)
    assert (source.project, source.type, source.file_options.uri) == ("rides", 1, "s3://b/k")


def test_the_address_may_end_in_the_root_or_not() -> None:
    with failing_service(feast) as server:
        assert objects_of(server.url) == objects_of(f"{server.url}/api/v1/")
        assert transport_of(server.url).server_id() == f"127.0.0.1:{server.port}/api/v1"


def test_a_server_without_label_views_is_an_older_one_and_no_error() -> None:
    def older(request: ServiceRequest) -> ServiceAnswer:
        return ServiceAnswer(404) if "/label_views" in request.path else feast(request)

    with failing_service(older) as server:
        assert "lv" not in {raw.name for raw in objects_of(server.url)}


def test_an_object_that_cannot_be_read_is_kept_as_a_broken_one() -> None:
    def odd(request: ServiceRequest) -> ServiceAnswer:
        if "/entities" in request.path:
            return ServiceAnswer(body=b'{"entities": [{"spec": {"name": "bad", "tags": "none"}}]}')
        return feast(request)

    with failing_service(odd) as server:
        (bad,) = [raw for raw in objects_of(server.url) if raw.kind == "entity"]
    assert (bad.project, bad.name) == ("rides", "bad")
    with pytest.raises(DecodeError):
        MESSAGES["Entity"].FromString(bad.proto)


def test_objects_that_change_between_pages_end_the_reading() -> None:
    def shrinking(request: ServiceRequest) -> ServiceAnswer:
        if "/entities" in request.path and "page=2" in request.path:
            return ServiceAnswer(body=b'{"entities": [], "pagination": {"totalCount": 230}}')
        return feast(request)

    def repeating(request: ServiceRequest) -> ServiceAnswer:
        first = ServiceRequest(request.method, request.path.replace("page=2", "page=1"), {}, b"")
        return feast(first)

    for script in (shrinking, repeating):
        error = refused(script)
        assert isinstance(error, SourceUnavailableError)
        assert "changed" in error.message


def test_login_pages_refusals_and_other_services_are_distinguished() -> None:
    cases: list[tuple[Script, type[MlcatError], str]] = [
        ([web_page()], AuthenticationError, "login page"),
        ([ServiceAnswer(401)], AuthenticationError, "token"),
        ([ServiceAnswer(403)], NotAuthorizedError, "DESCRIBE"),
        ([ServiceAnswer(404)], ProtocolMismatchError, "/api/v1"),
        ([ServiceAnswer(body=b"[]")], ProtocolMismatchError, ""),
        ([ServiceAnswer(body=b'{"error": "no registry"}')], ProtocolMismatchError, "/api/v1"),
        ([ServiceAnswer(500, b"Traceback")], SourceUnavailableError, "log"),
        ([ServiceAnswer(hang_up=True)], SourceUnavailableError, "running"),
    ]
    for script, error, cure in cases:
        raised = refused(script, token="t0ken-of-mine")
        assert isinstance(raised, error), raised
        assert cure in (raised.hint or "")
        assert "t0ken-of-mine" not in str(raised)


def test_token_and_headers_are_sent() -> None:
    with failing_service(feast) as server:
        objects_of(server.url, token="t", headers={"X-Proxy": "me"})
        headers = server.requests[0].headers
    assert headers["Authorization"] == "Bearer t"
    assert headers["X-Proxy"] == "me"


def test_tls_is_checked_against_the_given_authorities(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    with failing_service(feast, certificate=certificate) as server:
        assert len(objects_of(server.url, ca_bundle=certificate)) == 237
        with pytest.raises(SourceUnavailableError, match="certificate"):
            objects_of(server.url, retries=0)


def test_the_doctor_goes_the_way_step_by_step() -> None:
    with failing_service(feast) as server:
        found = [(one.what, one.outcome) for one in transport_of(server.url).check()]
    assert found == [
        ("Feast DNS", "ok"),
        ("Feast connection", "ok"),
        ("Feast registry", "ok"),
        ("Feast server id", "ok"),
        ("Feast project", "ok"),
    ]
