"""A catalog that refuses primary keys gets everything else, and the keys once it is upgraded."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp

from support.catalog_server import running_catalog
from support.definitions import (
    DRIVER,
    DRIVERS,
    RATE,
    RIDERS,
    TRIPS,
    FeatureWorld,
    definitions,
)
from support.without_primary_keys import WithoutPrimaryKeys

pytestmark = pytest.mark.integration

PROPERTY = "mlcat.primary_keys"


@contextmanager
def refusing(
    folder: Path, status: int, *, reads_them: bool = False
) -> Iterator[tuple[FeatureWorld, WithoutPrimaryKeys]]:
    around: list[WithoutPrimaryKeys] = []

    def wrap(app: ASGIApp) -> ASGIApp:
        around.append(WithoutPrimaryKeys(app, status, reads_them))
        return around[0]

    with running_catalog(folder / "catalog.db", around=wrap) as catalog:
        yield FeatureWorld(folder, catalog.url), around[0]


def report(world: FeatureWorld) -> Any:
    return json.loads((world.folder / "report.json").read_text())


@pytest.mark.parametrize("reads_them", [False, True])
@pytest.mark.parametrize("status", [400, 404, 422, 500])
def test_keys_go_to_a_property_of_their_table_and_that_is_reported_once(
    tmp_path: Path, status: int, *, reads_them: bool
) -> None:
    content = definitions()
    content["tables"][1]["keys"] = [{"name": "rider", "type": "ORDINAL"}]
    content["tables"].append({"name": "only_keys", "keys": [{"name": "k"}]})
    with refusing(tmp_path, status, reads_them=reads_them) as (world, catalog):
        world.write(content)
        assert world.run(world.recipe(world.source())) == 0
        reported = report(world)
        assert reported["dead_letters"] == 0
        assert reported["notes"] == {"primary_keys_not_taken": 1}
        # A 500 is tried again twice: it need not be the record's fault.
        assert len(catalog.refused) == (3 if status == 500 and reads_them else 1)
        assert "mlPrimaryKey" not in reported["entities"]
        custom = world.properties(DRIVERS)["customProperties"]
        assert json.loads(custom[PROPERTY]) == [
            {"name": "driver", "type": "ORDINAL", "join_key": "driver_id"}
        ]
        assert "mlPrimaryKeys" not in world.properties(DRIVERS)
        assert world.features_of(DRIVERS) == [RATE, TRIPS]
        assert PROPERTY in world.properties(RIDERS)["customProperties"]


@pytest.mark.parametrize("reads_them", [False, True])
def test_what_is_gone_is_still_removed_and_an_upgraded_catalog_gets_the_keys(
    tmp_path: Path, *, reads_them: bool
) -> None:
    with refusing(tmp_path, 400, reads_them=reads_them) as (world, catalog):
        content = definitions()
        world.write(content)
        recipe = world.recipe(world.source())
        assert world.run(recipe) == 0
        assert world.run(recipe) == 0
        assert report(world)["proposals_sent"] == 0
        content["tables"].pop()
        world.write(content)
        assert world.run(recipe, "--full") == 0
        assert not world.is_removed(RIDERS), "one pass is no proof"
        assert world.run(recipe, "--full") == 0
        assert world.is_removed(RIDERS)

        catalog.is_upgraded = True
        assert world.run(recipe) == 0
        assert report(world)["notes"] == {}
        assert world.properties(DRIVERS)["mlPrimaryKeys"] == [DRIVER]
        assert world.properties(DRIVER)["customProperties"]["join_key"] == "driver_id"
        assert PROPERTY not in world.properties(DRIVERS)["customProperties"]
