"""What the tests of feature stores share: a catalog, and a folder for recipes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.catalog_server import running_catalog
from support.definitions import FeatureWorld


@pytest.fixture
def features(tmp_path: Path) -> Iterator[FeatureWorld]:
    """Yield an empty catalog and a folder without definitions."""
    with running_catalog(tmp_path / "catalog.db") as catalog:
        yield FeatureWorld(tmp_path, catalog.url)
