"""All texts of the package that a user can see, in the order of the source.

    python tests/docs/list_messages.py [FOLDER…]

prints a line each, as `path:line kind: text`, for the folders or files named below
`src/mlcat_ingest`, or for all of it. The kind is `help` (docstring of a command), `field`
(docstring of a recipe key), or the call, keyword or constant that the text is given to. A value
that is put in at run time is shown as `{expression}`.

A text counts as visible if it has two words or more, unless it is a docstring of another kind,
or a statement for a database or a browser.
"""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "mlcat_ingest"
STATEMENT = re.compile(
    r"\s*(?:--|(?:SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|PRAGMA|WITH|BEGIN|START|COMMIT|FROM"
    r"|WHERE|AND|OR|ORDER BY|GROUP BY|LIMIT|HAVING|JOIN|LEFT JOIN|UNION|VALUES|ON|ATTACH|EXPLAIN"
    r"|ANALYZE|REPLACE|SAVEPOINT|RELEASE|EXISTS|IN|NOT|CASE|COALESCE|MATCH)\b"
    r"|query \w*[({]|mutation \w*[({]|fragment |\{[ \n]|<|[\w.]+ (?:=|IN|IS|<|>|AND|OR|LIKE) )"
)
WORD = re.compile(r"\{[^{}]*\}|[A-Za-z][A-Za-z'-]*")
NOT_SHOWN = {
    *("compile", "startswith", "endswith", "cast", "execute", "split", "TypeVar", "regex"),
    *("set_experiment_tag", "set_tag", "update_registered_model"),
}
"""Calls and keywords whose texts are for the program, or data of the demo."""


@dataclass(frozen=True)
class Text:
    """A text, its place below `src/mlcat_ingest`, and what it is given to."""

    path: str
    line: int
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.kind}: {' '.join(self.text.split())}"


def texts(*folders: str) -> Iterator[Text]:
    """Yield the visible texts of some folders, or of the whole package."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if not folders or any(f"{name}/".startswith(f"{folder}/") for folder in folders):
            yield from sorted(
                Visitor(name, ast.parse(path.read_text())).texts(), key=lambda text: text.line
            )


@cache
def recipe_models() -> frozenset[str]:
    """Return the names of all classes whose attributes' docstrings describe recipe keys."""
    bases = {
        node.name: {base.id for base in node.bases if isinstance(base, ast.Name)}
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    }
    models = {"RecipeModel"}
    while more := {name for name, above in bases.items() if above & models} - models:
        models |= more
    return frozenset(models)


def literal(node: ast.expr) -> str | None:
    """Return the text of a string expression, or None if it is none."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(
                "{" + re.sub("[{}]", "", ast.unparse(part.value)) + "}"
                if isinstance(part, ast.FormattedValue)
                else ast.literal_eval(part)
                for part in values
            )
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            both = literal(left), literal(right)
            if both == (None, None):
                return None
            return "".join(
                f"{{{ast.unparse(side)}}}" if text is None else text
                for side, text in zip((left, right), both, strict=True)
            )
        case _:
            return None


class Visitor:
    """The visible texts of one module."""

    def __init__(self, name: str, tree: ast.Module) -> None:
        self.name = name
        self.tree = tree

    def texts(self) -> Iterator[Text]:
        yield from self.visit(self.tree, "module")

    def visit(self, node: ast.AST, kind: str) -> Iterator[Text]:
        if isinstance(node, ast.expr) and (text := literal(node)) is not None:
            yield from self.visible(node, kind, text)
            for inner in ast.walk(node):
                if isinstance(inner, ast.FormattedValue):
                    yield from self.visit(inner.value, kind)
            return
        yield from self.docstrings(node)
        for child, kind_of_child in children(node, kind):
            yield from self.visit(child, kind_of_child)

    def docstrings(self, node: ast.AST) -> Iterator[Text]:
        match node:
            case ast.FunctionDef(decorator_list=decorators, body=[ast.Expr(value=value), *_]):
                shown = any(re.search(r"\b(command|group)\b", ast.unparse(d)) for d in decorators)
                if shown and (text := literal(value)) is not None:
                    yield from self.visible(value, "help", text)
            case ast.ClassDef(name=name, body=[_, *attributes]) if name in recipe_models():
                for statement in attributes:
                    if isinstance(statement, ast.Expr) and (text := literal(statement.value)):
                        yield from self.visible(statement, "field", text)
            case _:
                pass

    def visible(self, node: ast.expr | ast.stmt, kind: str, text: str) -> Iterator[Text]:
        words = len(WORD.findall(text)) > 1 and " " in text.strip()
        if words and not NOT_SHOWN & set(kind.split()) and not STATEMENT.match(text):
            yield Text(self.name, node.lineno, kind, text)


def children(node: ast.AST, kind: str) -> Iterator[tuple[ast.AST, str]]:
    match node:
        case ast.Expr(value=ast.Constant()):
            return
        case ast.Call(func=func, args=args, keywords=keywords):
            name = ast.unparse(func).rpartition(".")[2]
            yield func, kind
            yield from ((arg, name) for arg in args)
            yield from ((each.value, f"{name} {each.arg or '**'}") for each in keywords)
        case ast.Assign(targets=[target, *_], value=value):
            yield value, ast.unparse(target)
        case ast.AnnAssign(annotation=annotation, target=target, value=value):
            if "Annotated" in ast.unparse(annotation):
                yield annotation, ast.unparse(target)
            if value is not None:
                yield value, ast.unparse(target)
        case ast.FunctionDef(name=name, returns=returns):
            shown = [child for child in ast.iter_child_nodes(node) if child is not returns]
            yield from ((child, f"{name}()") for child in shown)
        case ast.arg(annotation=ast.expr() as annotation):
            if "Annotated" in ast.unparse(annotation):
                yield annotation, kind
        case ast.Subscript(value=value, slice=inner) if ast.unparse(value) != "Annotated":
            yield value, kind
            if not isinstance(inner, ast.Constant):
                yield inner, kind
        case _:
            yield from ((child, kind) for child in ast.iter_child_nodes(node))


def main() -> None:
    for text in texts(*sys.argv[1:]):
        sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    main()
