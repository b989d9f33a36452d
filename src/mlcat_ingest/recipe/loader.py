"""YAML or JSON text to plain data, with the line of every key, and problems at their places.

Scalars follow the core rules of YAML 1.2: `NO`, `on`, `12:30`, `1_000`, `010` and dates are text.
A problem says where (line and path) and what, without ever repeating a value.
"""

import difflib
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISREG
from typing import Any

import yaml

from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import RecipeError, RecipeSyntaxError, RecipeValidationError

Loc = tuple[str | int, ...]
"""A place in a recipe: keys and list positions, from the top."""

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_$-]+")
_LONGEST_KEY = 60


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: its place, a sentence about it, and its line where known."""

    loc: Loc
    sentence: str
    line: int | None = None

    def render(self, label: str = "") -> str:
        """Return `recipe.yml:12: sources[0].config.tracking_uri: <sentence>`."""
        place = f"{label}:{self.line}" if label and self.line else label
        parts = [place, path_text(self.loc), self.sentence]
        return ": ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a recipe: file, folder, lines, and the keys as its author wrote them."""

    label: str = ""
    base_dir: Path | None = None
    lines: Mapping[Loc, int] = field(default_factory=dict)
    spelled: Mapping[Loc, Loc] = field(default_factory=dict)
    broken: frozenset[Loc] = frozenset()

    def as_written(self, loc: Loc) -> Loc:
        """Return `loc` as the author spelled it: `source.config` and not `sources[0].config`."""
        for end in range(len(loc), 0, -1):
            if (written := self.spelled.get(loc[:end])) is not None:
                return written + loc[end:]
        return loc

    def line_of(self, loc: Loc) -> int | None:
        """Return the line of `loc` as written, or of the nearest node around it."""
        for end in range(len(loc), -1, -1):
            if (line := self.lines.get(loc[:end])) is not None:
                return line
        return None

    def problem(self, loc: Loc, sentence: str) -> Problem:
        """Return a problem at `loc`, a place in the recipe's own terms or the author's."""
        written = self.as_written(loc)
        return Problem(written, sentence, self.line_of(written))

    def error(self, problems: Iterable[Problem]) -> RecipeValidationError:
        """Return the error that lists `problems` in the order of the file, each once."""
        ordered = sorted(problems, key=lambda problem: problem.line or 0)
        return RecipeValidationError(
            list(dict.fromkeys(problem.render(self.label) for problem in ordered))
        )


def path_text(loc: Loc) -> str:
    """Return `loc` as a reader writes it: `sources[0].config.headers["X-A b"]`."""
    text = ""
    for step in loc:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step):
            text += f".{step}" if text else step
        else:
            short = step if len(step) <= _LONGEST_KEY else step[:_LONGEST_KEY] + "…"
            text += f"[{json.dumps(short)}]"
    return text


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the one of `known` that `word` was probably meant to be, or None."""
    by_lower = {name.lower().replace("-", "_"): name for name in known}
    close = difflib.get_close_matches(word.lower().replace("-", "_"), by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown `word`: the nearest one, or nothing."""
    meant = nearest(word, known)
    return f"; did you mean `{meant}`?" if meant else ""


MAX_BYTES = 1_048_576
MAX_DEPTH = 100
MAX_NODES = 50_000
"""Nodes of a text, and after its aliases are expanded: a few lines can expand to billions."""

_STR, _MERGE = "tag:yaml.org,2002:str", "plain:merge"
_KNOWN_TAGS = {_STR, "tag:yaml.org,2002:seq", "tag:yaml.org,2002:map"}
_NULLS = {"", "~", "null", "Null", "NULL"}
_BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_SCALARS: dict[str, Callable[[str], Any]] = {
    "plain:null": lambda _: None,
    "plain:bool": _BOOLS.__getitem__,
    "plain:int": int,
    "plain:float": float,
}
"""The values of plain scalars by our tags for them; all others are text."""
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,39})")
_FLOAT = re.compile(r"[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?")
# PyYAML without its C part quotes the text; punctuation is what was expected, and stays.
_QUOTED = re.compile(r"\s*(?:'[^'\s,\[\]{}:?-][^']*'|\"[^\"]*\")")
_JSON_ESCAPE = re.compile(r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|.)")
_Entry = tuple[yaml.Node, yaml.Node]
_BASE_LOADER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_BASE_LOADER):  # type: ignore[misc]  # the C loader where PyYAML has it
    """Composes nodes; plain scalars get tags of ours in place of YAML 1.1's."""

    depth = 0
    nodes_left = MAX_NODES

    def descend_resolver(self, current_node: Any, current_index: Any) -> None:
        """Count a level; called by PyYAML before each node, whose C code would recurse for ever."""
        del current_node, current_index
        self.depth += 1
        self.nodes_left -= 1
        if self.depth > MAX_DEPTH:
            raise RecursionError
        if self.nodes_left < 0:
            raise OverflowError

    def ascend_resolver(self) -> None:
        """Count a level less; called by PyYAML after each node."""
        self.depth -= 1

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:
        """Return the tag of a node that has none; called by PyYAML while it composes."""
        if kind is yaml.ScalarNode and implicit[0]:
            return _plain_tag(value)
        return str(super().resolve(kind, value, implicit))


