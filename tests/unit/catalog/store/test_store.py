import threading
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, inspect, text
from sqlalchemy.engine import Connection
from sqlalchemy.exc import OperationalError

from mlcat_ingest.catalog.errors import BusyError, InvalidProposalError, VersionConflictError
from mlcat_ingest.catalog.schema import tables
from mlcat_ingest.catalog.schema.values import DeletionResult, Write, WriteResult
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.errors import MlcatError, RecipeError
from support.catalog_store import counts, named

GROUP = "urn:li:mlModelGroup:(urn:li:dataPlatform:mlflow,g,PROD)"


def model(name: str) -> str:
    return f"urn:li:mlModel:(urn:li:dataPlatform:mlflow,{name},PROD)"


def count_rows(table: str, connection: Connection) -> int:
    return int(connection.scalar(text(f"SELECT count(*) FROM {table}")))


def put(urn: str, value: dict[str, Any], **more: Any) -> Write:
    return Write(urn, "mlModelProperties", value, **more)


def test_the_tables_made_are_the_tables_declared(store: Store) -> None:
    def columns(connection: Connection) -> dict[str, list[str]]:
        seen = inspect(connection)
        return {
            name: [column["name"] for column in seen.get_columns(name)]
            for name in tables.entity.metadata.tables
        }

    declared = {
        name: [column.name for column in table.columns]
        for name, table in tables.entity.metadata.tables.items()
    }
    assert store.read(columns) == declared


def test_what_is_written_is_read_back_with_its_stamps(store: Store) -> None:
    urn = model("m")
    value = {"description": "é\x00😀", "customProperties": {"b": "1", "a": "2"}}
    system = {"runId": "r", "lastObserved": 5}
    written = store.write([put(urn, value, system_metadata=system)], "urn:li:corpuser:ann")
    assert written == [WriteResult(urn, "mlModelProperties", 1, changed=True)]
    stored = store.get_many([urn])[urn]["mlModelProperties"]
    assert stored.value == value
    assert list(stored.value["customProperties"]) == ["b", "a"]
    assert (stored.version, stored.created_by, stored.modified_by) == (
        1,
        "urn:li:corpuser:ann",
        "urn:li:corpuser:ann",
    )
    assert stored.created_ms == stored.modified_ms > 1_700_000_000_000
    wire = stored.wire_system_metadata()
    assert (wire["runId"], wire["version"]) == ("r", "1")
    assert wire["aspectCreated"] == {"time": stored.created_ms, "actor": "urn:li:corpuser:ann"}


def test_a_change_makes_a_version_and_keeps_the_one_before(store: Store) -> None:
    urn = model("m")
    store.write([put(urn, {"description": "one"})], "urn:li:corpuser:ann")
    store.write([put(urn, {"description": "two"})], "urn:li:corpuser:bob")
    store.write([put(urn, {"description": "three"})], "urn:li:corpuser:bob")
    latest = store.get_version(urn, "mlModelProperties", 0)
    assert latest is not None
    assert (latest.version, latest.created_by, latest.modified_by) == (
        3,
        "urn:li:corpuser:ann",
        "urn:li:corpuser:bob",
    )
    found = [store.get_version(urn, "mlModelProperties", version) for version in (1, 2, 3, 4)]
    assert [one.value["description"] if one else None for one in found] == [
        "one",
        "two",
        "three",
        None,
    ]
    assert store.get_version(model("other"), "mlModelProperties", 1) is None


@pytest.mark.parametrize(
    ("before", "after", "version"),
    [
        ({"description": "x"}, {"description": "x"}, 1),
        ({"description": "x", "type": "t"}, {"type": "t", "description": "x"}, 1),
        ({"date": 1}, {"date": 2}, 2),
        ({"customProperties": {"n": "1"}}, {"customProperties": {"n": "2"}}, 2),
        ({"date": 1}, {"date": 1.9}, 1),
        ({"date": 1}, {"date": 1, "unknown": True}, 1),
    ],
)
def test_only_a_change_makes_a_version(
    store: Store, before: dict[str, Any], after: dict[str, Any], version: int
) -> None:
    store.write([put(model("m"), before)])
    [written] = store.write([put(model("m"), after)])
    assert (written.version, written.changed) == (version, version == 2)


