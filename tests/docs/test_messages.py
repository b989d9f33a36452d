"""No message, help text or log line has a retired word, and their plurals agree."""

import ast
import re
from functools import cache

import pytest

from docs.list_messages import PACKAGE, Text, texts
from docs.test_words import GLOSSARY, RETIRED_NAMES, RETIRED_PHRASES
from support.source_code import nodes

OF_OTHERS = ("testing/mlflow_store.py", "metadata/validate.py")
"""Texts in the words of others."""

AVOID_SECTION = GLOSSARY.split("## Words that messages avoid")[1].split("## Retired")[0]
AVOIDED = {
    phrase
    for row in re.findall(r"(?m)^\| ([^|]*) \|", AVOID_SECTION)[1:]
    for phrase in row.split(", ")
}
VALUE = re.compile(r"\{[^{}]*\}|`[^`]*`|'[^' ]*'|%[sd]|https?://\S+")
COUNTED = re.compile(r"(?:\{(?![^{}]*\b[A-Z_]{3,}\b)[^{}]*\}|%[sd]) ([a-z]+s)\b")
NO_NOUNS = re.compile(
    r"is|was|has|does|needs|names|holds|exists|answers|breaks|fails|ends|redirects|acknowledges"
    r"|asks|writes|affects|precedes|follows|implies|matches|lacks|this|as|ambiguous|contains|uses"
    r"|means|accepts|refuses|requires|returns|keeps|remains|ignores|reports|sends"
)
COUNTED_OTHERWISE = {
    "truncation()",  # a text that was cut had more than one character
    "truncate_timeseries_aspect()",  # DataHub's own sentence, which its client parses
}


@cache
def read() -> tuple[Text, ...]:
    return tuple(text for text in texts() if not text.path.startswith(OF_OTHERS))


def avoided_words(text: str) -> list[str]:
    plain = " ".join(re.findall(r"[a-z'-]+", VALUE.sub("…", text).lower()))
    return [
        phrase
        for phrase in AVOIDED | RETIRED_NAMES | set(RETIRED_PHRASES)
        if re.search(rf"(?<![\w'-]){re.escape(phrase)}(?![\w'-])", plain)
    ]


def test_the_list_has_texts_of_every_kind() -> None:
    shown = {f"{text.path} {text.kind}" for text in texts()}
    assert {
        "cli/run.py help",
        "cli/run.py command epilog",
        "cli/options.py option help",
        "recipe/model.py field",
        "recipe/validate.py _SENTENCES",
        "recipe/draft.py RecipeError",
        "recipe/draft.py RecipeError hint",
        "hooks/drain.py info",
        "workflows/check.py Finding",
    } <= shown


def test_words_that_the_glossary_retired_are_in_no_message() -> None:
    assert {"said", "told", "anew", "nobody"} <= AVOIDED | RETIRED_NAMES
    assert set(avoided_words("nobody said that of `told`, {anew}")) == {"nobody", "said"}
    assert {f"{text}  [{word}]" for text in read() for word in avoided_words(text.text)} == set()


@pytest.mark.parametrize(
    ("text", "noun"),
    [
        ("{count} entities", ["entities"]),
        ("%s entities indexed", ["entities"]),
        ("{len(a)} rows of {b:,} runs", ["rows", "runs"]),
        ("at most {MAX_ITEMS} items", []),
        ("{urn} is no URN", []),
    ],
)
def test_a_noun_behind_a_number_is_seen(text: str, noun: list[str]) -> None:
    assert counted_nouns(text) == noun


def counted_nouns(text: str) -> list[str]:
    return [noun for noun in COUNTED.findall(text) if not NO_NOUNS.fullmatch(noun)]


def test_nouns_behind_numbers_are_made_by_the_helper_for_plurals() -> None:
    found = {
        f"{text}  [{noun}]"
        for text in read()
        for noun in counted_nouns(text.text)
        if text.kind not in COUNTED_OTHERWISE
    }
    assert found == set()
    by_hand = {
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in PACKAGE.rglob("*.py")
        for node in nodes(path)
        if isinstance(node, ast.IfExp)
        and any(ast.unparse(side) in {"'s'", "'es'"} for side in (node.body, node.orelse))
        and path.name != "text.py"
    }
    assert by_hand == set()
