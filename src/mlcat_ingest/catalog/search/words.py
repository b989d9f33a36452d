"""The words of a search, and their form in the query language of FTS5."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from mlcat_ingest.catalog.search.document import BOUNDS
from mlcat_ingest.catalog.search.fields import COLUMNS
from mlcat_ingest.catalog.search.tokens import tokenize

MIN_PREFIX_CHARS: Final = 2
"""Shortest beginning of a word that finds it; a single letter would begin half of all words."""


@dataclass(frozen=True, slots=True)
class Term:
    """Something to look for: tokens that stand side by side, or else their `whole`.

    With `prefix` the last token may go on.
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


def term(text: str, *, prefix: bool = False) -> Term | None:
    """Return the term for `text`, one word or several that stand side by side.

    None where it has neither letter nor digit.
    """
    parts, wholes = tokenize(text)
    if not parts:
        return None
    # Of several words the whole of one alone would not do.
    whole = next((one for one in wholes if one == "".join(parts)), None)
    return Term(tuple(parts), whole, prefix)


def phrase(
    tokens: Sequence[str],
    *,
    prefix: bool = False,
    within: int | None = None,
    begins: bool = False,
    ends: bool = False,
) -> str:
    """Return the expression for `tokens` side by side; with `prefix` the last one may go on.

    `within` is the column that they stand in; there, they may be those that a text `begins` or
    `ends` with.
    """
    bound = [] if within is None else [BOUNDS[within]]
    row = [*(bound if begins else ()), *tokens, *(bound if ends else ())]
    # A token has no quote in it, so it cannot leave the quotes.
    spelled = " + ".join(f'"{token}"' for token in row)
    if prefix and len(row[-1]) >= MIN_PREFIX_CHARS:
        spelled += " *"
    return spelled if within is None else f"{{{COLUMNS[within]}}} : {spelled}"


def all_of(terms: Iterable[Term]) -> str:
    """Return the expression that matches where every term does."""
    return " AND ".join(f"({one.match()})" for one in terms)


def up_to(columns: int, expression: str) -> str:
    """Return the expression that matches within the first `columns` columns."""
    return f"{{{' '.join(COLUMNS[:columns])}}} : ({expression})"
