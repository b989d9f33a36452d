"""Writes what the documentation has by the code: recipe keys, commands and the Python API.

Without an argument it writes the blocks of the reference pages anew. A block is between a line
`<!-- keys MODEL -->`, `<!-- commands -->` or `<!-- api NAME [MEMBER…] -->` and `<!-- end -->`. With
members, fields are left out; `none` names none.

With a folder it copies into it the files of the site, which Zensical makes of them (`.mkdocs.yml`):
those of `docs/`, and those beside it that pages link to.
"""

import ast
import inspect
import json
import posixpath
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import click

from mlcat_ingest.cli.main import cli

ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = ROOT / "src"
BESIDE: Final = {"README.md": "overview.md", "CONTRIBUTING.md": "contributing.md"}
"""Pages beside `docs/`, and their names on the site, which has a `README.md` already."""

COPIED: Final = ("CHANGELOG.md", "recipes/**/*.yml", "airflow_dags/*.py")
"""Other files beside `docs/` that pages link to."""

WRITTEN: Final = ("recipe", "command-line", "python-api")
"""The reference pages with blocks of this module."""

KEYS: Final = re.compile(r"(?m)^<!-- keys (\w+) -->$")
BLOCK: Final = re.compile(r"(?ms)^(<!-- (keys|commands|api)((?: [\w.]+)*) -->\n).*?^<!-- end -->$")
_LINK: Final = re.compile(r"\]\(([\w./-]+)(#[^)\s]*)?\)")
WIDTH: Final = 100
_SECTION: Final = re.compile(r"(?m)^([A-Z]\w+):\n((?:    .*\n|\n)+)")
_EXAMPLE: Final = re.compile(r"(?m)^>>> .*(?:\n\S.*)*")


def with_blocks(markdown: str) -> str:
    """Return a page with its blocks as the code is now."""
    headings = dict(headings_of(markdown))

    def written(block: re.Match[str]) -> str:
        start, kind, words = block.groups()
        match kind, words.split():
            case "keys", [model]:
                text = table_of(model, headings)
            case "api", [name, *members]:
                text = api_of(name, members)
            case _:
                text = "\n\n".join(map(help_of, commands()))
        return f"{start}\n{text}\n\n<!-- end -->"

    return BLOCK.sub(written, markdown)


def write_site(folder: Path) -> None:
    """Copy all files of the site into `folder`, with links that lead to each other."""
    shutil.copytree(ROOT / "docs", folder, dirs_exist_ok=True)
    beside = {ROOT / name: on_site for name, on_site in BESIDE.items()}
    copied = [path for pattern in COPIED for path in ROOT.glob(pattern)]
    for source, name in (*beside.items(), *((one, str(one.relative_to(ROOT))) for one in copied)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, folder / name)
    for page in folder.rglob("*.md"):
        page.write_text(on_site(page.read_text(), page.relative_to(folder).as_posix()))


def on_site(markdown: str, name: str) -> str:
    """Return a page with links that lead to the files of the site."""
    beside = name in BESIDE.values() or name in COPIED
    source = posixpath.dirname(name) if beside else posixpath.join("docs", posixpath.dirname(name))
    return _LINK.sub(partial(_relinked, source=source, site=posixpath.dirname(name)), markdown)


def _relinked(link: re.Match[str], source: str, site: str) -> str:
    target = posixpath.normpath(posixpath.join(source, link[1]))
    if not (ROOT / target).is_file():
        return link[0]
    on_site = BESIDE.get(target, target.removeprefix("docs/"))
    return f"]({posixpath.relpath(on_site, site or '.')}{link[2] or ''})"


def api_of(name: str, members: list[str]) -> str:
    """Return the signature and the docstring of a public name, and those of its members."""
    module, _, last = name.rpartition(".")
    # Airflow is in an environment of its own.
    found = getattr(import_module(module), last) if ".airflow." not in name else None
    if inspect.ismodule(found):
        return _preformatted(inspect.getdoc(found) or "")
    place = (found.__module__ if found else module).replace(".", "/")
    path = next(
        one for one in (SOURCE / f"{place}.py", SOURCE / place / "__init__.py") if one.exists()
    )
    (node,) = (one for one in ast.parse(path.read_text()).body if _name_of(one) == last)
    texts = [f"### `{name}`", *_described(node, with_fields=not members)]
    for member in getattr(node, "body", []) if isinstance(node, ast.ClassDef) else []:
        label = _name_of(member)
        listed = label in members if members else label and not label.startswith("_")
        if listed and isinstance(member, ast.FunctionDef):
            texts += [f"#### `{last}.{label}`", *_described(member)]
    return "\n\n".join(filter(None, texts))


