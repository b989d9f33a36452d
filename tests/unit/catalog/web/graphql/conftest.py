"""The store that every test here asks."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mlcat_ingest.catalog.store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(Store.open(tmp_path / "catalog.db")) as opened:
        yield opened
