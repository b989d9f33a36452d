"""The state as a retraction holds it, on the databases that may hold it."""

from collections.abc import Iterator

import pytest

from mlcat_ingest.errors import RecipeLockedError
from mlcat_ingest.pipeline.state import partitions, records
from mlcat_ingest.pipeline.state.inspection import summary
from mlcat_ingest.pipeline.state.locks import acquire
from mlcat_ingest.pipeline.state.opening import open_state
from mlcat_ingest.pipeline.state.partitions import PartitionKey
from mlcat_ingest.pipeline.state.records import RecordRow
from mlcat_ingest.pipeline.state.session import StateOptions, StateSession
from support.fakes import FakeSink

HERE = PartitionKey("r", "http://catalog", "mlflow:0123:default", "")
BESIDE = PartitionKey("r", "http://catalog", "mlflow:0123:team", "")
ELSEWHERE = PartitionKey("r", "http://other", "mlflow:0123:default", "")
OTHER = PartitionKey("other", "http://catalog", "mlflow:4567:default", "")


@pytest.fixture
def kept(url: str) -> Iterator[StateSession]:
    engine = open_state(url)
    with engine.transaction(write=True) as connection:
        for key in (HERE, BESIDE, ELSEWHERE, OTHER):
            partitions.begin(connection, key, "s", {"run": "urn:li:mlModel:x"})
            partitions.save_checkpoint(connection, key, {"since": 5}, 1_000, full=True)
            some = [
                RecordRow(key.id, "run", f"{n}", "d", f"urn:{n}", "", "", "", 1) for n in range(600)
            ]
            without = RecordRow(key.id, "run", "none", "d", "", "", "", "", 1)
            connection.execute_many(records.SAVE, [*some, without])
    engine.dispose()
    state = StateSession(url, StateOptions("r"))
    state.open(FakeSink(place="http://catalog"))
    yield state
    state.close()
    state.close()


def test_it_tells_what_was_written_to_this_catalog(kept: StateSession) -> None:
    assert kept.source_keys() == ["mlflow:0123:default", "mlflow:0123:team"]
    pages = list(kept.urns())
    assert sum(map(len, pages)) == 1_200
    assert max(map(len, pages)) == 500
    assert {urn for page in pages for urn in page} == {f"urn:{n}" for n in range(600)}


def test_what_is_invalidated_is_read_again_and_nothing_else(kept: StateSession, url: str) -> None:
    kept.invalidate()
    checkpoints = {
        (recipe, part.catalog, part.source): part.checkpoint
        for recipe in ("r", "other")
        for part in summary(url, recipe).parts
    }
    assert checkpoints == {
        ("r", "http://catalog", "mlflow:0123:default"): None,
        ("r", "http://catalog", "mlflow:0123:team"): None,
        ("r", "http://other", "mlflow:0123:default"): {"since": 5},
        ("other", "http://catalog", "mlflow:4567:default"): {"since": 5},
    }
    engine = open_state(url)
    with engine.transaction() as connection:
        digests = {
            key: {RecordRow(*row).digest for row in rows}
            for key in (HERE, ELSEWHERE, OTHER)
            for rows in [connection.execute(records.KNOWN, key.id, "run", ["1", "2"])]
        }
    engine.dispose()
    assert digests == {HERE: {""}, ELSEWHERE: {"d"}, OTHER: {"d"}}


def test_what_is_deleted_is_that_of_this_catalog(kept: StateSession, url: str) -> None:
    kept.delete()
    assert [part.catalog for part in summary(url, "r").parts] == ["http://other"]
    assert [part.records for part in summary(url, "r").parts] == [{"run": 601}]
    assert len(summary(url, "other").parts) == 1


def test_no_run_begins_meanwhile(kept: StateSession, url: str) -> None:
    engine = open_state(url)
    with pytest.raises(RecipeLockedError):
        acquire(engine, url, "r")
    kept.close()
    acquire(engine, url, "r").release()
    engine.dispose()
