"""The mutants of a module: its source with one rule changed.

A comparison is turned, `and` and `or` are swapped, a `not` is dropped, a condition is forced, a
statement is deleted, a whole number is shifted by one, a text that is compared is emptied.
Docstrings, annotations, decorators, messages of errors and of the log, `__repr__`, and a `return`
at the end of a function are left alone.
"""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

TURNED: dict[type[ast.cmpop], tuple[str, tuple[str, ...]]] = {
    ast.Lt: ("<", ("<=", ">=")),
    ast.LtE: ("<=", ("<", ">")),
    ast.Gt: (">", (">=", "<=")),
    ast.GtE: (">=", (">", "<")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.Is: ("is", ("is not",)),
    ast.IsNot: ("is not", ("is",)),
    ast.In: ("in", ("not in",)),
    ast.NotIn: ("not in", ("in",)),
}
TEXT_METHODS = {
    *("startswith", "endswith", "removeprefix", "removesuffix", "split", "rsplit"),
    *("partition", "rpartition", "strip", "lstrip", "rstrip"),
}
"""Methods of texts whose argument decides something."""

LOGGERS = {"log", "logger", "logging", "warnings"}


@dataclass(frozen=True)
class Mutant:
    """A module with one rule changed; line numbers from 1.

    `first_line` and `last_line` are those of the statement, or of its head if it has a body.
    `at_import` says that the rule is applied when the module is imported, not in a function.
    """

    path: Path
    function: str
    change: str
    line: int
    first_line: int
    last_line: int
    before: str
    after: str
    at_import: bool
    source: bytes

    @property
    def scope(self) -> str:
        """The module and the function."""
        return f"{self.path} {self.function}"


def mutants_of(path: Path) -> list[Mutant]:
    """Return the mutants of a module in the order of its lines."""
    source = path.read_bytes()
    finder = _Finder(path, source)
    finder.visit(ast.parse(source))
    unique = {mutant.source: mutant for mutant in finder.mutants if mutant.source != source}
    return sorted(unique.values(), key=lambda mutant: mutant.line)


class _Finder(ast.NodeVisitor):
    """Collects mutants; knows the function and the statement that it is in."""

    def __init__(self, path: Path, source: bytes) -> None:
        self.mutants: list[Mutant] = []
        self._path = path
        self._source = source
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._names: list[str] = []
        self._in_function = False
        self._ends: set[ast.stmt] = set()
        self._head = (1, 1)

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None) or getattr(node, "cases", None)
            last = node.end_lineno or node.lineno
            self._head = (node.lineno, max(node.lineno, _line(body[0]) - 1) if body else last)
        super().visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.name == "__repr__":
            return
        self._visit_all((*node.args.defaults, *node.args.kw_defaults))
        outer, self._in_function = self._in_function, True
        self._ends.update(_ends(node.body))
        self._visit_body(node.name, node.body)
        self._in_function = outer

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        outer, self._in_function = self._in_function, False
        self._visit_body(node.name, node.body)
        self._in_function = outer

    def _visit_body(self, name: str, body: list[ast.stmt]) -> None:
        self._names.append(name)
        self._visit_all(body)
        self._names.pop()

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant) or _is_logging(node.value):
            return
        self._delete(node)
        self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        self._delete(node)
        if not self._in_function:
            self._empty_texts(node.value)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._delete(node)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is None or "TypeAlias" in ast.unparse(node.annotation):
            return
        self._delete(node)
        if not self._in_function:
            self._empty_texts(node.value)
        self.visit(node.value)

    def visit_Delete(self, node: ast.Delete) -> None:
        self._delete(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._delete(node)

    def visit_Continue(self, node: ast.Continue) -> None:
        self._delete(node)

    def visit_Break(self, node: ast.Break) -> None:
        self._delete(node)

    def visit_Return(self, node: ast.Return) -> None:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, bool):
            self._edit(node.value, str(not node.value.value))
        elif node.value is None or ast.unparse(node.value) == "None":
            if node not in self._ends:
                self._delete(node)
        else:
            self._edit(node, "return None")
            self.visit(node.value)

    def visit_If(self, node: ast.If | ast.IfExp) -> None:
        if ast.unparse(node.test) != "TYPE_CHECKING":
            self._edit(node.test, "True")
            self._edit(node.test, "False")
            self.generic_visit(node)

    visit_IfExp = visit_If  # noqa: N815

    def visit_While(self, node: ast.While) -> None:
        if not isinstance(node.test, ast.Constant):
            self._edit(node.test, "False")
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._edit(test, "True")
            self._edit(test, "False")
        self.generic_visit(node)

    def visit_match_case(self, node: ast.match_case) -> None:
        if node.guard is not None:
            self._edit(node.guard, "True")
            self._edit(node.guard, "False")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        sides = (node.left, *node.comparators)
        for left, operator, right in zip(sides, node.ops, node.comparators, strict=False):
            text, turned = TURNED[type(operator)]
            for other in turned:
                self._replace_between(_end(left), _start(right), text, other)
        for side in sides:
            self._empty_texts(side)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        text, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._replace_between(_end(left), _start(right), text, other)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._replace_between(_start(node), _start(node.operand), "not ", "")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        # The factors of a limit are one number.
        if isinstance(node.left, ast.Constant) and isinstance(node.right, ast.Constant):
            text = ast.unparse(node)
            self._edit(node, f"({text} + 1)")
            self._edit(node, f"({text} - 1)")
        else:
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Attribute) and node.func.attr in TEXT_METHODS:
            for argument in node.args:
                self._empty_texts(argument)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if type(node.value) is int:
            self._edit(node, str(node.value + 1))
            self._edit(node, str(node.value - 1))

    def visit_MatchValue(self, node: ast.MatchValue) -> None:
        self._empty_texts(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave it: Python 3.11 says wrong columns for the parts of a formatted text."""

    def _empty_texts(self, node: ast.expr) -> None:
        """Empty a text, or each text of a set, list, tuple or table of texts."""
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str | bytes) and node.value:
                self._edit(node, '""' if isinstance(node.value, str) else 'b""')
        elif isinstance(node, ast.Set | ast.List | ast.Tuple):
            for element in node.elts:
                self._empty_texts(element)
        elif isinstance(node, ast.Dict):
            for part in (*node.keys, *node.values):
                if part is not None:
                    self._empty_texts(part)
        elif isinstance(node, ast.Call) and not _is_logging(node):
            for argument in node.args[:1]:
                self._empty_texts(argument)

    def _delete(self, node: ast.stmt) -> None:
        if self._in_function:
            self._edit(node, "pass")

    def _visit_all(self, nodes: Iterable[ast.AST | None]) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    def _edit(self, node: ast.expr | ast.stmt, text: str) -> None:
        start, end = self._at(_start(node)), self._at(_end(node))
        lines = self._source[start:end].count(b"\n")
        if lines and isinstance(node, ast.expr):
            text = f"({text}" + "\n" * lines + ")"
        else:
            text += "\n" * lines
        self._add(start, end, text)

    def _replace_between(
        self, start: tuple[int, int], end: tuple[int, int], old: str, new: str
    ) -> None:
        between = self._source[self._at(start) : self._at(end)].decode()
        self._add(self._at(start), self._at(end), between.replace(old, new, 1))

    def _add(self, start: int, end: int, text: str) -> None:
        old, new = self._source[start:end].decode(), text
        line = self._source.count(b"\n", 0, start) + 1
        last = self._source.count(b"\n", 0, end)
        left = self._source[self._starts[line - 1] : start].decode()
        right = self._source[end : self._starts[last + 1]].decode()
        self.mutants.append(
            Mutant(
                path=self._path,
                function=".".join(self._names),
                change=f"{_one_line(old)} → {_one_line(new)}",
                line=line,
                first_line=self._head[0],
                last_line=self._head[1],
                before=_one_line(left + old + right),
                after=_one_line(left + new + right),
                at_import=not self._in_function,
                source=self._source[:start] + text.encode() + self._source[end:],
            )
        )

    def _at(self, position: tuple[int, int]) -> int:
        return self._starts[position[0] - 1] + position[1]


def _ends(statements: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements after which a function ends anyway."""
    last = statements[-1]
    yield last
    if isinstance(last, ast.If | ast.With | ast.AsyncWith):
        yield from _ends(last.body)
        if isinstance(last, ast.If) and last.orelse:
            yield from _ends(last.orelse)
    elif isinstance(last, ast.Match):
        for case in last.cases:
            yield from _ends(case.body)
    elif isinstance(last, ast.Try):
        for body in (last.orelse or last.body, *(handler.body for handler in last.handlers)):
            yield from _ends(body)


def _line(node: ast.stmt | ast.match_case) -> int:
    return node.pattern.lineno if isinstance(node, ast.match_case) else node.lineno


def _start(node: ast.expr | ast.stmt) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end(node: ast.expr | ast.stmt) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or 0


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _is_logging(node: ast.expr) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return ast.unparse(node.func.value).removeprefix("self.").lstrip("_") in LOGGERS
