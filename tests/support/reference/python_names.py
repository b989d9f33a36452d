"""The public names of the package, from its source: signatures and docstrings."""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from support.reference.blocks import Page
from support.reference.docstrings import attribute_docstrings
from support.reference.markdown import bullet, inline, paragraph, table
from support.source_code import parsed

SOURCE: Final = Path(__file__).parents[3] / "src"
_SECTION: Final = re.compile(r"(Args|Attributes|Raises|Returns|Yields|Example|Cost|Source):(.*)")
_WIDTH: Final = 100

_ELSEWHERE: Final = {
    "Recipe": "Its fields are the [keys of a recipe](recipe.md#top-level).",
    "Report": "Its fields are the [keys of the JSON report](report.md#json-report).",
}
"""Classes whose fields have a page of their own."""

Definition = ast.ClassDef | ast.FunctionDef


def names(argument: str, page: Page) -> str:
    """Return what `module:Name, Name` are, each below a heading of its own."""
    del page
    module, _, listed = argument.partition(":")
    parts = []
    for name in (one.strip() for one in listed.split(",")):
        parts += [f"### `{name}`", f"`from {module} import {name}`"]
        path, node = _definition(module, name)
        parts += _class(node, path) if isinstance(node, ast.ClassDef) else _function(node)
    return "\n\n".join(filter(None, parts))


def errors(argument: str, page: Page) -> str:
    """Return the table of the errors of a module, each with its base class."""
    del page
    rows = [
        (f"`{node.name}`", f"`{ast.unparse(node.bases[0])}`", inline(_first_sentence(node)))
        for node in parsed(_path(argument)).body
        if isinstance(node, ast.ClassDef)
    ]
    return table(("error", "is a", "meaning"), rows)


def documented(page: Page) -> set[tuple[str, str]]:
    """Return the names on a page, each with the module that it is imported from."""
    found = set()
    for argument in page.arguments("api"):
        module, _, listed = argument.partition(":")
        found |= {(module, name.strip()) for name in listed.split(",")}
    for module in page.arguments("errors"):
        nodes = parsed(_path(module)).body
        found |= {(module, node.name) for node in nodes if isinstance(node, ast.ClassDef)}
    return found


def _path(module: str) -> Path:
    path = SOURCE / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _definition(module: str, name: str) -> tuple[Path, Definition]:
    """Return where a name is defined, wherever it is imported from."""
    path = _path(module)
    for node in ast.walk(parsed(path)):
        if isinstance(node, Definition) and node.name == name:
            return path, node
        if isinstance(node, ast.ImportFrom) and any(one.name == name for one in node.names):
            return _definition(node.module or "", name)
    raise LookupError(f"{module}:{name}")


def _class(node: ast.ClassDef, path: Path) -> Iterator[str]:
    methods = {one.name: one for one in node.body if isinstance(one, ast.FunctionDef)}
    made = methods.get("__init__")
    bases = ", ".join(map(ast.unparse, node.bases))
    head = f"class {node.name}({bases})" if bases else f"class {node.name}"
    yield _code(_signature(node.name, made) if made else head)
    yield from docstring(ast.get_docstring(node) or "")
    if made is not None:
        yield from docstring(_without_summary(ast.get_docstring(made) or ""))
    yield _ELSEWHERE.get(node.name) or _fields(node, path)
    for name, method in methods.items():
        decorators = {ast.unparse(one) for one in method.decorator_list}
        if name.startswith("_") or not ast.get_docstring(method):
            continue
        yield f"#### `{node.name}.{name}`"
        if "property" in decorators:
            yield _code(f"{name}: {ast.unparse(method.returns) if method.returns else 'Any'}")
        else:
            made_by = f"{node.name}.{name}" if "classmethod" in decorators else name
            yield _code(_signature(made_by, method))
        yield from docstring(ast.get_docstring(method) or "")


def _function(node: ast.FunctionDef) -> Iterator[str]:
    yield _code(_signature(node.name, node))
    yield from docstring(ast.get_docstring(node) or "")


