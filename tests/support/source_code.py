"""The source of the package as syntax trees, each parsed once."""

import ast
from functools import cache
from pathlib import Path


@cache
def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a module."""
    return ast.parse(path.read_text())


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of a module's syntax tree."""
    return tuple(ast.walk(parsed(path)))
