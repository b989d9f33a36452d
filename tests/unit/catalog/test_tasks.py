import logging
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.engine import Connection

from mlcat_ingest.catalog import tasks as tasks_module
from mlcat_ingest.catalog.errors import BusyError
from mlcat_ingest.catalog.schema.values import Write
from mlcat_ingest.catalog.store import reindex
from mlcat_ingest.catalog.store.reindex import ReindexScope, count_aspects
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.tasks import Tasks
from support.catalog_store import incoming, open_store

GROUP = "urn:li:mlModelGroup:(urn:li:dataPlatform:mlflow,g,PROD)"


def model(number: int) -> str:
    return f"urn:li:mlModel:(urn:li:dataPlatform:mlflow,m{number},PROD)"


MODELS = ReindexScope(urn_like="urn:li:mlModel:%")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(tmp_path / "c.db")) as opened:
        opened.write(
            [Write(model(n), "mlModelProperties", {"groups": [GROUP]}) for n in range(5)]
            + [Write(model(n), "status", {"removed": False}) for n in range(5)]
        )
        yield opened


def done(tasks: Tasks, task: str) -> dict[str, Any]:
    tasks._threads.submit(lambda: None).result(20)
    node_id, _, number = task.partition(":")
    status = tasks.status(node_id, int(number))
    assert status is not None
    return status


def damage(connection: Connection) -> None:
    first = connection.scalar(text("SELECT min(source_id) FROM edge"))
    connection.execute(text(f"DELETE FROM edge WHERE source_id < {first + 2}"))
    for at, relationship, name in (
        (first + 2, "MemberOf", "mlModelProperties"),
        (first + 3, "OwnedBy", "ownership"),
    ):
        connection.execute(
            text(f"INSERT INTO edge VALUES ('urn:x', '{relationship}', {at}, '{name}')")
        )


def test_reindexing_mends_edges_and_counts_what_it_did(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reindex, "CHUNK", 2)
    before = incoming(store, GROUP)
    store.change(damage)
    with closing(Tasks(store)) as tasks:
        task = tasks.reindex(MODELS)
        status = done(tasks, task)
    assert status["completed"] is True
    assert status["taskId"] == task
    assert status["runTimeNanos"] > 0
    assert status["status"] == {
        "total": 10,
        "updated": 4,
        "created": 2,
        "deleted": 2,
        "batches": 3,
        "version_conflicts": 0,
        "noops": 6,
        "retries": {"bulk": 0, "search": 0},
        "throttled_millis": 0,
        "requests_per_second": -1.0,
        "throttled_until_millis": 0,
    }
    assert "failure" not in status
    assert incoming(store, GROUP) == before
    assert incoming(store, "urn:x").total == 0


@pytest.mark.parametrize(
    ("scope", "total"),
    [
        (ReindexScope(urn=model(1)), 2),
        (ReindexScope(urn_like="%,m_,%"), 10),
        (ReindexScope(urn_like="%Group%"), 0),
    ],
)
def test_reindexing_may_be_of_some_entities(store: Store, scope: ReindexScope, total: int) -> None:
    with closing(Tasks(store)) as tasks:
        status = done(tasks, tasks.reindex(scope))
    assert (status["status"]["total"], status["status"]["noops"]) == (total, total)


def test_a_task_outlives_its_process_and_is_known_on_its_node_only(store: Store) -> None:
    with closing(Tasks(store)) as tasks:
        node_id, _, number = tasks.reindex(ReindexScope()).partition(":")
        done(tasks, f"{node_id}:{number}")
    with closing(Tasks(store)) as later:
        assert later.node_id == node_id
        status = later.status(node_id, int(number))
        assert status is not None
        assert status["completed"] is True
        assert later.status("other", int(number)) is None
        assert later.status(node_id, int(number) + 1) is None


def blocked(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Hold the thread of the tasks between two transactions, until the second event is set."""
    reached, go_on = threading.Event(), threading.Event()

    def wait(connection: Connection, scope: ReindexScope) -> int:
        if threading.current_thread().name.startswith("catalog-task"):
            reached.set()
            assert go_on.wait(20)
        return count_aspects(connection, scope)

    monkeypatch.setattr(tasks_module, "count_aspects", wait)
    return reached, go_on


def test_a_running_task_says_so_and_a_stop_ends_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached, go_on = blocked(monkeypatch)
    tasks = Tasks(store)
    running, waiting = tasks.reindex(MODELS), tasks.reindex(MODELS)
    assert reached.wait(20)
    first = tasks.status(tasks.node_id, int(running.partition(":")[2]))
    assert first is not None
    assert (first["completed"], first["status"]["total"]) == (False, 10)
    closing_thread = threading.Thread(target=tasks.close)
    closing_thread.start()
    assert tasks._stopping.wait(20)
    go_on.set()
    closing_thread.join(20)
    for task in (running, waiting):
        status = tasks.status(tasks.node_id, int(task.partition(":")[2]))
        assert status is not None
        assert (status["completed"], "stopped" in status["failure"]) == (True, True)


def test_a_task_that_fails_says_why(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: object) -> None:
        raise BusyError("the disk is away")

    monkeypatch.setattr(tasks_module, "reindex_batch", fail)
    with closing(Tasks(store)) as tasks:
        status = done(tasks, tasks.reindex(ReindexScope()))
    assert (status["completed"], status["failure"]) == (True, "the disk is away")


def test_a_defect_in_a_task_is_logged(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_args: object) -> None:
        raise KeyError("a defect")

    monkeypatch.setattr(tasks_module, "count_aspects", lambda *_args: 1)
    with closing(Tasks(store)) as tasks, caplog.at_level(logging.ERROR):
        monkeypatch.setattr(tasks, "_work", fail)
        assert done(tasks, tasks.reindex(ReindexScope()))["completed"] is False
    assert "ended without a result" in caplog.text
