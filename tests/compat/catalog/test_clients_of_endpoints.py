"""Every endpoint and root field of the catalog names a client, which has it in its source."""

import re
from collections.abc import Iterator
from importlib import import_module
from importlib.resources import files
from pathlib import Path

import click
import datahub
import pytest

from mlcat_ingest.catalog.limits import DEFAULT_LIMITS
from mlcat_ingest.catalog.web.rest.endpoint import CONNECTOR, INTERFACE, OPERATOR, Endpoint
from mlcat_ingest.catalog.web.rest.routes import rest_endpoints
from support.catalog_graphql import root_clients
from support.rest_client import rest_client

pytestmark = pytest.mark.compat

SDK = Path(str(files(datahub)))
CLIENT = Path(str(files("mlcat_ingest.client.rest")))
MODULES = (
    "emitter.rest_emitter",
    "ingestion.graph.client",
    "ingestion.source.gc.datahub_gc",
    "sdk.lineage_client",
    "utilities.openapi_utils",
)
INTERFACE_PATHS = {
    "/operations?action=getEsTaskStatus",
    "/test?action=evaluate",
    # A DataHub server's own:
    "/openapi/v3/entity/{entityType}/{urn}",
    "/openapi/v3/entity/{entityType}/{urn}/{aspectName}",
}


@pytest.fixture(scope="module")
def endpoints(tmp_path_factory: pytest.TempPathFactory) -> list[Endpoint]:
    with rest_client(tmp_path_factory.mktemp("catalog") / "c.db") as client:
        return list(rest_endpoints(client.store, client.tasks, DEFAULT_LIMITS))


def path_of(endpoint: Endpoint) -> str:
    return endpoint.path + (f"?action={endpoint.action}" if endpoint.action else "")


def called(endpoints: list[Endpoint], kind: str) -> Iterator[tuple[Endpoint, str]]:
    """Yield the endpoints of one kind of client, with the method or the command that it names."""
    found = [one.client.partition(" ") for one in endpoints]
    of_kind = [(one, verb) for one, (k, _, verb) in zip(endpoints, found, strict=True) if k == kind]
    assert of_kind
    yield from of_kind


def sends(text: str, endpoint: Endpoint) -> bool:
    """Return whether a source text has the path, with anything filled in where a parameter is."""
    literal = re.split(r"\{\w+\}", path_of(endpoint).rstrip("/"))
    return re.search(r"\{[^{}\n]+\}".join(map(re.escape, literal)), text) is not None


def test_every_client_is_a_known_one(endpoints: list[Endpoint]) -> None:
    own = {CONNECTOR, INTERFACE, OPERATOR}
    assert all(
        re.fullmatch(r"SDK \w+\.\w+|CLI .+", one.client) or one.client in own for one in endpoints
    )


def test_the_interface_is_that_of_the_service(endpoints: list[Endpoint]) -> None:
    assert {path_of(one) for one, _ in called(endpoints, INTERFACE)} == INTERFACE_PATHS


def test_the_connector_sends_it(endpoints: list[Endpoint]) -> None:
    text = "\n".join(path.read_text() for path in CLIENT.glob("*.py"))
    # The emitter names the aspect that it deletes by a path that it puts together.
    text = text.replace("/openapi/v3/entity/{path}", "/openapi/v3/entity/{type}/{urn}/{aspect}")
    text = text.replace("/test?action={action}", "/test?action=batchEvaluate")
    assert [path_of(one) for one, _ in called(endpoints, CONNECTOR) if not sends(text, one)] == []


@pytest.fixture(scope="module")
def sdk_text() -> str:
    return "\n".join(path.read_text() for path in SDK.rglob("*.py"))


def assert_in_sdk(verb: str) -> None:
    owner, _, method = verb.partition(".")
    modules = [import_module(f"datahub.{name}") for name in MODULES]
    assert any(hasattr(getattr(module, owner, None), method) for module in modules), verb


def assert_is_command(verb: str) -> None:
    command: click.Command | None = import_module("datahub.entrypoints").datahub
    for name in verb.split():
        assert isinstance(command, click.Group), verb
        command = command.commands.get(name)
    assert command is not None, verb


def test_the_sdk_has_the_method_and_sends_it(endpoints: list[Endpoint], sdk_text: str) -> None:
    for endpoint, verb in called(endpoints, "SDK"):
        assert_in_sdk(verb)
        assert sends(sdk_text, endpoint), path_of(endpoint)


def test_the_command_line_has_the_command_and_sends_it(
    endpoints: list[Endpoint], sdk_text: str
) -> None:
    for endpoint, verb in called(endpoints, "CLI"):
        assert_is_command(verb)
        assert sends(sdk_text, endpoint), path_of(endpoint)


def test_root_fields_of_graphql_name_methods_and_commands_that_exist() -> None:
    connector = (CLIENT / "search.py").read_text()
    for field, client in root_clients().items():
        kind, _, verb = client.partition(" ")
        if kind == "SDK":
            assert_in_sdk(verb)
        elif kind == "CLI":
            assert_is_command(verb)
        elif kind == CONNECTOR:
            assert f"{field}(input:" in connector
        else:
            assert kind in {INTERFACE, "MCP"}, field
    assert {field for field, client in root_clients().items() if client == INTERFACE} == {
        *("mlFeature", "mlFeatureTable", "mlModel", "mlModelGroup")
    }
