from collections.abc import Iterator

import pytest

from support.mlflow_databases import KINDS, Store, seeded_store


@pytest.fixture(scope="session", params=KINDS)
def store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Store]:
    """A seeded store on each kind of database in turn; who writes to it takes that back."""
    with seeded_store(request.param, tmp_path_factory.mktemp(request.param)) as store:
        yield store