def test_an_upsert_replaces_the_aspect_as_given(store: Store) -> None:
    urn = model("m")
    store.write([put(urn, {"description": "x", "groups": [GROUP]})])
    store.write([put(urn, {"type": "t"})])
    assert store.get_many([urn])[urn]["mlModelProperties"].value == {"type": "t"}


def test_the_items_of_a_batch_take_effect_in_their_order(store: Store) -> None:
    urn = model("m")
    store.write([put(urn, {"description": "0"})])
    written = store.write(
        [put(urn, {"description": str(n)}) for n in (1, 2)]
        + [put(model("new"), {"description": str(n)}) for n in (1, 2)]
        + [Write(urn, "status", {"removed": True})]
    )
    assert [item.version for item in written] == [2, 3, 1, 2, 1]
    assert store.get_many([urn])[urn]["mlModelProperties"].value == {"description": "2"}
    oldest = store.get_version(model("new"), "mlModelProperties", 1)
    assert oldest is not None
    assert oldest.value == {"description": "1"}


def test_a_batch_is_written_whole_or_not_at_all(store: Store) -> None:
    good = put(model("good"), {"description": "x"})
    with pytest.raises(InvalidProposalError) as caught:
        store.write([good, put(model("bad"), {"description": 3})])
    assert "description" in str(caught.value)
    assert store.read(counts) == {}


def test_create_refuses_what_exists(store: Store) -> None:
    urn = model("m")
    assert store.write([put(urn, {"type": "a"}, change="CREATE")])[0].version == 1
    with pytest.raises(InvalidProposalError, match="since the aspect already exists"):
        store.write([put(urn, {"type": "b"}, change="CREATE")])
    with pytest.raises(InvalidProposalError, match="the entity key already exists"):
        store.write([Write(urn, "status", {"removed": False}, change="CREATE_ENTITY")])
    store.write([Write(urn, "status", {"removed": False}, change="CREATE")])
    skipped = store.write([put(urn, {"type": "b"}, change="CREATE", skip_if_exists=True)])
    assert skipped == [WriteResult(urn, "mlModelProperties", 1, changed=False)]
    assert store.get_many([urn])[urn]["mlModelProperties"].value == {"type": "a"}


def test_the_key_created_by_a_batch_does_not_stand_in_its_own_way(store: Store) -> None:
    urn = model("m")
    batch = [
        Write(
            urn,
            "mlModelKey",
            {"platform": "urn:li:dataPlatform:mlflow", "name": "m", "origin": "PROD"},
            change="CREATE_ENTITY",
        ),
        put(urn, {"type": "a"}, change="CREATE"),
        Write(urn, "status", {"removed": False}, change="CREATE_ENTITY"),
    ]
    assert [item.version for item in store.write(batch)] == [1, 1, 1]
    with pytest.raises(InvalidProposalError, match="entity key already exists"):
        store.write(batch[2:])


def test_a_key_aspect_says_what_its_urn_says(store: Store) -> None:
    urn = model("a%2Cb")
    key = {"platform": "urn:li:dataPlatform:mlflow", "name": "something else", "origin": "DEV"}
    assert store.write([Write(urn, "mlModelKey", key)])[0].changed
    assert not store.write([Write(urn, "mlModelKey", key)])[0].changed
    assert store.exists([urn]) == {urn}
    found = store.get_many([urn])[urn]
    assert list(found) == ["mlModelKey", "browsePathsV2", "dataPlatformInstance"]
    assert found["mlModelKey"].value == {
        "platform": "urn:li:dataPlatform:mlflow",
        "name": "a%2Cb",
        "origin": "PROD",
    }


