"""Docstrings that stand below an assignment, of a module or of a class."""

import ast
from itertools import pairwise


def attribute_docstrings(source: str, of_class: str | None = None) -> dict[str, str]:
    """Return the docstrings of a module's names, or of the fields of one of its classes."""
    body = ast.parse(source).body
    if of_class is not None:
        [body] = [
            one.body for one in body if isinstance(one, ast.ClassDef) and one.name == of_class
        ]
    found = {}
    for node, after in pairwise(body):
        match node, after:
            case (
                (ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name))),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = " ".join(text.split())
            case _:
                pass
    return found
