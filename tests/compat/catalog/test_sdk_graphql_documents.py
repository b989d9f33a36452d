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
from mlcat_ingest.catalog.web.graphql.execution import _check_complexity
from mlcat_ingest.catalog.web.graphql.schema import executable_schema
from support.catalog_graphql import root_clients

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


@pytest.fixture(scope="module")
def found() -> dict[str, str]:
    return dict(documents())


@pytest.fixture(scope="module")
def ours(found: dict[str, str]) -> dict[str, str]:
    return {
        place: text
        for place, text in found.items()
        if not any(place.startswith(prefix) for prefix in FOREIGN)
    }


def test_each_document_fits_the_schema(ours: dict[str, str]) -> None:
    schema = executable_schema()
    assert schema.query_type is not None
    assert schema.mutation_type is not None
    known = schema.query_type.fields | schema.mutation_type.fields
    problems = {}
    for place, text in ours.items():
        document = parse(text)
        if out := roots(document) & OUT.keys():
            assert not out & known.keys(), f"{place}: it is there by now"
            continue
        _check_complexity(document, DEFAULT_LIMITS)
        if errors := validate(schema, document):
            problems[place] = [error.message for error in errors]
    assert problems == {}


def test_the_documents_were_found(found: dict[str, str], ours: dict[str, str]) -> None:
    """Guards the scan itself: without these the test above would say little."""
    assert set().union(*(roots(parse(text)) for text in ours.values())) >= {
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
    assert len(found) > 40


def test_the_clients_of_root_fields_ask_for_them(ours: dict[str, str]) -> None:
    """What is said to be there for the SDK or the command line is in one of their documents."""
    asked = set().union(*(roots(parse(text)) for text in ours.values()))
    theirs = {name for name, one in root_clients().items() if one.startswith(("SDK ", "CLI "))}
    assert theirs <= asked
    assert all(re.fullmatch(r"interface|connector|(SDK|CLI|MCP|web) .+", one)
               for one in root_clients().values())  # fmt: skip


def test_nothing_is_out_that_is_not_there(found: dict[str, str]) -> None:
    absent = [one for one in FOREIGN if not any(place.startswith(one) for place in found)]
    assert absent == []