def _fields(node: ast.ClassDef, path: Path) -> str:
    """Return the list of the fields of a class that has no constructor of its own."""
    meanings = attribute_docstrings(path.read_text(), node.name)
    lines = []
    for one in node.body:
        match one:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                kind = ast.unparse(annotation).strip("'\"")
            case ast.Assign(targets=[ast.Name(id=name)]):
                kind = ""
            case _:
                continue
        if not name.startswith("_"):
            about = f" (`{kind}`)" if kind else ""
            meaning = f": {inline(meanings[name])}" if name in meanings else ""
            lines.append(bullet(f"`{name}`{about}{meaning}"))
    return "\n".join(lines)


def _signature(name: str, node: ast.FunctionDef) -> str:
    """Return the parameters and the result, one parameter a line if it is long."""
    parameters = [one for one in _parameters(node.args) if one not in {"self", "cls"}]
    made = node.name == "__init__" or node.returns is None
    result = "" if made else f" -> {ast.unparse(node.returns)}" if node.returns else ""
    short = f"{name}({', '.join(parameters)}){result}"
    if len(short) <= _WIDTH:
        return short
    lines = "".join(f"    {one},\n" for one in parameters)
    return f"{name}(\n{lines}){result}"


def _parameters(arguments: ast.arguments) -> Iterator[str]:
    positional = [*arguments.posonlyargs, *arguments.args]
    bare: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
    yield from map(_parameter, positional, [*bare, *arguments.defaults])
    if arguments.vararg is not None:
        yield f"*{_parameter(arguments.vararg, None)}"
    elif arguments.kwonlyargs:
        yield "*"
    yield from map(_parameter, arguments.kwonlyargs, arguments.kw_defaults)
    if arguments.kwarg is not None:
        yield f"**{_parameter(arguments.kwarg, None)}"


def _parameter(one: ast.arg, default: ast.expr | None) -> str:
    kind = "" if one.annotation is None else f": {ast.unparse(one.annotation)}"
    value = "" if default is None else ast.unparse(default)
    equals = " = " if kind else "="
    return f"{one.arg}{kind}{equals}{value}" if value else f"{one.arg}{kind}"


def _code(text: str) -> str:
    return f"```python\n{text}\n```"


def _first_sentence(node: ast.ClassDef) -> str:
    return (ast.get_docstring(node) or "").split("\n\n")[0]


def _without_summary(text: str) -> str:
    """Return the docstring of a constructor without its first line."""
    return text.partition("\n\n")[2]


def docstring(text: str) -> Iterator[str]:
    """Yield the paragraphs of a docstring as Markdown, its sections as lists."""
    lines = inspect.cleandoc(text).splitlines()
    block: list[str] = []
    for line in [*lines, "Source:"]:
        if _SECTION.fullmatch(line) and block:
            yield from _section(block)
            block = []
        block.append(line)


def _section(lines: list[str]) -> Iterator[str]:
    head = _SECTION.fullmatch(lines[0])
    if head is None:
        yield from _paragraphs("\n".join(lines))
    elif head[1] == "Example":
        yield _code(textwrap.dedent("\n".join(lines[1:])).strip())
    elif head[1] in {"Args", "Attributes", "Raises"}:
        entries = re.split(r"\n(?=\S)", textwrap.dedent("\n".join(lines[1:])).strip())
        items = [one.partition(":") for one in entries]
        yield f"{'Arguments' if head[1] == 'Args' else head[1]}:"
        yield "\n".join(bullet(f"`{name}`: {inline(meaning)}") for name, _, meaning in items)
    else:
        rest = " ".join([head[2], *lines[1:]])
        yield paragraph(f"{head[1]}: {inline(rest)}")


def _paragraphs(text: str) -> Iterator[str]:
    for part in re.split(r"\n{2,}", text.strip()):
        if part.startswith("    "):
            yield _code(textwrap.dedent(part))
        elif part.startswith("- "):
            yield "\n".join(bullet(inline(one[2:])) for one in re.split(r"\n(?=- )", part))
        elif part:
            yield paragraph(inline(part.removesuffix("::") + ":" * part.endswith("::")))
