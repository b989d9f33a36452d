"""`/openapi.json`, and the errors that every endpoint shares."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import BaseRoute, Mount, Route

from mlcat_ingest.catalog.limits import DEFAULT_LIMITS
from mlcat_ingest.catalog.web.rest.routes import rest_endpoints
from support.rest_client import RestClient, rest_client

NOT_REST = {"/", "/metrics", "/api/graphql", "/api/v2/graphql"}
PAGES = ("/changes", "/compare", "/entity/", "/kind/", "/static/", "/search", "/tasks")


def document(client: RestClient) -> Any:
    return client.ok("GET", "/openapi.json")


def test_the_document_has_every_row_of_the_table_and_no_other(client: RestClient) -> None:
    rows = rest_endpoints(client.store, client.tasks, DEFAULT_LIMITS)
    described = {
        (method.upper(), path)
        for path, methods in document(client)["paths"].items()
        for method in methods
    }
    assert described == {(row.method, row.path) for row in rows}
    actions = {(row.path, row.action) for row in rows if row.action is not None}
    listed = {
        (path, action)
        for path, methods in document(client)["paths"].items()
        for parameter in methods.get("post", {}).get("parameters", ())
        if parameter["name"] == "action"
        for action in parameter["schema"]["enum"]
    }
    assert listed == actions


def test_the_document_has_every_path_of_the_service(client: RestClient) -> None:
    described = {path.rstrip("/") for path in document(client)["paths"]}
    for route in routes(client.app.routes):
        path = re.sub(r"{(\w+):\w+}", r"{\1}", route.path).rstrip("/")
        if (path or "/") in NOT_REST or path.startswith(PAGES):
            continue
        assert path in described


def routes(several: Any) -> Iterator[Route]:
    for route in several:
        assert isinstance(route, BaseRoute)
        if isinstance(route, Mount):
            yield from routes(route.routes)
        if isinstance(route, Route):
            yield route


def test_names_are_unique_and_every_endpoint_says_what_it_does(client: RestClient) -> None:
    entries = [
        entry for methods in document(client)["paths"].values() for entry in methods.values()
    ]
    names = [entry["operationId"] for entry in entries]
    assert len(set(names)) == len(names)
    assert all(entry["summary"].endswith(".") for entry in entries)
    assert all({"200", "202", "204"} & entry["responses"].keys() for entry in entries)


def test_every_reference_leads_somewhere(client: RestClient) -> None:
    described = document(client)
    named = set(re.findall(r"#/components/schemas/(\w+)", str(described)))
    assert named == set(described["components"]["schemas"])


@pytest.mark.parametrize("prefix", ["", "/gms", "/api/gms"])
def test_the_shape_of_an_error_is_that_of_its_family(client: RestClient, prefix: str) -> None:
    assert client.refused("GET", f"{prefix}/openapi/nowhere", status=404)
    assert client.refused("GET", f"{prefix}/nowhere", status=404)
    assert client.refused("PUT", f"{prefix}/openapi/v3/entity/mlModel", status=405)
    assert client.refused("PUT", f"{prefix}/config", status=405)
    assert client.refused("POST", f"{prefix}/openapi/v3/entity/mlModel", b"{")
    assert client.refused("POST", f"{prefix}/aspects?action=ingestProposal", b"{")


def test_a_path_may_end_with_a_slash_or_not(client: RestClient) -> None:
    for path in ("/config", "/health", "/openapi.json", "/openapi/v3/entity/mlModel/batchGet"):
        for slash in ("", "/"):
            answer = client.send("GET" if "batch" not in path else "POST", path + slash, [])
            assert answer.status == 200


def test_more_requests_than_allowed_are_reported_to_come_back(tmp_path: Path) -> None:
    with rest_client(tmp_path / "c.db", replace(DEFAULT_LIMITS, requests_at_once=0)) as client:
        for path in ("/aspects/urn%3Ali%3Atag%3Aa?aspect=status", "/openapi/v3/entity/tag"):
            answer = client.send("GET", path)
            assert answer.status == 429
            assert answer.headers["retry-after"] == "1"
        # What tells whether the service lives is answered always.
        assert client.send("GET", "/health").status == 200
        assert client.send("GET", "/gms/config").status == 200
