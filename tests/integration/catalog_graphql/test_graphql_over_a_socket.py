"""GraphQL as clients meet it: over HTTP, with what no client should send."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from graphql import get_introspection_query

from support.catalog_server import RunningCatalog, running_catalog
from support.catalog_store import feature, group, model, put, table


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCatalog]:
    path: Path = tmp_path_factory.mktemp("catalog") / "catalog.db"
    with running_catalog(path) as running:
        put(running.store, group("g"), mlModelGroupProperties={"description": "all"})
        put(
            running.store,
            model("m"),
            mlModelProperties={
                "groups": [group("g")],
                "mlFeatures": [feature("t", "f")],
                "customProperties": {"a": "b"},
            },
        )
        put(running.store, table("t"), mlFeatureTableProperties={"mlFeatures": [feature("t", "f")]})
        yield running


def post(catalog: RunningCatalog, body: Any) -> requests.Response:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return requests.post(f"{catalog.url}/api/graphql", data=data, timeout=30)


def test_a_client_reads_what_was_written(catalog: RunningCatalog) -> None:
    emitted = {
        "proposal": {
            "entityType": "mlFeature",
            "entityUrn": feature("customers", "flags"),
            "changeType": "UPSERT",
            "aspectName": "mlFeatureProperties",
            "aspect": {"description": "a list of booleans", "dataType": "SEQUENCE"},
        }
    }
    written = requests.post(
        f"{catalog.url}/aspects?action=ingestProposal", json=emitted, timeout=30
    )
    assert written.status_code == 200
    query = (
        'query { mlFeature(urn: "urn:li:mlFeature:(customers,flags)") '
        "{ name featureNamespace description properties "
        "{ description dataType version { versionTag } } } }"
    )
    answer = requests.post(
        f"{catalog.url}/api/graphql",
        json={"query": query},
        headers={"Authorization": "Bearer anything"},
        timeout=30,
    )
    assert answer.json() == {
        "data": {
            "mlFeature": {
                "name": "flags",
                "featureNamespace": "customers",
                "description": "a list of booleans",
                "properties": {
                    "description": "a list of booleans",
                    "dataType": "SEQUENCE",
                    "version": None,
                },
            }
        },
        "extensions": {},
    }


def test_introspection(catalog: RunningCatalog) -> None:
    answer = post(catalog, {"query": get_introspection_query()})
    assert answer.status_code == 200
    assert "errors" not in answer.json()


def test_what_is_not_posted_is_refused(catalog: RunningCatalog) -> None:
    answer = requests.get(f"{catalog.url}/api/graphql", timeout=30)
    assert answer.status_code == 405
    assert answer.json()["status"] == 405


@pytest.mark.parametrize("body", [b"", b"\xff", b"{", b"null", b"[3]", b'"query"'])
def test_no_body_is_a_server_error(catalog: RunningCatalog, body: bytes) -> None:
    answer = post(catalog, body)
    assert answer.status_code == 400
    assert answer.json()["message"]
