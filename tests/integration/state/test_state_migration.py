"""The state that an earlier version kept: migrated when it is opened, and believed."""

from pathlib import Path

import pytest

from mlcat_ingest.pipeline.state import partitions, records
from mlcat_ingest.pipeline.state.database import open_database, open_state
from mlcat_ingest.pipeline.state.partitions import PartitionKey, PartitionPass
from mlcat_ingest.pipeline.state.records import KnownRecord, RecordRow
from mlcat_ingest.pipeline.state.results import failing_tests
from mlcat_ingest.pipeline.state.session import StateOptions, StatePolicy, StateSession
from mlcat_ingest.pipeline.state.tables import COMPONENT, MIGRATIONS
from mlcat_ingest.sources.base import Partition
from mlcat_ingest.sql.database import Engine, pending, write_transaction
from support.fakes import FakeSink, model_urn

pytestmark = pytest.mark.integration

DUMP = Path(__file__).parents[2] / "data" / "state" / "before_fingerprints.sql"
PLACE = "http://catalog"
KEY = PartitionKey("r", PLACE, "mlflow:0123:default", "")


def load(url: str) -> None:
    if url.startswith("sqlite:"):
        Path(url.removeprefix("sqlite:///")).parent.mkdir()
    engine = open_database(url)
    with write_transaction(engine) as connection:
        for statement in DUMP.read_text().split(";\n")[:-1]:
            connection.execute(statement)
    engine.dispose()


def columns(engine: Engine) -> dict[str, tuple[str, str]]:
    wanted = "SELECT id, digest, aspect_stamps FROM state_record"
    with engine.connect() as connection:
        return {one: (digest, stamps) for one, digest, stamps in connection.execute(wanted)}


def test_a_run_goes_on_from_the_state_of_an_earlier_version(url: str) -> None:
    load(url)
    sink = FakeSink(place=PLACE)
    for name in "abc":
        sink.put(model_urn(name), "mlModelKey", {"name": name})
    state = StateSession(url, StateOptions("r", full_every_s=1e12))
    state.open(sink)
    found = state.partition(Partition(KEY.source, "", {"run": model_urn("0")}, "s"))
    assert isinstance(found, PartitionPass)
    assert (found.full, found.checkpoint, found.number) == (None, {"since": 5}, 2)
    assert (found.fingerprints("run"), found.joined_fingerprints("run")) == (
        {"b": "open"},
        {"b": "joined"},
    )
    assert found.dirty("run") == ["refused"]
    assert state.tracker.entities.absent_urns(found) == {model_urn("gone")}
    state.close()


def test_what_an_earlier_version_kept_stays_and_new_columns_are_empty(url: str) -> None:
    load(url)
    engine = open_state(url)
    assert records.read(engine, KEY.id, "run", ["a", "b"]) == {
        "a": KnownRecord("d1", "", "", (model_urn("a"),)),
        "b": KnownRecord("d2", "open", "joined", (model_urn("b"), model_urn("c"))),
    }
    assert failing_tests(engine, "r", PLACE) == {model_urn("a"): ("urn:li:test:owned",)}
    assert columns(engine) == {"a": ("d1", ""), "b": ("d2", ""), "refused": ("", "")}
    engine.dispose()


def test_names_are_not_looked_up_in_the_state_of_an_earlier_version_nor_is_it_migrated(
    url: str,
) -> None:
    load(url)
    state = StateSession(url, StateOptions("r"), StatePolicy.NAMES)
    state.open(FakeSink(place=PLACE))
    other = Partition(KEY.source, "", {"run": model_urn("renamed")}, "s")
    assert state.partition(other).checkpoint is None
    state.close()
    engine = open_database(url)
    with engine.connect() as connection:
        assert pending(connection, COMPONENT, MIGRATIONS) == MIGRATIONS[3:]
    engine.dispose()


def test_a_record_that_equals_nothing_any_more_has_neither_fingerprint_nor_stamps(
    url: str,
) -> None:
    engine = open_state(url)
    part_id = partitions.begin(engine, KEY, "s").key.id
    urns = {"a": "urn:a", "b": "urn:b\nurn:c"}
    kept = ("d", '{"urn:a":{"mlModelProperties":"1 5 run"}}')
    records.save(
        engine,
        [
            RecordRow(part_id, "run", one, "d", held, "", "", "", 1, kept[1])
            for one, held in urns.items()
        ],
    )
    records.delete_entities(engine, part_id, ["urn:c"])
    assert columns(engine) == {"a": kept, "b": ("", "")}
    partitions.invalidate(engine, KEY.recipe, KEY.sink)
    assert columns(engine) == {"a": ("", ""), "b": ("", "")}
    engine.dispose()
