"""Removal on a DataHub server: old versions, an index that lags, and garbage collection."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlcat_ingest.cli.main import call
from mlcat_ingest.client.rest.client import CatalogClient
from support.gms import V1_6, RunningGms, running_gms
from support.small_store import A, B, SmallStore, make

OPTIONS = "limits: {max_removed_ratio: 1}\nreport_to_catalog: false\n"


@contextmanager
def world(folder: Path, **changes: Any) -> Iterator[tuple[RunningGms, SmallStore]]:
    with running_gms(folder / "gms.db", replace(V1_6, **changes)) as gms:
        yield gms, make(folder, gms.url)


def ingest(store: SmallStore, *how: str) -> None:
    assert call([store.recipe(more=OPTIONS), "-q", *how]) == 0


def purge(store: SmallStore, name: str) -> None:
    store.change("DELETE FROM params WHERE run_uuid = ?", name)
    store.change("DELETE FROM runs WHERE run_uuid = ?", name)


def removed(gms: RunningGms) -> set[str]:
    found = gms.store.get_many([A, B], ["status"])
    return {urn for urn, one in found.items() if "status" in one and one["status"].value["removed"]}


def test_an_index_that_never_caught_up_hides_nothing_from_removal(tmp_path: Path) -> None:
    with world(tmp_path, index_refresh_s=math.inf) as (gms, store):
        ingest(store)
        purge(store, "a")
        ingest(store, "--full")
        assert removed(gms) == {A}


def test_an_index_that_never_caught_up_hides_nothing_from_retract(tmp_path: Path) -> None:
    with world(tmp_path, index_refresh_s=math.inf) as (gms, store):
        ingest(store)
        assert call(["retract", store.recipe(more=OPTIONS), "--yes", "-q"]) == 0
        assert removed(gms) == {A, B}


def test_an_index_that_lags_removes_nothing_that_is_there(tmp_path: Path) -> None:
    with world(tmp_path, index_refresh_s=math.inf) as (gms, store):
        ingest(store)
        gms.catch_up()
        purge(store, "a")
        ingest(store, "--full")
        store.add_run("a", lr="0.1")
        ingest(store, "--full")
        assert removed(gms) == set()
        ingest(store, "--full")
        assert removed(gms) == set()


def test_what_the_garbage_collection_deleted_is_written_anew(tmp_path: Path) -> None:
    with world(tmp_path) as (gms, store):
        ingest(store)
        purge(store, "a")
        ingest(store, "--full")
        assert removed(gms) == {A}
        with CatalogClient(gms.url, "") as client:
            client.delete_entity(A)
        store.add_run("a", lr="0.5")
        ingest(store, "--full")
        found = gms.store.get_many([A])[A]
        assert found["mlModelProperties"].value["hyperParams"][0]["value"] == "0.5"
        assert "ownership" in found
        assert removed(gms) == set()
        writes = [body for one in gms.calls("/aspects") for body in one.json()["proposals"]]
        last = [one for one in writes if one["entityUrn"] == A][-2:]
        assert {one["headers"]["If-Version-Match"] for one in last} == {"-1"}
