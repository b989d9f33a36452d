"""What only shows in several definitions together: names given twice, sets of unknown features.

It looks at data that may be wrong in other ways, so that all problems are told at once.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mlcat_ingest.recipe.problems import Loc, Problem, nearest
from mlcat_ingest.sources.definitions.files import DefinitionsFile


@dataclass(slots=True)
class _Namespace:
    """What all files together define in one namespace."""

    tables: dict[str, str] = field(default_factory=dict)
    sets: dict[str, str] = field(default_factory=dict)
    features: dict[str, None] = field(default_factory=dict)


class Names:
    """The names that definitions files give, file by file; then what is wrong with them."""

    def __init__(self) -> None:
        """Know no names yet."""
        self._namespaces: dict[str, _Namespace] = {}

    def add(self, file: DefinitionsFile) -> Iterator[Problem]:
        """Take the names of `file` in, and yield where one was given before."""
        known = self._of(file)
        for loc, table in _items(file.data.get("tables"), ("tables",)):
            name = _name(table)
            if name is not None:
                yield from _once(known.tables, name, "table", (*loc, "name"), file)
            for kind in ("features", "keys"):
                yield from self._columns(file, table, loc, kind)
            for _, feature in _items(table.get("features"), ()):
                known.features[reference(name or "", _name(feature) or "")] = None
        for name in _mapping(file.data.get("sets")):
            yield from _once(known.sets, name, "set", ("sets", name), file)

    def _columns(
        self, file: DefinitionsFile, table: Mapping[str, Any], loc: Loc, kind: str
    ) -> Iterator[Problem]:
        places: dict[str, str] = {}
        for inside, column in _items(table.get(kind), (*loc, kind)):
            name = _name(column)
            if name is not None:
                yield from _once(places, name, kind.removesuffix("s"), (*inside, "name"), file)

    def unknown(self, file: DefinitionsFile) -> Iterator[Problem]:
        """Yield where sets of `file` name features that no file defines."""
        known = self._of(file)
        for name, references in _mapping(file.data.get("sets")).items():
            for i, text in enumerate(references if isinstance(references, list) else ()):
                if isinstance(text, str) and text.strip() not in known.features:
                    sentence = _unknown(text.strip(), known.features)
                    yield file.origin.problem(("sets", name, i), sentence)

    def _of(self, file: DefinitionsFile) -> _Namespace:
        namespace = file.data.get("namespace")
        return self._namespaces.setdefault(str(namespace or "").strip(), _Namespace())


def reference(table: str, feature: str) -> str:
    """Return how sets name a feature."""
    return f"{table}:{feature}"


def _once(
    places: dict[str, str], name: str, what: str, loc: Loc, file: DefinitionsFile
) -> Iterator[Problem]:
    if name in places:
        yield file.origin.problem(loc, f"is another {what}'s name already, at {places[name]}")
    else:
        places[name] = f"{file.origin.label}:{file.origin.line_of(loc)}"


def _items(value: Any, loc: Loc) -> Iterator[tuple[Loc, Mapping[str, Any]]]:
    """Yield the mappings in a list, and where each stands."""
    for i, item in enumerate(value if isinstance(value, list) else ()):
        if isinstance(item, Mapping):
            yield (*loc, i), item


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _name(item: Mapping[str, Any]) -> str | None:
    name = item.get("name")
    return name.strip() if isinstance(name, str) else None


def _unknown(text: str, known: Iterable[str]) -> str:
    if ":" not in text:
        return "has to be <table>:<feature>"
    meant = nearest(text, known)
    cure = f"; did you mean `{meant}`?" if meant else ""
    return f"is a feature that no definitions file has{cure}"
