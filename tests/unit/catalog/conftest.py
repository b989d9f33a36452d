"""A store of its own for each test."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mlcat_ingest.catalog.store.store import Store
from support.catalog_store import open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(tmp_path / "c.db")) as opened:
        yield opened
