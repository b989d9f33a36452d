"""Links of the pages lead to files, and to headings, that exist."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("recipes/*.md")])


def without_code(text: str) -> str:
    return re.sub(r"(?ms)^( *)```.*?^\1```", "", text)


@cache
def anchors(page: Path) -> set[str]:
    """Return the names that a repository's web page gives to the headings."""
    found: set[str] = set()
    for heading in re.findall(r"(?m)^#+ (.*)", without_code(page.read_text())):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")
        number = sum(one == name or re.fullmatch(rf"{name}-\d+", one) is not None for one in found)
        found.add(f"{name}-{number}" if number else name)
    return found


def links(page: Path) -> Iterator[str]:
    text = re.sub(r"`[^`\n]*`", "", without_code(page.read_text()))
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"\w+:", link):
            yield link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_to_files_and_headings(page: Path) -> None:
    broken = []
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_the_index_lists_every_page() -> None:
    index = ROOT / "docs" / "README.md"
    listed = {(index.parent / link.partition("#")[0]).resolve() for link in links(index)}
    assert set((ROOT / "docs").glob("*/*.md")) <= listed
