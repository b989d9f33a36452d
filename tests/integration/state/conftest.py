from collections.abc import Iterator
from pathlib import Path

import pytest

from support.services import postgres_database


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of an empty database for state, of each kind that may hold it."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/deep/state.db"
        return
    with postgres_database() as address:
        yield address
