"""The exit status of an error."""

from mlcat_ingest.errors import RecipeError
from mlcat_ingest.pipeline.report.report import EXIT_FAILED, EXIT_USAGE


def exit_code_of(error: BaseException) -> int:
    """Return `EXIT_USAGE` for an error that the user has to cure, else `EXIT_FAILED`."""
    return EXIT_USAGE if isinstance(error, RecipeError) else EXIT_FAILED
