"""A fact that several modules need is spelled in one of them."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from mlcat_ingest.metadata.registry import ASPECTS
from support.source_code import nodes

PACKAGE = Path(__file__).parents[2] / "src" / "mlcat_ingest"
RESERVED = "metadata/reserved.py"
TAGS = ("mlflow.", "feast.")

NO_PROPERTY_KEYS = {
    "catalog/web/auth.py",  # keys of the ASGI scope
    "sources/feast/registry.py",  # the name of a protobuf package
}
SENDERS = ("cli", "client", "pipeline", "workflows")
"""The packages that send requests to a catalog; elsewhere a 200 is mostly an HTTP status."""

OTHER_200 = {
    "pipeline/read/links.py",  # characters of a message
}

DECLARATIONS = "metadata/aspects.py"
RELEASED_STEPS = {"catalog/schema/tables.py"}
"""Migrations: they never change, whatever an aspect is called later."""

WORDS = {
    "aliases": "a list of MLflow and of GraphQL",
    "container": "an entity type and a field of searches",
    "dataPlatformInstance": "an entity type",
    "documentation": "the field of the aspect",
    "domains": "a field of searches",
    "glossaryTerms": "a field of searches",
    "inputFields": "a field of GraphQL's own schema",
    "inviteToken": "an entity type",
    "operation": "a key of metadata tests",
    "origin": "a header of HTTP and a field of searches",
    "sourceCode": "the field of the aspect",
    "status": "of HTTP, of runs and of tasks",
    "systemMetadata": "a field of proposals and of replies",
}
"""Aspects whose names mean something else as well, and what."""

FIRST_IS_ASPECT = {"aspect", "aspect_entity", "entry_entity", "record_entity"}
SECOND_IS_ASPECT = {"Entity", "get_many", "get_version", "Proposal", "read_many", "Write"}
"""Calls whose first, or second, argument names an aspect, or several."""


@cache
def modules() -> list[tuple[str, tuple[ast.AST, ...], list[ast.Constant]]]:
    """Return the nodes of each module of the package, and its constants that are no docstrings."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        within = nodes(path)
        docstrings = {id(node.value) for node in within if isinstance(node, ast.Expr)}
        values = [
            node for node in within if isinstance(node, ast.Constant) and id(node) not in docstrings
        ]
        found.append((path.relative_to(PACKAGE).as_posix(), within, values))
    return found


def constants() -> Iterator[tuple[str, object]]:
    """Yield each constant of the package that is no docstring, with its module."""
    for module, _, values in modules():
        for node in values:
            yield module, node.value


def test_each_reserved_key_is_spelled_in_one_module() -> None:
    modules = {
        module for module, value in constants() if isinstance(value, str) and "mlcat." in value
    }
    assert modules - NO_PROPERTY_KEYS == {RESERVED}


def test_each_tag_of_mlflow_and_feast_is_spelled_in_one_module() -> None:
    for home in ("sources/mlflow/values/records.py", "links/rules.py"):
        tags = {
            value
            for module, value in constants()
            if module == home and isinstance(value, str) and value.startswith(TAGS)
        }
        assert tags
        assert {module for module, value in constants() if value in tags} == {home}


def test_the_size_of_a_request_is_spelled_in_one_module() -> None:
    modules = {
        module
        for module, value in constants()
        if value == 200 and module.startswith((*SENDERS, "metadata"))
    }
    assert modules - OTHER_200 == {RESERVED}


def field_names_of_graphql(module: str, within: tuple[ast.AST, ...]) -> set[int]:
    """Return the keys of the tables of resolvers: they are fields of the GraphQL schema."""
    if not module.startswith("catalog/web/graphql/"):
        return set()
    return {id(key) for node in within if isinstance(node, ast.Dict) for key in node.keys}


def test_each_aspect_is_spelled_in_the_module_that_declares_it() -> None:
    names = ASPECTS.keys() - WORDS.keys()
    spelled: dict[str, set[str]] = {}
    for module, within, values in modules():
        fields = field_names_of_graphql(module, within)
        for node in values:
            if isinstance(node.value, str) and id(node) not in fields:
                # In a longer text, and not in a path, a word is a name if it looks like one.
                inside = {word for word in re.findall(r"[\w.]+", node.value) if not word.islower()}
                for name in names & (inside | {node.value}):
                    spelled.setdefault(name, set()).add(module)
    elsewhere = {
        name: found
        for name, given in spelled.items()
        if len(found := given - RELEASED_STEPS) > 1 or not min(found).startswith(DECLARATIONS)
    }
    assert elsewhere == {}


def test_words_that_mean_something_else_too_are_constants_where_they_are_aspects() -> None:
    literal = [
        f"{module}:{word.lineno} {word.value}"
        for module, within, _ in modules()
        if not module.startswith(DECLARATIONS)
        for node in within
        for word in aspects_in(node)
        if isinstance(word, ast.Constant) and word.value in WORDS
    ]
    assert literal == []


def aspects_in(node: ast.AST) -> Iterator[ast.expr]:
    """Yield what is an aspect's name by its place: in a call or in a subscript of aspects."""
    if isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("aspects"):
        yield node.slice
    if isinstance(node, ast.Call):
        called = ast.unparse(node.func)
        name = called.rpartition(".")[2]
        if name in FIRST_IS_ASPECT or called.endswith("aspects.get"):
            yield from node.args[:1]
        elif name in SECOND_IS_ASPECT and len(node.args) > 1:
            match node.args[1]:
                case ast.List(elts) | ast.Set(elts) | ast.Tuple(elts):
                    yield from elts
                case ast.Dict(keys):
                    yield from (key for key in keys if key is not None)
                case argument:
                    yield argument
