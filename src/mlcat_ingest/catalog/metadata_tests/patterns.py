"""Regular expressions of metadata tests: they describe a whole text, in the syntax of RE2."""

from typing import Final, Protocol

import re2

from mlcat_ingest.catalog.limits import PATTERN_BYTES, PATTERN_CHARS, PATTERN_TEXT_CHARS

_OPTIONS: Final = re2.Options()
_OPTIONS.max_mem = PATTERN_BYTES
_OPTIONS.log_errors = False  # else RE2 itself writes of each pattern that is refused to stderr
_OPTIONS.never_capture = True  # whether a text matches is all that is asked


class PatternError(Exception):
    """A pattern cannot be taken; the message says why, to its author."""


class Pattern(Protocol):
    """What is used of RE2's compiled patterns, whose library has no types."""

    @property
    def pattern(self) -> str:
        """The text that was compiled."""

    def fullmatch(self, text: str) -> object | None:
        """Return None where the pattern does not describe the whole of `text`."""


def compile_pattern(text: str) -> Pattern:
    """Return `text` compiled.

    Raises:
        PatternError: the pattern is malformed, too long, or too large when compiled.
    """
    if len(text) > PATTERN_CHARS:
        raise PatternError(f"has more than {PATTERN_CHARS} characters")
    try:
        compiled: Pattern = re2.compile(text, _OPTIONS)
    except re2.error as error:
        raise PatternError(f"is refused: {error.args[0].decode()}") from error
    return compiled


def matches(pattern: Pattern, text: str) -> bool:
    """Return whether `pattern` describes the whole of `text`, which is never true of a long one."""
    return len(text) <= PATTERN_TEXT_CHARS and pattern.fullmatch(text) is not None
