"""Secrets: values from outside the recipe, remembered and masked in all output.

Only the standard library is imported, so that the command line can mask from its first line on.
"""

import json
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePath
from typing import Any, Self
from urllib.parse import quote

from mlcat_ingest.core.redaction import redact_urls

MASK = "***"
SHORTEST_MASKED = 4
"""Shorter values are never printed by a recipe, but masking them in text would destroy the text."""

_COMMON_WORDS = frozenset(
    {
        *("datahub", "default", "feast", "mlflow", "mysql", "postgres", "sagemaker", "sqlite"),
        *("prod", "PROD", "test", "TEST", "false", "http", "https", "json", "true"),
    }
)
"""Words in nearly all output: it says nothing of a secret that is one of them."""

_SECRET_NAME = re.compile(
    r"(?:^|[^a-z])(?:tokens?|passw(?:or)?d|passphrase|secrets?|headers|credentials?|authorization|cookie"
    r"|pwd|(?:api|access|private|secret)[-_]?keys?)(?:$|[^a-z])"
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_BOTH = (False, True)
_REFERENCE = re.compile(r"\$\{[^}]*\}")


class SubstitutedText(str):
    """A text from outside the recipe; its `repr` is the reference to it in the recipe."""

    __slots__ = ("_again", "pieces", "template")
    template: str
    pieces: tuple[str, ...]
    _again: Callable[[], str | None]

    def __new__(
        cls,
        value: str,
        template: str,
        pieces: tuple[str, ...] = (),
        again: Callable[[], str | None] = lambda: None,
    ) -> Self:
        """Keep the value, the recipe's own text of it, and the values that came from outside.

        `again` substitutes once more, and returns None where that fails.
        """
        text = super().__new__(cls, value)
        text.template = template
        text.pieces = pieces
        text._again = again
        return text

    def now(self) -> str:
        """Return the text with its files read anew; as it is where one cannot be read."""
        if "${file:" not in self.template or (text := self._again()) is None:
            return str(self)
        SECRETS.add(text)
        return text

    @property
    def names_secret(self) -> bool:
        """Whether a variable or file of a secret name is part of it."""
        return any(map(is_secret_name, _REFERENCE.findall(self.template)))

    def __repr__(self) -> str:
        return repr(self.template)

    def __reduce__(self) -> tuple[Any, ...]:
        return SubstitutedText, (str(self), self.template, self.pieces)


class _SecretRegistry:
    """The values to mask in output; safe to use from several threads."""

    def __init__(self) -> None:
        """Start with nothing to mask."""
        self._lock = threading.Lock()
        self._values: frozenset[str] = frozenset()
        self._public = _COMMON_WORDS
        self._pattern: re.Pattern[str] | None = None
        self._stale = False

    def add(self, *values: str, public: Iterable[str] = ()) -> None:
        """Mask `values` from now on, also as JSON and URLs spell them.

        Words that are `public` are never masked in text: they also are where no secret is.
        """
        with self._lock:
            self._values |= _spellings(values)
            self._public |= frozenset(public)
            self._stale = True

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._values = frozenset()
            self._public = _COMMON_WORDS
            self._stale = True

    def mask(self, text: str) -> str:
        """Return `text` with every secret value, and user names and passwords in URLs, masked."""
        if self._stale:
            self._compile()
        if (pattern := self._pattern) is not None:
            text = pattern.sub(MASK, text)
        return redact_urls(text, f"{MASK}@")

    def _compile(self) -> None:
        with self._lock:
            # Longest first: a secret that begins with another secret must go as a whole.
            values = self._values - self._public
            ordered = sorted(values, key=lambda value: (-len(value), value))
            self._pattern = re.compile("|".join(map(re.escape, ordered))) if ordered else None
            self._stale = False


SECRETS = _SecretRegistry()
"""The registry of this process: loading a recipe fills it, everything that prints asks it."""


mask = SECRETS.mask
"""Returns a text fit to be printed: every secret known to this process is `***`."""


def is_secret_name(name: str) -> bool:
    """Say whether a field, header or variable of that name holds a secret."""
    return _SECRET_NAME.search(_CAMEL.sub("_", name).lower()) is not None


def mask_tree(value: Any, *, secret: bool = False) -> Any:
    """Return a copy of a value of dicts and lists that can be printed.

    Substituted values show as the recipe's `${...}`; values under a secret name, and with
    `secret` all values, as `***`.
    """
    if isinstance(value, Mapping):
        return {
            key: mask_tree(item, secret=secret or is_secret_name(str(key)))
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        items = [mask_tree(item, secret=secret) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, SubstitutedText):
        return _printable_template(value, secret=secret)
    if hasattr(value, "get_secret_value"):
        return MASK if value.get_secret_value() else ""
    if secret:
        return MASK if isinstance(value, str | int | float) and value != "" else value
    if isinstance(value, PurePath):
        return type(value)(mask(str(value)))
    return mask(value) if isinstance(value, str) else value


def comparable(value: Any) -> Any:
    """Return a copy of a configuration, dumped as Python values, to tell whether it has changed.

    Only declared secrets are masked; the name of a property decides nothing, not even `token`.
    """
    if isinstance(value, Mapping):
        return {key: comparable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [comparable(item) for item in value]
    if hasattr(value, "get_secret_value"):
        return MASK if value.get_secret_value() else ""
    return mask(str(value)) if isinstance(value, str | PurePath) else value


def _printable_template(value: SubstitutedText, *, secret: bool) -> str:
    """Return the template; under a secret name only `${NAME}`, as a default may be a password."""
    if not secret:
        # Without a piece it is the recipe's own text, in which $${ hides a secret from the search.
        hidden = not value.pieces and mask(value) != value
        return MASK if hidden else mask(value.template)
    whole = _REFERENCE.fullmatch(value.template)
    return re.sub(r":[-?].+(?=\})", ":-", whole[0], flags=re.DOTALL) if whole else MASK


def _spellings(values: Iterable[str]) -> frozenset[str]:
    """Return `values` as they are, trimmed, and as paths, JSON and URLs write them."""
    spellings: set[str] = set()
    for value in values:
        trimmed = value.strip()
        for spelled in (value, trimmed, trimmed.rstrip("/"), str(PurePath(trimmed))):
            if len(spelled) >= SHORTEST_MASKED:
                spellings.update((spelled, quote(spelled), quote(spelled, safe="")))
                spellings.update(json.dumps(spelled, ensure_ascii=ascii_)[1:-1] for ascii_ in _BOTH)
    return frozenset(spellings)
