"""The configuration of the source that reads definitions files. Cheap to import."""

from pathlib import Path
from typing import Self

from pydantic import PrivateAttr, ValidationInfo, model_validator

from mlcat_ingest.recipe.paths import RecipePath, base_dir_of
from mlcat_ingest.sources.definitions.config import FeatureStoreConfig


class DefinitionsConfig(FeatureStoreConfig):
    """Feature tables that are defined in files, for stores without a connector of their own."""

    path: RecipePath
    """A definitions file (YAML or JSON), a folder of them, read with the folders in it, or a
    pattern such as `features/**/*.yml`."""

    _named: str = PrivateAttr("")

    @model_validator(mode="after")
    def _keep_name(self, info: ValidationInfo) -> Self:
        self._named = _as_written(self.path, base_dir_of(info))
        return self

    @property
    def named(self) -> str:
        """Return the path as the recipe has it: the same wherever the recipe is checked out."""
        return self._named


def _as_written(path: Path, base_dir: Path | None) -> str:
    inside = base_dir is not None and path.is_relative_to(base_dir)
    return (path.relative_to(base_dir) if inside and base_dir else path).as_posix()