@dataclass(frozen=True, slots=True)
class Draft:
    """The data of a text, not validated yet, with its origin and the problems found so far."""

    data: Any
    origin: Origin
    problems: tuple[Problem, ...] = ()


def parse(
    content: bytes | str,
    label: str,
    base_dir: Path | None = None,
    *,
    max_bytes: int = MAX_BYTES,
    max_nodes: int = MAX_NODES,
    cure_if_empty: str | None = "`mlcat-ingest init` writes a starter recipe",
) -> Draft:
    """Return the draft in YAML or JSON text; `label` names the file in errors.

    Raises:
        RecipeSyntaxError: the text is neither, is empty, too large, or more than one document.
    """
    if len(content) > max_bytes:
        raise RecipeSyntaxError(f"{label}: larger than {plural(max_bytes, 'byte')}")
    try:
        raw = content.encode() if isinstance(content, str) else content
        text = raw.decode("utf-8-sig")
    except UnicodeError:
        raise RecipeSyntaxError(f"{label}: not UTF-8 text", hint="save it as UTF-8") from None
    node = _compose(_json_as_yaml(text), label, max_nodes)
    if node is None:
        raise RecipeSyntaxError(f"{label}: the file is empty", hint=cure_if_empty)
    walk = _Walk(label, max_nodes)
    data = walk.value(node, ())
    return Draft(data, Origin(label, base_dir, walk.lines), tuple(walk.problems))


def read_file(
    path: Path,
    what: str,
    hint: str,
    *,
    label: str | None = None,
    max_bytes: int = MAX_BYTES,
    max_nodes: int = MAX_NODES,
    cure_if_empty: str | None = None,
) -> Draft:
    """Return the draft in a YAML or JSON file.

    `what` it is and `hint` are for the error of a file that cannot be read. `label` names it in
    others, its path by default.

    Raises:
        RecipeError: it cannot be read, or changes meanwhile.
        RecipeSyntaxError: it is not YAML or JSON.
    """
    try:
        content = stable_content(path, max_bytes)
    except OSError as error:
        sentence = f"cannot read the {what} {path}: {error.strerror}"
        raise RecipeError(sentence, hint=hint) from None
    if content is None:
        raise RecipeError(
            f"the {what} {path} changed during the read", hint="run again once the file is complete"
        )
    label = str(path) if label is None else label
    folder, limits = path.absolute().parent, {"max_bytes": max_bytes, "max_nodes": max_nodes}
    return parse(content, label, folder, cure_if_empty=cure_if_empty, **limits)


