"""Which files a path means, and what stands in each: data, lines, and what is wrong with it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
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
        RecipeError: there are none, or a folder cannot be read.
    """
    if path.is_dir():
        try:
            found = sorted(_in_folder(path, set()))
        except OSError as error:
            told = f"the folder {error.filename} cannot be read: {error.strerror}"
            raise RecipeError(told, hint=_HINT) from None
    elif path.exists() or not _is_pattern(path):
        found = [path]
    else:
        root = Path(path.anchor or ".")
        inside = path.relative_to(path.anchor) if path.anchor else path
        found = sorted(one for one in root.glob(str(inside)) if _is_file(one))
    if not found:
        # An empty store would take away everything that was read before.
        raise RecipeError(f"there are no definitions files at {path}", hint=_HINT)
    return found


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


def _is_pattern(path: Path) -> bool:
    return any(sign in str(path) for sign in "*?[")


def read_file(path: Path) -> DefinitionsFile:
    """Return what stands in a file.

    Raises:
        RecipeError: it cannot be read.
        RecipeSyntaxError: it is not YAML or JSON.
    """
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise RecipeError(
            f"the definitions file {path} cannot be read: {error.strerror}", hint=_HINT
        ) from None
    label = _label(path)
    parsed = parse(
        content, label, max_bytes=MAX_BYTES, max_nodes=MAX_NODES, cure_if_empty="define a table"
    )
    return DefinitionsFile(parsed, Origin(label, path.parent, parsed.lines))


def _label(path: Path) -> str:
    """Return how errors name a file: from the working directory on, where it is below that."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
