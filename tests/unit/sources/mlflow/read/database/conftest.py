"""Databases that a test opens are closed when it ends."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from mlcat_ingest.sources.mlflow.read.database.access import Database


@pytest.fixture(autouse=True)
def _closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    make = Database.__init__

    def make_and_keep(database: Database, *args: Any, **options: Any) -> None:
        make(database, *args, **options)
        opened.callback(database.close)

    with ExitStack() as opened:
        monkeypatch.setattr(Database, "__init__", make_and_keep)
        yield
