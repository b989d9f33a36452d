"""Good requests, spoiled by Hypothesis: the answer is always quick, and never a 5xx."""

import http.client
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, quote_from_bytes, urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlcat_ingest.catalog.limits import DEFAULT_LIMITS
from mlcat_ingest.catalog.web.rest.routes import rest_endpoints
from support.catalog_checks import assert_edges_agree, assert_search_agrees, assert_sound
from support.catalog_server import RunningCatalog, running_catalog
from support.catalog_store import named
from support.examples import examples
from support.graphql_queries import whole_entity
from support.json_mutations import bodies, transported
from support.recorded_requests import GETS, WITH_BODY, Recorded
from support.refusals import refusal_message

pytestmark = pytest.mark.integration

HANGS_S = 20

fuzzed = settings(
    max_examples=examples(40),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@dataclass
class Line:
    """A connection to the catalog that is kept open, as clients keep theirs."""

    catalog: RunningCatalog
    connection: http.client.HTTPConnection

    def send(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """Return the status and the JSON; fail on a 5xx, on another shape, and on no answer."""
        self.connection.request(method, path, body, headers or {})
        answer = self.connection.getresponse()
        content = answer.read()
        assert answer.status < 500, content
        if not content and answer.status in {200, 404}:
            return answer.status, None
        assert answer.headers["Content-Type"] == "application/json"
        value = json.loads(content)
        if answer.status >= 400:
            refusal_message(path, answer.status, value)
        return answer.status, value

    def ok(self, method: str, path: str, body: object = None) -> Any:
        """Return the JSON that a good request is answered with."""
        status, value = self.send(method, path, b"" if body is None else json.dumps(body).encode())
        assert status == 200, value
        return value


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    database = tmp_path_factory.mktemp("fuzz") / "catalog.db"
    with running_catalog(database) as catalog:
        host = urlsplit(catalog.url).netloc
        with closing(http.client.HTTPConnection(host, timeout=HANGS_S)) as connection:
            fuzzed_line = Line(catalog, connection)
            for good in WITH_BODY:
                fuzzed_line.ok(good.method, good.path, good.body)
            for path in GETS:
                fuzzed_line.ok("GET", path)
            yield fuzzed_line
            assert_all_can_be_read(fuzzed_line)
            assert_edges_agree(catalog.url)
    assert_search_agrees(database)
    assert_sound(database)


def assert_all_can_be_read(line: Line) -> None:
    """Fail unless whatever got into the catalog comes out of it again, by every door."""
    for urn in named(line.catalog.store):
        entity_type, key = urn.split(":")[2], quote(urn, safe="")
        assert line.ok("GET", f"/entitiesV2/{key}")["aspects"], urn
        [entity] = line.ok("POST", f"/openapi/v3/entity/{entity_type}/batchGet", [{"urn": urn}])
        assert entity["urn"] == urn
        line.connection.request("GET", f"/entity/{key}")
        page = line.connection.getresponse()
        assert (page.status, page.read()[:15]) == (200, b"<!doctype html>"), urn
        asked = {"query": whole_entity(entity_type), "variables": {"urn": urn}}
        assert "errors" not in line.ok("POST", "/api/graphql", asked), urn


def test_every_action_is_spoiled(line: Line) -> None:
    catalog = line.catalog
    rows = rest_endpoints(catalog.store, catalog.tasks, DEFAULT_LIMITS)
    actions = {f"{row.path}?action={row.action}" for row in rows if row.action}
    assert actions <= {good.path for good in WITH_BODY}


@pytest.mark.parametrize("good", WITH_BODY, ids=lambda good: good.path)
@fuzzed
@given(data=st.data())
def test_no_body_makes_it_fail(line: Line, good: Recorded, data: st.DataObject) -> None:
    headers, body = data.draw(transported(data.draw(bodies(good.body))))
    line.send(good.method, good.path, body, headers)


@pytest.mark.parametrize("good", GETS, ids=lambda good: good.partition("?")[0])
@fuzzed
@given(data=st.data())
def test_no_address_makes_it_fail(line: Line, good: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(2, len(good)))
    junk = data.draw(
        st.binary(max_size=8).map(quote_from_bytes)
        | st.sampled_from(["%00", "%", "%F0%9F%98%80", "&", "?", ";", "//", "..", "%2F", "List("])
        | st.sampled_from(["9" * 400, "(" * 400, "a" * 5000, "&version=" * 50])
    )
    line.send("GET", good[:at] + junk + good[at + data.draw(st.integers(0, 3)) :])
