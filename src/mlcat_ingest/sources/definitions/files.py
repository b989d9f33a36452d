"""The definitions files at a path."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mlcat_ingest.errors import RecipeError

PATH_HINT: Final = "correct `path` in the source's config"
_SUFFIXES: Final = frozenset({".yml", ".yaml", ".json"})


def find_files(path: Path) -> list[Path]:
    """Return the definitions files of `path`, sorted: itself, those in a folder, or a pattern's.

    Raises:
        RecipeError: there are none, or what may hold some cannot be read.
    """
    try:
        if path.is_dir():
            found = _in_folder(path, set())
        elif path.exists() or not _is_pattern(str(path)):
            found = iter([path])
        else:
            found = _matching(path)
        files = sorted(set(found))
    except OSError as error:
        sentence = f"cannot read {error.filename or path}: {error.strerror}"
        raise RecipeError(sentence, hint=PATH_HINT) from None
    if not files:
        # An empty store would take away everything that was read before.
        raise RecipeError(f"no definitions files at {path}", hint=PATH_HINT)
    return files


def _matching(path: Path) -> Iterator[Path]:
    """Yield the files that a pattern matches.

    Raises:
        OSError: a folder on the way of the pattern cannot be read.
    """
    first = next(at for at, part in enumerate(path.parts) if _is_pattern(part))
    root, pattern = Path(*path.parts[:first]), path.parts[first:]
    for depth in range(len(pattern)):
        # `Path.glob` passes over a folder that cannot be read; its tables would count as removed.
        for folder in root.glob("/".join(pattern[:depth])) if depth else (root,):
            if folder.is_dir():
                next(folder.iterdir(), None)
    # Before Python 3.13, a pattern that ends with `**` matches folders alone.
    files = (*pattern, "*") if pattern[-1] == "**" else pattern
    yield from filter(_is_file, root.glob("/".join(files)))


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
    """Return whether `path` has to be read, as a link to nowhere has: its file is missed."""
    return path.is_file() or (path.is_symlink() and not path.exists())


def _is_pattern(text: str) -> bool:
    return any(sign in text for sign in "*?[")
