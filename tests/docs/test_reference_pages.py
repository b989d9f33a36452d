"""The reference pages have every recipe key, command, exit status, report key and metric."""

import ast
import inspect
import re
import shlex
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Final

import click
import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest
import yaml

from docs.write_pages import KEYS, WRITTEN, commands, models, with_blocks, write_site
from mlcat_ingest.cli.main import cli
from mlcat_ingest.cli.options import OutputSettings
from mlcat_ingest.pipeline.report import report
from mlcat_ingest.pipeline.report.render import LAST_SUCCESS, as_data, as_prometheus
from mlcat_ingest.pipeline.report.report import (
    DanglingDataset,
    EntityCounts,
    EvaluationSummary,
    FailedRecord,
    FailedTest,
    Failure,
    FeatureSummary,
    HooksSummary,
    LineageSummary,
    PassSummary,
    Report,
    TestVerdict,
    Verdict,
)
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.workflows import plan_render
from mlcat_ingest.workflows.resolve import resolve
from mlcat_ingest.workflows.schema import json_schema

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
RECIPE = (REFERENCE / "recipe.md").read_text()
REPORT = (REFERENCE / "report.md").read_text()
SECTIONS = dict(re.findall(r"(?ms)^## ([^\n]+)\n(.*?)(?=^## |\Z)", RECIPE))
EXAMPLES = re.findall(r"(?ms)^```yaml\n(.*?)^```$", RECIPE)

FULL: Final = Report(
    name="churn",
    started_at_ms=1,
    finished_at_ms=2,
    passes=(PassSummary("mlflow", full=True, why="first run", current_at_ms=1),),
    entities={"mlModel": EntityCounts()},
    dropped={"mlModel: aspect": 1},
    dead_letter_file="dead.jsonl",
    failed_examples=(FailedRecord("run", "reason"),),
    rejected_examples=(FailedRecord("run", "reason"),),
    lineage=LineageSummary(dangling=(DanglingDataset("urn", 1),), not_checked="reason"),
    features=FeatureSummary({"tag": 1}),
    evaluation=EvaluationSummary(where="client", not_evaluated="reason"),
    gate=Verdict(
        "x", (TestVerdict("t", "n"),), examples=(FailedTest("e", "t", newly=True, name="n"),)
    ),
    hooks=HooksSummary(failure=Failure("E", "message", "hint"), dead_letter_file="refused.jsonl"),
    failure=Failure("E", "message", "hint"),
)
"""A report in which every key has a value."""


@pytest.mark.parametrize("name", WRITTEN)
def test_what_a_page_has_by_the_code_is_current(name: str) -> None:
    page = (REFERENCE / f"{name}.md").read_text()
    assert page.count("\n<!-- end -->") == len(re.findall(r"(?m)^<!-- (?!end)", page))
    assert with_blocks(page) == page, "run .venv/bin/python tests/docs/write_pages.py"


def test_the_recipe_page_has_every_model_and_every_key_a_meaning() -> None:
    assert sorted(KEYS.findall(RECIPE)) == sorted(models().keys() - {"Substitution"})
    for name in KEYS.findall(RECIPE):
        for key, schema in models()[name]["properties"].items():
            assert f"`{key}`" in RECIPE or key == "$schema"
            assert schema.get("description", ".").endswith(".") or schema.get("deprecated")
    assert not re.search(r"(?m)^\| `[^|]*\|[^|]*\|[^|]*\| +\|$", RECIPE)


def test_a_row_of_a_key_has_its_type_default_other_names_and_meaning() -> None:
    (row,) = re.findall(r"(?m)^\| `batch_size` .*", RECIPE)
    assert row == (
        "| `batch_size` | integer, 1 or more, at most 1,000 | `1000` "
        "| Maximum number of proposals in a request. A run begins with 200, sends fewer where the "
        "catalog takes over five seconds for them, and more where it takes less than two. "
        "Also called `max_per_batch`. |"
    )
    assert "| `enrich` | list: [mapping](#enrich) |  | Rules that add tags" in RECIPE
    assert "| `path` | path | required | Output file" in RECIPE


def test_links_out_of_the_docs_lead_to_files_of_the_site(tmp_path: Path) -> None:
    write_site(tmp_path)

    def written(name: str) -> str:
        return (tmp_path / name).read_text()

    assert "](../overview.md#try-it)" in written("reference/features-of-runs.md")
    assert "](../recipes/feast.yml)" in written("reference/feature-stores.md")
    assert "](contributing.md#set-up-and-check)" in written("README.md")
    assert (tmp_path / "recipes" / "feast.yml").is_file()


def test_the_site_has_the_sections_of_the_docs_in_their_order() -> None:
    site = (REFERENCE.parents[1] / ".mkdocs.yml").read_text().partition("\nnav:\n")[2]
    *sections, project = re.findall(r"(?m)^  - (.+):$", site)
    assert sections == re.findall(r"(?m)^## (.+)$", (REFERENCE.parent / "README.md").read_text())
    assert project == "Project"
    pages = {str(page.relative_to(REFERENCE.parent)) for page in REFERENCE.parent.rglob("*.md")}
    assert pages <= set(re.findall(r"- (\S+\.md)$", site, re.MULTILINE))


def test_every_section_of_the_recipe_page_has_an_example() -> None:
    assert {name for name, text in SECTIONS.items() if "```yaml" not in text} == {"Form", "Types"}
    assert len(EXAMPLES) > 20


@pytest.fixture(scope="module")
def validator() -> Any:
    return jsonschema.Draft202012Validator(json_schema(plugins=False))


