"""Paths and addresses in a recipe: what is relative starts at the recipe's folder.

The folder comes by pydantic's validation context, `{"base_dir": Path}`; without it, as for a
configuration made in Python, relative ones are left to the working directory.
"""

import hashlib
import re
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import unquote

from pydantic import AfterValidator, StringConstraints, ValidationInfo

from mlcat_ingest.recipe.fields import Public, PublicUrl

BASE_DIR = "base_dir"
"""The key of the validation context that holds the recipe's folder."""

_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):")
_SQLITE = re.compile(r"(?P<head>sqlite(?:\+[a-z0-9_]+)?:///)(?P<path>[^?]*)(?P<tail>\?.*)?")
_SAFE = re.compile(r"[^A-Za-z0-9_-]+")
_WORDS = {"databricks", "databricks-uc", "uc"}
"""Addresses of MLflow that are a word and no path."""


def base_dir_of(info: ValidationInfo) -> Path | None:
    """Return the recipe's folder from the validation context, None where there is none."""
    context: Any = info.context
    folder = context.get(BASE_DIR) if isinstance(context, dict) else None
    return folder if isinstance(folder, Path) else None


def file_stem(name: str) -> str:
    """Return a name that every file system takes, another one for each `name`."""
    safe = _SAFE.sub("-", name)[:80]
    return safe if safe == name else f"{safe}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def resolved_path(path: Path, base_dir: Path | None) -> Path:
    """Return `path` with `~` expanded, from `base_dir` on where it is relative."""
    try:
        path = path.expanduser()
    except RuntimeError:
        raise ValueError("begins with ~, but there is no such home folder") from None
    return path if base_dir is None or path.is_absolute() else base_dir / path


def resolved_url(url: str, base_dir: Path | None) -> str:
    """Return `url` with a relative sqlite file, `file:` address or bare path made absolute.

    Addresses of servers, in-memory databases and MLflow's `databricks` words are left as they are.
    """
    if base_dir is None or url in _WORDS:
        return url
    if sqlite := _SQLITE.fullmatch(url):
        path = sqlite["path"]
        if not path or path.startswith((":memory:", "file:")):
            return url
        return f"{sqlite['head']}{_joined(base_dir, path)}{sqlite['tail'] or ''}"
    scheme = _SCHEME.match(url)
    if scheme is None:
        return str(resolved_path(Path(url), base_dir))
    rest = url[scheme.end() :]
    if scheme["scheme"].lower() == "file" and not rest.startswith("/"):
        return Path(_joined(base_dir, unquote(rest))).as_uri()
    return url


def _joined(base_dir: Path, path: str) -> str:
    return str(base_dir.absolute() / path)


def _path(path: Path, info: ValidationInfo) -> Path:
    return resolved_path(path, base_dir_of(info))


def _url(url: str, info: ValidationInfo) -> str:
    if not url.isprintable():
        raise ValueError("has a line break or another control character in it")
    return resolved_url(url, base_dir_of(info))


RecipePath = Annotated[Path, AfterValidator(_path), Public()]
"""A file or folder; a relative one starts at the recipe's folder."""

RecipeUrl = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1),
    AfterValidator(_url),
    PublicUrl(),
]
"""An address of any kind; relative sqlite files and bare paths start at the recipe's folder."""
