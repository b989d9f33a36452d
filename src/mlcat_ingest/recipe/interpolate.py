"""`${...}` in the texts of a recipe: variables, defaults, files; one pass, never in keys.

It runs on parsed data, so that no value can add a key, a list item or another `${...}`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlcat_ingest.recipe.problems import Loc
from mlcat_ingest.recipe.secrets import SECRETS, Substituted, is_secret_name

MAX_FILE_BYTES = 65_536

_PART = re.compile(r"\$\$\{|\$\{(?P<inside>[^}]*)\}|\$\{", re.DOTALL)
_VARIABLE = re.compile(
    r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::(?P<operator>[-?])(?P<operand>.*))?", re.DOTALL
)
_FORMS = "write ${VAR}, ${VAR:-default}, ${VAR:?message} or ${file:/path}; a literal ${ is $${"


class _UnusableError(Exception):
    """A `${...}` that has no value; `str()` is the sentence for the user."""


@dataclass(slots=True)
class Interpolated:
    """Data in which nothing is left to expand, and what could not be expanded, by place."""

    data: Any
    failures: list[tuple[Loc, str]] = field(default_factory=list)


def interpolate(data: Any, environ: Mapping[str, str], base_dir: Path) -> Interpolated:
    """Return a copy of `data` with every `${...}` in its texts replaced.

    Texts with a `${...}` become `Substituted`, and what came from outside the recipe is masked
    from now on. Files named by a relative path are looked for in `base_dir`.
    """
    out = Interpolated(None)
    out.data = _Expander(environ, base_dir, out).value(data, ())
    return out


class _Expander:
    def __init__(self, environ: Mapping[str, str], base_dir: Path, out: Interpolated) -> None:
        self._environ = environ
        self._base_dir = base_dir
        self._out = out

    def value(self, data: Any, loc: Loc) -> Any:
        if isinstance(data, dict):
            return {key: self.value(item, (*loc, key)) for key, item in data.items()}
        if isinstance(data, list):
            return [self.value(item, (*loc, i)) for i, item in enumerate(data)]
        return self._text(data, loc) if isinstance(data, str) and "${" in data else data

    def _text(self, text: str, loc: Loc) -> str:
        pieces: list[str] = []

        def replaced(match: re.Match[str]) -> str:
            if match[0] == "$${":
                return "${"
            try:
                value = self._reference(match["inside"], pieces)
            except _UnusableError as failure:
                self._out.failures.append((loc, str(failure)))
                return match[0]
            return value

        value = _PART.sub(replaced, text)
        return Substituted(value, text, tuple(pieces))

    def _reference(self, inside: str | None, pieces: list[str]) -> str:
        if inside is None:
            raise _UnusableError("a ${ is not closed; " + _FORMS)
        if inside.startswith("file:"):
            value = self._file(inside.removeprefix("file:"))
            SECRETS.add(value)
            pieces.append(value)
            return value
        found = _VARIABLE.fullmatch(inside)
        if found is None:
            raise _UnusableError("a ${…} is not understood; " + _FORMS)
        name, operator, operand = found["name"], found["operator"], found["operand"]
        value = self._environ.get(name, "")
        if not value and (operator or name not in self._environ):
            return self._without(name, operator, operand)
        (SECRETS.add if is_secret_name(name) else SECRETS.suspect)(value)
        pieces.append(value)
        return value

    def _without(self, name: str, operator: str | None, operand: str) -> str:
        """Return what stands in for a variable that is not set, or is empty."""
        match operator:
            case "-":
                return operand
            case "?":
                raise _UnusableError(f"the variable {name} is not set: {operand}")
            case _:
                raise _UnusableError(f"the variable {name} is not set")

    def _file(self, written: str) -> str:
        try:
            path = self._base_dir / Path(written).expanduser()
            with path.open("rb") as stream:
                content = stream.read(MAX_FILE_BYTES + 1)
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise _UnusableError("the file of ${file:…} is not UTF-8 text") from None
        except (OSError, ValueError, RuntimeError) as error:
            reason = getattr(error, "strerror", None) or "its path is not usable"
            raise _UnusableError(f"the file of ${{file:…}} cannot be read: {reason}") from None
        if len(content) > MAX_FILE_BYTES:
            raise _UnusableError(f"the file of ${{file:…}} is larger than {MAX_FILE_BYTES} bytes")
        return text.rstrip("\r\n")
