"""GraphQL and the pages as clients meet them: over HTTP, with what no client should send."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import requests
from graphql import get_introspection_query
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.catalog_server import RunningCatalog, running_catalog
from support.catalog_store import feature, group, model, put, table
from support.examples import examples

pytestmark = pytest.mark.integration

_patient = settings(
    max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture]
)


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


_scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False)
_json = st.recursive(
    _scalars | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
_bodies = st.fixed_dictionaries(
    {},
    optional={"query": _json, "variables": _json, "operationName": _json, "extensions": _json},
)


@_patient
@given(body=st.binary(max_size=40) | _json.map(json.dumps).map(str.encode))
def test_no_body_is_a_server_error(catalog: RunningCatalog, body: bytes) -> None:
    answer = post(catalog, body)
    assert answer.status_code == 400
    assert answer.json()["message"]


@_patient
@given(body=_bodies)
def test_no_members_are_a_server_error(catalog: RunningCatalog, body: dict[str, Any]) -> None:
    # No text of the strategy is a query, so what is not refused as a request is so as a query.
    answer = post(catalog, body)
    if "query" in body and isinstance(body.get("variables"), dict | None):
        assert refused_as_query(answer) or refused_as_request(answer)
    else:
        assert refused_as_request(answer)


def refused_as_request(answer: requests.Response) -> bool:
    body = answer.json()
    return answer.status_code == body.get("status") == 400 and bool(body["message"])


def refused_as_query(answer: requests.Response) -> bool:
    body = answer.json()
    extensions = [error["extensions"] for error in body.get("errors", ())]
    sound = all(one["classification"] and one.get("code", 400) == 400 for one in extensions)
    return answer.status_code == 200 and "data" in body and bool(extensions) and sound


_WORDS = [
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    ":",
    "$a",
    "!",
    "=",
    "...",
    "on",
    "@include(if:true)",
    "#",
    '"',
    '"""',
    "1",
    "-1",
    "1e9",
    "null",
    "true",
    "query",
    "mutation",
    "fragment",
    "F",
    "Query",
    "MLModel",
    "Entity",
    "__typename",
    "__schema",
    "mlModel",
    "entity",
    "entities",
    "name",
    "properties",
    "groups",
    "relationships",
    "input",
    "urn",
    "urns",
]
_words = [*_WORDS, f'"{model("m")}"', f'"{group("g")}"', "\ud83e"]


@_patient
@given(words=st.lists(st.sampled_from(_words), max_size=30))
def test_no_query_is_a_server_error(catalog: RunningCatalog, words: list[str]) -> None:
    answer = post(catalog, {"query": " ".join(["{", *words, "}"])})
    if answer.status_code == 200 and "errors" not in answer.json():
        assert isinstance(answer.json()["data"], dict)
    else:
        assert refused_as_query(answer) or refused_as_request(answer)


_MEMBERS = """relationships(input: {types: ["MemberOf"], direction: INCOMING}) { total
    relationships { entity { urn ... on MLModel { properties { groups { urn } } } } } }"""
_fields = st.sampled_from(
    [
        "__typename",
        "urn",
        "type",
        _MEMBERS,
        "... on MLModel { name exists properties { mlFeatures groups { name } } }",
        "... on MLModelGroup { description platform { name properties { type } } }",
        "... on MLFeatureTable { held: properties { mlFeatures { name dataType exists } } }",
        "... on MLFeature { featureNamespace made: properties { sources { urn } } }",
    ]
)
_urns = st.sampled_from(
    [model("m"), model("n"), group("g"), table("t"), feature("t", "f"), "junk", "", "urn:li:tag:x"]
)


@_patient
@given(urn=_urns | st.text(max_size=20), fields=st.lists(_fields, min_size=1, max_size=8))
def test_every_sound_query_is_answered(
    catalog: RunningCatalog, urn: str, fields: list[str]
) -> None:
    query = f"query ($urn: String!) {{ entity(urn: $urn) {{ {' '.join(fields)} }} }}"
    answer = post(catalog, {"query": query, "variables": {"urn": urn}})
    if urn.startswith("urn:li:"):
        assert answer.status_code == 200
        assert set(answer.json()) == {"data", "extensions"}
        assert answer.json()["data"]["entity"] is not None
    else:
        assert refused_as_query(answer)


@_patient
@given(
    urn=_urns | st.text(max_size=30),
    tab=st.text(max_size=10),
    start=st.text(max_size=12) | st.integers().map(str),
)
def test_no_address_of_a_page_is_a_server_error(
    catalog: RunningCatalog, urn: str, tab: str, start: str
) -> None:
    for path in ("entity", "kind"):
        address = f"{catalog.url}/{path}/{quote(urn, safe='', errors='replace')}"
        answer = requests.get(address, params={"tab": tab, "start": start}, timeout=30)
        assert answer.status_code in {200, 404}
    answer = requests.get(f"{catalog.url}/search", params={"q": urn, "start": start}, timeout=30)
    assert answer.status_code == 200
