"""The source of type `definitions`: feature tables that are defined in files."""

from typing import Final

from mlcat_ingest.sources.definitions.file_config import DefinitionsConfig
from mlcat_ingest.sources.definitions.file_reader import FileReader
from mlcat_ingest.sources.definitions.source import FeatureSource

KIND: Final = "definitions"
"""What kind of source its tables carry; which platform they are of, each file says."""


class DefinitionsSource(FeatureSource):
    """Reads definitions files; see `sources.base.Source`."""

    def __init__(self, config: DefinitionsConfig) -> None:
        """Keep the configuration; no file is opened.

        Raises:
            RecipeError: instance and prefix cannot be part of names, or the file of owners cannot
                be used.
        """
        super().__init__(config, KIND, FileReader(config.path, config.named))
