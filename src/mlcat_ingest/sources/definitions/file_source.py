"""The source of type `definitions`: the format of its files, and their tables and sets.

A `DefinitionsDocument` is the checked content of one file. The problems of all files are reported
at once, those of sets with unknown features after all others.
"""

import os
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from stat import S_ISREG
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    Discriminator,
    Field,
    PrivateAttr,
    Tag,
    ValidationInfo,
    model_validator,
)

from mlcat_ingest.core.findings import Finding
from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import InvalidUrnError, MlcatError, RecipeError, RecipeValidationError
from mlcat_ingest.links.index import FeatureRef, FeatureSet
from mlcat_ingest.metadata.aspects.ml import MLFeatureDataType
from mlcat_ingest.metadata.urn import PREFIX, check, entity_type_of
from mlcat_ingest.recipe.fields import PublicStr, RecipeModel
from mlcat_ingest.recipe.loader import Loc, Origin, ParsedText, Problem, nearest, parse
from mlcat_ingest.recipe.validate import validate_config
from mlcat_ingest.recipe.values import RecipePath, base_dir_of
from mlcat_ingest.sources.datasets import Platform
from mlcat_ingest.sources.definitions.source import DefinitionReader, FeatureSource
from mlcat_ingest.sources.definitions.tables import (
    DatasetPlace,
    DatasetSource,
    Definition,
    Feature,
    FeatureTable,
    Key,
)
from mlcat_ingest.sources.options import FeatureStoreConfig

MAX_BYTES: Final = 16 * 1_048_576

MAX_NODES: Final = 1_000_000
"""Bounds of one file: about 100,000 features."""

PATH_HINT: Final = "correct `path` in the source's config"

_SUFFIXES: Final = frozenset({".yml", ".yaml", ".json"})

SETS: Final = "definitions.sets"
"""Custom property of a table that names the sets which take features of it."""

JOIN_KEY: Final = "join_key"
"""Custom property of a key that names its column, as it is called for every other store, too."""

_WHAT: Final = "definitions files"


def _check_urn(text: str, types: Container[str], noun: str, otherwise: str) -> str:
    try:
        if entity_type_of(text) not in types:
            raise ValueError(otherwise)
        check(text)
    except InvalidUrnError as error:
        raise ValueError(f"is not the URN of a {noun}: {error}") from None
    return text


def _dataset_urn(text: str) -> str:
    if not text.startswith(PREFIX):
        raise ValueError("must be the URN of a dataset, or {platform: ..., name: ...}")
    return _check_urn(text, {"dataset"}, "dataset", "is not the URN of a dataset")


def _owner(text: str) -> str:
    if not text.startswith("urn:"):
        return text
    otherwise = "must be a name, or the URN of a corpuser or corpGroup"
    return _check_urn(text, {"corpuser", "corpGroup"}, "user or group", otherwise)


Owner = Annotated[PublicStr, AfterValidator(_owner)]
"""A name that the recipe's `owners` apply to, or the URN of a user or group."""

DatasetUrn = Annotated[PublicStr, AfterValidator(_dataset_urn)]
"""The URN of a dataset, taken as it is."""


class PlaceSpec(RecipeModel):
    """A dataset by platform and name; the recipe's `datasets` apply to it."""

    platform: Platform
    """The catalog's name of the platform, such as `snowflake` or `s3`."""

    name: PublicStr
    """The dataset's name on that platform, such as `db.schema.table` or `bucket/folder`."""


def _kind_of_source(value: Any) -> str:
    return "place" if isinstance(value, Mapping | PlaceSpec) else "urn"


# By its kind, so that its problems are those of the one thing that it was meant to be.
SourceSpec = Annotated[
    Annotated[DatasetUrn, Tag("urn")] | Annotated[PlaceSpec, Tag("place")],
    Discriminator(_kind_of_source),
]
"""A dataset, by its URN or by platform and name."""


