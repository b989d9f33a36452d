from typing import Any

import pytest

from support.catalog_server import RunningCatalog


@pytest.fixture
def graph(catalog: RunningCatalog) -> Any:
    """DataHub's client of the catalog."""
    sdk = pytest.importorskip("datahub.ingestion.graph.client")
    return sdk.DataHubGraph(sdk.DatahubClientConfig(server=catalog.url))
