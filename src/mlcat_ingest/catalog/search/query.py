"""The words of a search, as terms: expressions in the query language of FTS5.

FTS5 is SQLite's full-text index; `search.language` reads the queries that people write.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from mlcat_ingest.catalog.search.document import BOUNDS
from mlcat_ingest.catalog.search.fields import COLUMNS
from mlcat_ingest.catalog.search.request import MATCH_ALL
from mlcat_ingest.catalog.search.tokens import tokenize

MIN_PREFIX_CHARS: Final = 2
"""Shortest beginning of a word that finds it without a `*`: a letter begins half of all words.

Counted over all tokens of the word: `grid-2` finds `grid-25`, and `r784874d` `r784874dt`.
"""


@dataclass(frozen=True, slots=True)
class Term:
    """A term to search for: adjacent tokens, or else their `whole`.

    With `prefix` the last token may be the beginning of a longer one.
    """

    tokens: tuple[str, ...]
    whole: str | None = None
    prefix: bool = False

    def complete(self) -> "Term | None":
        """Return a term that matches wherever this does, and whose tokens are all complete."""
        if not self.prefix:
            return self
        return Term(self.tokens[:-1]) if len(self.tokens) > 1 and self.whole is None else None

    def match(self) -> str:
        """Return the expression that matches this term."""
        beside = phrase(self.tokens, prefix=self.prefix)
        if self.whole is None:
            return beside
        return f"({beside} OR {phrase((self.whole,), prefix=self.prefix)})"

    def occurs_in(self, parts: Sequence[str], wholes: Sequence[str] = ()) -> bool:
        """Return whether the tokens of a text have this term; see `tokens.Tokens`."""
        size = len(self.tokens)
        for at in range(len(parts) - size + 1):
            *complete, last = parts[at : at + size]
            if tuple(complete) == self.tokens[:-1] and self._fits(last, self.tokens[-1]):
                return True
        whole = self.whole
        return whole is not None and any(self._fits(token, whole) for token in (*parts, *wholes))

    def marks(self, token: str) -> bool:
        """Return whether one token by itself is to be highlighted."""
        return (
            token in self.tokens[:-1]
            or self._fits(token, self.tokens[-1])
            or (self.whole is not None and self._fits(token, self.whole))
        )

    def _fits(self, token: str, wanted: str) -> bool:
        return token.startswith(wanted) if self.prefix else token == wanted


def term(text: str, *, prefix: bool = False) -> Term | None:
    """Return the term for `text`, one word or several adjacent ones.

    None where it has neither letter nor digit. A `*` at its end makes it a prefix, too.
    """
    parts, wholes = tokenize(text)
    if not parts:
        return None
    # Of several words the whole of one alone would not do.
    whole = "".join(parts)
    goes_on = text.endswith(MATCH_ALL) or (prefix and len(whole) >= MIN_PREFIX_CHARS)
    return Term(tuple(parts), whole if whole in wholes else None, goes_on)


def phrase(
    tokens: Sequence[str],
    *,
    prefix: bool = False,
    within: int | None = None,
    begins: bool = False,
    ends: bool = False,
) -> str:
    """Return the expression for adjacent `tokens`, with `prefix` the last one as a beginning.

    `within` is the column that holds them; there, they may be those that a text `begins` or
    `ends` with.
    """
    bound = [] if within is None else [BOUNDS[within]]
    row = [*(bound * begins), *tokens, *(bound * ends)]
    # A token has no quote in it, so it cannot leave the quotes.
    expression = " + ".join(f'"{token}"' for token in row)
    if prefix:
        expression += " *"
    return expression if within is None else f"{{{COLUMNS[within]}}} : {expression}"


def all_of(terms: Iterable[Term]) -> str:
    """Return the expression that matches where every term does."""
    return " AND ".join(f"({query_term.match()})" for query_term in terms)


def up_to(columns: int, expression: str) -> str:
    """Return the expression that matches within the first `columns` columns."""
    return f"{{{' '.join(COLUMNS[:columns])}}} : ({expression})"


MAX_CHARS: Final = 2000
"""Only so much of a query counts."""

MAX_TERMS: Final = 32
"""Only so many words of a query count."""

# The closing quote may be missing while the query is typed.
_CHUNK: Final = re.compile(r'(?:"[^"]*(?:"|$)|[^\s"])+')


@dataclass(frozen=True, slots=True)
class Query:
    """The words to look for, as terms and as the text they come from.

    `impossible` is a query with signs only, which no text holds.
    """

    terms: tuple[Term, ...] = ()
    text: str = ""
    impossible: bool = False


def parse_query(text: str) -> Query:
    """Return the terms of `text`. Nothing is an error.

    The last word may be the beginning of one, and so is each with a `*` at its end. Quotes keep
    words side by side.
    """
    chunks = [chunk for chunk in _CHUNK.findall(text[:MAX_CHARS]) if chunk != MATCH_ALL]
    terms: list[Term] = []
    words: list[str] = []
    for chunk in chunks:
        if typed := term(chunk, prefix=chunk is chunks[-1] and not chunk.endswith('"')):
            terms.append(typed)
            words.append(chunk.strip('"'))
    return Query(tuple(terms[:MAX_TERMS]), " ".join(words), bool(chunks) and not terms)