def test_deleting_takes_everything_an_entity_has(store: Store) -> None:
    def rows() -> dict[str, int]:
        return {
            name: store.read(partial(count_rows, name))
            for name in ("entity", "aspect", "aspect_history", "edge")
        }

    before = rows()
    urn = model("m")
    store.write([put(urn, {"groups": [GROUP]}), Write(urn, "status", {"removed": False})])
    store.write([put(urn, {"groups": []})])
    assert store.delete(urn) == DeletionResult(3)
    assert store.delete(urn) == DeletionResult()
    assert store.get_many([urn]) == {}
    assert rows() == before


def test_entity_types_that_clients_send_beside_ours_are_kept_whole(store: Store) -> None:
    urn = "urn:li:dataHubIngestionSource:abc"
    value = {"name": "x", "config": {"deep": [{"a": None}]}}
    store.write([Write(urn, "dataHubIngestionSourceInfo", value)])
    found = store.get_many([urn])[urn]
    assert found["dataHubIngestionSourceInfo"].value == value
    assert found["dataHubIngestionSourceKey"].value == {"id": "abc"}


@pytest.mark.parametrize(
    ("write", "sentence"),
    [
        (Write("no urn", "status", {}), "entityUrn: .*not a URN"),
        (
            Write("urn:li:mlModle:x", "status", {}),
            "entityUrn: 'mlModle' is not .*did you mean 'mlModel'",
        ),
        (
            Write("urn:li:zzzzzzzz:x", "status", {}),
            "entityUrn: 'zzzzzzzz' is not an entity type of",
        ),
        (Write("urn:li:mlModel:(a,b)", "status", {}), "entityUrn: "),
        (Write(model("m").replace("PROD", "MARS"), "status", {}), "'MARS' is not an environment"),
        (Write(model("x" * 500), "status", {}), "more than 512 bytes"),
        (Write("urn:li:tag:a\x00b", "status", {}), "NUL"),
        (
            Write(model("m"), "mlModelGroupProperties", {}),
            "Unknown aspect mlModelGroupProperties for entity mlModel",
        ),
        (Write(model("m"), "qqq", {}), "Unknown aspect qqq for entity mlModel$"),
        (Write("urn:li:form:x", "qqq", {}), "Unknown aspect qqq for entity form$"),
        (Write("urn:li:chart:x", "status", {}), "does not have 2 parts"),
        (Write("urn:li:metric:x", "status", {}), "does not have 3 parts"),
        (
            put(model("m"), {"trainingMetrics": [{"name": "a"}, {"value": "1"}]}),
            "/trainingMetrics/1/name :: field is required",
        ),
        (put(model("m"), {"groups": [model("x")]}), "/groups/0 :: .* is not a valid destination"),
        (put(model("m"), {"customProperties": {"a": float("nan")}}), "customProperties"),
        (put(model("m"), {"name": None}), "/name :: null cannot be coerced to String"),
        (Write("urn:li:mlFeature:(t,f)", "mlFeatureProperties", {"dataType": "TXT"}), "dataType"),
    ],
)
def test_what_cannot_be_stored_is_refused_by_the_name_of_its_field(
    store: Store, write: Write, sentence: str
) -> None:
    with pytest.raises(InvalidProposalError, match=sentence):
        store.write([write])
    assert store.read(counts) == {}


def test_names_follow_the_properties(store: Store) -> None:
    urn = model("m")
    store.write([Write(urn, "status", {"removed": False}), put(urn, {"name": "first"})])
    assert named(store, "first") == (urn,)
    store.write([put(urn, {"name": "second"}), put(urn, {"name": "first"})])
    assert named(store, "second") == ()
    store.write([Write(urn, "editableMlModelProperties", {"name": "third"})])
    assert named(store, "FIRST") == (urn,)
    store.write([put(urn, {"name": ""})])
    assert named(store, "first") == ()


