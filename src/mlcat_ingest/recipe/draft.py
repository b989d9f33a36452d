"""A recipe's file as data: read, parsed, filled in, and put into our own keys."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlcat_ingest.errors import RecipeError
from mlcat_ingest.recipe.interpolate import interpolate
from mlcat_ingest.recipe.loader import MAX_BYTES, parse
from mlcat_ingest.recipe.problems import Loc, Origin, Problem

_ALIASES = (("pipeline_name", "name"), ("source", "sources"))


@dataclass(frozen=True, slots=True)
class Draft:
    """What a recipe's file says, in our own keys, and what was found wrong before any typing."""

    data: dict[str, Any]
    origin: Origin
    problems: tuple[Problem, ...] = ()


def read_draft(path: str | Path, environ: Mapping[str, str] | None = None) -> Draft:
    """Return the draft in a YAML or JSON file; `-` is standard input.

    Raises:
        RecipeError: the file cannot be read.
        RecipeSyntaxError: it is not YAML or JSON.
        RecipeValidationError: it holds something else than a mapping.
    """
    if str(path) == "-":
        content = sys.stdin.buffer.read(MAX_BYTES + 1)
        return draft_of(content, "<stdin>", Path.cwd(), environ)
    file = Path(path)
    try:
        with file.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise RecipeError(
            f"there is no recipe {path}", hint="mlcat-ingest init writes one"
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "its path is not usable"
        raise RecipeError(f"the recipe {path} cannot be read: {reason}") from None
    return draft_of(content, str(path), file.absolute().parent, environ, name=file.stem)


def draft_of(
    content: bytes | str,
    label: str,
    base_dir: Path,
    environ: Mapping[str, str] | None = None,
    *,
    name: str = "recipe",
) -> Draft:
    """Return the draft in YAML or JSON text; `name` is the recipe's where it gives none.

    Raises:
        RecipeSyntaxError: the text is not YAML or JSON.
        RecipeValidationError: it holds something else than a mapping.
    """
    parsed = parse(content, label)
    base_dir = base_dir.absolute()
    plain = Origin(label, base_dir, parsed.lines)
    if not isinstance(parsed.data, dict):
        raise plain.error([plain.problem((), "a recipe has to be a mapping of keys to values")])
    filled = interpolate(parsed.data, os.environ if environ is None else environ, base_dir)
    problems = [*parsed.problems, *(plain.problem(loc, text) for loc, text in filled.failures)]
    spelled: dict[Loc, Loc] = {}
    data = _in_our_keys(filled.data, spelled, plain, problems)
    data.setdefault("name", name)
    broken = frozenset(loc for loc, _ in filled.failures)
    return Draft(data, Origin(label, base_dir, parsed.lines, spelled, broken), tuple(problems))


def _in_our_keys(
    data: dict[str, Any], spelled: dict[Loc, Loc], origin: Origin, problems: list[Problem]
) -> dict[str, Any]:
    """Return `data` with `pipeline_name` as `name` and `source` as the one of `sources`."""
    out = {key: value for key, value in data.items() if key != "$schema"}
    for other, ours in _ALIASES:
        if other not in out:
            continue
        value = out.pop(other)
        if ours in out:
            problems.append(origin.problem((other,), f"says the same as `{ours}`; keep one"))
            continue
        out[ours] = [value] if ours == "sources" else value
        spelled[(ours,)] = (other,)
        if ours == "sources":
            spelled[(ours, 0)] = (other,)
    return out
