import json

import pytest

from mlcat_ingest.client.rest.client import CatalogClient, TaskStatus
from mlcat_ingest.errors import (
    CatalogRequestError,
    CatalogUnavailableError,
    MlcatError,
    ProtocolMismatchError,
)
from support.fake_service import Answer, Asked, FakeService

pytestmark = pytest.mark.process

PATH = "/operations?action=getEsTaskStatus"
COUNTERS = {"total": 3, "updated": 1, "retries": {"bulk": 0}, "requests_per_second": -1.0}


def report_of(status: object, *, completed: bool = True) -> dict[str, str]:
    text = {"completed": completed, "taskId": "n:7", "runTimeNanos": 12, "status": status}
    return {"value": json.dumps(text)}


@pytest.mark.parametrize("status", [COUNTERS, json.dumps(COUNTERS)])
def test_both_depths_of_text(service: FakeService, client: CatalogClient, status: object) -> None:
    service.on("POST", PATH, Answer(body=report_of(status)))
    expected = TaskStatus("n:7", completed=True, run_time_ns=12, status=COUNTERS)
    assert client.task_status("n:7") == expected
    assert [asked.json() for asked in service.asked] == [{"task": "n:7"}]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            {"value": '{"error":"Could not get task status for n:7"}'},
            TaskStatus("n:7", error="Could not get task status for n:7"),
        ),
        ({"completed": True}, TaskStatus("n:7", completed=True, status={"status": None})),
        (
            {"value": {"completed": False, "status": "waiting", "runTimeNanos": "x"}},
            TaskStatus("n:7", status={"status": "waiting"}),
        ),
    ],
)
def test_other_answers_are_read_as_far_as_they_go(
    service: FakeService, client: CatalogClient, body: object, expected: TaskStatus
) -> None:
    service.on("POST", PATH, Answer(body=body))
    assert client.task_status("n:7") == expected


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Answer(400, {"message": "Please specify"}), CatalogRequestError),
        (Answer(404, {"message": "no resource"}), ProtocolMismatchError),
        (Answer(200, {"value": "no JSON"}), ProtocolMismatchError),
        (Answer(200, [1]), ProtocolMismatchError),
    ],
)
def test_a_refused_question_raises(
    service: FakeService, client: CatalogClient, answer: Answer, kind: type[MlcatError]
) -> None:
    service.on("POST", PATH, answer)
    with pytest.raises(kind):
        client.task_status("n:7")


def test_waiting_ends_with_the_task(service: FakeService, client: CatalogClient) -> None:
    def work(_: Asked) -> Answer:
        return Answer(body=report_of({}, completed=len(service.asked) == 3))

    service.on("POST", PATH, work)
    assert client.wait("n:7", poll_s=0).completed
    assert len(service.asked) == 3


def test_waiting_ends_where_the_task_is_unknown(
    service: FakeService, client: CatalogClient
) -> None:
    service.on("POST", PATH, Answer(body={"value": json.dumps({"error": "no such task"})}))
    assert client.wait("n:7") == TaskStatus("n:7", error="no such task")


def test_waiting_has_an_end_and_keeps_its_pace(
    service: FakeService, client: CatalogClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    service.on("POST", PATH, Answer(body=report_of({}, completed=False)))
    monkeypatch.setattr("mlcat_ingest.client.rest.client.sleep", slept.append)
    monkeypatch.setattr("mlcat_ingest.client.rest.client.monotonic", lambda: sum(slept))
    with pytest.raises(CatalogUnavailableError, match=r"n:7 is still running after 2\.5 s"):
        client.wait("n:7", timeout_s=2.5, poll_s=1)
    assert slept == [1, 1, 0.5]
