"""The surroundings of a process: environment variables, extras, locks, signals, files of its user.

A module of an extra counts whatever distribution brought it. A lock or a spool may be in a folder
where others can write, too: there a link is not followed, and what is not a regular file is not
opened. Standard library only.
"""

import errno
import os
import signal
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
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
def stop_on_signals() -> Iterator[None]:
    """Let SIGTERM of a scheduler and SIGHUP of a closed terminal end a command as Ctrl-C does.

    A signal that is ignored, as `nohup` ignores the latter, stays ignored.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


_CATALOG: Final = (
    *("graphql", "jinja2", "markdown_it", "nh3", "prometheus_client", "re2", "starlette"),
    "uvicorn",
)
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


PRIVATE: Final = 0o600
"""Mode of a file that only its owner may use."""

_OTHERS: Final = 0o077


def make_folder(path: Path) -> None:
    """Make a folder and its missing parents, for their owner alone.

    Raises:
        OSError: it cannot be made.
    """
    if not path.is_dir():
        if not path.parent.exists():
            make_folder(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)


def open_file(path: str | os.PathLike[str], flags: int, mode: int = PRIVATE) -> int:
    """Return a descriptor of a regular file; one that is missing is made if `flags` ask for it.

    A file of this user gets `mode`.

    Raises:
        OSError: it is a link or not a regular file, or cannot be opened.
    """
    # Opening a pipe would wait for its other end.
    handle = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    with ExitStack() as unless_opened:
        unless_opened.callback(os.close, handle)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
        if flags & os.O_CREAT:
            restrict(handle, mode)
        unless_opened.pop_all()
    return handle


def restrict(file: int | str, mode: int = PRIVATE) -> None:
    """Give a regular file of this user the rights for others that are in `mode`.

    Raises:
        OSError: it does not exist.
    """
    status = os.stat(file)  # noqa: PTH116 - a descriptor, too
    ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
    if ours and status.st_mode & _OTHERS != mode & _OTHERS:
        os.chmod(file, stat.S_IMODE(status.st_mode) & ~_OTHERS | mode & _OTHERS)  # noqa: PTH101


def opener(path: str, flags: int) -> int:
    """Open a file for `open`: a link is followed, and a regular file is for its owner alone.

    Raises:
        OSError: it cannot be opened.
    """
    handle = os.open(path, flags | os.O_CLOEXEC, PRIVATE)
    restrict(handle)
    return handle