def stable_content(path: Path, max_bytes: int) -> bytes | None:
    """Return up to one byte more than `max_bytes` of a file, None if it changed meanwhile.

    Half a file that is being written would read as a smaller one.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as stream:
        before = os.fstat(stream.fileno())
        # As much memory is taken as is asked for.
        most = min(before.st_size, max_bytes) if S_ISREG(before.st_mode) else max_bytes
        content = stream.read(most + 1)
        after = os.fstat(stream.fileno())
    same = (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
    whole = len(content) == min(after.st_size, max_bytes + 1)
    return content if (same and whole) or not S_ISREG(after.st_mode) else None


def _json_as_yaml(text: str) -> str:
    """Return JSON as the YAML reader takes it: no tabs, and no character written as two."""
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text
    # Valid JSON has tabs between tokens only, so that none of these is inside a text.
    return _JSON_ESCAPE.sub(_join_surrogates, text.replace("\t", " "))


def _join_surrogates(match: re.Match[str]) -> str:
    escape = match[0]
    return str(json.loads(f'"{escape}"')) if len(escape) > len(r"\uD83D") else escape


def _compose(text: str, label: str, max_nodes: int) -> yaml.Node | None:
    try:
        loader = _Loader(text)
        loader.nodes_left = max_nodes
        try:
            node: yaml.Node | None = loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.reader.ReaderError as error:
        line = text.encode()[: error.position].count(b"\n") + 1
        raise RecipeSyntaxError(
            f"{label}:{line}: a control character, which YAML does not allow"
        ) from None
    except OverflowError:
        raise RecipeSyntaxError(
            f"{label}: more than {max_nodes:,} keys and values", hint="divide it into several files"
        ) from None
    except (yaml.MarkedYAMLError, RecursionError) as error:
        # PyYAML limits the depth by itself from 6.0.4 on.
        if isinstance(error, yaml.MarkedYAMLError) and "nesting" not in str(error.problem):
            raise _syntax_error(error, text, label) from None
        raise RecipeSyntaxError(f"{label}: nested too deeply") from None
    return node


def _syntax_error(error: yaml.MarkedYAMLError, text: str, label: str) -> RecipeSyntaxError:
    mark = error.problem_mark or error.context_mark
    number = mark.line if mark else 0
    lines = text.split("\n")
    line = lines[min(number, len(lines) - 1)]
    problem = _QUOTED.sub("", str(error.problem))
    hint = None
    if "another document" in problem:
        problem = "a second document begins here; a file contains one"
    elif "\t" in line[: len(line) - len(line.lstrip())]:
        problem, hint = "a tab in the indentation", "YAML requires spaces"
    elif "${" in line:
        hint = "inside { } and [ ], put quotes around ${…}"
    elif "mapping values" in problem:
        hint = "put quotes around a text with a colon and a space, and check the indentation"
    return RecipeSyntaxError(f"{label}:{number + 1}: not valid YAML: {problem}", hint=hint)


def _plain_tag(value: str) -> str:
    if value in _NULLS:
        return "plain:null"
    if value in _BOOLS:
        return "plain:bool"
    if value == "<<":
        return _MERGE
    if value[0] in "+-.0123456789":
        if _INT.fullmatch(value):
            return "plain:int"
        if _FLOAT.fullmatch(value) and math.isfinite(float(value)):
            return "plain:float"
    return _STR


def is_typed(text: str) -> bool:
    """Say whether `text` would be read as something else than text if it stood there unquoted."""
    return _plain_tag(text) != _STR


class _Walk:
    """Turns composed nodes into data, and notes lines and problems."""

    def __init__(self, label: str, max_nodes: int) -> None:
        self._label = label
        self._max_nodes = max_nodes
        self.lines: dict[Loc, int] = {}
        self.problems: list[Problem] = []
        self._nodes = 0
        self._open: set[int] = set()

    def value(self, node: yaml.Node, loc: Loc) -> Any:
        self._count()
        self.lines.setdefault(loc, node.start_mark.line + 1)
        if self._is_inside(node, loc):
            return None
        if not node.tag.startswith("plain:") and node.tag not in _KNOWN_TAGS:
            self._note(node, loc, "YAML tags (!) have no meaning here")
        with self._inside(node):
            match node:
                case yaml.MappingNode():
                    entries = self._entries(node, loc)
                    for key, (key_node, _) in entries.items():
                        self.lines[(*loc, key)] = key_node.start_mark.line + 1
                    return {
                        key: self.value(value_node, (*loc, key))
                        for key, (_, value_node) in entries.items()
                    }
                case yaml.SequenceNode():
                    return [self.value(item, (*loc, i)) for i, item in enumerate(node.value)]
                case _:
                    return _SCALARS.get(node.tag, str)(node.value)

    def _entries(self, node: yaml.MappingNode, loc: Loc) -> dict[str, _Entry]:
        """Return the key and value nodes of a mapping, its own first and then those it merges."""
        entries: dict[str, _Entry] = {}
        bases: list[yaml.Node] = []
        for key_node, value_node in node.value:
            self._count()
            if not isinstance(key_node, yaml.ScalarNode):
                self._note(key_node, loc, "a key must be plain text")
            elif key_node.tag == _MERGE:
                is_list = isinstance(value_node, yaml.SequenceNode)
                bases += value_node.value if is_list else [value_node]
            elif (key := str(key_node.value)) in entries:
                line = entries[key][0].start_mark.line + 1
                self._note(key_node, (*loc, key), f"duplicate key, already on line {line}")
            else:
                entries[key] = (key_node, value_node)
        for base in bases:
            if not isinstance(base, yaml.MappingNode):
                self._note(base, loc, "a merge key (<<) takes a mapping or a list of mappings")
            elif not self._is_inside(base, loc):
                with self._inside(base):
                    entries = self._entries(base, loc) | entries
        return entries

    def _is_inside(self, node: yaml.Node, loc: Loc) -> bool:
        inside = id(node) in self._open
        if inside:
            self._note(node, loc, "an alias (*) is inside its own anchor (&)")
        return inside

    @contextmanager
    def _inside(self, node: yaml.Node) -> Iterator[None]:
        # Aliases of aliases nest deeper than the text does.
        if len(self._open) > MAX_DEPTH:
            raise RecipeSyntaxError(f"{self._label}: nested too deeply")
        self._open.add(id(node))
        yield
        self._open.discard(id(node))

    def _count(self) -> None:
        self._nodes += 1
        if self._nodes > self._max_nodes:
            raise RecipeSyntaxError(f"{self._label}: too large once its aliases are expanded")

    def _note(self, node: yaml.Node, loc: Loc, sentence: str) -> None:
        self.problems.append(Problem(loc, sentence, node.start_mark.line + 1))
