"""What the code asks of its reader, in figures: prints each one with its limit.

    python tests/house/measure.py

`measure.toml` has the limits, and says what each figure counts.
"""

import ast
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import resolve_name
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1]))
from house.booking import booking_modules
from house.passes import functions_of_passes
from support.source_code import nodes, parsed

ROOT: Final = Path(__file__).parents[2]
SETTINGS: Final[Mapping[str, Any]] = tomllib.loads(
    (Path(__file__).parent / "measure.toml").read_text()
)

Modules = Mapping[str, Path]
"""The file of each module, by its name in dots."""


@dataclass(frozen=True)
class Limit:
    """The most that a figure may be, and how far below that it may stay."""

    most: int
    slack: int

    def problem(self, now: int) -> str | None:
        """Return why a figure breaks the rules of `measure.toml`, None if it does not."""
        if now > self.most:
            return f"{now:,} is more than the limit, {self.most:,}"
        if now < self.most - self.slack:
            better = now + self.slack // 2
            return f"{now:,} is so far below the limit, {self.most:,}, that it has to be {better:_}"
        return None


LIMITS: Final = {
    name: Limit(row["limit"], row["slack"])
    for table in ("measures", "stages")
    for name, row in SETTINGS[table].items()
}


def modules_in(folder: Path) -> Modules:
    """Return the modules below a folder that is on Python's path."""
    return {
        ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sorted(folder.rglob("*.py"))
    }


def lines_of(paths: Iterable[Path]) -> int:
    """Return the number of lines of these files."""
    return sum(len(path.read_text().splitlines()) for path in paths)


def public_names(modules: Modules) -> int:
    """Return the number of classes and functions of modules that other modules may use.

    Their names have no underscore, or are imported nevertheless. Those in an `if`, a `try` or a
    `with` count, too.
    """
    imported = {
        node.name
        for path in modules.values()
        for node in nodes(path)
        if isinstance(node, ast.alias)
    }
    return sum(
        isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and (not node.name.startswith("_") or node.name in imported)
        for path in modules.values()
        for node in _statements(parsed(path).body)
    )


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements, and those within, but for the bodies of classes and functions."""
    for node in body:
        yield node
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for name in ("body", "orelse", "finalbody"):
                yield from _statements(getattr(node, name, []))
            for handler in getattr(node, "handlers", []):
                yield from _statements(handler.body)


def booleans(modules: Modules) -> int:
    """Return the number of parameters, and of fields of classes, that are annotated `bool`."""
    return sum(
        _is_boolean(annotation)
        for path in modules.values()
        for node in nodes(path)
        for annotation in _annotations(node)
    )


def _annotations(node: ast.AST) -> list[ast.expr | None]:
    """Return the annotation of a parameter, or those of the fields of a class."""
    match node:
        case ast.arg(annotation=annotation):
            return [annotation]
        case ast.ClassDef(body=body):
            return [field.annotation for field in body if isinstance(field, ast.AnnAssign)]
        case _:
            return []


def _is_boolean(annotation: ast.expr | None) -> bool:
    match annotation:
        case ast.Name(id="bool"):
            return True
        case ast.BinOp(left=left, right=right):
            return _is_boolean(left) or _is_boolean(right)
        case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[kind, *_])):
            return _is_boolean(kind)
        case ast.Subscript(value=ast.Name(id="Final" | "ClassVar"), slice=kind):
            return _is_boolean(kind)
        case _:
            return False


def modules_read_with(modules: Modules, start: str) -> set[str]:
    """Return a module, and all that it imports, at its top or in a function, one after the other.

    Raises:
        LookupError: there is no such module.
    """
    if start not in modules:
        raise LookupError(f"there is no module {start}")
    found: set[str] = set()
    waiting = [start]
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            waiting += _imported(modules, module)
    return found


def _imported(modules: Modules, module: str) -> Iterator[str]:
    path = modules[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in nodes(path):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            origin = resolve_name("." * node.level + (node.module or ""), package)
            inside = [f"{origin}.{alias.name}" for alias in node.names]
            names = [name if name in modules else origin for name in inside]
        yield from (name for name in names if name in modules)


def measures_of_source() -> dict[str, int]:
    """Return the figures that are read from the source."""
    src, tests = modules_in(ROOT / "src"), modules_in(ROOT / "tests")
    booking = SETTINGS["booking"]
    packages = tuple(booking["packages"])
    chosen = {name: path for name, path in src.items() if name.startswith(packages)}
    measures = {
        "public_names": public_names(src),
        "booleans": booleans(src),
        "booking_modules": len(booking_modules(chosen, booking["classes"])),
        "src_lines": lines_of(src.values()),
        "test_lines": lines_of(tests.values()),
    }
    for stage in SETTINGS["stages"]:
        read = modules_read_with(src, stage)
        measures[stage] = lines_of([src[module] for module in read])
    return measures


def measures_of_passes() -> dict[str, int]:
    """Return the figures of two passes of the command over one MLflow run.

    Cost: two passes with a profile, about 4 s of CPU.
    """
    measures = {}
    for name, functions in zip(("first", "unchanged"), functions_of_passes(), strict=True):
        measures[f"{name}_pass_modules"] = len({module for module, _ in functions})
        measures[f"{name}_pass_functions"] = len(functions)
    return measures


def main() -> None:
    """Print the figures, and two ratios that have no limit."""
    now = measures_of_source() | measures_of_passes()
    print(f"{'name':40}{'now':>10}{'limit':>10}")
    for name, limit in LIMITS.items():
        print(f"{name:40}{now[name]:10,}{limit.most:10,}")
    ratio = 1000 * now["public_names"] / now["src_lines"]
    print(f"{'public names per 1,000 lines of src':40}{ratio:10.1f}")
    print(f"{'lines of tests per line of src':40}{now['test_lines'] / now['src_lines']:10.2f}")


if __name__ == "__main__":
    main()