def _name_of(node: ast.stmt) -> str:
    return str(getattr(node, "name", ""))


def _described(node: ast.stmt, *, with_fields: bool = True) -> Iterator[str]:
    """Yield the code of a signature, with the fields of a class, and the docstring."""
    if not isinstance(node, ast.ClassDef | ast.FunctionDef):
        raise TypeError(f"{ast.unparse(node)} is no class or function")
    text, body = ast.get_docstring(node) or "", [*map(_field, node.body)] if with_fields else []
    for one in node.body if isinstance(node, ast.ClassDef) else ():
        if isinstance(one, ast.FunctionDef) and one.name == "__init__":
            text = f"{text}\n\n{ast.get_docstring(one) or ''}"
            body.append(_head(one))
    lines = [
        _head(node),
        *(f"    {line}" for field in body if field for line in field.splitlines()),
    ]
    yield "\n".join(["```python", *lines, "```"])
    yield _prose(text)


def _field(node: ast.stmt) -> str:
    """Return the line of a public field of a class; a default that is computed is `...`."""
    if not isinstance(node, ast.AnnAssign):
        return ""
    name, kind = ast.unparse(node.target), node.annotation
    if isinstance(kind, ast.Subscript) and ast.unparse(kind.value) == "Annotated":
        kind = kind.slice.elts[0] if isinstance(kind.slice, ast.Tuple) else kind
    default = "..." if isinstance(node.value, ast.Call) else node.value and ast.unparse(node.value)
    hidden = name.startswith("_") or ast.unparse(kind).startswith("ClassVar")
    return "" if hidden else f"{name}: {ast.unparse(kind)}" + (f" = {default}" if default else "")


def _head(node: ast.ClassDef | ast.FunctionDef) -> str:
    """Return what is above the body of a class or function; long, it has a line a parameter."""
    bare = ast.parse(ast.unparse(node)).body[0]
    bare.body = [ast.Expr(ast.Constant(...))]  # type: ignore[attr-defined]
    *decorators, line = ast.unparse(bare).removesuffix("\n    ...").removesuffix(":").splitlines()
    if len(line) <= WIDTH or isinstance(node, ast.ClassDef):
        return "\n".join([*decorators, line])
    start, rest = line.split("(", 1)
    parameters, depth, at = [""], 0, 0
    for at, char in enumerate(rest):  # noqa: B007 - where it ends
        if char == ")" and depth == 0:
            break
        depth += (char in "([{") - (char in ")]}")
        parameters[-1] += char
        if char == "," and depth == 0:
            parameters.append("")
    lines = [f"    {one.strip().removesuffix(',')}," for one in parameters]
    return "\n".join([*decorators, f"{start}(", *lines, rest[at:]])


def _prose(docstring: str) -> str:
    """Return a docstring as Markdown: its sections as lists, its examples as code."""
    text = _SECTION.sub(_list, f"{docstring}\n")
    text = _EXAMPLE.sub(lambda example: f"```python\n{example[0]}\n```", text)
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def _preformatted(docstring: str) -> str:
    """Return a docstring whose indented lines are a block of text."""
    block = re.compile(r"(?m)^    .*(?:\n    .*)*")
    return block.sub(lambda lines: f"```text\n{textwrap.dedent(lines[0])}\n```", docstring)


def _list(section: re.Match[str]) -> str:
    lines = textwrap.dedent(section[2]).strip()
    if ">>>" in lines:
        return f"{section[1]}:\n\n{lines}\n\n"
    items = re.sub(r"\n +", " ", lines).splitlines()
    rows = (re.sub(r"^([*\w]+): ", r"`\1`: ", item) for item in items if item)
    return f"{section[1]}:\n\n" + "".join(f"- {row}\n" for row in rows) + "\n"


def headings_of(markdown: str) -> Iterator[tuple[str, str]]:
    """Yield each model that a page lists, with the anchor of the heading above it."""
    anchor = ""
    for line in markdown.splitlines():
        if line.startswith("#"):
            anchor = re.sub(r"[^\w\- ]", "", line.lstrip("# ").lower()).replace(" ", "-")
        elif block := KEYS.fullmatch(line):
            yield block[1], anchor


