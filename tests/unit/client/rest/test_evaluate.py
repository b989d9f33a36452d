import logging
from typing import Any

import pytest

from mlcat_ingest.client.base import Evaluation, TestOutcome
from mlcat_ingest.client.rest.client import CatalogClient
from mlcat_ingest.errors import AuthenticationError, CatalogUnavailableError
from support.fake_service import Answer, Asked, FakeService
from support.fakes import model_urn

pytestmark = pytest.mark.process

ONE = "/test?action=evaluate"
MANY = "/test?action=batchEvaluate"
BATCH_GET = "/openapi/v3/entity/mlModel/batchGet"
A, B = model_urn("a"), model_urn("b")
RESULTS: dict[str, list[object]] = {
    "passing": [{"test": "urn:li:test:p", "type": "SUCCESS"}],
    "failing": [{"test": "urn:li:test:f", "type": "FAILURE"}, {"no": "test"}, 7],
}
OUTCOME = TestOutcome(("urn:li:test:p",), ("urn:li:test:f",))


def stored(results: object, *urns: str) -> Answer:
    return Answer(body=[{"urn": urn, "testResults": {"value": results}} for urn in urns])


def batch_of(results: object) -> Any:
    def answer(asked: Asked) -> Answer:
        return Answer(body={"value": {"results": dict.fromkeys(asked.json()["urns"], results)}})

    return answer


@pytest.mark.parametrize("push", [True, False])
def test_every_request_has_both_names_of_each_parameter(
    service: FakeService, client: CatalogClient, *, push: bool
) -> None:
    service.on("POST", ONE, Answer(body={"value": RESULTS}))
    service.on("POST", MANY, batch_of(RESULTS))
    service.on("POST", BATCH_GET, stored(RESULTS, A))
    tests = ["urn:li:test:p"]
    assert client.evaluator.evaluate(A, should_push=push) == Evaluation({A: OUTCOME})
    many = client.evaluator.evaluate_batch([A, B, A], should_push=push, test_urns=tests)
    assert many == Evaluation({A: OUTCOME, B: OUTCOME})
    names = {"shouldPush": push, "push": push}
    assert [(asked.path, asked.json()) for asked in service.to("/test")] == [
        (ONE, {"urn": A, **names}),
        (MANY, {"urns": [A, B], **names, "testUrns": tests, "tests": tests}),
    ]


def test_200_entities_take_one_request(service: FakeService, client: CatalogClient) -> None:
    service.on("POST", MANY, batch_of(RESULTS))
    urns = [model_urn(str(n)) for n in range(450)]
    assert len(client.evaluator.evaluate_batch(urns).outcomes) == 450
    assert [len(asked.json()["urns"]) for asked in service.to("/test")] == [200, 200, 50]


@pytest.mark.parametrize(
    "answer",
    [
        Answer(404, {"message": "no"}),
        Answer(405, b""),
        Answer(400, {"message": "POST operation named batchEvaluate not supported on resource"}),
        Answer(400, {"message": "Unknown action batchEvaluate"}),
    ],
)
def test_without_the_batch_call_each_is_evaluated(
    service: FakeService, client: CatalogClient, answer: Answer
) -> None:
    service.on("POST", MANY, answer)
    service.on("POST", ONE, Answer(body={"value": RESULTS}))
    for _ in range(2):
        assert client.evaluator.evaluate_batch([A, B]).outcomes == {A: OUTCOME, B: OUTCOME}
    assert len(service.to(MANY)) == 1
    assert len(service.to(ONE)) == 4


def test_one_bad_urn_costs_its_batch_only(
    service: FakeService, client: CatalogClient, caplog: pytest.LogCaptureFixture
) -> None:
    bad = Answer(400, {"message": "no such entity"})
    service.on("POST", MANY, lambda asked: bad if B in asked.json()["urns"] else batch(asked))
    batch = batch_of(RESULTS)
    good = Answer(body={"value": RESULTS})
    service.on("POST", ONE, lambda asked: bad if asked.json()["urn"] == B else good)
    assert client.evaluator.evaluate_batch([A, B]) == Evaluation({A: OUTCOME})
    assert f"of {B} with 400: no such entity" in caplog.text
    assert client.evaluator.evaluate_batch([A]) == Evaluation({A: OUTCOME})
    assert len(service.to(MANY)) == 2


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_refused_batch_is_halved_until_what_is_at_fault_stands_alone(
    service: FakeService, client: CatalogClient, status: int
) -> None:
    urns = [model_urn(str(n)) for n in range(200)]
    bad = Answer(status, {"message": "no such entity"})
    batch, good = batch_of(RESULTS), Answer(body={"value": RESULTS})
    service.on(
        "POST", MANY, lambda asked: bad if urns[77] in asked.json()["urns"] else batch(asked)
    )
    service.on("POST", ONE, lambda asked: bad if asked.json()["urn"] == urns[77] else good)
    found = client.evaluator.evaluate_batch(urns)
    assert found.not_evaluated is None
    assert found.outcomes == dict.fromkeys([*urns[:77], *urns[78:]], OUTCOME)
    assert len(service.to("/test")) <= 17
    assert client.evaluator.evaluate_batch(urns[:50]).outcomes == dict.fromkeys(urns[:50], OUTCOME)


def test_a_batch_that_is_too_large_is_cut_to_size(
    service: FakeService, client: CatalogClient
) -> None:
    batch = batch_of(RESULTS)
    large = Answer(413, {"message": "too large"})
    service.on(
        "POST", MANY, lambda asked: large if len(asked.json()["urns"]) > 60 else batch(asked)
    )
    urns = [model_urn(str(n)) for n in range(200)]
    assert len(client.evaluator.evaluate_batch(urns).outcomes) == 200
    assert [len(asked.json()["urns"]) for asked in service.to(MANY)] == [
        *(200, 100, 50, 50),
        *(100, 50, 50),
    ]


