from collections.abc import Iterator

import pytest

from mlcat_ingest.recipe.secrets import SECRETS


@pytest.fixture(autouse=True)
def _forget_secrets() -> Iterator[None]:
    SECRETS.clear()
    yield
    SECRETS.clear()
