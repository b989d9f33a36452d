"""The source of type `definitions`: feature tables and sets that files define."""

from collections.abc import Iterator
from typing import ClassVar, Final, Self

from pydantic import PrivateAttr, ValidationInfo, model_validator

from mlcat_ingest.core.findings import Finding
from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import MlcatError
from mlcat_ingest.recipe.values import RecipePath, base_dir_of
from mlcat_ingest.sources.definitions.documents import read_definitions
from mlcat_ingest.sources.definitions.files import find_files
from mlcat_ingest.sources.definitions.source import FeatureSource
from mlcat_ingest.sources.definitions.tables import Definition, FeatureTable
from mlcat_ingest.sources.options import FeatureStoreConfig

_WHAT: Final = "definitions files"


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


class DefinitionsSource(FeatureSource):
    """Reads feature tables that are defined in YAML or JSON files.

    They are read once, so that the tables announced before the run are those that come.
    """

    platform: ClassVar = "definitions"
    _config: DefinitionsConfig

    def __init__(self, config: DefinitionsConfig) -> None:
        """Keep the configuration; no file is opened."""
        super().__init__(config)
        self.address = str(config.path)
        self._definitions: list[Definition] | None = None

    def server_id(self) -> str:
        """Return the path as the recipe has it, which tells it from others wherever it is."""
        return self._config.path_in_recipe

    def definitions(self) -> Iterator[Definition]:
        """Yield the tables of every file, and then the sets.

        Raises: as `find_files` and `read_definitions`. Cost: memory for the content of all files.
        """
        if self._definitions is None:
            self._definitions = read_definitions(find_files(self._config.path))
        yield from self._definitions

    def check(self) -> Iterator[Finding]:
        """Yield the findings of `mlcat-ingest check`."""
        try:
            files = find_files(self._config.path)
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
