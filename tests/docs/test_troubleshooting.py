"""`troubleshooting.md`: each message that it quotes is one of the package."""

import re
from pathlib import Path

import pytest

from support.messages import messages

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "troubleshooting.md").read_text()
MESSAGES: list[str] = re.findall(r"(?m)^\| `([^`]+)` \|", PAGE)


def contains(text: str, quoted: str) -> bool:
    """Return whether a text has the parts of a quoted message, in their order."""
    at = 0
    for part in map(str.strip, quoted.split("…")):
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return True


@pytest.mark.parametrize("quoted", MESSAGES)
def test_a_quoted_message_is_one_of_the_package(quoted: str) -> None:
    assert any(contains(text, quoted) for _, text in messages())


def test_a_text_without_the_message_does_not_contain_it() -> None:
    assert contains("the file /a/b is empty (fill it)", "the file … is empty")
    assert not contains("the folder /a/b is empty", "the file … is empty")
    assert not contains("is empty: the file", "the file … is empty")
