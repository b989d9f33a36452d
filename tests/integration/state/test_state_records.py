"""Rows of records in the state database, on SQLite and PostgreSQL."""

import pytest

from mlcat_ingest.pipeline.state import partitions, records
from mlcat_ingest.pipeline.state.database import open_state
from mlcat_ingest.pipeline.state.partitions import PartitionKey
from mlcat_ingest.pipeline.state.records import RecordRow
from mlcat_ingest.sql.database import Engine

pytestmark = pytest.mark.integration

KEY = PartitionKey("r", "http://catalog", "mlflow:0123:default", "")


def columns(engine: Engine) -> dict[str, tuple[str, str]]:
    wanted = "SELECT id, digest, aspect_stamps FROM state_record"
    with engine.connect() as connection:
        return {one: (digest, stamps) for one, digest, stamps in connection.execute(wanted)}


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
