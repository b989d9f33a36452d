"""The texts of the package that a user can see."""

import ast
import csv
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from docs.write_pages import commands, models
from support.source_code import nodes

PACKAGE = Path(__file__).parents[2] / "src" / "mlcat_ingest"


@cache
def messages() -> tuple[tuple[str, str], ...]:
    """Return each text with its place: literals of several words, help texts, recipe keys.

    Those of tables of failures are among them.

    Where a value is put in, the text has its expression in braces.
    """
    found = [
        (f"{path.relative_to(PACKAGE)}:{node.lineno}", text)
        for path in sorted(PACKAGE.rglob("*.py"))
        for node, text in _literals(path)
        if " " in text.strip()
    ]
    found += [
        (f"{path.relative_to(PACKAGE)}:{at}", text)
        for path in sorted(PACKAGE.rglob("failures.csv"))
        for at, row in enumerate(csv.reader(path.read_text("utf-8").splitlines()), 1)
        for text in row
        if " " in text.strip()
    ]
    found += [(context.command_path, context.get_help()) for context in commands()]
    found += [
        (f"{model}.{key}", json.dumps(schema))
        for model, of_model in models().items()
        for key, schema in of_model.get("properties", {}).items()
    ]
    return tuple((place, " ".join(text.split())) for place, text in found)


def _literals(path: Path) -> Iterator[tuple[ast.expr, str]]:
    """Yield the texts of a module, without docstrings and the parts of formatted ones."""
    within = nodes(path)
    hidden = {id(node.value) for node in within if isinstance(node, ast.Expr)}
    formatted = [node for node in within if isinstance(node, ast.JoinedStr)]
    hidden |= {id(part) for node in formatted for part in node.values}
    for node in within:
        match node:
            case ast.JoinedStr(values=values):
                yield node, "".join(map(_part, values))
            case ast.Constant(value=str(text)) if id(node) not in hidden:
                yield node, text


def _part(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=text):
            return str(text)
        case ast.FormattedValue(value=value):
            return f"{{{ast.unparse(value)}}}"
        case _:
            return ""