def commands(
    command: click.Command = cli, above: click.Context | None = None, name: str = "mlcat-ingest"
) -> Iterator[click.Context]:
    """Yield the context of each command, those of a group after it."""
    context = click.Context(command, above, name, terminal_width=84, **command.context_settings)
    yield context
    if isinstance(command, click.Group):
        for name_below in command.list_commands(context):
            if below := command.get_command(context, name_below):
                yield from commands(below, context, name_below)


def help_of(context: click.Context) -> str:
    """Return the section of a command."""
    level = "#" * (1 + len(context.command_path.split()))
    return f"{level} `{context.command_path}`\n\n```text\n{context.get_help()}\n```"


@cache
def models() -> Mapping[str, Any]:
    """Return the schema of each model of a recipe, by its name."""
    schema = json.loads((ROOT / "docs" / "recipe.schema.json").read_text())
    return {**schema["$defs"], "Recipe": schema}


def table_of(model: str, headings: Mapping[str, str]) -> str:
    """Return the description of a model, and the table of its keys."""
    schema = models()[model]
    keys = schema["properties"]
    required = {*schema.get("required", ())}
    # A key with other names is required under one of them, the first of which is its own.
    names = [rule["anyOf"] for rule in schema.get("allOf", ()) if "anyOf" in rule]
    required |= {key for alternatives in names for key in alternatives[0]["required"]}
    other_names = {name: key for name, key in keys.items() if key.get("deprecated")}
    lines = [schema["description"], "", "| key | type | default | meaning |", "|---|---|---|---|"]
    for name, key in keys.items():
        if name not in other_names and name != "$schema":
            default = "required" if name in required else _default(key)
            meaning = key.get("description") or _model_of(key)["description"]
            words = " ".join([meaning, *_others(meaning, other_names)])
            cells = (f"`{name}`", _type(key, headings), default, words)
            lines.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
    return "\n".join(lines)


def _model_of(key: Mapping[str, Any]) -> Mapping[str, Any]:
    model: Mapping[str, Any] = models()[key["$ref"].rpartition("/")[2]]
    return model


def _others(meaning: str, other_names: Mapping[str, Any]) -> Iterator[str]:
    """Yield sentences on the other names of a key."""
    meanings = {other: key["description"] for other, key in other_names.items()}
    same = [f"`{other}`" for other, text in meanings.items() if text == meaning]
    if same:
        yield f"Also called {', '.join(same)}."


def _default(key: Mapping[str, Any]) -> str:
    default = key.get("default")
    return "" if default is None or isinstance(default, dict) else f"`{json.dumps(default)}`"


def _type(key: Mapping[str, Any], headings: Mapping[str, str]) -> str:
    """Return what a value has to be, in words."""
    match key:
        case {"$ref": reference}:
            anchor = headings.get(reference.rpartition("/")[2])
            return f"[mapping](#{anchor})" if anchor else ""
        case {"anyOf": kinds}:
            words = (_type(kind, headings) for kind in kinds)
            return " or ".join(dict.fromkeys(filter(None, words)))
        case {"enum": values}:
            return " or ".join(f"`{value}`" for value in values)
        case {"const": value}:
            return f"`{value}`"
        case {"type": "array", "items": items}:
            return f"list: {_type(items, headings)}"
        case {"type": "object", "additionalProperties": dict(values)}:
            return f"mapping: text → {_type(values, headings)}"
        case {"type": "string", "format": "password"}:
            return "secret"
        case {"type": "string"}:
            return str(key.get("format", "text")).replace("uri", "address")
        case {"type": "null"}:
            return ""
        case {"type": str(kind)}:
            return kind.replace("object", "mapping") + _range(key)
        case _:
            return "any"


def _range(key: Mapping[str, Any]) -> str:
    above, least, most = (key.get(bound) for bound in ("exclusiveMinimum", "minimum", "maximum"))
    texts = [f", above {above:,}"] if above is not None else []
    texts += [f", {least:,} or more"] if least is not None else []
    texts += [f", at most {most:,}"] if most is not None else []
    return "".join(texts)


if __name__ == "__main__":
    if sys.argv[1:]:
        write_site(Path(sys.argv[1]))
    else:
        for written in WRITTEN:
            path = ROOT / "docs" / "reference" / f"{written}.md"
            path.write_text(with_blocks(path.read_text()))
