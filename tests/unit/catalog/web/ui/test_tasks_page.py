"""The page of index tasks: tasks that ran, run, wait and failed."""

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest
from sqlalchemy.engine import Connection

from mlcat_ingest.catalog import tasks as tasks_module
from mlcat_ingest.catalog.errors import BusyError
from mlcat_ingest.catalog.store.reads import Span
from mlcat_ingest.catalog.store.reindex import ReindexScope
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.tasks import Tasks
from support.catalog_store import model, put
from support.pages import page

ALL = ReindexScope()
EVENTS = Span("operation", None, None)


@pytest.fixture
def tasks(store: Store) -> Iterator[Tasks]:
    put(store, model("m"), mlModelProperties={"name": "m"})
    with closing(Tasks(store)) as running:
        yield running


def finish(tasks: Tasks) -> None:
    tasks._threads.submit(lambda: None).result(20)


def test_a_catalog_without_tasks(store: Store) -> None:
    assert "No index tasks." in page(store, "/tasks").text
    assert "/tasks" not in page(store, "/").links


def test_completed_tasks_show_their_progress_and_result(store: Store, tasks: Tasks) -> None:
    first = tasks.reindex(ReindexScope(urn=model("m")))
    second = tasks.truncate("dataset", EVENTS)
    finish(tasks)
    found = page(store, "/tasks")
    assert f"Rebuild of edges and search index {first} completed 1 of 1" in found.text
    assert "0 aspects mended, 0 edges added, 0 edges deleted" in found.text
    assert f"Deletion of events {second} completed 0 of 0 0 events deleted" in found.text
    assert found.text.index(second) < found.text.index(first)
    assert page(store, "/").links["/tasks"] == "2 Index tasks"


def test_tasks_that_run_and_wait(
    store: Store, tasks: Tasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    monkeypatch.setattr(tasks, "_work", lambda *_: go_on.wait(20))
    tasks.reindex(ALL)
    tasks.reindex(ALL)
    found = page(store, "/tasks").text
    go_on.set()
    finish(tasks)
    assert found.index("waiting") < found.index("running")


def test_failed_and_interrupted_tasks_say_why(
    store: Store, tasks: Tasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_connection: Connection, _scope: ReindexScope, _place: int) -> None:
        raise BusyError("<b>locked</b>")

    monkeypatch.setattr(tasks_module, "reindex_batch", refuse)
    tasks.reindex(ALL)
    finish(tasks)
    found = page(store, "/tasks")
    assert "failed" in found.text
    assert "<b>locked</b>" in found.text
    store.change(lambda connection: connection.exec_driver_sql("UPDATE task SET completed = 0"))
    with closing(Tasks(store)):
        assert "the catalog stopped before the task finished" in page(store, "/tasks").text


def test_tasks_have_pages(store: Store, tasks: Tasks) -> None:
    names = [tasks.truncate("dataset", EVENTS) for _ in range(51)]
    finish(tasks)
    first = page(store, "/tasks")
    assert "/tasks?start=50" in first.links
    assert f" {names[0]} " not in first.text
    assert f" {names[0]} " in page(store, "/tasks?start=50").text
