"""A store on each kind of database, read by three readers: the same records and entities."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.client import ClientReader
from mlcat_ingest.sources.mlflow.read.reader import MlflowObject, Reader, RunFilter
from mlcat_ingest.sources.mlflow.read.rest import RestReader
from support.mlflow_databases import Store
from support.mlflow_readings import entities_of, records_of
from support.mlflow_tables import reader_of
from support.seeded_store import START_MS


@pytest.fixture
def readers(store: Store) -> Iterator[dict[str, Reader]]:
    """Give the three readers of a store; a reader of a database holds a transaction open."""
    readers: dict[str, Reader] = {
        "rest": RestReader(MlflowConfig(tracking_uri=store.server)),
        "client": ClientReader(MlflowConfig(tracking_uri=store.database)),
        "database": reader_of(store.database),
    }
    yield readers
    for reader in readers.values():
        reader.connection.close()


def test_all_readers_give_the_same_records_in_the_same_order(readers: dict[str, Reader]) -> None:
    found = {name: records_of(reader) for name, reader in readers.items()}
    assert len(found["rest"]["runs"]) == 21
    for listing, expected in found["rest"].items():
        assert found["client"][listing] == expected, listing
        assert found["database"][listing] == expected, listing


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"runs": {"select": "with_model"}},
        {"runs": {"select": "registered"}},
        {"runs": {"select": "registered", "children": "collapse"}},
        {"runs": {"select": "registered"}, "limit": 5},
        {"runs": {"statuses": ["FINISHED", "KILLED"], "children": "skip"}},
        {"experiments": {"allow": ["churn", "abandoned"]}, "system_metrics": True},
    ],
    ids=repr,
)
def test_all_readers_give_the_same_entities(
    readers: dict[str, Reader], config: dict[str, Any]
) -> None:
    found = {name: entities_of(reader, **config) for name, reader in readers.items()}
    assert found["rest"]
    assert found["client"] == found["rest"]
    assert found["database"] == found["rest"]


def test_all_readers_agree_on_who_the_server_is(readers: dict[str, Reader]) -> None:
    assert len({reader.server_id() for reader in readers.values()}) == 1
    names = {tuple(here.workspace for here in r.workspaces()) for r in readers.values()}
    assert names == {("default",)}


def test_all_readers_agree_on_how_many_runs_there_are(readers: dict[str, Reader]) -> None:
    runs = Counter(run.experiment_id for run in records_of(readers["rest"])["runs"])
    [(experiment, count)] = runs.most_common(1)

    def has_run(reader: Reader, experiment_id: str, skip: int) -> bool:
        return any(reader.runs([experiment_id], only=RunFilter(limit=1, skip=skip)))

    for reader in readers.values():
        skips = (0, count - 1, count)
        assert [has_run(reader, experiment, skip) for skip in skips] == [True, True, False]
        assert not has_run(reader, "4711", 0)


def test_all_readers_agree_on_what_is_gone(readers: dict[str, Reader]) -> None:
    found = records_of(readers["rest"])
    run, versions = found["runs"][0], found["versions"]
    there = [
        MlflowObject("run", run.run_id),
        MlflowObject("experiment", run.experiment_id),
        MlflowObject("registered", versions[0].name),
        MlflowObject("version", versions[0].name, versions[0].version),
    ]
    gone = [
        MlflowObject("run", "0" * 32),
        MlflowObject("experiment", "987654321"),
        MlflowObject("registered", "no such model"),
        MlflowObject("version", versions[0].name, "987654"),
        MlflowObject("version", "no such model", "1"),
    ]
    for reader in readers.values():
        assert [reader.is_gone(thing) for thing in there] == [False] * len(there)
        assert [reader.is_gone(thing) for thing in gone] == [True] * len(gone)


@pytest.mark.parametrize(
    "only",
    [
        RunFilter(since_ms=START_MS + 4_000),
        RunFilter(statuses=("FINISHED", "FAILED")),
        RunFilter(limit=4),
        RunFilter(statuses=("RUNNING",), limit=3),
    ],
    ids=repr,
)
def test_filters_and_limits_leave_the_same_runs(
    readers: dict[str, Reader], only: RunFilter
) -> None:
    found = {}
    for name, reader in readers.items():
        ids = [one.experiment_id for page in reader.experiments() for one in page]
        found[name] = [run.run_id for page in reader.runs(ids, only=only) for run in page]
    assert found["rest"] == found["client"] == found["database"]
    assert found["rest"]


def test_a_digest_is_that_of_the_ids_of_older_runs(readers: dict[str, Reader]) -> None:
    database = readers["database"]
    ids = [one.experiment_id for page in database.experiments() for one in page]
    before_ms = START_MS + 4_000
    digests = database.run_digests(ids, (0, before_ms))
    assert digests is not None
    none, older = digests
    listed = Counter(
        run.experiment_id
        for page in database.runs(ids, only=RunFilter(before_ms=before_ms))
        for run in page
    )
    assert {id_ for id_ in ids if older[id_] != none[id_]} == set(listed) != set()
    assert set(none) == set(older) == set(ids)
    assert [readers[name].run_digests(ids, (0,)) for name in ("rest", "client")] == [None, None]


def test_statements_are_few_and_do_not_grow_with_the_runs(store: Store) -> None:
    reader = reader_of(store.database)
    records_of(reader)
    assert reader.connection.requests_made() <= 26
    assert {finding.outcome for finding in reader.check()} == {"ok", "warning"}
    reader.connection.close()
