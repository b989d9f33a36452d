"""The surroundings of a process: environment variables, extras, locks, and the signal to end.

A module of an extra counts whatever distribution brought it. Standard library only.
"""

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Final
from urllib.parse import unquote, urlsplit

from mlcat_ingest.errors import MissingExtraError, RecipeError

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


@contextmanager
def stop_on_sigterm() -> Iterator[None]:
    """Let SIGTERM, as schedulers and containers send it, end a command as Ctrl-C does."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before if before is not None else signal.SIG_DFL)


_CATALOG: Final = ("graphql", "jinja2", "prometheus_client", "re2", "starlette", "uvicorn")
_FEAST: Final = ("google.protobuf", "grpc")

MODULES: Final[Mapping[str, tuple[str, ...]]] = {
    "aws": ("boto3",),
    "azure": ("adlfs", "fsspec"),
    "catalog": _CATALOG,
    "demo": (*_CATALOG, *_FEAST),
    "demo-train": (*_CATALOG, *_FEAST, "mlflow", "sklearn"),
    "feast": _FEAST,
    "gcs": ("fsspec", "gcsfs"),
    "mlflow": ("mlflow",),
    "postgres": ("psycopg",),
    "tests": ("re2",),
}
"""The modules of each extra. Airflow and DataHub are not among them: they import us."""


def package_version() -> str:
    """Return the version of this distribution as it is installed."""
    from importlib.metadata import version

    return version("mlcat-ingest")


def require_extra(extra: str, what: str) -> None:
    """Check that the modules of an extra are installed, for `what` needs them; import none.

    Raises:
        MissingExtraError: one of them is not there.
    """
    if not all(map(_is_installed, MODULES[extra])):
        raise MissingExtraError(what, extra)


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # nor is the package that it would be in
        return False
