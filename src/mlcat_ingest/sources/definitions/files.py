"""Which files a path means, and what stands in each: data, lines, and what is wrong with it."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from stat import S_ISREG
from typing import Any, Final

from mlcat_ingest.errors import RecipeError
from mlcat_ingest.recipe.loader import Parsed, parse
from mlcat_ingest.recipe.problems import Origin

MAX_BYTES: Final = 16 * 1_048_576
MAX_NODES: Final = 1_000_000
"""Bounds of one file: about 100,000 features."""

_SUFFIXES: Final = frozenset({".yml", ".yaml", ".json"})
_HINT: Final = "see `path` in the source's config"


@dataclass(frozen=True, slots=True)
class DefinitionsFile:
    """One file that could be read as YAML or JSON; what it says is not checked yet."""

    parsed: Parsed
    origin: Origin

    @property
    def data(self) -> dict[str, Any]:
        """Return what stands in it, nothing where that is no mapping."""
        return self.parsed.data if isinstance(self.parsed.data, dict) else {}


def find_files(path: Path) -> list[Path]:
    """Return the files that `path` means, sorted: itself, those in a folder, or a pattern's.

    Raises:
        RecipeError: there are none, or what may hold some cannot be read.
    """
    try:
        found = sorted(set(_found(path)))
    except OSError as error:
        told = f"{error.filename or path} cannot be read: {error.strerror}"
        raise RecipeError(told, hint=_HINT) from None
    if not found:
        # An empty store would take away everything that was read before.
        raise RecipeError(f"there are no definitions files at {path}", hint=_HINT)
    return found


def _found(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from _in_folder(path, set())
    elif path.exists() or not _is_pattern(str(path)):
        yield path
    else:
        root = Path(path.anchor or ".")
        yield from _matching(
            root, path.relative_to(path.anchor).parts if path.anchor else path.parts
        )


def _matching(folder: Path, pattern: Sequence[str]) -> Iterator[Path]:
    """Yield the files below `folder` that `pattern` matches, part by part.

    As `Path.glob` does, which would pass over folders that cannot be read.
    """
    first, *rest = pattern
    if first == "**":
        yield from _matching(folder, rest or ["*"])
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                yield from _matching(path, pattern)
        return
    for path in _named(folder, first):
        if not rest:
            if _is_file(path):
                yield path
        elif path.is_dir():
            yield from _matching(path, rest)


def _named(folder: Path, pattern: str) -> Iterable[Path]:
    if not _is_pattern(pattern):
        return [folder / pattern]
    return (path for path in folder.iterdir() if fnmatchcase(path.name, pattern))


def _in_folder(folder: Path, seen: set[Path]) -> Iterator[Path]:
    """Yield the files below `folder`, through links too; each real folder is gone into once."""
    seen.add(folder.resolve())
    for path in folder.iterdir():
        if path.name.startswith("."):
            continue
        if path.is_dir():
            if path.resolve() not in seen:
                yield from _in_folder(path, seen)
        elif path.suffix.lower() in _SUFFIXES and _is_file(path):
            yield path


def _is_file(path: Path) -> bool:
    """Return whether `path` is to be read; a link to nowhere is, since somebody misses its file."""
    return path.is_file() or (path.is_symlink() and not path.exists())


def _is_pattern(text: str) -> bool:
    return any(sign in text for sign in "*?[")


def read_file(path: Path) -> DefinitionsFile:
    """Return what stands in a file.

    Raises:
        RecipeError: it cannot be read.
        RecipeSyntaxError: it is not YAML or JSON.
    """
    try:
        content = _whole(path)
    except OSError as error:
        raise RecipeError(
            f"the definitions file {path} cannot be read: {error.strerror}", hint=_HINT
        ) from None
    label = _label(path)
    parsed = parse(
        content, label, max_bytes=MAX_BYTES, max_nodes=MAX_NODES, cure_if_empty="define a table"
    )
    return DefinitionsFile(parsed, Origin(label, path.parent, parsed.lines))


def _whole(path: Path) -> bytes:
    """Return the content, all of it: half a file that is being written reads as a smaller store."""
    with path.open("rb") as stream:
        before = os.fstat(stream.fileno())
        content = stream.read(MAX_BYTES + 1)
        after = os.fstat(stream.fileno())
    same = (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
    if S_ISREG(after.st_mode) and not (same and len(content) == min(after.st_size, MAX_BYTES + 1)):
        raise RecipeError(
            f"the definitions file {path} changed while it was read",
            hint="is it being written? run again once it is complete",
        )
    return content


def _label(path: Path) -> str:
    """Return how errors name a file: from the working directory on, where it is below that."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
