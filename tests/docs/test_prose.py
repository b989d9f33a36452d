"""The prose of the pages: short sentences that open with their subject."""

from pathlib import Path

import pytest

from support.prose import opens_with_relative_clause, sentences, words

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "CONTRIBUTING.md",
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
MOST_WORDS = 35
FEW_RELATIVE_CLAUSES = 10


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_sentence_is_long(page: Path) -> None:
    long = [one for one in sentences(page.read_text()) if words(one) > MOST_WORDS]
    assert long == []


def test_few_sentences_open_with_a_relative_clause() -> None:
    found = [
        one
        for page in PAGES
        for one in sentences(page.read_text())
        if opens_with_relative_clause(one)
    ]
    assert len(found) < FEW_RELATIVE_CLAUSES, found


def test_a_text_is_taken_apart_into_its_sentences() -> None:
    text = """# A heading

First one, of `code. More`; with a [link](a.md#Here. There). Second
one? *Third*: 1.5 s.

    indented code. Of two lines
      - and a list

- An item
  of two lines. Another
- Which one?

| cell | Where this is |
|---|---|
```sh
fenced. Code
```
"""
    found = list(sentences(text))
    assert found == [
        "A heading",
        "First one, of `code. More`; with a link.",
        "Second one?",
        "*Third*: 1.5 s.",
        "An item of two lines.",
        "Another",
        "Which one?",
        "cell",
        "Where this is",
    ]
    assert [words(one) for one in found] == [2, 7, 2, 3, 5, 1, 2, 1, 3]
    assert [one for one in found if opens_with_relative_clause(one)] == ["Where this is"]
