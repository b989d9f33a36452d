"""A fact that several modules need is spelled in one of them."""

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "mlcat_ingest"
RESERVED = "metadata/reserved.py"
TAGS = ("mlflow.", "feast.")

NO_PROPERTY_KEYS = {
    "catalog/auth.py",  # keys of the ASGI scope
    "sources/feast/messages.py",  # the name of a protobuf package
}
SENDERS = ("cli", "client", "pipeline", "sinks")
"""The packages that send requests to a catalog; elsewhere a 200 is mostly an HTTP status."""

OTHER_200 = {
    "pipeline/links.py",  # characters of a message
}


def constants() -> Iterator[tuple[str, object]]:
    """Yield each constant of the package that is no docstring, with its module."""
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        docstrings = {
            id(node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and id(node) not in docstrings:
                yield path.relative_to(PACKAGE).as_posix(), node.value


def test_each_reserved_key_is_spelled_in_one_module() -> None:
    modules = {
        module for module, value in constants() if isinstance(value, str) and "mlcat." in value
    }
    assert modules - NO_PROPERTY_KEYS == {RESERVED}


def test_each_tag_of_mlflow_and_feast_is_spelled_in_one_module() -> None:
    for home in ("sources/mlflow/names.py", "links/evidence.py"):
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
