"""Requests made from `/openapi.json` by schemathesis: only what the document says is answered."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from support.catalog_server import RunningCatalog, running_catalog
from support.catalog_store import group, model, put
from support.examples import examples
from support.rest_client import rest_client

HANGS_S = 20
ALWAYS = [not_a_server_error, status_code_conformance]
OF_BODIES = [content_type_conformance, response_schema_conformance]


def document() -> Any:
    with TemporaryDirectory() as folder, rest_client(Path(folder) / "c.db") as client:
        return client.ok("GET", "/openapi.json")


SCHEMA = schemathesis.openapi.from_dict(document())
# An operation that the document describes wrongly is an `Err`, which has no such method.
OPERATIONS: list[Any] = [
    result.ok()  # type: ignore[union-attr]
    for result in SCHEMA.get_all_operations()
]


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCatalog]:
    with running_catalog(tmp_path_factory.mktemp("document") / "c.db") as running:
        put(running.store, model("m"), mlModelProperties={"groups": [group("g")]})
        yield running


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as opened:
        yield opened


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.label)
@settings(max_examples=examples(15), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_answer_is_one_that_the_document_names(
    catalog: RunningCatalog, session: requests.Session, operation: Any, data: st.DataObject
) -> None:
    mode = data.draw(st.sampled_from(list(GenerationMode)))
    case = data.draw(operation.as_strategy(generation_mode=mode))
    answer = case.call(base_url=catalog.url, session=session, timeout=HANGS_S)
    # Of the actions that share a path some answer with nothing, which the document cannot say.
    checks = [*ALWAYS, *OF_BODIES] if answer.content else ALWAYS
    case.validate_response(answer, checks=checks)
