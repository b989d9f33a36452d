"""Files that a command leaves behind: whole at any moment, and never in the place of a device."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import click

STDOUT: Final = Path("-")


def writable_in(path: Path | None, option: str) -> None:
    """Return if the folder of an option's file exists.

    Raises:
        UsageError: it does not.
    """
    if path is not None and not path.parent.is_dir():
        raise click.UsageError(f"{option}: the folder {path.parent} does not exist")


def is_replaceable(path: Path) -> bool:
    """Return whether another file may take the place of `path`: not that of a device or pipe."""
    return path.is_file() or not path.exists()


def write_whole(path: Path, pieces: Iterable[str]) -> None:
    """Write `pieces` to `path`: what stood there before stays until all of it is written.

    A link stays a link, and a device or a pipe gets it directly.

    Raises:
        OSError: it cannot be written.
    """
    if not is_replaceable(path):
        with path.open("w", encoding="utf-8") as file:
            file.writelines(pieces)
        return
    target = path.resolve()
    partial = target.with_name(f"{target.name}.partial")
    try:
        with partial.open("w", encoding="utf-8") as file:
            file.writelines(pieces)
        partial.replace(target)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
