"""The operating systems that locks between processes work on."""

import sys

from mlcat_ingest.errors import RecipeError


def require_posix() -> None:
    """Check that this is Linux or macOS: Windows has no `flock`, which every lock needs.

    Raises:
        RecipeError: this is Windows.
    """
    if sys.platform == "win32":
        raise RecipeError(
            "mlcat-ingest runs on Linux and macOS, not on Windows",
            hint="run it in WSL or in a Linux container",
        )
