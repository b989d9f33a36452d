"""The page about GraphQL says what is so: its query runs, its fields are there."""

import re
from contextlib import closing
from pathlib import Path

from support.catalog_graphql import ask, root_clients
from support.catalog_store import open_store

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "graphql.md").read_text()


def test_the_example_runs(tmp_path: Path) -> None:
    (query,) = re.findall(r"```graphql\n(.*?)```", PAGE, re.DOTALL)
    with closing(open_store(tmp_path / "catalog.db")) as store:
        assert ask(store, query)["searchAcrossEntities"]["total"] == 0


def test_the_root_fields_are_there_with_their_clients() -> None:
    rows = PAGE.split("## Root fields")[1].split("##")[0]
    reported = dict(re.findall(r"^\| `(\w+)` \|.*\| ([^|]+) \|$", rows, re.MULTILINE))
    assert {name: client.replace("`", "") for name, client in reported.items()} == root_clients()
