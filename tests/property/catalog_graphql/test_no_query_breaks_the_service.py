"""Random queries over the whole schema, sound and not: each is answered, and none breaks it."""

import json
import logging
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from starlette.types import ASGIApp

from mlcat_ingest.catalog.schema.values import Write
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.tasks import Tasks
from mlcat_ingest.catalog.web.app import create_app
from mlcat_ingest.catalog.web.graphql.resolvers import KINDS
from mlcat_ingest.catalog.web.graphql.schema import executable_schema
from mlcat_ingest.metadata.registry import ASPECTS
from mlcat_ingest.metadata.validate import validate_aspect
from support.asgi import call
from support.catalog_store import feature, group, model, open_store, put, table
from support.examples import examples
from support.graphql_fuzz import Queries

ADA = "urn:li:corpuser:ada"
DATASET = "urn:li:dataset:(urn:li:dataPlatform:s3,bucket/data,PROD)"
RULES = '{"on": {"types": ["mlModel"]}, "rules": []}'
ODD = (1, "x", ["y"], {"z": 1}, [{"name": 5, "urn": []}], None, True, 1.5)
CLASSIFICATIONS = {"DataFetchingException", "ExecutionAborted", "InvalidSyntax", "ValidationError"}
NAMED = [
    *("name", "title", "displayName", "description", "definition", "type", "active", "urn"),
    *("qualifiedName", "fields", "owners", "created", "lastModified", "customProperties"),
    *("externalUrl", "latest", "info", "typeNames"),
]
URNS = [
    model("m"),
    model("n"),
    group("g"),
    table("t"),
    feature("t", "f"),
    DATASET,
    ADA,
    "urn:li:test:t",
    "urn:li:tag:x",
    "urn:li:dataJob:(urn:li:dataFlow:(a,b,PROD),c)",
    "urn:li:chart:(superset,0)",
    "urn:li:versionSet:(v,mlModel)",
    "urn:li:dataHubPolicy:p",
    "urn:li:mlModel:(",
]

_patient = settings(
    max_examples=examples(250),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ASGIApp]:
    path: Path = tmp_path_factory.mktemp("fuzz") / "catalog.db"
    with closing(open_store(path)) as store, closing(Tasks(store)) as tasks:
        fill(store)
        yield create_app(store, tasks=tasks)


def fill(store: Store) -> None:
    stamp = {"time": 1, "actor": ADA}
    put(
        store,
        model("m"),
        mlModelProperties={"groups": [group("g")], "mlFeatures": [feature("t", "f")],
            "hyperParameters": {"lr": {"double": 0.5}}, "version": {"versionTag": "1"}},
        ownership={"owners": [{"owner": ADA, "type": "NONE"}]},
        globalTags={"tags": [{"tag": "urn:li:tag:x"}]},
        glossaryTerms={"terms": [{"urn": "urn:li:glossaryTerm:g"}], "auditStamp": stamp},
        domains={"domains": ["urn:li:domain:d"]},
        testResults={"passing": [{"test": "urn:li:test:t", "type": "SUCCESS"}], "failing": []},
        versionProperties={"versionSet": URNS[11], "version": {}, "sortId": "1"},
        structuredProperties={"properties": [{"propertyUrn": "urn:li:structuredProperty:p",
            "values": [{"string": "s"}, {"double": 1.0}]}]},
        institutionalMemory={"elements": [
            {"url": "http://a", "description": "d", "createStamp": stamp}]},
        deprecation={"deprecated": True, "note": "", "actor": ADA},
    )  # fmt: skip
    put(store, group("g"), mlModelGroupProperties={}, status={"removed": True})
    put(store, feature("t", "f"), mlFeatureProperties={"sources": [DATASET]})
    put(store, table("t"), mlFeatureTableProperties={"mlFeatures": [feature("t", "f")]})
    info = {"name": "T", "category": "c", "definition": {"type": "JSON", "json": RULES}}
    put(store, "urn:li:test:t", testInfo=info)
    store.write(list(odd_writes()))


def odd_writes() -> Iterator[Write]:
    """Yield aspects without a typed form, with values of every kind where a text is hoped for."""
    for kind in KINDS.values():
        for name in sorted(kind.aspects):
            spec = ASPECTS[name]
            if spec.timeseries or spec.type is not None or spec.key:
                continue
            for place, odd in enumerate(ODD):
                value = {
                    field: odd
                    for field in NAMED
                    if not validate_aspect(kind.entity_type, name, {field: odd})
                }
                yield Write(odd_urn(kind.entity_type, place), name, value)


def odd_urn(entity_type: str, place: int) -> str:
    ids = {
        "dataset": f"(urn:li:dataPlatform:s3,odd{place},PROD)",
        "dataFlow": f"(a,odd{place},PROD)",
        "dataJob": f"(urn:li:dataFlow:(a,b,PROD),odd{place})",
        "dataPlatformInstance": f"(urn:li:dataPlatform:s3,odd{place})",
        "versionSet": f"(odd{place},mlModel)",
        **dict.fromkeys(("chart", "dashboard", "notebook"), f"(superset,{place})"),
        "schemaField": f"({DATASET},{place})",
        "mlFeatureTable": f"(urn:li:dataPlatform:s3,odd{place})",
        "mlFeature": f"(t,odd{place})",
        "mlPrimaryKey": f"(t,odd{place})",
    }
    three = {"mlModel", "mlModelGroup", "mlModelDeployment"}
    fallback = ids["dataset"] if entity_type in three else f"odd{place}"
    return f"urn:li:{entity_type}:{ids.get(entity_type, fallback)}"


def answered(app: ASGIApp, query: str, caplog: pytest.LogCaptureFixture) -> dict[str, Any]:
    """Return the reply, which must be no server's fault."""
    caplog.clear()
    with caplog.at_level(logging.ERROR):
        answer = call(app, "POST", "/api/graphql", json.dumps({"query": query}).encode())
    assert answer.status in {200, 400}, answer.text
    body: dict[str, Any] = answer.json()
    for error in body.get("errors", []):
        assert error["extensions"]["classification"] in CLASSIFICATIONS, error
        assert error["extensions"].get("code", 400) < 500, error
    assert caplog.text == ""
    return body


def urns_by_type() -> dict[str, list[str]]:
    """Return the URNs that `fill` writes, by the object type they read as."""
    found: dict[str, list[str]] = {"Entity": [*URNS]}
    for kind in KINDS.values():
        odd = [odd_urn(kind.entity_type, place) for place in range(len(ODD))]
        own = [urn for urn in URNS if urn.startswith(f"urn:li:{kind.entity_type}:")]
        found.setdefault(kind.type_name, []).extend([*own, *odd])
        found["Entity"].append(odd[0])
    return found


QUERIES = Queries(executable_schema(), urns_by_type(), URNS)


@_patient
@given(query=QUERIES.strategy(unsound=False))
def test_sound_queries(app: ASGIApp, caplog: pytest.LogCaptureFixture, query: str) -> None:
    assert answered(app, query, caplog).keys() >= {"data", "extensions"}


@_patient
@given(query=QUERIES.strategy(unsound=True))
def test_unsound_queries(app: ASGIApp, caplog: pytest.LogCaptureFixture, query: str) -> None:
    answered(app, query, caplog)
