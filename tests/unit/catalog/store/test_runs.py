from typing import Any

import pytest

from mlcat_ingest.catalog.errors import BadRequestError
from mlcat_ingest.catalog.schema.values import IngestionRun, Rollback, RunRow, Write
from mlcat_ingest.catalog.store import runs as rollback_module
from mlcat_ingest.catalog.store.runs import describe_run, list_runs, plan_rollback, roll_back
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.store.timeseries import Span, read_events
from support.catalog_store import MLFLOW, group, model, named, put

PROPERTIES = "mlModelProperties"
EVENT = "dataProcessInstanceRunEvent"


def write(store: Store, run_id: str, urn: str, **aspects: Any) -> None:
    metadata = {"runId": run_id, "lastObserved": 1}
    store.write(
        [Write(urn, name, value, system_metadata=metadata) for name, value in aspects.items()]
    )


def value(store: Store, urn: str, name: str = PROPERTIES) -> Any:
    held = store.get_many([urn]).get(urn, {}).get(name)
    return None if held is None else held.value


def runs(store: Store, **more: Any) -> dict[str, int]:
    found = store.read(lambda c: list_runs(c, 0, 100, **more))
    return {run.run_id: run.rows for run in found}


@pytest.fixture(params=[500, 1])
def batches(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollback_module, "_AT_ONCE", request.param)


def test_runs_are_listed_with_what_they_wrote(store: Store) -> None:
    write(store, "r1", model("a"), mlModelProperties={"name": "1"}, status={"removed": False})
    write(store, "r2", model("a"), mlModelProperties={"name": "2"})
    write(
        store,
        "r1",
        "urn:li:dataProcessInstance:p",
        **{EVENT: {"timestampMillis": 1, "status": "COMPLETE"}},
    )
    put(store, model("a"), subTypes={"typeNames": []})
    write(store, "no-run-id-provided", model("a"), ownership={"owners": []})
    write(store, "", model("b"), ownership={"owners": []})
    assert runs(store) == {"r1": 3, "r2": 1}
    first, second = store.read(lambda c: list_runs(c, 0, 2))
    assert first.timestamp_ms >= second.timestamp_ms > 1_700_000_000_000
    assert isinstance(first, IngestionRun)
    assert store.read(lambda c: list_runs(c, 2, 2)) == ()
    rows = store.read(lambda c: describe_run(c, "r1", 0, 10))
    assert [(row.urn, row.aspect, row.version, row.current) for row in rows] == [
        (model("a"), PROPERTIES, 1, False),
        (model("a"), "status", 1, True),
        ("urn:li:dataProcessInstance:p", EVENT, 0, True),
    ]
    assert store.read(lambda c: describe_run(c, "r1", 1, 1)) == rows[1:2]
    assert store.read(lambda c: describe_run(c, "none", 0, 10)) == ()
    put(store, model("a"), status={"removed": True})
    assert runs(store, include_removed=False) == {"r1": 1}


@pytest.mark.usefixtures("batches")
def test_a_run_is_taken_back(store: Store) -> None:
    put(store, model("old"), mlModelProperties={"name": "before", "groups": [group("g")]})
    write(store, "r", model("old"), mlModelProperties={"name": "run"}, subTypes={"typeNames": []})
    write(store, "r", model("old"), mlModelProperties={"name": "again"})
    write(store, "r", model("new"), mlModelProperties={"name": "made"}, status={"removed": False})
    write(store, "r", model("shared"), mlModelProperties={"name": "made"})
    put(store, model("shared"), status={"removed": False})
    write(store, "r", model("over"), mlModelProperties={"name": "run"})
    put(store, model("over"), mlModelProperties={"name": "after"})
    plan = store.read(lambda c: plan_rollback(c, "r"))
    assert plan == Rollback(5, 1, 0, 3, 1, plan.rows)
    assert len(plan.rows) == 5
    assert isinstance(plan.rows[0], RunRow)
    assert roll_back(store, "r") == plan
    assert value(store, model("old")) == {"name": "before", "groups": [group("g")]}
    assert value(store, model("old"), "subTypes") is None
    assert store.get_many([model("old")])[model("old")][PROPERTIES].version == 4
    assert named(store, "before") == (model("old"),)
    assert store.exists([model("new"), model("shared")]) == {model("shared")}
    assert value(store, model("shared")) is None
    assert value(store, model("over")) == {"name": "after"}
    assert runs(store) == {}
    assert roll_back(store, "r") == Rollback()


@pytest.mark.usefixtures("batches")
def test_runs_are_taken_back_in_any_order(store: Store) -> None:
    urn = put(store, model("m"), mlModelProperties={"name": "0"})
    for run_id in ("r1", "r2", "r3"):
        write(store, run_id, urn, mlModelProperties={"name": run_id})
    roll_back(store, "r2")
    assert value(store, urn) == {"name": "r3"}
    roll_back(store, "r3")
    assert value(store, urn) == {"name": "r1"}
    assert runs(store) == {"r1": 2}
    roll_back(store, "r1")
    assert value(store, urn) == {"name": "0"}


def test_the_events_of_a_run_go_with_it(store: Store) -> None:
    kept, made = "urn:li:dataProcessInstance:kept", "urn:li:dataProcessInstance:made"
    put(store, kept, **{EVENT: {"timestampMillis": 1, "status": "STARTED"}})
    for urn in (kept, made):
        write(store, "r", urn, **{EVENT: {"timestampMillis": 2, "status": "COMPLETE"}})
    done = roll_back(store, "r")
    assert (done.reverted, done.events, done.entities, done.deleted_entities) == (0, 2, 2, 1)
    assert [row.urn for row in done.rows] == [kept, made]
    found = store.read(lambda c: read_events(c, [kept, made], Span(EVENT), 10))
    assert [one.timestamp_ms for one in found[kept]] == [1]
    assert store.exists([kept, made]) == {kept}


def test_a_value_that_the_run_left_as_it_was_stays(store: Store) -> None:
    urn = put(store, model("m"), mlModelProperties={"name": "0"})
    write(store, "r", urn, mlModelProperties={"name": "1"})
    write(store, "r", urn, mlModelProperties={"name": "0"})
    assert roll_back(store, "r").reverted == 1
    assert value(store, urn) == {"name": "0"}
    assert runs(store) == {}


def test_a_default_that_a_run_wrote_is_the_default_again(store: Store) -> None:
    urn = put(store, model("m"), mlModelProperties={})
    instance = {"platform": MLFLOW, "instance": f"urn:li:dataPlatformInstance:({MLFLOW},x)"}
    write(store, "r", urn, dataPlatformInstance=instance)
    roll_back(store, "r")
    assert value(store, urn, "dataPlatformInstance") == {"platform": MLFLOW}


@pytest.mark.parametrize("run_id", ["", "no-run-id-provided"])
def test_no_run_cannot_be_taken_back(store: Store, run_id: str) -> None:
    put(store, model("m"), mlModelProperties={})
    with pytest.raises(BadRequestError, match="is not a known run"):
        roll_back(store, run_id)
    assert store.exists([model("m")])