@pytest.mark.parametrize("text", EXAMPLES)
def test_an_example_of_a_recipe_loads_and_fits_the_schema(
    text: str, validator: Any, tmp_path: Path
) -> None:
    data = yaml.safe_load(text)
    if not data.keys() & {"source", "sources"}:
        data["source"] = {"type": "mlflow"}
    (tmp_path / "mlflow-password").write_text("s3cret")
    validator.validate(data)
    environ = {"MLCAT_TOKEN": "t0ken"}
    written = yaml.safe_dump(data)
    assert resolve(Recipe.parse(written, base_dir=tmp_path, environ=environ)).sources


def places(value: Any = FULL, path: str = "") -> Iterator[str]:
    """Yield the place of each mapping of the report with keys of its own."""
    yield path
    for one in fields(value):
        below = _first(getattr(value, one.name))
        if is_dataclass(below):
            yield from places(below, f"{path}.{one.name}".lstrip("."))


def _at(path: str) -> tuple[Any, dict[str, Any]]:
    """Return the object at a place, and its data."""
    thing, data = FULL, as_data(replace(FULL))
    for step in filter(None, path.split(".")):
        thing, data = _first(getattr(thing, step)), _first(data[step])
    return thing, data


def _first(value: Any) -> Any:
    """Return the first entry of a collection, and what is none as it is."""
    if isinstance(value, dict) and value and not is_dataclass(value):
        first = next(iter(value.values()))
        return first if is_dataclass(first) or isinstance(first, dict) else value
    return value[0] if isinstance(value, tuple | list) and value else value


HEADINGS = {
    "": "## JSON report",
    "failed_examples": "### `failed_examples` and `rejected_examples`",
}
SAME_AS_OTHERS = {"rejected_examples", "hooks.failure"}


@pytest.mark.parametrize("place", sorted(set(places()) - SAME_AS_OTHERS))
def test_the_report_page_has_every_key_of_a_report(place: str) -> None:
    heading = HEADINGS.get(place, f"### `{place}`")
    section = REPORT.partition(f"\n{heading}\n")[2].partition("\n#")[0]
    _, data = _at(place)
    assert re.findall(r"(?m)^\| `(\w+)` \|", section) == list(data)


def test_every_key_of_the_full_report_has_a_value() -> None:
    assert all(getattr(FULL, name) is not None for name in FULL.__slots__ if name != "error")


def test_the_example_of_a_report_has_the_keys_of_a_report() -> None:
    (example,) = re.findall(r'(?ms)^```json\n(\{\n  "name": "diabetes",.*?)^```$', REPORT)
    assert list(yaml.safe_load(example)) == list(as_data(FULL))


def test_the_report_page_has_every_metric() -> None:
    text = as_prometheus(FULL, f'{LAST_SUCCESS}{{recipe="{FULL.name}"}} 1.0\n')
    names = re.findall(r"(?m)^# TYPE (\S+) (\w+)$", text)
    assert re.findall(r"(?m)^\| `(mlcat_ingest_\w+)` \| (\w+) \|", REPORT) == names


def test_the_report_page_has_every_exit_status() -> None:
    statuses = {value for name, value in vars(report).items() if name.startswith("EXIT_")}
    assert {int(one) for one in re.findall(r"(?m)^\| (\d+) \|", REPORT)} == statuses


def first_cells(heading: str) -> list[str]:
    """Return the first cells of the table under a row of headings."""
    text = (REFERENCE / "report.md").read_text().split(f"\n{heading}\n")[1].split("\n\n")[0]
    return re.findall(r"(?m)^\| `([^`]+)` \|", text)


def test_the_report_page_has_every_key_of_a_change() -> None:
    makers = (plan_render.change_data, plan_render._aspect_changes)
    nodes = (node for maker in makers for node in ast.walk(ast.parse(inspect.getsource(maker))))
    dictionaries = [node for node in nodes if isinstance(node, ast.Dict)]
    spelled = {
        key.value for node in dictionaries for key in node.keys if isinstance(key, ast.Constant)
    }
    assert set(first_cells("| key | meaning |")) == spelled


COMMANDS = [context for context in commands() if context.parent]


def examples_of(command: click.Command) -> list[str]:
    """Return the lines of the examples in a command's help."""
    _, _, lines = inspect.cleandoc((command.epilog or "").replace("\b", "")).partition("\n")
    return inspect.cleandoc(lines).splitlines()


def test_the_command_line_page_has_the_help_of_every_command() -> None:
    page = (REFERENCE / "command-line.md").read_text()
    assert len(COMMANDS) > 20
    for context in COMMANDS:
        assert f" `{context.command_path}`\n\n```text\nUsage: {context.command_path} " in page
    assert "--fail-on-tests REGEX" in page


def test_every_command_has_an_example() -> None:
    bare = [one.command_path for one in COMMANDS if not examples_of(one.command)]
    assert bare == ["mlcat-ingest catalog", "mlcat-ingest catalog tests"]


@pytest.mark.parametrize(
    ("context", "example"),
    [
        pytest.param(context, example, id=example)
        for context in COMMANDS
        if not isinstance(context.command, click.Group)
        for example in examples_of(context.command)
    ],
)
def test_an_example_in_a_help_is_a_command(
    context: click.Context, example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tests.yml").touch()
    program, *words = shlex.split(re.split(r" [|>] ", example)[0], comments=True)
    assert program == "mlcat-ingest"
    named = context.command_path.split()[1:]
    if words[: len(named)] == named:
        words = words[len(named) :]
    else:
        assert named == ["run"]
    arguments = ["tests.yml" if "*" in word else word for word in words]
    settings = cli.context_settings
    made = context.command.make_context(named[-1], arguments, obj=OutputSettings(), **settings)
    assert not made.args
