from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.engine import Connection

from mlcat_ingest.catalog.errors import InvalidProposalError
from mlcat_ingest.catalog.schema.values import DeletionResult, TimeseriesEvent, Write, WriteResult
from mlcat_ingest.catalog.store import reads
from mlcat_ingest.catalog.store.reads import Span, count_events, delete_events, truncate_batch
from mlcat_ingest.catalog.store.store import Store

RUN = "urn:li:dataProcessInstance:run{}"
ASPECT = "dataProcessInstanceRunEvent"
DATASET = "urn:li:dataset:(urn:li:dataPlatform:s3,a,PROD)"


def event(at: int, status: str = "STARTED", **more: Any) -> dict[str, Any]:
    return {"timestampMillis": at, "status": status, **more}


def write(
    store: Store, urn: str, *events: dict[str, Any], aspect: str = ASPECT
) -> list[WriteResult]:
    return store.write([Write(urn, aspect, value) for value in events])


def read(store: Store, urn: str, span: Span, limit: int = 100) -> tuple[TimeseriesEvent, ...]:
    return store.read(lambda c: reads.read_events(c, urn, span, limit))


def times(store: Store, urn: str, *, limit: int = 100, **span: int) -> list[int]:
    return [one.timestamp_ms for one in read(store, urn, Span(ASPECT, **span), limit)]


def test_events_come_newest_first_within_their_span(store: Store) -> None:
    urn = RUN.format(1)
    written = write(store, urn, *(event(at) for at in (3, 1, 5, 2, 4)))
    assert written[0] == WriteResult(urn, ASPECT, 0, changed=True)
    assert times(store, urn) == [5, 4, 3, 2, 1]
    assert times(store, urn, limit=2) == [5, 4]
    assert times(store, urn, limit=0) == []
    assert times(store, urn, start_ms=2, end_ms=4) == [4, 3, 2]
    assert times(store, RUN.format(2)) == []
    assert read(store, urn, Span("operation")) == ()
    assert list(store.get_many([urn])[urn]) == ["dataProcessInstanceKey"]


def test_an_event_written_again_is_one_event(store: Store) -> None:
    urn = RUN.format(1)
    first = event(7, attempt=1)
    write(store, urn, first, first)
    write(store, urn, first, event(7, attempt=2), event(7, "COMPLETE"), event(7, messageId="m"))
    held = [one.value for one in read(store, urn, Span(ASPECT))]
    assert len(held) == 3
    assert event(7, attempt=2) in held
    assert event(7, "COMPLETE") in held


def test_an_event_keeps_what_was_sent_with_it(store: Store) -> None:
    urn = RUN.format(1)
    store.write([Write(urn, ASPECT, event(7), system_metadata={"runId": "r", "lastObserved": 1})])
    assert read(store, urn, Span(ASPECT)) == (
        TimeseriesEvent(7, event(7), {"runId": "r", "lastObserved": 1}),
    )


@pytest.mark.parametrize(
    ("urn", "aspect", "value"),
    [
        (DATASET, "datasetProfile", {"timestampMillis": 1, "rowCount": 5}),
        (DATASET, "operation", {"timestampMillis": 1, "operationType": "INSERT"}),
        ("urn:li:assertion:a", "assertionRunEvent", {"timestampMillis": 1, "status": "COMPLETE"}),
    ],
)
def test_series_of_other_kinds_are_kept_too(
    store: Store, urn: str, aspect: str, value: dict[str, Any]
) -> None:
    write(store, urn, value, {**value, "timestampMillis": 2}, aspect=aspect)
    assert [one.value["timestampMillis"] for one in read(store, urn, Span(aspect))] == [2, 1]
    assert store.delete(urn) == DeletionResult(1, 2)
    assert read(store, urn, Span(aspect)) == ()


def test_events_are_deleted_by_their_time(store: Store) -> None:
    for number in (1, 2):
        write(store, RUN.format(number), *(event(at) for at in range(10)))
    write(store, RUN.format(1), *(event(at, "COMPLETE") for at in range(3)))

    def count(**span: int) -> int:
        return store.read(lambda c: count_events(c, "dataProcessInstance", Span(ASPECT, **span)))

    assert (count(), count(end_ms=2), count(start_ms=9)) == (23, 9, 2)
    gone = store.change(lambda c: delete_events(c, RUN.format(1), Span(ASPECT, 8)))
    assert gone == 2
    assert store.change(lambda c: delete_events(c, RUN.format(9), Span(ASPECT))) == 0

    def truncate(connection: Connection) -> int:
        return truncate_batch(connection, "dataProcessInstance", Span(ASPECT, end_ms=4), 5)

    assert [store.change(truncate) for _ in range(4)] == [5, 5, 3, 0]
    assert times(store, RUN.format(1)) == [7, 6, 5]
    assert store.read(lambda c: count_events(c, "dataset", Span(ASPECT))) == 0


def test_deleting_the_aspect_empties_the_series(store: Store) -> None:
    urn = RUN.format(1)
    write(store, urn, event(1), event(2))
    [one] = store.write([Write(urn, ASPECT, change="DELETE")])
    assert one.changed
    assert times(store, urn) == []
    store.write(
        [
            Write(urn, ASPECT, event(1)),
            Write(urn, ASPECT, change="DELETE"),
            Write(urn, ASPECT, event(2)),
            Write(urn, "dataProcessInstanceKey", change="DELETE"),
            Write(urn, ASPECT, event(3)),
        ]
    )
    assert times(store, urn) == [3]


@pytest.mark.parametrize(
    ("write", "sentence"),
    [
        (Write(DATASET, "operation", {"operationType": "INSERT"}), "timestampMillis must be an"),
        (Write(DATASET, "operation", {"timestampMillis": True}), "timestampMillis must be an"),
        (Write(DATASET, "operation", {"timestampMillis": 2**63}), "must fit into 64 bits"),
        (
            Write(RUN.format(1), ASPECT, event(1), expected_version="-1"),
            "does not support conditions",
        ),
    ],
)
def test_an_event_that_cannot_be_placed_is_refused(
    store: Store, write: Write, sentence: str
) -> None:
    with pytest.raises(InvalidProposalError, match=sentence):
        store.write([write])
    assert store.read(lambda c: c.scalar(text("SELECT count(*) FROM timeseries"))) == 0
