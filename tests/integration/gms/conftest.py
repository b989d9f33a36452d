"""One history of an MLflow store for all tests here: MLflow takes seconds to make a store."""

import pytest

from support.gms_worlds import Past


@pytest.fixture(scope="session")
def past(tmp_path_factory: pytest.TempPathFactory) -> Past:
    return Past.make(tmp_path_factory.mktemp("past"))