class DescribedSpec(RecipeModel):
    """The fields that tables, features and keys share."""

    name: PublicStr
    """The name, unique in the namespace, or among the features or the keys of a table."""

    description: str | None = None
    """A description for readers."""

    owners: tuple[Owner, ...] = ()
    """Its owners. Default of features and keys: those of the table."""

    tags: dict[PublicStr, str | None] = Field(default_factory=dict)
    """Tags `key: value`, which become `key:value`; without a value, the key alone."""

    properties: dict[PublicStr, str] = Field(default_factory=dict)
    """Custom properties."""


class ColumnSpec(DescribedSpec):
    """The fields that features and keys share."""

    type: MLFeatureDataType = "UNKNOWN"
    """One of the catalog's 17 types of features."""

    sources: tuple[SourceSpec, ...] | None = None
    """Its source datasets. Default: those of the table."""


class FeatureSpec(ColumnSpec):
    """A feature of a table."""

    version: PublicStr | None = None
    """Its version, if the store has versions of features."""


class KeySpec(ColumnSpec):
    """A key of a table: rows are looked up by it."""

    column: PublicStr | None = None
    """The column of the key. Default: its name."""


class TableSpec(DescribedSpec):
    """A feature table: features that share keys and sources."""

    kind: PublicStr = "Feature Table"
    """The store's term for such a table, such as `Feature Group`; shown as its subtype."""

    sources: tuple[SourceSpec, ...] = ()
    """The source datasets of its features."""

    keys: tuple[KeySpec, ...] = ()
    """The keys by which its rows are looked up."""

    features: tuple[FeatureSpec, ...] = ()
    """Its features."""


class DefinitionsDocument(RecipeModel):
    """The content of one definitions file."""

    schema_: str | None = Field(default=None, validation_alias="$schema")
    """For editors; not used."""

    version: Literal[1]
    """The version of this format."""

    platform: Annotated[Platform, Field(pattern=r"^[A-Za-z0-9_.-]{1,60}$")]
    """The catalog's name of the feature store: part of the URN of each table."""

    namespace: PublicStr | None = None
    """The store's project: the first part of the name of each table, `<namespace>.<table>`."""

    tables: tuple[TableSpec, ...] = ()
    """The feature tables."""

    sets: dict[PublicStr, tuple[PublicStr, ...]] = Field(default_factory=dict)
    """Named sets of features that are retrieved together, each as `<table>:<feature>`."""


def read_file(path: Path) -> tuple[ParsedText, Origin]:
    """Return the content of a file, not checked yet, and its place in errors.

    Raises:
        RecipeError: it cannot be read.
        RecipeSyntaxError: it is not YAML or JSON.
    """
    try:
        content = _stable_content(path)
    except OSError as error:
        raise RecipeError(
            f"cannot read the definitions file {path}: {error.strerror}", hint=PATH_HINT
        ) from None
    # Errors name a file from the working directory on, where it is below that.
    here = Path.cwd()
    label = str(path.relative_to(here) if path.is_relative_to(here) else path)
    parsed = parse(
        content, label, max_bytes=MAX_BYTES, max_nodes=MAX_NODES, cure_if_empty="define a table"
    )
    return parsed, Origin(label, path.parent, parsed.lines)


