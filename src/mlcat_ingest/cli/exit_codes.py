"""Exit statuses of the command line, and which of them an error has."""

from mlcat_ingest.errors import RecipeError
from mlcat_ingest.pipeline.report.report import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_PARTIAL,
    EXIT_PENDING,
    EXIT_TESTS,
    EXIT_USAGE,
)

__all__ = [
    "EXIT_FAILED",
    "EXIT_INTERRUPTED",
    "EXIT_OK",
    "EXIT_PARTIAL",
    "EXIT_PENDING",
    "EXIT_TESTS",
    "EXIT_USAGE",
    "exit_code_of",
]


def exit_code_of(error: BaseException) -> int:
    """Return 2 where the recipe, the command or the environment has to change, else 1."""
    return EXIT_USAGE if isinstance(error, RecipeError) else EXIT_FAILED
