"""The one writer: jobs of one commit do not pay for each other's mistakes."""

import threading

import pytest
from sqlalchemy.engine import Connection

from mlcat_ingest.catalog.schema.values import Write
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.errors import RecordError

URN = "urn:li:tag:{}"


@pytest.mark.parametrize(
    "error", [ZeroDivisionError("ours"), RecordError("theirs", record_ref="r")]
)
def test_a_job_that_fails_takes_no_other_job_with_it(store: Store, error: Exception) -> None:
    """The failing job and two sound ones wait together, and so share one commit."""
    inside, go_on = threading.Event(), threading.Event()
    raised: list[Exception] = []

    def hold(_connection: Connection) -> None:
        inside.set()
        assert go_on.wait(30)

    def fail(_connection: Connection) -> None:
        raise error

    def failing() -> None:
        try:
            store.change(fail)
        except Exception as caught:  # noqa: BLE001 - what the caller gets is what is asked
            raised.append(caught)

    def writing(name: str) -> None:
        store.write([Write(URN.format(name), "tagProperties", {"name": name})])

    jobs = [
        threading.Thread(target=lambda: store.change(hold)),
        *(threading.Thread(target=writing, args=(name,)) for name in "ab"),
        threading.Thread(target=failing),
    ]
    jobs[0].start()
    assert inside.wait(30)
    for job in jobs[1:]:
        job.start()
    go_on.set()
    for job in jobs:
        job.join(30)
    assert raised == [error]
    assert store.exists([URN.format(name) for name in "ab"]) == {URN.format(name) for name in "ab"}