def _stable_content(path: Path) -> bytes:
    """Return the content, all of it: half a file that is being written reads as a smaller store."""
    with path.open("rb") as stream:
        before = os.fstat(stream.fileno())
        content = stream.read(MAX_BYTES + 1)
        after = os.fstat(stream.fileno())
    same = (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
    if S_ISREG(after.st_mode) and not (same and len(content) == min(after.st_size, MAX_BYTES + 1)):
        raise RecipeError(
            f"the definitions file {path} changed during the read",
            hint="run again once the file is complete",
        )
    return content


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
                    sentence = self._unknown_feature(document.namespace, text)
                    yield origin.problem(("sets", name, i), sentence)

    def _unknown_feature(self, namespace: str | None, text: str) -> str:
        if ":" not in text:
            return "must have the form <table>:<feature>"
        similar = nearest(text, [known for of, known in self.features if of == namespace])
        cure = f"; did you mean `{similar}`?" if similar else ""
        return f"is not a feature of any definitions file{cure}"


class DefinitionsConfig(FeatureStoreConfig):
    """Feature tables that are defined in files, for stores without a connector of their own."""

    path: RecipePath
    """A definitions file (YAML or JSON), a folder of them, read recursively, or a pattern such as
    `features/**/*.yml`."""

    _path_in_recipe: str = PrivateAttr("")

    @model_validator(mode="after")
    def _keep_path_in_recipe(self, info: ValidationInfo) -> Self:
        path, base_dir = self.path, base_dir_of(info)
        if base_dir is not None and path.is_relative_to(base_dir):
            path = path.relative_to(base_dir)
        self._path_in_recipe = path.as_posix()
        return self

    @property
    def path_in_recipe(self) -> str:
        """Return the path as the recipe has it: the same wherever the recipe is checked out."""
        return self._path_in_recipe


class FileReader(DefinitionReader):
    """Reads the definitions files at a path.

    They are read once, so that the tables announced before the run are those that come.
    """

    def __init__(self, path: Path, identity: str) -> None:
        """Keep the path; `identity` tells it from others wherever it is checked out."""
        self._path = path
        self._identity = identity
        self._definitions: list[Definition] | None = None

    def server_id(self) -> str:
        """Return the path as the recipe has it."""
        return self._identity

    def read(self) -> Iterator[Definition]:
        """Yield the tables of every file, and then the sets.

        Raises: as `find_files` and `read_definitions`. Cost: memory for the content of all files.
        """
        if self._definitions is None:
            self._definitions = read_definitions(find_files(self._path))
        yield from self._definitions

    def check(self) -> Iterator[Finding]:
        """Yield the findings of `mlcat-ingest check`."""
        try:
            files = find_files(self._path)
            definitions = read_definitions(files)
        except MlcatError as error:
            yield Finding(_WHAT, "failed", error.message, error.hint)
            return
        tables = [table for table in definitions if isinstance(table, FeatureTable)]
        features = plural(sum(len(table.features) for table in tables), "feature")
        counted = plural(len(files), "file")
        detail = f"{counted} with {plural(len(tables), 'table')} and {features}"
        yield Finding(_WHAT, "ok" if tables else "warning", detail)

    def close(self) -> None:
        """Delete the definitions from memory; no file stays open."""
        self._definitions = None


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
        OSError: a folder on the way of the pattern cannot be read.
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
            continue
        except RecipeError as error:
            sentences.append(str(error))
            continue
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
    parsed, origin = read_file(path)
    document, problems = validate_config(DefinitionsDocument, parsed.data, (), origin)
    problems = [*parsed.problems, *problems]
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
        properties = {**table.properties, SETS: names}
        yield replace(table, properties=properties) if names else table


def _table(document: DefinitionsDocument, table: TableSpec) -> FeatureTable:
    given = _fields(table)
    given["keys"] = tuple(_key(key) for key in table.keys)
    given["features"] = tuple(Feature(**_fields(spec)) for spec in table.features)
    return FeatureTable(namespace=document.namespace, platform=document.platform, **given)


def _fields(spec: TableSpec | ColumnSpec) -> dict[str, Any]:
    """Return what a file says of a table, feature or key, by the names that every store has."""
    tags = {key: value or "" for key, value in spec.tags.items()}
    sources = None if spec.sources is None else _sources(spec.sources)
    return {**vars(spec), "tags": tags, "sources": sources}


def _key(key: KeySpec) -> Key:
    given = _fields(key)
    if key.column is not None:
        given["properties"] = {JOIN_KEY: key.column, **key.properties}
    return Key(**given)


def _sources(sources: Iterable[str | PlaceSpec]) -> tuple[DatasetSource, ...]:
    return tuple(
        spec if isinstance(spec, str) else DatasetPlace(spec.platform, spec.name)
        for spec in sources
    )


class DefinitionsSource(FeatureSource):
    """Reads feature tables that are defined in YAML or JSON files."""

    def __init__(self, config: DefinitionsConfig) -> None:
        """Keep the configuration; no file is opened."""
        # The platform of its tables is named in each file.
        super().__init__(config, "definitions", FileReader(config.path, config.path_in_recipe))
        self.address = str(config.path)
