"""One history of an MLflow store for all tests here: MLflow takes seconds to make a store."""

import pytest

from mlcat_ingest.pipeline.write import searchable
from support.gms_worlds import Past


@pytest.fixture(scope="session")
def past(tmp_path_factory: pytest.TempPathFactory) -> Past:
    return Past.make(tmp_path_factory.mktemp("past"))


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index that lags here moves when a test says so."""
    monkeypatch.setattr(searchable, "PAUSES_S", (0.0,))
