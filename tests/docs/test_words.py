"""Words that the glossary retired are not in identifiers, docstrings, messages and pages."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from support.messages import PACKAGE, messages
from support.source_code import nodes

ROOT = Path(__file__).parents[2]
GLOSSARY = (ROOT / "docs" / "reference" / "glossary.md").read_text()
TERMS, RETIRED = GLOSSARY.split("## Retired words")
RETIRED_COLUMN = "\n".join(re.findall(r"(?m)^\|([^|]*)\|", RETIRED))
RETIRED_NAMES = set(re.findall(r"`(\w+)`", RETIRED_COLUMN))
RETIRED_PHRASES = re.findall(r'"([^"]+)"', RETIRED_COLUMN)
AVOIDED = {
    phrase
    for row in re.findall(r"(?m)^\| ([^|]*) \|", TERMS.split("## Words that messages avoid")[1])[1:]
    for phrase in row.split(", ")
}
_ANY = "|".join(map(re.escape, AVOIDED | RETIRED_NAMES | set(RETIRED_PHRASES)))
ANY_AVOIDED: re.Pattern[str] = re.compile(rf"(?<![\w'-])(?:{_ANY})(?![\w'-])")
OF_OTHERS = ("metadata/validate.py", "cli/demo/train.py")
"""Modules whose texts are in the words of DataHub, or the data of the demo."""

VALUE = re.compile(r"\{[^{}]*\}|`[^`]*`|'[^' ]*'|%[sd]|https?://\S+")


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


@cache
def is_retired(identifier: str) -> bool:
    """Return whether a retired name is a word, or several in a row, of an identifier."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", identifier)
    row = f"_{'_'.join(words).lower()}_"
    return identifier.strip("_") in RETIRED_NAMES or any(
        f"_{name}_" in row for name in RETIRED_NAMES
    )


@pytest.mark.parametrize("folder", ["src", "tests"])
def test_retired_words_are_no_identifiers(folder: str) -> None:
    assert {"Gate", "came_upon", "told"} <= RETIRED_NAMES
    found = {
        f"{path.relative_to(ROOT)}: {identifier}"
        for path in (ROOT / folder).rglob("*.py")
        # Most modules have no such word anywhere, and need not be parsed.
        if any(map(is_retired, set(re.findall(r"\w+", path.read_text()))))
        for identifier in identifiers(path)
        if is_retired(identifier)
    }
    assert found == set()


def test_retired_phrases_are_in_no_docstring_and_no_page() -> None:
    assert "let go" in RETIRED_PHRASES
    texts = [(page, page.read_text()) for page in (ROOT / "docs").rglob("*.md")]
    texts += [
        (path, node.value.value)
        for path in PACKAGE.rglob("*.py")
        for node in nodes(path)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]
    found = {
        f"{path.relative_to(ROOT)}: {phrase}"
        for path, text in texts
        for phrase in RETIRED_PHRASES
        if phrase in " ".join(text.lower().split()) and path.name != "glossary.md"
    }
    assert found == set()


def avoided_words(text: str) -> list[str]:
    plain = " ".join(re.findall(r"[a-z'-]+", VALUE.sub("…", text).lower()))
    return ANY_AVOIDED.findall(plain)


def test_words_that_the_glossary_avoids_are_in_no_message() -> None:
    assert {"said", "told", "anew", "nobody"} <= AVOIDED | RETIRED_NAMES
    assert set(avoided_words("nobody said that of `told`, {anew}")) == {"nobody", "said"}
    texts = messages()
    assert any(place.startswith("cli/") for place, _ in texts)
    assert {
        f"{place} {text[:100]} [{word}]"
        for place, text in texts
        if not place.startswith(OF_OTHERS)
        for word in avoided_words(text)
    } == set()
