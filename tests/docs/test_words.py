"""The words of the field: retired ones stay out, and a concept is found where it is looked for."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from support.prose import sentences
from support.source_code import nodes, parsed

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "mlcat_ingest"
GLOSSARY = (ROOT / "docs" / "reference" / "glossary.md").read_text()
TERMS, RETIRED = GLOSSARY.split("## Retired words")
RETIRED_COLUMN = "\n".join(re.findall(r"(?m)^\|([^|]*)\|", RETIRED))
RETIRED_NAMES = set(re.findall(r"`(\w+)`", RETIRED_COLUMN))
RETIRED_PHRASES = re.findall(r'"([^"]+)"', RETIRED_COLUMN)

SOUGHT = re.findall(
    r"\w[\w ]*",
    """aspect, at least once, backup, base, cancellation, catalog, checkpoint, conflict,
    content hash, edge, emitter, entity, fingerprint, idempotent, lineage, mapping, merge policy,
    metadata test, optimistic locking, ownership, partition, patch, pipeline, proposal, recipe,
    record, report, retry, search index, soft delete, source, state, store, troubleshooting,
    upgrade, urn""",
)
"""Terms that users look for in the pages."""


def words_in(identifier: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", identifier)]


def modules(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*.py")):
        yield path.relative_to(ROOT).as_posix(), path


def identifiers(path: Path) -> Iterator[str]:
    for node in nodes(path):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.ClassDef(name=name) | ast.Name(id=name) | ast.arg(arg=name):
                yield name
            case ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
                yield name
            case _:
                pass


def docstrings(path: Path) -> Iterator[str]:
    for node in nodes(path):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield " ".join(text.split())
            case _:
                pass


@cache
def is_retired(identifier: str) -> bool:
    """Say whether a retired name is a word, or several in a row, of an identifier."""
    row = f"_{'_'.join(words_in(identifier))}_"
    return identifier.strip("_") in RETIRED_NAMES or any(f"_{one}_" in row for one in RETIRED_NAMES)


@pytest.mark.parametrize("folder", ["src", "tests"])
def test_retired_words_are_no_identifiers(folder: str) -> None:
    assert {"Gate", "came_upon", "told"} <= RETIRED_NAMES
    found = {
        f"{name}: {identifier}"
        for name, path in modules(ROOT / folder)
        for identifier in identifiers(path)
        if is_retired(identifier)
    }
    assert found == set()


def test_retired_phrases_stand_in_no_docstring() -> None:
    assert "let go" in RETIRED_PHRASES
    found = {
        f"{name}: {text[:80]}"
        for name, path in modules(PACKAGE)
        for text in docstrings(path)
        for phrase in RETIRED_PHRASES
        if phrase in text.lower()
    }
    assert found == set()


def test_retired_phrases_are_in_no_page() -> None:
    found = {
        f"{page.relative_to(ROOT)}: {one[:80]}"
        for page in (ROOT / "docs").rglob("*.md")
        if page.name != "glossary.md"
        for one in sentences(page.read_text())
        for phrase in RETIRED_PHRASES
        if phrase in one.lower()
    }
    assert found == set()


@pytest.mark.parametrize("term", SOUGHT)
def test_a_search_of_the_pages_finds_a_term_of_the_field(term: str) -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    explained = [page for page in pages if page.name != "glossary.md"]
    assert any(term in " ".join(page.read_text().lower().split()) for page in explained)


@pytest.mark.parametrize(
    ("term", "place"), re.findall(r"(?m)^\| ([\w -]+) \|.*\| `([\w./]+)` \|$", TERMS)
)
def test_a_search_for_a_term_finds_the_module_that_it_begins_in(term: str, place: str) -> None:
    path = PACKAGE / place
    candidates = [path] if path.suffix else sorted(path.rglob("*.py"))
    stem = re.sub(r"(?:ed|e|y)$", "", term)
    found = [
        module for module in candidates if any(stem in text.lower() for text in docstrings(module))
    ]
    assert found != []


CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
LOOK_FIRST = re.findall(r"(?m)^\| [^|]+ \| `([\w/]+\.py)` \| `(\w+)` \|$", CONTRIBUTING)


def test_the_table_of_where_to_look_first_has_the_places_that_newcomers_try() -> None:
    assert {module.rpartition("/")[0] for module, _ in LOOK_FIRST} >= {
        "pipeline/write",
        "pipeline/state",
        "workflows",
        "metadata",
        "cli",
    }


@pytest.mark.parametrize(("module", "name"), LOOK_FIRST)
def test_a_thing_is_defined_where_newcomers_look_first_and_nowhere_else(
    module: str, name: str
) -> None:
    defined = {
        defining.removeprefix("src/mlcat_ingest/")
        for defining, path in modules(PACKAGE)
        for node in parsed(path).body
        if name in names_defined_by(node)
    }
    assert defined == {module}


def names_defined_by(node: ast.stmt) -> set[str]:
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
            return {name}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
        case _:
            return set()
