from collections.abc import Iterator
from pathlib import Path

import pytest

from support.rest_client import RestClient, rest_client


@pytest.fixture
def client(tmp_path: Path) -> Iterator[RestClient]:
    with rest_client(tmp_path / "c.db") as opened:
        yield opened
