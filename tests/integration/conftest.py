from collections.abc import Iterator
from pathlib import Path

import pytest

from support.catalog_server import RunningCatalog, running_catalog


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[RunningCatalog]:
    """An empty catalog that is served."""
    with running_catalog(tmp_path / "catalog.db") as running:
        yield running
