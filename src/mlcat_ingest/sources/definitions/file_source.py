"""The source of type `definitions`: finds definitions files and reads their tables and sets.

All problems of all files are reported at once.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from mlcat_ingest.core.findings import Finding
from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import MlcatError, RecipeError, RecipeValidationError
from mlcat_ingest.recipe.problems import Problem
from mlcat_ingest.recipe.validate import validate_config
from mlcat_ingest.sources.definitions.config import DefinitionsConfig
from mlcat_ingest.sources.definitions.file_format import (
    PATH_HINT,
    ColumnSpec,
    DefinedNames,
    DefinitionsDocument,
    DefinitionsFile,
    KeySpec,
    PlaceSpec,
    TableSpec,
    read_file,
    reference,
)
from mlcat_ingest.sources.definitions.source import DefinitionReader, FeatureSource
from mlcat_ingest.sources.definitions.tables import (
    DatasetPlace,
    DatasetSource,
    Definition,
    Feature,
    FeatureRef,
    FeatureSet,
    FeatureTable,
    Key,
)

_SUFFIXES: Final = frozenset({".yml", ".yaml", ".json"})

SETS: Final = "definitions.sets"
"""Custom property of a table that names the sets which take features of it."""

JOIN_KEY: Final = "join_key"
"""Custom property of a key that names its column, as it is called for every other store, too."""

_WHAT: Final = "definitions files"


@dataclass(frozen=True, slots=True)
class FileContents:
    """The checked content of one file; sets name features as the file does."""

    namespace: str | None
    tables: Sequence[FeatureTable]
    sets: Mapping[str, Sequence[str]]


class FileReader(DefinitionReader):
    """Reads the definitions files at a path.

    They are read once, so that the tables announced before the run are those that come.
    """

    def __init__(self, path: Path, identity: str) -> None:
        """Keep the path; `identity` tells it from others wherever it is checked out."""
        self._path = path
        self._identity = identity
        self._contents: Sequence[FileContents] | None = None

    def server_id(self) -> str:
        """Return the path as the recipe has it."""
        return self._identity

    def read(self) -> Iterator[Definition]:
        """Yield the tables of every file, and then the sets.

        Raises:
            RecipeError: there are no files, or one cannot be read.
            RecipeValidationError: something in them is wrong; all of it is listed.

        Cost: memory for the content of all files.
        """
        if self._contents is None:
            self._contents = read_contents(find_files(self._path))
        sets = list(_sets(self._contents))
        in_sets: dict[tuple[str | None, str], set[str]] = defaultdict(set)
        for feature_set in sets:
            for feature in feature_set.features:
                in_sets[feature_set.namespace, feature.table].add(feature_set.name)
        for contents in self._contents:
            for table in contents.tables:
                names = ", ".join(sorted(in_sets.get((table.namespace, table.name), ())))
                properties = {**table.properties, SETS: names}
                yield replace(table, properties=properties) if names else table
        yield from sets

    def check(self) -> Iterator[Finding]:
        """Yield the findings of `mlcat-ingest check`."""
        try:
            files = find_files(self._path)
            tables = [table for file in read_contents(files) for table in file.tables]
        except MlcatError as error:
            yield Finding(_WHAT, "failed", error.message, error.hint)
            return
        features = plural(sum(len(table.features) for table in tables), "feature")
        counted = plural(len(files), "file")
        detail = f"{counted} with {plural(len(tables), 'table')} and {features}"
        yield Finding(_WHAT, "ok" if tables else "warning", detail)

    def close(self) -> None:
        """Delete the contents from memory; no file stays open."""
        self._contents = None


def find_files(path: Path) -> list[Path]:
    """Return the definitions files of `path`, sorted: itself, those in a folder, or a pattern's.

    Raises:
        RecipeError: there are none, or what may hold some cannot be read.
    """
    try:
        files = sorted(set(_candidates(path)))
    except OSError as error:
        sentence = f"cannot read {error.filename or path}: {error.strerror}"
        raise RecipeError(sentence, hint=PATH_HINT) from None
    if not files:
        # An empty store would take away everything that was read before.
        raise RecipeError(f"no definitions files at {path}", hint=PATH_HINT)
    return files


def _candidates(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from _in_folder(path, set())
    elif path.exists() or not _is_pattern(str(path)):
        yield path
    else:
        yield from _matching(path)


def _matching(path: Path) -> Iterator[Path]:
    """Yield the files that a pattern matches.

    Raises:
        OSError: a folder that the pattern goes through cannot be read.
    """
    first = next(at for at, part in enumerate(path.parts) if _is_pattern(part))
    root, pattern = Path(*path.parts[:first]), path.parts[first:]
    for depth in range(len(pattern)):
        # `Path.glob` passes over a folder that cannot be read; its tables would count as removed.
        for folder in root.glob("/".join(pattern[:depth])) if depth else (root,):
            if folder.is_dir():
                next(folder.iterdir(), None)
    # Before Python 3.13, a pattern that ends with `**` matches folders alone.
    files = (*pattern, "*") if pattern[-1] == "**" else pattern
    yield from filter(_is_file, root.glob("/".join(files)))


def _in_folder(folder: Path, seen: set[Path]) -> Iterator[Path]:
    """Yield the files below `folder`, through links too; each real folder is gone into once."""
    seen.add(folder.resolve())
    for path in folder.iterdir():
        if path.name.startswith("."):
            continue
        if path.is_dir():
            if path.resolve() not in seen:
                yield from _in_folder(path, seen)
        elif path.suffix.lower() in _SUFFIXES and _is_file(path):
            yield path


def _is_file(path: Path) -> bool:
    """Return whether `path` has to be read, as a link to nowhere has: its file is missed."""
    return path.is_file() or (path.is_symlink() and not path.exists())


def _is_pattern(text: str) -> bool:
    return any(sign in text for sign in "*?[")


def read_contents(paths: Iterable[Path]) -> Sequence[FileContents]:
    """Return the contents of the files, checked, in their order.

    Raises:
        RecipeValidationError: something in them is wrong; all of it is listed.
    """
    names = DefinedNames()
    contents: list[FileContents] = []
    files: list[tuple[DefinitionsFile, list[Problem]]] = []
    sentences: list[str] = []
    for path in paths:
        try:
            file = read_file(path)
        except RecipeError as error:
            sentences.append(str(error))
            continue
        document, problems = validate_config(DefinitionsDocument, file.parsed.data, (), file.origin)
        problems = [*file.parsed.problems, *problems, *names.add(file)]
        if problems or file.data.get("sets"):
            files.append((file, problems))  # the raw data of others is freed
        if document is not None:
            tables = [_table(document, table) for table in document.tables]
            contents.append(FileContents(document.namespace, tables, document.sets))
    for file, problems in files:
        problems.extend(names.unknown(file))
        if problems:
            sentences.extend(file.origin.error(problems).problems)
    if sentences:
        raise RecipeValidationError(sentences)
    return contents


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
        features=tuple(Feature(**_column(spec), version=spec.version) for spec in table.features),
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
        spec if isinstance(spec, str) else DatasetPlace(spec.platform, spec.name)
        for spec in sources
    )


def _sets(contents: Iterable[FileContents]) -> Iterator[FeatureSet]:
    """Yield the sets of all files, each of features anywhere in its namespace."""
    wanted = {
        (one.namespace, text) for one in contents for some in one.sets.values() for text in some
    }
    refs = (
        (one.namespace, FeatureRef(table.name, feature.name))
        for one in contents
        for table in one.tables
        for feature in table.features
    )
    known = {key: ref for namespace, ref in refs if (key := (namespace, reference(*ref))) in wanted}
    for one in contents:
        for name, references in one.sets.items():
            features = tuple(known[one.namespace, text] for text in references)
            yield FeatureSet(namespace=one.namespace, name=name, features=features)


class DefinitionsSource(FeatureSource):
    """Reads feature tables that are defined in YAML or JSON files."""

    def __init__(self, config: DefinitionsConfig) -> None:
        """Keep the configuration; no file is opened.

        Raises:
            RecipeError: instance and prefix cannot be part of names, or the file of owners cannot
                be used.
        """
        # The platform of its tables is named in each file.
        super().__init__(config, "definitions", FileReader(config.path, config.path_in_recipe))
