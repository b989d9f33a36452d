"""Reads definitions files into tables and sets; all that is wrong with them is told at once."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from mlcat_ingest.core.awaiting import Awaits
from mlcat_ingest.core.findings import Finding
from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import MlcatError, RecipeError, RecipeValidationError
from mlcat_ingest.recipe.problems import Problem
from mlcat_ingest.recipe.validate import validated
from mlcat_ingest.sources.definitions.document import (
    ColumnSpec,
    DefinitionsDocument,
    KeySpec,
    PlaceSpec,
    TableSpec,
)
from mlcat_ingest.sources.definitions.files import DefinitionsFile, find_files, read_file
from mlcat_ingest.sources.definitions.model import (
    DatasetPlace,
    DatasetSource,
    Definition,
    Feature,
    FeatureRef,
    FeatureSet,
    FeatureTable,
    Key,
)
from mlcat_ingest.sources.definitions.names import Names, reference

SETS: Final = "definitions.sets"
"""Custom property of a table that names the sets which take features of it."""

JOIN_KEY: Final = "join_key"
"""Custom property of a key that names its column, as it is called for every other store, too."""

_WHAT: Final = "definitions files"


@dataclass(frozen=True, slots=True)
class Contents:
    """What one file says, checked; sets name features as the file does."""

    namespace: str | None
    tables: Sequence[FeatureTable]
    sets: Mapping[str, Sequence[str]]


class FileReader(Awaits):
    """Reads the definitions files at a path; see `sources.definitions.source.DefinitionReader`.

    They are read once: what is told beforehand is what comes.
    """

    def __init__(self, path: Path, named: str) -> None:
        """Keep the path; `named` tells it from others wherever it is checked out."""
        self._path = path
        self._named = named
        self._contents: Sequence[Contents] | None = None

    def server_id(self) -> str:
        """Return the path as the recipe has it."""
        return self._named

    def read(self) -> Iterator[Definition]:
        """Yield the tables of every file, and then the sets.

        Raises:
            RecipeError: there are no files, or one cannot be read.
            RecipeValidationError: something in them is wrong; all of it is listed.

        Cost: memory for what stands in all files.
        """
        if self._contents is None:
            self._contents = read_contents(find_files(self._path))
        sets = list(_sets(self._contents))
        in_sets = _by_table(sets)
        for one in self._contents:
            for table in one.tables:
                yield _with_sets(table, in_sets.get((table.namespace, table.name), ()))
        yield from sets

    def requests_made(self) -> int:
        """Return 0: files are no server."""
        return 0

    def check(self) -> Iterator[Finding]:
        """Yield what `mlcat-ingest check` found."""
        try:
            files = find_files(self._path)
            contents = read_contents(files)
        except MlcatError as error:
            yield Finding(_WHAT, "failed", error.message, error.hint)
            return
        tables = [table for one in contents for table in one.tables]
        features = sum(len(table.features) for table in tables)
        found = f"{plural(len(tables), 'table')} and {plural(features, 'feature')}"
        told = f"{len(files):,} with {found}"
        yield Finding(_WHAT, "ok" if tables else "warning", told)

    def close(self) -> None:
        """Forget what was read; no file stays open."""
        self._contents = None


def read_contents(paths: Iterable[Path]) -> Sequence[Contents]:
    """Return what stands in the files, checked, in their order.

    Raises:
        RecipeValidationError: something in them is wrong; all of it is listed.
    """
    names = Names()
    contents: list[Contents] = []
    found: list[tuple[DefinitionsFile, list[Problem]]] = []
    told: list[str] = []
    for path in paths:
        try:
            file = read_file(path)
        except RecipeError as error:
            told.append(str(error))
            continue
        document, problems = validated(DefinitionsDocument, file.parsed.data, (), file.origin)
        problems = [*file.parsed.problems, *problems, *names.add(file)]
        if problems or file.data.get("sets"):
            found.append((file, problems))  # the raw data of others is let go
        if document is not None:
            contents.append(_contents(document))
    for file, problems in found:
        problems.extend(names.unknown(file))
        if problems:
            told.extend(file.origin.error(problems).problems)
    if told:
        raise RecipeValidationError(told)
    return contents


def _contents(document: DefinitionsDocument) -> Contents:
    tables = [_table(document, table) for table in document.tables]
    return Contents(document.namespace, tables, document.sets)


def _table(document: DefinitionsDocument, table: TableSpec) -> FeatureTable:
    return FeatureTable(
        namespace=document.namespace,
        name=table.name,
        kind=table.kind,
        platform=document.platform,
        description=table.description,
        owners=table.owners,
        tags=_tags(table.tags),
        properties=table.properties,
        sources=_sources(table.sources),
        keys=tuple(_key(key) for key in table.keys),
        features=tuple(Feature(**_column(one), version=one.version) for one in table.features),
    )


def _column(column: ColumnSpec) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": column.type,
        "description": column.description,
        "owners": column.owners,
        "tags": _tags(column.tags),
        "properties": column.properties,
        "sources": None if column.sources is None else _sources(column.sources),
    }


def _key(key: KeySpec) -> Key:
    column = _column(key)
    if key.column is not None:
        column["properties"] = {JOIN_KEY: key.column, **key.properties}
    return Key(**column, column=key.column)


def _tags(tags: Mapping[str, str | None]) -> dict[str, str]:
    return {key: value or "" for key, value in tags.items()}


def _sources(sources: Iterable[str | PlaceSpec]) -> tuple[DatasetSource, ...]:
    return tuple(
        one if isinstance(one, str) else DatasetPlace(one.platform, one.name) for one in sources
    )


def _by_table(sets: Iterable[FeatureSet]) -> Mapping[tuple[str | None, str], Iterable[str]]:
    """Return the names of the sets that take features of each table."""
    found: dict[tuple[str | None, str], set[str]] = defaultdict(set)
    for one in sets:
        for feature in one.features:
            found[one.namespace, feature.table].add(one.name)
    return found


def _with_sets(table: FeatureTable, names: Iterable[str]) -> FeatureTable:
    told = ", ".join(sorted(names))
    return replace(table, properties={**table.properties, SETS: told}) if told else table


def _sets(contents: Iterable[Contents]) -> Iterator[FeatureSet]:
    """Yield the sets of all files, each of features anywhere in its namespace."""
    wanted = {
        (one.namespace, text) for one in contents for some in one.sets.values() for text in some
    }
    known: dict[tuple[str | None, str], FeatureRef] = {}
    for one in contents:
        for table in one.tables:
            for feature in table.features:
                ref = FeatureRef(table.name, feature.name)
                if (key := (one.namespace, reference(*ref))) in wanted:
                    known[key] = ref
    for one in contents:
        for name, references in one.sets.items():
            features = tuple(known[one.namespace, text] for text in references)
            yield FeatureSet(namespace=one.namespace, name=name, features=features)
