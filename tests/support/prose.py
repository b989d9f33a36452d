"""Sentences of Markdown pages, without their code."""

import re
from collections.abc import Iterator

FENCED = re.compile(r"(?ms)^( *)```.*?^\1```$")
COMMENT = re.compile(r"(?s)<!--.*?-->")
END_OF_SENTENCE = re.compile(r"(?<=[.?!])[)\"*_]*\s+(?=[\"(*_]*[A-Z`\d])")


def sentences(markdown: str) -> Iterator[str]:
    """Yield each sentence of a page: of its paragraphs, headings, list items and table cells.

    Code within a sentence is kept in its backticks, links are reduced to their texts.
    """
    text = COMMENT.sub("", FENCED.sub("", markdown))
    for block in blocks(text):
        plain = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", " ".join(block.split()))
        whole = re.sub(r"`[^`]*`", lambda code: code[0].replace(" ", "\0"), plain)
        yield from (one.replace("\0", " ") for one in END_OF_SENTENCE.split(whole))


def blocks(text: str) -> Iterator[str]:
    """Yield paragraphs, headings, list items and table cells; indented code is left out."""
    paragraph: list[str] = []
    in_list = False
    after_blank = True
    for line in [*text.splitlines(), ""]:
        item = re.match(r"\s*(?:[-*]|\d+\.)\s+(.*)", line)
        row = line.lstrip().startswith("|")
        if (item or row or not line.strip() or line.startswith("#")) and paragraph:
            yield " ".join(paragraph)
            paragraph = []
        if not line.strip():
            after_blank = True
        elif line.startswith("    ") and after_blank and not in_list:
            continue  # indented code, up to the next line of text
        elif row:
            yield from cells(line)
        elif line.startswith("#"):
            in_list = False
            yield line.lstrip("# ")
        else:
            in_list = bool(item) or (in_list and line.startswith(" "))
            paragraph.append(item[1] if item else line.strip())
            after_blank = False


def cells(row: str) -> Iterator[str]:
    """Yield the cells of a row of a table that hold words."""
    for cell in re.split(r"(?<!\\)\|", row.strip().strip("|")):
        if re.search(r"\w", cell):
            yield cell.strip()
