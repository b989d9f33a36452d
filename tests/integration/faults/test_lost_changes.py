"""What is stored and lost from the search index is found again after the next full pass.

At each write of a run in turn, the changes of one request never reach the index: of a request under
way, whose answer is lost too, or of one that was acknowledged. The run goes on, or is killed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pytest

from mlcat_ingest.client.rest.client import CatalogClient
from mlcat_ingest.pipeline.report.report import Report
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.testing.service import failing_service
from mlcat_ingest.workflows.ingest import Pipeline
from support import small_store
from support.catalog_server import running_catalog
from support.lossy_catalog import Loss, LossyCatalog

RUNS = 2


@dataclass
class World:
    """A store of a few runs, a catalog that loses changes, and a recipe from one to the other."""

    catalog: LossyCatalog
    recipe: Recipe
    url: str

    def run(self, *, full: bool = False) -> Report:
        return Pipeline(self.recipe).run(full=full)

    def found(self) -> tuple[list[str], list[str]]:
        """Return the models that a search finds, and those in the group."""
        with CatalogClient(self.url, "") as client:
            pages = client.search.entities_of_source("mlModel", None).pages
            members = client.search.members(small_store.GROUP)
            return sorted(chain(*pages)), sorted(chain(*members))


@contextmanager
def world(folder: Path) -> Iterator[World]:
    folder.mkdir()
    with running_catalog(folder / "catalog.db") as upstream:
        catalog = LossyCatalog(upstream.url)
        with failing_service(catalog) as proxy:
            store = small_store.make(folder, proxy.url)
            for number in range(RUNS):
                store.add_run(f"more{number}", lr="0.3")
            path = Path(store.recipe())
            sink = f"server: '{proxy.url}', batch_size: 6, retries: 1, connections: 1"
            path.write_text(path.read_text().replace(f"server: '{proxy.url}'", sink))
            yield World(catalog, Recipe.load(path), proxy.url)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, tuple[list[str], ...]]:
    """How many writes a run sends, and what is found after it."""
    with world(tmp_path_factory.mktemp("well") / "well") as well:
        assert well.run().exit_code == 0
        models, members = well.found()
        assert len(models) == RUNS + 2
        assert models == members
        return well.catalog.writes, (models, members)


@pytest.mark.parametrize("kills", [False, True], ids=["goes on", "is killed"])
@pytest.mark.parametrize("loss", ["under way", "acknowledged"])
def test_after_a_full_pass_all_is_found_by_search_and_in_its_group(
    loss: Loss,
    kills: bool,  # noqa: FBT001 - a parameter of pytest
    undisturbed: tuple[int, tuple[list[str], ...]],
    tmp_path: Path,
) -> None:
    writes, found = undisturbed
    for number in range(1, writes + 1):
        with world(tmp_path / f"{number}") as ill:
            catalog = ill.catalog
            catalog.loses, catalog.loss, catalog.kills = number, loss, kills
            assert (ill.run().exit_code == 0) or kills
            if loss == "under way" and not kills:
                # The run itself has written again what it got no answer to.
                assert not catalog.lost
            catalog.is_over = False
            assert ill.run(full=True).exit_code == 0
            assert ill.found() == found, number
            assert ill.run(full=True).proposals_sent == 0