def test_writers_that_meet_share_a_commit_and_keep_their_own_outcome(store: Store) -> None:
    inside, go_on = threading.Event(), threading.Event()
    outcomes: dict[str, object] = {}

    def hold(_connection: Connection) -> str:
        inside.set()
        assert go_on.wait(10)
        return "held"

    def attempt(name: str, item: Write) -> None:
        try:
            outcomes[name] = store.write([item])
        except MlcatError as error:
            outcomes[name] = type(error)

    first = threading.Thread(target=store.change, args=(hold,))
    first.start()
    assert inside.wait(10)
    items = {
        "good": put(model("good"), {"type": "a"}),
        "late": put(model("good"), {"type": "b"}, expected_version="7"),
        "other": put(model("other"), {"type": "a"}),
    }
    threads = [threading.Thread(target=attempt, args=pair) for pair in items.items()]
    for thread in threads:
        thread.start()
    while len(store._writer._queue) < 3:
        threading.Event().wait(0.001)
    commits: list[object] = []
    event.listen(store._engine, "commit", commits.append)
    go_on.set()
    for thread in [first, *threads]:
        thread.join(10)
    assert len(commits) == 2
    assert outcomes["late"] is VersionConflictError
    assert outcomes["good"] == [WriteResult(model("good"), "mlModelProperties", 1, changed=True)]
    assert store.exists([model("good"), model("other")]) == {model("good"), model("other")}


def test_a_job_that_breaks_the_transaction_fails_its_neighbours_so_that_they_try_again(
    store: Store,
) -> None:
    inside, go_on = threading.Event(), threading.Event()
    outcomes: list[type[Exception]] = []

    def hold(_connection: Connection) -> None:
        inside.set()
        assert go_on.wait(10)

    def break_it(connection: Connection) -> None:
        connection.exec_driver_sql("SELECT * FROM what_is_not_there")

    def attempt(job: Any) -> None:
        try:
            store.change(job)
        except (OperationalError, BusyError) as error:
            outcomes.append(type(error))

    first = threading.Thread(target=store.change, args=(hold,))
    first.start()
    assert inside.wait(10)
    threads = []
    for job in (break_it, lambda _connection: None):
        threads.append(threading.Thread(target=attempt, args=(job,)))
        threads[-1].start()
        while len(store._writer._queue) < len(threads):
            threading.Event().wait(0.001)
    go_on.set()
    for thread in [first, *threads]:
        thread.join(10)
    assert sorted(kind.__name__ for kind in outcomes) == ["BusyError", "OperationalError"]
    store.write([put(model("m"), {"type": "a"})])


def test_a_database_that_somebody_else_holds_is_busy(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlcat_ingest.sql.database._SQLITE_PRAGMAS", ("PRAGMA busy_timeout=1",))
    store.close()
    with closing(Store.open(tmp_path / "c.db")) as other:

        def meanwhile(_connection: Connection) -> None:
            with pytest.raises(BusyError, match="another process has locked"):
                store.write([put(model("m"), {"type": "a"})])

        other.change(meanwhile)


def test_other_database_errors_stay_what_they_are(store: Store) -> None:
    def misspelled(connection: Connection) -> None:
        connection.execute(text("SELECT * FROM nowhere"))

    with pytest.raises(OperationalError, match="nowhere"):
        store.change(misspelled)


@pytest.mark.parametrize("where", [":memory:", "sqlite://", "postgresql://h/d"])
def test_the_store_is_a_file(where: str) -> None:
    with pytest.raises(RecipeError, match="SQLite file"):
        Store.open(where)


def test_a_store_in_no_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="unable to open database file"):
        Store.open(tmp_path / "no" / "c.db")


def test_a_database_of_a_newer_version_is_refused(store: Store, tmp_path: Path) -> None:
    store.change(
        lambda c: c.execute(text("INSERT INTO mlcat_migration VALUES ('catalog', 99, 'later', 0)"))
    )
    with pytest.raises(RecipeError, match="newer version of mlcat-ingest: it has 'later'"):
        Store.open(tmp_path / "c.db")
