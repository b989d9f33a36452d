"""The fenced blocks of a page, and whether one shows what was printed."""

import difflib
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MASKS: Final = tuple(
    (re.compile(pattern, re.MULTILINE), name)
    for pattern, name in (
        (r"\b\d{13}-\d+-[0-9a-f]{12}\.json\b", "<event>.json"),
        (r"\b\d{13}\b", "<time>"),
        # A line of progress is there or not, by how long a run takes.
        (r"^\d\d:\d\d:\d\d [\d,]+ records? read, .*\n", ""),
        # Reading and writing overlap, so how often one asks for news is not fixed.
        (r"\b\d+ to the source, \d+ to the catalog\b", "<requests>"),
        (r" loc=\w+\.py:\d+$", " loc=<line>"),
        (r"\b[0-9a-f]{32}\b", "<id>"),
        (r"\b[0-9a-f]{12}\b", "<id>"),
        (r"\b20\d\d[-/]\d\d[-/]\d\d[ T]\d\d:\d\d(:\d\d)?([.,]\d+)?Z?", "<time>"),
        (r"\b20\d\d-\d\d-\d\d\b", "<date>"),
        (r"\b\d\d:\d\d:\d\d\b", "<time>"),
        (r"\b\d+(\.\d+)? m?s\b", "<duration>"),
    )
)
"""What differs from one walk to the next, and the word that stands for it in a comparison."""

ANYTHING = "…"
_FENCED = re.compile(
    r"^(?P<indent> *)```(?P<language>\w+)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)
_MARK = re.compile(r"<!-- walk: (.+?) -->\s*\Z")
_FILE = re.compile(r"`([\w./-]+)`:\s*\Z")


def marked(page: str, name: str) -> str:
    """Return the text of the block below the comment `name`, the only one of a page."""
    (text,) = re.findall(rf"<!-- {name} -->\n```\w+\n(.*?)```", page, re.DOTALL)
    return str(text)


def table_rows(page: str, heading: str) -> Iterator[list[str]]:
    """Yield the cells of each row of the tables from a heading to the next one of its level."""
    level = heading.split(" ", 1)[0]
    section = page.partition(f"\n{heading}\n")[2].partition(f"\n{level} ")[0]
    for table in re.findall(r"(?m)^\| ?---.*\n((?:\|.*(?:\n|\Z))+)", section):
        for line in table.splitlines():
            yield [cell.strip() for cell in line.strip("|").split("|")]


@dataclass(frozen=True)
class Block:
    """A fenced block: the prose between it and the block before, and its place in the page."""

    language: str
    text: str
    above: str
    indent: str
    start: int
    end: int

    @property
    def mark(self) -> str:
        found = _MARK.search(self.above)
        return found[1] if found else ""

    @property
    def file(self) -> str | None:
        found = None if self.language in {"sh", "text"} else _FILE.search(self.above)
        return found[1] if found else None


def blocks_of(page: str) -> list[Block]:
    """Return the fenced blocks of a page."""
    found: list[Block] = []
    for match in _FENCED.finditer(page):
        above = page[found[-1].end if found else 0 : match.start()]
        text = textwrap.dedent(match["text"])
        start, end = match.start("text"), match.end("text")
        found.append(Block(match["language"], text, above, match["indent"], start, end))
    return found


def matches(expected: str, printed: str) -> bool:
    """Return whether a block shows what was printed, apart from what is masked or left out."""
    lines = (
        "(.*\n)*?" if line == ANYTHING else f"{re.escape(line)}\n"
        for line in masked(expected).splitlines()
    )
    return re.fullmatch("".join(lines), masked(printed)) is not None


def difference(expected: str, printed: str) -> str:
    """Return how a block and what was printed differ, line by line."""
    page = masked(expected).splitlines()
    real = masked(updated(expected, printed)).splitlines()
    return "\n".join(difflib.unified_diff(page, real, "the page", "printed", lineterm=""))


def masked(text: str) -> str:
    """Return a text with the words of `MASKS` for what differs from one walk to the next."""
    for pattern, name in MASKS:
        text = pattern.sub(name, text)
    return text


def updated(expected: str, printed: str) -> str:
    """Return the lines printed, without those that a block leaves out.

    What a block shows between two left-out parts is looked for where most of its lines are equal.
    """
    if matches(expected, printed):
        return expected
    lines, at, found = printed.splitlines(), 0, []
    parts = _parts(expected.splitlines())
    for number, part in enumerate(parts):
        if number:
            found.append(ANYTHING)
        if number == 0:
            start = 0
        elif number == len(parts) - 1:
            start = max(at, len(lines) - len(part))
        else:
            start = max(
                range(at, max(at, len(lines) - len(part)) + 1),
                key=lambda one: _equal_lines(part, lines[one:]),
            )
        at = len(lines) if len(parts) == 1 else start + len(part)
        found += lines[start:at]
    return "".join(f"{line}\n" for line in found)


def _parts(lines: list[str]) -> list[list[str]]:
    """Return the lines between those that stand for any number of lines."""
    parts: list[list[str]] = [[]]
    for line in lines:
        if line == ANYTHING:
            parts.append([])
        else:
            parts[-1].append(line)
    return parts


def _equal_lines(some: list[str], others: list[str]) -> int:
    pairs = zip(some, others, strict=False)
    return sum(masked(one) == masked(other) for one, other in pairs)
