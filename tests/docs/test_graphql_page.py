"""The page about GraphQL says what is so: its query runs, its fields and limits are there."""

import re
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

from mlcat_ingest.catalog.limits import DEFAULT_LIMITS
from support.catalog_graphql import ask, root_clients
from support.catalog_store import open_store

PAGE = (Path(__file__).parents[2] / "docs" / "graphql.md").read_text()


def test_the_example_runs(tmp_path: Path) -> None:
    (query,) = re.findall(r"```graphql\n(.*?)```", PAGE, re.DOTALL)
    with closing(open_store(tmp_path / "catalog.db")) as store:
        assert ask(store, query)["searchAcrossEntities"]["total"] == 0


def test_the_root_fields_are_there_with_their_clients() -> None:
    rows = PAGE.split("## What can be asked")[1].split("##")[0]
    reported = dict(re.findall(r"^\| `(\w+)` \|.*\| ([^|]+) \|$", rows, re.MULTILINE))
    assert {name: client.replace("`", "") for name, client in reported.items()} == root_clients()


def test_the_limits_are_those_of_the_service() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([\d.]+) \|", PAGE, re.MULTILINE)
    limits = {name: f"{value:g}" if name.endswith("seconds") else str(value)
              for name, value in asdict(DEFAULT_LIMITS).items()}  # fmt: skip
    assert {name: limits[name] for name, _ in rows} == dict(rows)
    assert {name for name in limits if name.startswith("query_")} <= dict(rows).keys()
