"""What tests beside DataHub's own code need, which must not call home."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.catalog_server import RunningCatalog, running_catalog


@pytest.fixture(scope="session", autouse=True)
def no_telemetry() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DATAHUB_TELEMETRY_ENABLED", "false")
        yield


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[RunningCatalog]:
    """An empty catalog that is served."""
    with running_catalog(tmp_path / "catalog.db") as running:
        yield running
