from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.catalog_server import RunningCatalog, running_catalog


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[RunningCatalog]:
    """An empty catalog that is served."""
    with running_catalog(tmp_path / "c.db") as running:
        yield running


@pytest.fixture
def graph(catalog: RunningCatalog) -> Any:
    """DataHub's client of the catalog."""
    sdk = pytest.importorskip("datahub.ingestion.graph.client")
    return sdk.DataHubGraph(sdk.DatahubClientConfig(server=catalog.url))
