"""Text to tokens: the same for what is indexed and for what is asked, and for every engine.

A text is a row of words: runs of letters and digits, which everything else parts. A word is folded
(NFKC, no accents, no case) and split where a reader sees a boundary: `ChurnModelV2` is `churn`,
`model`, `v2`. A search for `churnmodelv2` means it too, so a word that is split keeps its whole
beside its parts. Scripts written without spaces become one token a character.
"""

import re
import unicodedata
from functools import lru_cache
from itertools import chain
from typing import Final, NamedTuple

MAX_TOKEN_CHARS: Final = 64
"""Longest token; of a longer word only the beginning counts, in texts and in questions alike."""

WORD: Final = re.compile(r"[^\W_]+")
"""A word: everything that is neither letter nor digit parts two of them."""
# What `WORD` finds in ASCII is what is left of a text between blanks, in a fraction of the time.
_BLANKS: Final = bytes(code if chr(code).isalnum() else 32 for code in range(256))

# A run of letters in one spelling, with the digits behind it: HTTP|Server2, resnet50|v2.
_HUMP: Final = re.compile(r"(?:[A-Z]+(?![a-z])|[A-Z]?[a-z]+)[0-9]*|[0-9]+")
_NUMBERED: Final = re.compile(r"([a-z]{2,})([0-9]+)")
# Identifiers made of hexadecimal digits have no boundaries, they only look like it.
_HEXADECIMAL: Final = re.compile(r"[a-f]*[0-9]+[a-f][0-9a-f]*|[A-F]*[0-9]+[A-F][0-9A-F]*")
# All URNs of an entity type begin so, which tells none of them apart.
_URN: Final = re.compile(r"urn:li:(?:[A-Za-z]+:)?")
# Han, Hiragana, Katakana, Thai, Lao, Khmer, Myanmar.
_RANGES: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
_UNSPACED: Final = re.compile(f"[{_RANGES}]|[^{_RANGES}]+")


class _Tokens(NamedTuple):
    """The tokens of a text: the `parts` of its words in order, and the `wholes` of split words."""

    parts: list[str]
    wholes: list[str]


def tokenize(text: str) -> _Tokens:
    """Return the tokens of `text`; a text without letters and digits has none."""
    plain = text if text.isascii() else _without_accents(text)
    if "urn:li:" in plain:
        plain = _URN.sub(" ", plain)
    is_ascii = plain.isascii()
    runs = plain.encode().translate(_BLANKS).decode().split() if is_ascii else WORD.findall(plain)
    split = [*map(_pieces, runs)]
    parts = [*chain.from_iterable(split)]
    # In ASCII every run has a part, so as many of both means that no run was split.
    unsplit = len(parts) == len(runs) and is_ascii
    wholes = [] if unsplit else [*filter(None, map(_whole, split))]
    return _Tokens(parts, wholes)


def fold(text: str) -> str:
    """Return `text` as names are compared and sorted: no accents, no case, single spaces."""
    plain = text if text.isascii() else _without_accents(text)
    return " ".join(plain.casefold().split())


def _without_accents(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text)
    bare = "".join(char for char in decomposed if not unicodedata.combining(char))
    return unicodedata.normalize("NFKC", bare)


# Most words come again and again.
@lru_cache(maxsize=32_768)
def _pieces(run: str) -> tuple[str, ...]:
    """Return the folded parts of one word."""
    run = run[:MAX_TOKEN_CHARS]
    if run.isascii() and (run.isdecimal() or (run.isalpha() and run.islower())):
        return (run,)
    if not run.isascii():
        folded = _without_accents(run.casefold())
        return tuple(piece for word in WORD.findall(folded) for piece in _UNSPACED.findall(word))
    if _HEXADECIMAL.fullmatch(run):
        return (run.lower(),)
    return tuple(piece for hump in _HUMP.findall(run) for piece in _split_number(hump.lower()))


def _whole(pieces: tuple[str, ...]) -> str | None:
    """Return the word that was split; what is not ASCII was not split at boundaries."""
    whole = "".join(pieces) if len(pieces) > 1 else ""
    return whole if whole.isascii() else None


def _split_number(hump: str) -> tuple[str, ...]:
    """Return letters and number apart, `resnet50`, but not behind a single letter, `v2`."""
    match = _NUMBERED.fullmatch(hump)
    return (hump,) if match is None else match.groups()
