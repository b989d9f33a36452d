"""Rows of records in the state database, on SQLite and PostgreSQL."""

from mlcat_ingest.pipeline.state import partitions, records
from mlcat_ingest.pipeline.state.opening import open_state
from mlcat_ingest.pipeline.state.partitions import PartitionKey
from mlcat_ingest.pipeline.state.records import RecordRow
from mlcat_ingest.sql.database import SqlConnection

KEY = PartitionKey("r", "http://catalog", "mlflow:0123:default", "")


def columns(connection: SqlConnection) -> dict[str, tuple[str, str]]:
    wanted = "SELECT id, digest, aspect_stamps FROM state_record"
    return {one: (digest, stamps) for one, digest, stamps in connection.execute(wanted)}


def test_a_record_that_equals_nothing_any_more_has_neither_fingerprint_nor_stamps(
    url: str,
) -> None:
    engine = open_state(url)
    with engine.transaction(write=True) as connection:
        part_id = partitions.begin(connection, KEY, "s", {}).key.id
        urns = {"a": "urn:a", "b": "urn:b\nurn:c"}
        kept = ("d", '{"urn:a":{"mlModelProperties":"1 5 run"}}')
        connection.execute_many(
            records.SAVE,
            [
                RecordRow(part_id, "run", one, "d", held, "", "", "", 1, kept[1])
                for one, held in urns.items()
            ],
        )
        records.delete_entities(connection, part_id, ["urn:c"])
        assert columns(connection) == {"a": kept, "b": ("", "")}
        partitions.invalidate(connection, KEY.recipe, KEY.sink)
        assert columns(connection) == {"a": ("", ""), "b": ("", "")}
    engine.dispose()
