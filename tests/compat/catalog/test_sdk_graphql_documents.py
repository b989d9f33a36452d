"""Every GraphQL document in the DataHub SDK and CLI: it fits our schema, or stands here as out."""

import ast
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import datahub
import pytest
from graphql import (
    DocumentNode,
    FieldNode,
    GraphQLSyntaxError,
    OperationDefinitionNode,
    parse,
    validate,
)

from mlcat_ingest.catalog.limits import DEFAULT_LIMITS
from mlcat_ingest.catalog.web.graphql.queries import check_complexity
from mlcat_ingest.catalog.web.graphql.schema import executable_schema
from support.catalog_graphql import root_clients

pytestmark = pytest.mark.compat

SDK = Path(str(files(datahub)))

# Files that talk to other services than a catalog, or whose commands have nothing to do with it.
FOREIGN = {
    "api/graphql": "operations and assertions, which are about the rows of datasets",
    "ingestion/source/montecarlo": "Monte Carlo's own API",
    "ingestion/source/tableau": "Tableau's own API",
    "cli/iceberg_cli.py": "an Iceberg REST catalog, which is a service of its own",
    "ingestion/source/gc": "cleaning up pipelines and access tokens of a large installation",
    "ingestion/source/unstructured": "embedding texts for semantic search",
    "ingestion/source/datahub_documents": "embedding texts for semantic search",
    "ingestion/source/common/semantic_model_gate.py": "strips what a server lacks by itself",
}

# Root fields that this catalog does not have, with the reason.
OUT = {
    "semanticSearchAcrossEntities": "finds by meaning, which takes a language model",
    "getInviteToken": "users are not kept here",
    "batchAssignRole": "users are not kept here",
    "users": "users are not kept here",
    "createAccessToken": "tokens are made by `mlcat-ingest catalog token`",
    "listAccessTokens": "tokens are made by `mlcat-ingest catalog token`",
    "getSecretValues": "no secrets are kept here",
    "updateIngestionSource": "ingestion is not run from here",
    "listIngestionSources": "ingestion is not run from here",
    "upsertCustomAssertion": "assertions are about the rows of datasets",
    "reportAssertionResult": "assertions are about the rows of datasets",
}


def documents() -> Iterator[tuple[str, str]]:
    """Yield every operation in the SDK's files, with where it stands."""
    for path in sorted(SDK.rglob("*.py")):
        text = path.read_text()
        if "graphql" not in text.lower():
            continue
        for node in ast.walk(ast.parse(text)):
            document = _text(node)
            if document is not None and _is_operation(document):
                yield f"{path.relative_to(SDK).as_posix()}:{node.lineno}", document  # type: ignore[attr-defined]
    fragments = (SDK / "cli/gql/fragments.gql").read_text()
    for path in sorted((SDK / "cli/gql").glob("*.gql")):
        if path.name != "fragments.gql":
            yield path.relative_to(SDK).as_posix(), fragments + path.read_text()


def _text(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        # What is filled in is a URN or the name of a type.
        return "".join(_text(part) or "x" for part in node.values)
    return None


def _is_operation(text: str) -> bool:
    if "{" not in text or ("query" not in text and "mutation" not in text):
        return False
    try:
        document = parse(text)
    except GraphQLSyntaxError:
        return False
    return any(isinstance(each, OperationDefinitionNode) for each in document.definitions)


def roots(document: DocumentNode) -> set[str]:
    return {
        selection.name.value
        for definition in document.definitions
        if isinstance(definition, OperationDefinitionNode)
        for selection in definition.selection_set.selections
        if isinstance(selection, FieldNode)
    }


DOCUMENTS = dict(documents())
OURS = {
    place: text
    for place, text in DOCUMENTS.items()
    if not any(place.startswith(prefix) for prefix in FOREIGN)
}


@pytest.mark.parametrize("place", sorted(OURS))
def test_a_document_fits_the_schema(place: str) -> None:
    document = parse(OURS[place])
    if out := roots(document) & OUT.keys():
        known = executable_schema().query_type.fields | executable_schema().mutation_type.fields  # type: ignore[union-attr]
        assert not out & known.keys(), "it is there by now"
        return
    check_complexity(document, DEFAULT_LIMITS)
    assert [error.message for error in validate(executable_schema(), document)] == []


def test_the_documents_were_found() -> None:
    """Guards the scan itself: without these the test above would say little."""
    found = set().union(*(roots(parse(text)) for text in OURS.values()))
    assert found >= {
        "scrollAcrossEntities",
        "searchAcrossEntities",
        "scrollAcrossLineage",
        "removeTag",
        "createTag",
        "linkAssetVersion",
        "__schema",
        "__type",
        "appConfig",
    }
    assert len(DOCUMENTS) > 40


def test_the_clients_of_root_fields_ask_for_them() -> None:
    """What is said to be there for the SDK or the command line is in one of their documents."""
    asked = set().union(*(roots(parse(text)) for text in OURS.values()))
    theirs = {name for name, one in root_clients().items() if one.startswith(("SDK ", "CLI "))}
    assert theirs <= asked
    assert all(re.fullmatch(r"interface|connector|(SDK|CLI|MCP) .+", one)
               for one in root_clients().values())  # fmt: skip


@pytest.mark.parametrize("prefix", sorted(FOREIGN))
def test_nothing_is_out_that_is_not_there(prefix: str) -> None:
    assert any(place.startswith(prefix) for place in DOCUMENTS)