def test_where_every_one_is_refused_the_reason_is_reported(
    service: FakeService, client: CatalogClient
) -> None:
    service.on("POST", "/test", Answer(400, {"message": "unknown field shouldPush"}))
    reported = client.evaluator.evaluate_batch([A, B])
    assert reported.outcomes == {}
    assert reported.not_evaluated is not None
    assert "400: unknown field shouldPush" in reported.not_evaluated


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(403, {"message": "needs a privilege"}), "403: needs a privilege"),
        (Answer(404, {"message": "no resource"}), "the service has no metadata tests (404"),
        (Answer(501, b""), "the service has no metadata tests (501"),
    ],
)
def test_a_service_that_does_not_evaluate_is_asked_once(
    service: FakeService, client: CatalogClient, answer: Answer, reason: str
) -> None:
    service.on("POST", "/test", answer)
    first = client.evaluator.evaluate_batch([A, B], should_push=True)
    assert first.outcomes == {}
    assert reason in (first.not_evaluated or "")
    asked = len(service.to("/test"))
    assert client.evaluator.evaluate_batch([B]).not_evaluated == first.not_evaluated
    assert client.evaluator.evaluate(A).not_evaluated == first.not_evaluated
    assert len(service.to("/test")) == asked


@pytest.mark.parametrize("path", [ONE, MANY])
def test_a_service_in_trouble_raises(
    service: FakeService, client: CatalogClient, path: str
) -> None:
    service.on("POST", MANY, Answer(404))
    service.on("POST", path, Answer(500, b"oops"))
    with pytest.raises(CatalogUnavailableError, match="oops"):
        client.evaluator.evaluate_batch([A])


def test_a_wrong_token_is_no_missing_feature(service: FakeService, client: CatalogClient) -> None:
    service.on("POST", "/test", Answer(401))
    with pytest.raises(AuthenticationError):
        client.evaluator.evaluate_batch([A])


def test_a_push_that_was_stored_is_checked_once(
    service: FakeService, client: CatalogClient, caplog: pytest.LogCaptureFixture
) -> None:
    service.on("POST", MANY, batch_of(RESULTS))
    more = {**RESULTS, "passing": [*RESULTS["passing"], {"test": "urn:li:test:other"}]}
    service.on("POST", BATCH_GET, stored(more, A))
    for _ in range(2):
        assert client.evaluator.evaluate_batch([A, B], should_push=True).outcomes == {
            A: OUTCOME,
            B: OUTCOME,
        }
    [read] = service.to(BATCH_GET)
    assert read.json() == [{"urn": A, "testResults": {}}]
    assert caplog.text == ""


@pytest.mark.parametrize(
    "kept", [Answer(body=[]), stored({"passing": [], "failing": []}, A), stored({"x": 1}, A)]
)
def test_a_push_that_was_not_stored_is_warned_of_once(
    service: FakeService, client: CatalogClient, caplog: pytest.LogCaptureFixture, kept: Answer
) -> None:
    service.on("POST", MANY, batch_of(RESULTS))
    service.on("POST", BATCH_GET, kept)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert client.evaluator.evaluate_batch([A], should_push=True).outcomes == {A: OUTCOME}
    assert [one.getMessage() for one in caplog.records] == [
        f"results were evaluated but not stored ({A})"
    ]


def test_entities_without_tests_do_not_use_up_the_check(
    service: FakeService, client: CatalogClient, caplog: pytest.LogCaptureFixture
) -> None:
    service.on("POST", MANY, batch_of({"passing": [], "failing": []}))
    assert client.evaluator.evaluate_batch([A], should_push=True).outcomes == {A: TestOutcome()}
    assert service.to(BATCH_GET) == []
    service.on("POST", MANY, batch_of(RESULTS))
    service.on("POST", BATCH_GET, Answer(body=[]))
    client.evaluator.evaluate_batch([A], should_push=True)
    assert "not stored" in caplog.text


@pytest.mark.parametrize("silent", [b"", {}, {"value": "ok"}, {"value": {"results": "ok"}}, [1]])
def test_a_silent_service_is_read_back_after_a_push(
    service: FakeService, client: CatalogClient, silent: object
) -> None:
    service.on("POST", MANY, Answer(body=silent))
    service.on("POST", BATCH_GET, stored(RESULTS, A))
    assert client.evaluator.evaluate_batch([A, B], should_push=True) == Evaluation({A: OUTCOME})


@pytest.mark.parametrize("silent", [b"", {}, {"value": None}])
def test_silence_is_never_a_pass(
    service: FakeService, client: CatalogClient, silent: object
) -> None:
    service.on("POST", ONE, Answer(body=silent))
    assert client.evaluator.evaluate(A) == Evaluation(
        not_evaluated="the service returned no results"
    )
    service.on("POST", BATCH_GET, Answer(body=[]))
    assert (
        client.evaluator.evaluate(A, should_push=True).not_evaluated
        == "the service returned no results"
    )


def test_nothing_to_evaluate_asks_nothing(service: FakeService, client: CatalogClient) -> None:
    assert client.evaluator.evaluate_batch([]) == Evaluation()
    assert service.to("/test") == []


def test_the_result_may_stand_without_its_wrapper(
    service: FakeService, client: CatalogClient
) -> None:
    service.on("POST", ONE, Answer(body={"failing": RESULTS["failing"]}))
    assert client.evaluator.evaluate(A).outcomes == {A: TestOutcome((), ("urn:li:test:f",))}
