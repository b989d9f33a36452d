"""The embedded catalog answers as DataHub's server did, but for a table of differences."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.gms.replay import Result, replay
from support.catalog_process import catalog_process

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Result]:
    folder: Path = tmp_path_factory.mktemp("replay")
    with catalog_process(folder / "catalog.db") as catalog:
        yield replay(catalog.url)


def test_every_difference_is_listed(result: Result) -> None:
    shown = "\n".join(map(str, result.unexpected[:40]))
    assert not result.unexpected, f"{len(result.unexpected)} differences are not listed:\n{shown}"


def test_every_line_of_the_table_covers_a_difference(result: Result) -> None:
    assert result.stale == ()
