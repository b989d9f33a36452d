"""A store on each kind of database, read by three readers: the same records and entities."""

from typing import Any

import pytest

from mlcat_ingest.sources.mlflow.client import ClientReader
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.reader import Reader, RunFilter
from mlcat_ingest.sources.mlflow.rest import RestReader
from support.mlflow_databases import Store
from support.mlflow_readings import entities_of, records_of
from support.mlflow_store import START_MS
from support.mlflow_tables import reader_of

pytestmark = pytest.mark.integration


def readers_of(store: Store) -> dict[str, Reader]:
    """Return the three readers of a store."""
    return {
        "rest": RestReader(MlflowConfig(tracking_uri=store.server)),
        "client": ClientReader(MlflowConfig(tracking_uri=store.database)),
        "database": reader_of(store.database),
    }


def test_all_readers_give_the_same_records_in_the_same_order(store: Store) -> None:
    found = {name: records_of(reader) for name, reader in readers_of(store).items()}
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
def test_all_readers_give_the_same_entities(store: Store, config: dict[str, Any]) -> None:
    found = {name: entities_of(reader, **config) for name, reader in readers_of(store).items()}
    assert found["rest"]
    assert found["client"] == found["rest"]
    assert found["database"] == found["rest"]


def test_all_readers_agree_on_who_the_server_is(store: Store) -> None:
    readers = readers_of(store).values()
    assert len({reader.server_id() for reader in readers}) == 1
    assert {tuple(reader.workspaces()) for reader in readers} == {("default",)}
    for reader in readers:
        reader.close()


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
def test_filters_and_limits_leave_the_same_runs(store: Store, only: RunFilter) -> None:
    found = {}
    for name, reader in readers_of(store).items():
        ids = [one.experiment_id for page in reader.experiments() for one in page]
        found[name] = [run.run_id for page in reader.runs(ids, only=only) for run in page]
        reader.close()
    assert found["rest"] == found["client"] == found["database"]
    assert found["rest"]


def test_statements_are_few_and_do_not_grow_with_the_runs(store: Store) -> None:
    reader = reader_of(store.database)
    records_of(reader)
    assert reader.requests_made() <= 25
    assert {finding.outcome for finding in reader.check()} == {"ok", "warning"}
    reader.close()
