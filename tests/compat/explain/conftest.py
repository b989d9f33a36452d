"""A small store whose catalog is a service: the embedded one, or a DataHub server."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support import small_store
from support.catalog_server import running_catalog
from support.gms import V1_7, running_gms
from support.small_store import SmallStore


@contextmanager
def embedded(folder: Path) -> Iterator[str]:
    with running_catalog(folder / "served.db") as catalog:
        yield catalog.url


@contextmanager
def gms(folder: Path) -> Iterator[str]:
    with running_gms(folder / "gms.db", V1_7) as running:
        yield running.url


CATALOGS: dict[str, Callable[[Path], Any]] = {
    "embedded": embedded,
    "gms": gms,
}


@pytest.fixture(params=CATALOGS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SmallStore]:
    with CATALOGS[request.param](tmp_path) as url:
        yield small_store.make(tmp_path, url)
