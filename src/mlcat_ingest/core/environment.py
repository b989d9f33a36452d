"""Values of environment variables: switches and paths. Standard library only."""

import os
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from mlcat_ingest.errors import RecipeError

_ON: Final = frozenset({"1", "true", "t", "yes", "y", "on"})
_OFF: Final = frozenset({"", "0", "false", "f", "no", "n", "off"})

SWITCH: Final = "neither on nor off; set it to 1 or 0"
"""What is wrong with a variable that `is_on` does not know."""


def is_on(text: str) -> bool | None:
    """Return whether a switch is on, None for a text that is neither on nor off."""
    word = text.strip().lower()
    return True if word in _ON else False if word in _OFF else None


def local_path(text: str) -> Path:
    """Return the path that a variable holds, from a `file:` address too; `~` is the home folder.

    Raises:
        RecipeError: the home folder is not known.
    """
    path = unquote(urlsplit(text).path) if text.lower().startswith("file:") else text
    expanded = os.path.expanduser(path)  # noqa: PTH111 - never raises
    if expanded.startswith("~"):
        raise RecipeError(
            f"the home folder in {text} is not known", hint="set HOME, or use an absolute path"
        )
    return Path(expanded)
