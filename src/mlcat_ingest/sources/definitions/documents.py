"""From definitions files to their tables and sets.

The problems of all files are reported at once, those of sets with unknown features after all
others.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from mlcat_ingest.errors import RecipeError, RecipeValidationError
from mlcat_ingest.links.index import FeatureRef, FeatureSet
from mlcat_ingest.recipe.loader import Loc, Origin, Problem, did_you_mean, read_file
from mlcat_ingest.recipe.validate import validate_config
from mlcat_ingest.sources.definitions.files import PATH_HINT
from mlcat_ingest.sources.definitions.format import (
    ColumnSpec,
    DefinitionsDocument,
    KeySpec,
    TableSpec,
)
from mlcat_ingest.sources.definitions.tables import (
    DatasetPlace,
    Definition,
    Feature,
    FeatureTable,
    Key,
)

_SETS: Final = "definitions.sets"
"""Custom property of a table that names the sets which take features of it."""

_MAX_BYTES: Final = 16 * 1_048_576
_MAX_NODES: Final = 1_000_000
"""Bounds of one file: about 100,000 features."""

_JOIN_KEY: Final = "join_key"
"""Custom property of a key that names its column, as it is called for every other store, too."""


class _DefinedNames:
    """The names that definitions files give, and the problems with them."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str | None, ...], str] = {}
        self.features: dict[tuple[str | None, str], FeatureRef] = {}
        """Each feature, by its namespace and the text by which sets name it."""

    def add(self, document: DefinitionsDocument, origin: Origin) -> Iterator[Problem]:
        """Take the names of a file in, and yield where one was given before."""
        namespace = document.namespace
        for t, table in enumerate(document.tables):
            loc = ("tables", t)
            yield from self._add(origin, (*loc, "name"), namespace, "table", table.name)
            for kind in ("features", "keys"):
                for c, column in enumerate(getattr(table, kind)):
                    what = (*map(str, loc), origin.label, kind.removesuffix("s"), column.name)
                    yield from self._add(origin, (*loc, kind, c, "name"), *what)
            for feature in table.features:
                ref = FeatureRef(table.name, feature.name)
                self.features[namespace, ":".join(ref)] = ref
        for name in document.sets:
            yield from self._add(origin, ("sets", name), namespace, "set", name)

    def _add(self, origin: Origin, loc: Loc, *what: str | None) -> Iterator[Problem]:
        line = f"{origin.label}:{origin.line_of(loc)}"
        before = self._lines.setdefault(what, line)
        if before is not line:
            yield origin.problem(loc, f"is already the name of another {what[-2]}, at {before}")

    def unknown(self, document: DefinitionsDocument, origin: Origin) -> Iterator[Problem]:
        """Yield where sets of a file name features that no file defines."""
        for name, references in document.sets.items():
            for i, text in enumerate(references):
                if (document.namespace, text) not in self.features:
                    known = (known for of, known in self.features if of == document.namespace)
                    sentence = "must have the form <table>:<feature>"
                    if ":" in text:
                        meant = did_you_mean(text, known)
                        sentence = f"is not a feature of any definitions file{meant}"
                    yield origin.problem(("sets", name, i), sentence)


def read_definitions(paths: Iterable[Path]) -> list[Definition]:
    """Return the tables of the files, checked, in their order, and then the sets.

    Names are checked in files that are right otherwise, references once all files are.

    Raises:
        RecipeValidationError: something in them is wrong; all of it is listed.
    """
    names = _DefinedNames()
    sentences: list[str] = []
    tables: list[FeatureTable] = []
    with_sets: list[tuple[DefinitionsDocument, Origin]] = []
    for path in paths:
        try:
            document, origin = _checked_file(path, names)
        except RecipeValidationError as error:
            sentences.extend(error.problems)
        except RecipeError as error:
            sentences.append(str(error))
        else:
            tables.extend(_table(document, table) for table in document.tables)
            if document.sets:
                with_sets.append((document, origin))  # the lines of others are freed
    for document, origin in () if sentences else with_sets:
        problems = list(names.unknown(document, origin))
        sentences.extend(origin.error(problems).problems if problems else ())
    if sentences:
        raise RecipeValidationError(sentences)
    sets = [
        FeatureSet(
            namespace=document.namespace,
            name=name,
            features=tuple(names.features[document.namespace, text] for text in references),
        )
        for document, _ in with_sets
        for name, references in document.sets.items()
    ]
    return [*_naming_sets(tables, sets), *sets]


def _checked_file(path: Path, names: _DefinedNames) -> tuple[DefinitionsDocument, Origin]:
    # Errors name a file from the working directory on, where it is below that.
    here = Path.cwd()
    label = str(path.relative_to(here) if path.is_relative_to(here) else path)
    draft = read_file(
        path,
        "definitions file",
        PATH_HINT,
        label=label,
        max_bytes=_MAX_BYTES,
        max_nodes=_MAX_NODES,
        cure_if_empty="define a table",
    )
    origin = draft.origin
    document, problems = validate_config(DefinitionsDocument, draft.data, (), origin)
    problems = [*draft.problems, *problems]
    if document is not None:
        problems.extend(names.add(document, origin))
    if document is None or problems:
        raise origin.error(problems)
    return document, origin


def _naming_sets(
    tables: Iterable[FeatureTable], sets: Iterable[FeatureSet]
) -> Iterator[FeatureTable]:
    """Yield the tables; a property names the sets that take features of one."""
    in_sets: dict[tuple[str | None, str], set[str]] = defaultdict(set)
    for feature_set in sets:
        for feature in feature_set.features:
            in_sets[feature_set.namespace, feature.table].add(feature_set.name)
    for table in tables:
        names = ", ".join(sorted(in_sets.get((table.namespace, table.name), ())))
        properties = {**table.properties, _SETS: names}
        yield replace(table, properties=properties) if names else table


def _table(document: DefinitionsDocument, table: TableSpec) -> FeatureTable:
    given = _fields(table)
    given["keys"] = tuple(map(_key, table.keys))
    given["features"] = tuple(Feature(**_fields(spec)) for spec in table.features)
    return FeatureTable(namespace=document.namespace, platform=document.platform, **given)


def _fields(spec: TableSpec | ColumnSpec) -> dict[str, Any]:
    """Return what a file says of a table, feature or key, by the names that every store has."""
    given = {**vars(spec), "tags": {key: value or "" for key, value in spec.tags.items()}}
    if spec.sources is not None:
        given["sources"] = tuple(
            source if isinstance(source, str) else DatasetPlace(source.platform, source.name)
            for source in spec.sources
        )
    return given


def _key(key: KeySpec) -> Key:
    given = _fields(key)
    if key.column is not None:
        given["properties"] = {_JOIN_KEY: key.column, **key.properties}
    return Key(**given)
