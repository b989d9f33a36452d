"""Problems of a recipe: where (line and path) and what, without ever repeating a value."""

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mlcat_ingest.errors import RecipeValidationError

Loc = tuple[str | int, ...]
"""A place in a recipe: keys and list positions, from the top."""

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_$-]+")
_LONGEST_KEY = 60


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: its place, a sentence about it, and its line where known."""

    loc: Loc
    sentence: str
    line: int | None = None

    def render(self, label: str = "") -> str:
        """Return `recipe.yml:12: sources[0].config.tracking_uri: <sentence>`."""
        place = f"{label}:{self.line}" if label and self.line else label
        parts = [place, path_text(self.loc), self.sentence]
        return ": ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a recipe: file, folder, lines, and the keys as its author wrote them."""

    label: str = ""
    base_dir: Path | None = None
    lines: Mapping[Loc, int] = field(default_factory=dict)
    spelled: Mapping[Loc, Loc] = field(default_factory=dict)
    broken: frozenset[Loc] = frozenset()

    def as_written(self, loc: Loc) -> Loc:
        """Return `loc` as the author spelled it: `source.config` and not `sources[0].config`."""
        for end in range(len(loc), 0, -1):
            if (written := self.spelled.get(loc[:end])) is not None:
                return written + loc[end:]
        return loc

    def line_of(self, loc: Loc) -> int | None:
        """Return the line of `loc` as written, or of the nearest node around it."""
        for end in range(len(loc), -1, -1):
            if (line := self.lines.get(loc[:end])) is not None:
                return line
        return None

    def problem(self, loc: Loc, sentence: str) -> Problem:
        """Return a problem at `loc`, a place in the recipe's own terms or the author's."""
        written = self.as_written(loc)
        return Problem(written, sentence, self.line_of(written))

    def error(self, problems: Iterable[Problem]) -> RecipeValidationError:
        """Return the error that lists `problems` in the order of the file, each once."""
        ordered = sorted(problems, key=lambda problem: problem.line or 0)
        return RecipeValidationError(
            list(dict.fromkeys(problem.render(self.label) for problem in ordered))
        )


def path_text(loc: Loc) -> str:
    """Return `loc` as a reader writes it: `sources[0].config.headers["X-A b"]`."""
    text = ""
    for step in loc:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step):
            text += f".{step}" if text else step
        else:
            short = step if len(step) <= _LONGEST_KEY else step[:_LONGEST_KEY] + "…"
            text += f"[{json.dumps(short)}]"
    return text


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the one of `known` that `word` was probably meant to be, or None."""
    by_lower = {name.lower().replace("-", "_"): name for name in known}
    close = difflib.get_close_matches(word.lower().replace("-", "_"), by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None
