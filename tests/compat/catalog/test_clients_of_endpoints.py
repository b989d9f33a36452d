"""The client that the page names for an endpoint, and a root field for itself, sends it."""

import re
from collections.abc import Iterator
from importlib import import_module
from importlib.resources import files
from pathlib import Path

import click
import datahub
import pytest

from support.catalog_graphql import root_clients
from support.catalog_page import clients_of_endpoints

CONNECTOR, INTERFACE, OPERATOR = "connector", "interface", "operator"
SDK = Path(str(files(datahub)))
CLIENT = Path(str(files("mlcat_ingest.client.rest")))
MODULES = (
    "emitter.rest_emitter",
    "ingestion.graph.client",
    "ingestion.source.gc.datahub_gc",
    "sdk.lineage_client",
    "utilities.openapi_utils",
)
ENDPOINTS = clients_of_endpoints().items()
INTERFACE_PATHS = {
    "/operations?action=getEsTaskStatus",
    "/test?action=evaluate",
    # A DataHub server's own:
    "/openapi/v3/entity/{entityType}",
    "/openapi/v3/entity/{entityType}/{urn}",
    "/openapi/v3/entity/{entityType}/{urn}/{aspectName}",
}


def called(kind: str) -> Iterator[tuple[str, str]]:
    """Yield the paths of one kind of client, with the method or the command that is named."""
    found = [(name.split(" ", 1)[1], *client.partition(" ")) for name, client in ENDPOINTS]
    of_kind = [(path, verb) for path, k, _, verb in found if k == kind]
    assert of_kind
    yield from of_kind


def sends(text: str, path: str) -> bool:
    """Return whether a source text has the path, with anything filled in where a parameter is."""
    literal = re.split(r"\{\w+\}", path.rstrip("/"))
    return re.search(r"\{[^{}\n]+\}".join(map(re.escape, literal)), text) is not None


def test_every_client_is_a_known_one() -> None:
    own = {CONNECTOR, INTERFACE, OPERATOR}
    assert all(
        re.fullmatch(r"SDK \w+\.\w+|CLI .+", client) or client in own for _, client in ENDPOINTS
    )


def test_the_interface_is_that_of_the_service() -> None:
    assert {path for path, _ in called(INTERFACE)} == INTERFACE_PATHS


def test_the_connector_sends_it() -> None:
    text = "\n".join(path.read_text() for path in CLIENT.glob("*.py"))
    # The emitter names the aspect that it deletes by a path that it puts together.
    text = text.replace("/openapi/v3/entity/{path}", "/openapi/v3/entity/{type}/{urn}/{aspect}")
    text = text.replace("/test?action={action}", "/test?action=batchEvaluate")
    assert [path for path, _ in called(CONNECTOR) if not sends(text, path)] == []


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


def test_the_sdk_has_the_method_and_sends_it(sdk_text: str) -> None:
    for path, verb in called("SDK"):
        assert_in_sdk(verb)
        assert sends(sdk_text, path), path


def test_the_command_line_has_the_command_and_sends_it(sdk_text: str) -> None:
    for path, verb in called("CLI"):
        assert_is_command(verb)
        assert sends(sdk_text, path), path


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
            assert kind in {INTERFACE, "MCP", "web"}, field
    assert {field for field, client in root_clients().items() if client == INTERFACE} == {
        *("mlFeature", "mlFeatureTable", "mlModel", "mlModelGroup")
    }
