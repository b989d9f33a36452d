"""The reference pages are those that the code makes, and their examples are right."""

import ast
import inspect
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest
import yaml
from pydantic import BaseModel

from mlcat_ingest.cli.main import cli
from mlcat_ingest.cli.options import OutputSettings
from mlcat_ingest.client.config import SINKS
from mlcat_ingest.recipe.fields import members
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.sources.plugins import SOURCES, config_class
from mlcat_ingest.workflows import plan_render
from mlcat_ingest.workflows.resolve import resolve
from mlcat_ingest.workflows.schema import json_schema
from support.reference.blocks import Page, filled
from support.reference.commands import examples_of, walk
from support.reference.pages import PAGES, REFERENCE, made
from support.reference.recipe_keys import models_on
from support.reference.run_report import FULL, places

RECIPE = (REFERENCE / "recipe.md").read_text()
SECTIONS = dict(re.findall(r"(?ms)^## ([^\n]+)\n(.*?)(?=^## |\Z)", RECIPE))
EXAMPLES = re.findall(r"(?ms)^```yaml\n(.*?)^```$", RECIPE)
LONGEST_ROW = 200


@pytest.mark.parametrize(
    "page",
    # Its example is a run with a catalog in a process of its own.
    [pytest.param(page, marks=[pytest.mark.process] * (page == "report.md")) for page in PAGES],
)
def test_a_page_is_what_the_code_makes(page: str) -> None:
    assert (REFERENCE / page).read_text() == made(page), "run tests/docs/make_reference.py"


@pytest.mark.parametrize("page", PAGES)
def test_no_line_is_too_long_to_read(page: str) -> None:
    lines = (REFERENCE / page).read_text().splitlines()
    shown = [line for line in lines if not line.startswith("<!--")]
    assert [line for line in shown if len(line) > LONGEST_ROW] == []


def test_blocks_are_replaced_and_the_rest_of_a_page_stays() -> None:
    text = "# A\n\n<!-- contents -->\nold\n<!-- end of contents -->\n\n## B\n\n<!-- x y -->\n"
    new = filled(f"{text}<!-- end of x -->\n\nend\n", {"x": lambda argument, _: f"## C {argument}"})
    contents = "<!-- contents -->\n\n- [B](#b)\n- [C y](#c-y)\n\n<!-- end of contents -->"
    block = "<!-- x y -->\n\n## C y\n\n<!-- end of x -->"
    assert new == f"# A\n\n{contents}\n\n## B\n\n{block}\n\nend\n"
    assert filled(new, {"x": lambda argument, _: f"## C {argument}"}) == new


def reachable(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """Yield a model, and those of everything in it."""
    yield model
    for info in model.model_fields.values():
        for kind in below(info.annotation):
            yield from reachable(kind)


def below(annotation: Any) -> Iterator[type[BaseModel]]:
    for member in members(annotation):
        if isinstance(member, type) and issubclass(member, BaseModel):
            yield member
        for argument in getattr(member, "__args__", ()):
            yield from below(argument)


def test_the_recipe_page_has_every_model_and_every_key_a_meaning() -> None:
    roots: list[type[BaseModel]] = [Recipe, *map(config_class, SOURCES)]
    roots += [kind for kind, _ in SINKS.values()]
    models = {model for root in roots for model in reachable(root)}
    listed = models_on(Page.of(RECIPE))
    assert models <= set(listed)
    assert len(listed) == len(set(listed))
    bare = [
        f"{model.__name__}.{name}"
        for model in listed
        for name, info in model.model_fields.items()
        if not (info.description or "").endswith(".")
    ]
    assert bare == []


def test_every_section_of_the_recipe_page_has_an_example() -> None:
    assert {name for name, text in SECTIONS.items() if "```yaml" not in text} == {"Form", "Types"}
    assert len(EXAMPLES) > 20


@pytest.mark.parametrize("text", EXAMPLES)
def test_an_example_of_a_recipe_loads_and_fits_the_schema(text: str, tmp_path: Path) -> None:
    data = yaml.safe_load(text)
    if not data.keys() & {"source", "sources"}:
        data["source"] = {"type": "mlflow"}
    (tmp_path / "mlflow-password").write_text("s3cret")
    jsonschema.Draft202012Validator(json_schema(plugins=False)).validate(data)
    environ = {"MLCAT_TOKEN": "t0ken"}
    written = yaml.safe_dump(data)
    assert resolve(Recipe.parse(written, base_dir=tmp_path, environ=environ)).sources


def test_the_report_page_has_every_part_of_a_report() -> None:
    listed = Page.of((REFERENCE / "report.md").read_text()).arguments("report")
    same_as_others = {"rejected_examples", "hooks.failure"}
    assert sorted(listed) == sorted(set(places()) - same_as_others)
    assert all(getattr(FULL, name) is not None for name in FULL.__slots__ if name != "error")


def first_cells(heading: str) -> list[str]:
    """Return the first cells of the table under a row of headings."""
    text = (REFERENCE / "report.md").read_text().split(f"\n{heading}\n")[1].split("\n\n")[0]
    return re.findall(r"(?m)^\| `([^`]+)` \|", text)


def test_the_report_page_has_every_key_of_a_change() -> None:
    makers = (plan_render.change_data, plan_render._aspect_changes)
    nodes = (node for maker in makers for node in ast.walk(ast.parse(inspect.getsource(maker))))
    dictionaries = [node for node in nodes if isinstance(node, ast.Dict)]
    spelled = {
        key.value for one in dictionaries for key in one.keys if isinstance(key, ast.Constant)
    }
    assert set(first_cells("| key | meaning |")) == spelled


COMMANDS = [(" ".join(path), command) for path, command in walk(cli) if path]


def test_every_command_has_an_example() -> None:
    bare = [name for name, command in COMMANDS if not examples_of(command)]
    assert bare == ["catalog", "catalog tests"]


@pytest.mark.parametrize(
    ("name", "command", "example"),
    [
        (name, command, example)
        for name, command in COMMANDS
        if not isinstance(command, click.Group)
        for example in examples_of(command)
    ],
)
def test_an_example_in_a_help_is_a_command(
    name: str,
    command: click.Command,
    example: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tests.yml").touch()
    program, *words = shlex.split(re.split(r" [|>] ", example)[0], comments=True)
    named = name.split()
    rest = words[len(named) :] if words[: len(named)] == named else words
    assert program == "mlcat-ingest"
    assert rest == words[len(named) :] or name == "run"
    arguments = ["tests.yml" if "*" in word else word for word in rest]
    settings = cli.context_settings
    context = command.make_context(name, arguments, obj=OutputSettings(), **settings)
    assert not context.args
