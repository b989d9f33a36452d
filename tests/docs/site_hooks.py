"""What the documentation's site has besides the pages of `docs/`.

MkDocs calls these functions when it builds the site (`.mkdocs.yml`). A line `<!-- keys NAME -->` of
a page becomes the table of a model of `recipe.schema.json`, of which `Recipe` is the whole; a line
`<!-- commands -->` becomes the help of each command. Links that leave `docs/` lead to copies on the
site.
"""

import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import click

from mlcat_ingest.cli.main import cli

ROOT: Final = Path(__file__).parents[2]
BESIDE: Final = {"README.md": "overview.md", "CONTRIBUTING.md": "contributing.md"}
"""Pages beside `docs/`, and their names on the site, which has a `README.md` already."""

COPIED: Final = ("CHANGELOG.md", "recipes/**/*.yml", "airflow_dags/*.py")
"""Other files beside `docs/` that pages link to."""

KEYS: Final = re.compile(r"(?m)^<!-- keys (\w+) -->$")
_LINK: Final = re.compile(r"\]\(([\w./-]+)(#[^)\s]*)?\)")
_OLD_KEY: Final = re.compile(r"`\w+` is an older form of `(\w+)`")


def on_files(files: Any, config: Any) -> Any:
    """Add the files beside `docs/` to those of the site."""
    from mkdocs.structure.files import File  # type: ignore[import-not-found]  # of the site alone

    copied = [
        path.relative_to(ROOT).as_posix() for pattern in COPIED for path in ROOT.glob(pattern)
    ]
    for name in (*BESIDE, *copied):
        files.append(File.generated(config, BESIDE.get(name, name), abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return a page with its tables, and with links that lead to the files of the site."""
    name = page.file.src_uri
    beside = name in BESIDE.values() or name in COPIED
    source = posixpath.dirname(name) if beside else posixpath.join("docs", posixpath.dirname(name))
    relinked = _LINK.sub(partial(_relinked, source=source, site=posixpath.dirname(name)), markdown)
    headings = dict(headings_of(markdown))
    with_tables = KEYS.sub(lambda block: table_of(block[1], headings), relinked)
    return with_tables.replace("<!-- commands -->", "\n\n".join(map(help_of, commands())))


def _relinked(link: re.Match[str], source: str, site: str) -> str:
    target = posixpath.normpath(posixpath.join(source, link[1]))
    if not (ROOT / target).is_file():
        return link[0]
    on_site = BESIDE.get(target, target.removeprefix("docs/"))
    return f"]({posixpath.relpath(on_site, site or '.')}{link[2] or ''})"


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
            words = " ".join([meaning, *_others(name, meaning, other_names)])
            cells = (f"`{name}`", _type(key, headings), default, words)
            lines.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
    return "\n".join(lines)


def _model_of(key: Mapping[str, Any]) -> Mapping[str, Any]:
    model: Mapping[str, Any] = models()[key["$ref"].rpartition("/")[2]]
    return model


def _others(name: str, meaning: str, other_names: Mapping[str, Any]) -> Iterator[str]:
    """Yield sentences on the other names of a key."""
    meanings = {other: key["description"] for other, key in other_names.items()}
    same = [f"`{other}`" for other, text in meanings.items() if text == meaning]
    if same:
        yield f"Also called {', '.join(same)}."
    for text in meanings.values():
        old = _OLD_KEY.match(text)
        if old and old[1] == name:
            yield text


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
