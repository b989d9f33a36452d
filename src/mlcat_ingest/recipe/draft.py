"""A recipe's file as data: read, parsed, `${...}` substituted, and put under its current keys.

Substitution is one pass over parsed data, never in keys: no value can add a key, a list item or
another `${...}`.
"""

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

from mlcat_ingest.errors import RecipeError
from mlcat_ingest.recipe.loader import MAX_BYTES, Draft, Loc, Origin, Problem, parse
from mlcat_ingest.recipe.secrets import SECRETS, SubstitutedText, is_secret_name

MAX_FILE_BYTES = 65_536

_PART = re.compile(r"\$\$\{|\$\{(?P<inside>[^}]*)\}|\$\{", re.DOTALL)
_VARIABLE = re.compile(
    r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::(?P<operator>[-?])(?P<operand>.*))?", re.DOTALL
)
_FORMS = "use ${VAR}, ${VAR:-default}, ${VAR:?message} or ${file:/path}; $${ is a literal ${"


class _ReferenceError(Exception):
    """A `${...}` that has no value; `str()` is the sentence for the user."""


class _Expander:
    """Replaces every `${...}` in texts; its `failures` are those of all calls, by place.

    Texts with a `${...}` become `SubstitutedText`. Contents of files and variables of a secret
    name are masked from now on. Files named by a relative path are looked for in `base_dir`.
    """

    def __init__(self, environ: Mapping[str, str], base_dir: Path) -> None:
        self._environ = environ
        self._base_dir = base_dir
        self.failures: list[tuple[Loc, str]] = []

    def value(self, data: Any, loc: Loc = ()) -> Any:
        if isinstance(data, dict):
            return {key: self.value(item, (*loc, key)) for key, item in data.items()}
        if isinstance(data, list):
            return [self.value(item, (*loc, i)) for i, item in enumerate(data)]
        return self._text(data, loc) if isinstance(data, str) and "${" in data else data

    def _text(self, text: str, loc: Loc) -> str:
        pieces: list[str] = []

        def replace(match: re.Match[str]) -> str:
            if match[0] == "$${":
                return "${"
            try:
                value = self._reference(match["inside"], pieces)
            except _ReferenceError as failure:
                self.failures.append((loc, str(failure)))
                return match[0]
            return value

        def again() -> str | None:
            expander = _Expander(self._environ, self._base_dir)
            out = expander.value(text)
            return None if expander.failures else str(out)

        value = _PART.sub(replace, text)
        return SubstitutedText(value, text, tuple(pieces), again)

    def _reference(self, inside: str | None, pieces: list[str]) -> str:
        if inside is None:
            raise _ReferenceError("a ${ is not closed; " + _FORMS)
        if inside.startswith("file:"):
            path = inside.removeprefix("file:")
            name, value = PurePath(path).name, self._file(path)
        else:
            variable = _VARIABLE.fullmatch(inside)
            if variable is None:
                raise _ReferenceError("invalid ${…}; " + _FORMS)
            name, operator, operand = variable.groups()
            value = self._environ.get(name, "")
            if not value and (operator or name not in self._environ):
                if operator == "-":
                    return str(operand)
                why = f": {operand}" if operator else ""
                raise _ReferenceError(f"the variable {name} is not set{why}")
        if is_secret_name(name):
            SECRETS.add(value)
        pieces.append(value)
        return value

    def _file(self, written: str) -> str:
        try:
            path = self._base_dir / Path(written).expanduser()
            with path.open("rb") as stream:
                content = stream.read(MAX_FILE_BYTES + 1)
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise _ReferenceError("the file of ${file:…} is not UTF-8 text") from None
        except (OSError, ValueError, RuntimeError) as error:
            reason = getattr(error, "strerror", None) or "its path is invalid"
            raise _ReferenceError(f"the file of ${{file:…}} cannot be read: {reason}") from None
        if len(content) > MAX_FILE_BYTES:
            raise _ReferenceError(f"the file of ${{file:…}} is larger than {MAX_FILE_BYTES} bytes")
        return text.rstrip("\r\n")


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
        place = path if file.is_absolute() else f"{path} in {Path.cwd()}"
        raise RecipeError(f"no recipe at {place}", hint="`mlcat-ingest init` writes one") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "its path is invalid"
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
    base_dir = base_dir.absolute()
    written = parse(content, label, base_dir)
    plain = written.origin
    if not isinstance(written.data, dict):
        raise plain.error([plain.problem((), "a recipe must be a mapping of keys to values")])
    expander = _Expander(os.environ if environ is None else environ, base_dir)
    data, failures = expander.value(written.data), expander.failures
    problems = [*written.problems, *(plain.problem(loc, text) for loc, text in failures)]
    origin = replace(plain, broken=frozenset(loc for loc, _ in failures))
    draft = _in_our_keys(data, origin, problems)
    draft.data.setdefault("name", name)
    return draft


def draft_of_data(data: Mapping[str, Any], label: str) -> Draft:
    """Return the draft in data that another program has parsed and filled: no `${...}` is expanded.

    Relative paths start at the working folder.
    """
    return _in_our_keys(data, Origin(label, Path.cwd()), [])


def _in_our_keys(data: Mapping[str, Any], origin: Origin, problems: list[Problem]) -> Draft:
    """Return the draft, with `pipeline_name` as `name` and `source` as the one of `sources`."""
    out = {key: value for key, value in data.items() if key != "$schema"}
    spelled: dict[Loc, Loc] = {}
    for other, ours in (("pipeline_name", "name"), ("source", "sources")):
        if other not in out:
            continue
        value = out.pop(other)
        if ours in out:
            problems.append(origin.problem((other,), f"is another name of `{ours}`; keep one"))
            continue
        out[ours] = [value] if ours == "sources" else value
        spelled[(ours,)] = (other,)
        if ours == "sources":
            spelled[(ours, 0)] = (other,)
    return Draft(out, replace(origin, spelled=spelled), tuple(problems))
