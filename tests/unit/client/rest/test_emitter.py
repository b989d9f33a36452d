from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from mlcat_ingest.client.rest.client import CatalogClient
from mlcat_ingest.errors import (
    AspectChangedError,
    AspectRejectedError,
    AspectTooLargeError,
    AuthenticationError,
    CatalogUnavailableError,
    CodecError,
    MlcatError,
    NotAuthorizedError,
    ProtocolMismatchError,
)
from mlcat_ingest.metadata.proposal import Proposal
from mlcat_ingest.net.session import TIMEOUTS, HttpOptions
from support.fake_service import Answer, Asked, FakeService
from support.fakes import model_urn
from support.pauses import Clock
from support.validator_refusals import FORMS

pytestmark = pytest.mark.process

TAKEN = Answer(body={"value": "success"})
ONE = "/aspects?action=ingestProposal"
MANY = "/aspects?action=ingestProposalBatch"


def proposal(name: str = "m", aspect: str = "mlModelProperties", text: str = "x") -> Proposal:
    return Proposal(model_urn(name), aspect, {"description": text})


def refusing(bad: Callable[[Sequence[dict[str, Any]]], bool], status: int = 422) -> Any:
    def answer(asked: Asked) -> Answer:
        if bad(asked.json()["proposals"]):
            return Answer(status, {"message": "not liked", "status": status})
        return Answer(body={"value": "success"})

    return answer


def test_a_proposal_on_the_wire(service: FakeService, client: CatalogClient) -> None:
    service.on("POST", ONE, Answer(body={"value": model_urn("größe 漢")}))
    client.emit(proposal("größe 漢", text='"quoted" and ü'))
    [asked] = service.to("/aspects")
    assert asked.body.decode() == (
        '{"proposal":{"entityType":"mlModel",'
        '"entityUrn":"urn:li:mlModel:(urn:li:dataPlatform:mlflow,größe 漢,PROD)",'
        '"changeType":"UPSERT","aspectName":"mlModelProperties",'
        '"aspect":{"value":"{\\"description\\":\\"\\\\\\"quoted\\\\\\" and \\\\u00fc\\"}",'
        '"contentType":"application/json"}},"async":"false"}'
    )
    assert asked.headers["Authorization"] == "Bearer made-up-token-8d1f"
    assert asked.headers["Content-Type"] == "application/json"
    assert asked.headers["X-RestLi-Protocol-Version"] == "2.0.0"


def test_a_batch_on_the_wire_with_headers_and_system_metadata(service: FakeService) -> None:
    service.on("POST", MANY, TAKEN)
    conditional = Proposal("urn:li:tag:a", "tagProperties", {"name": "a"}, "UPSERT", {"X": "1"})
    with CatalogClient(service.server, "") as client:
        client.system_metadata = {"runId": "r"}
        assert client.write([conditional]) == []
    [asked] = service.to("/aspects")
    assert asked.json() == {
        "proposals": [
            {
                "entityType": "tag",
                "entityUrn": "urn:li:tag:a",
                "changeType": "UPSERT",
                "aspectName": "tagProperties",
                "aspect": {"value": '{"name":"a"}', "contentType": "application/json"},
                "headers": {"X": "1"},
                "systemMetadata": {"runId": "r"},
            }
        ],
        "async": "false",
    }
    assert "Authorization" not in asked.headers


@pytest.mark.parametrize("body", [{"value": "success"}, {"value": "urn:li:tag:a"}])
def test_every_acknowledgement_counts(
    service: FakeService, client: CatalogClient, body: object
) -> None:
    service.on("POST", "/aspects", Answer(body=body))
    client.emit(proposal())
    assert client.write([proposal()]) == []


def test_nothing_to_write_sends_nothing(service: FakeService, client: CatalogClient) -> None:
    assert client.write([]) == []
    assert service.asked == []
    assert client.traffic.requests_made() == 0


def test_batches_hold_200_and_keep_an_entity_whole(
    service: FakeService, client: CatalogClient
) -> None:
    service.on("POST", MANY, TAKEN)
    aspects = ("ownership", "globalTags", "mlModelProperties")
    sent = [proposal(str(n), aspect) for n in range(100) for aspect in aspects]
    assert client.write(sent) == []
    batches = [asked.json()["proposals"] for asked in service.to("/aspects")]
    assert [len(batch) for batch in batches] == [198, 102]
    flat = [(one["entityUrn"], one["aspectName"]) for batch in batches for one in batch]
    assert flat == [(one.entity_urn, one.aspect_name) for one in sent]
    assert client.traffic.requests_made() == 2


def test_an_entity_longer_than_a_batch_is_sent_alone_and_whole(service: FakeService) -> None:
    service.on("POST", MANY, TAKEN)
    sent = [proposal("one", f"aspect{n}") for n in range(5)]
    with CatalogClient(service.server, "", max_proposals=2) as client:
        assert client.write([proposal("zero"), *sent, proposal("last")]) == []
    batches = [asked.json()["proposals"] for asked in service.to("/aspects")]
    names = [[one["aspectName"] for one in batch] for batch in batches]
    assert names == [
        ["mlModelProperties"],
        [f"aspect{n}" for n in range(5)],
        ["mlModelProperties"],
    ]


def test_batches_keep_to_their_bytes(service: FakeService) -> None:
    service.on("POST", MANY, TAKEN)
    sent = [proposal(str(n), text="xy" * 1000) for n in range(10)] + [
        proposal("big", text="x" * 9000)
    ]
    with CatalogClient(service.server, "", max_bytes=8000) as client:
        assert client.write(sent) == []
    lengths = [len(asked.body) for asked in service.to("/aspects")]
    assert all(length <= 8000 for length in lengths[:-1])
    assert [len(asked.json()["proposals"]) for asked in service.to("/aspects")] == [3, 3, 3, 1, 1]
    assert lengths[-1] > 8000


@pytest.mark.parametrize("status", [400, 409, 413, 422])
def test_a_refused_batch_is_halved_until_the_bad_ones_stand_alone(
    service: FakeService, client: CatalogClient, status: int
) -> None:
    bad = {model_urn("17"), model_urn("101")}
    accepted: list[str] = []

    def is_bad(proposals: Sequence[dict[str, Any]]) -> bool:
        urns = [one["entityUrn"] for one in proposals]
        if bad & set(urns):
            return True
        accepted.extend(urns)
        return False

    service.on("POST", MANY, refusing(is_bad, status))
    rejected = client.write([proposal(str(n)) for n in range(200)])
    assert {(one.urn, one.status, one.reason) for one in rejected} == {
        (urn, status, "not liked") for urn in bad
    }
    assert accepted == [model_urn(str(n)) for n in range(200) if n not in {17, 101}]
    assert len(service.to("/aspects")) <= 1 + 2 * 2 * 8


def test_halving_keeps_an_entity_together(service: FakeService, client: CatalogClient) -> None:
    service.on("POST", MANY, refusing(lambda proposals: len(proposals) > 3))
    names = ["a", "b", "b", "b", "b", "c"]
    refused = client.write([proposal(name, f"aspect{n}") for n, name in enumerate(names)])
    sizes = [len(asked.json()["proposals"]) for asked in service.to("/aspects")]
    assert sizes == [6, 1, 5, 4, 1]
    assert [(one.urn, one.aspect) for one in refused] == [
        (model_urn("b"), f"aspect{n}") for n in range(1, 5)
    ]


CONFLICT = "Expected version 3, actual version 5"


@pytest.mark.parametrize("status", [400, 409, 422])
@pytest.mark.parametrize("form", sorted(FORMS))
def test_what_somebody_changed_meanwhile_is_not_halved(
    service: FakeService, client: CatalogClient, status: int, form: str
) -> None:
    words = FORMS[form](model_urn("3"), "a description", "PRECONDITION", CONFLICT)
    service.on("POST", MANY, Answer(status, {"message": words}))
    service.on("POST", ONE, Answer(status, {"error": "Precondition Error", "message": words}))
    refused = client.write([proposal(str(n)) for n in range(5)])
    assert [type(one) for one in refused] == [AspectChangedError] * 5
    assert {one.reason for one in refused} == {CONFLICT}
    assert len(service.to("/aspects")) == 1
    with pytest.raises(AspectChangedError, match="actual version 5"):
        client.emit(proposal())


def test_a_failed_precondition_is_not_halved(service: FakeService, client: CatalogClient) -> None:
    service.on("POST", MANY, Answer(412, {"message": "precondition failed"}))
    refused = client.write([proposal(str(n)) for n in range(5)])
    assert [type(one) for one in refused] == [AspectChangedError] * 5
    assert len(service.to("/aspects")) == 1


@pytest.mark.parametrize("form", sorted(FORMS))
def test_a_description_does_not_make_a_conflict_of_another_refusal(
    service: FakeService, client: CatalogClient, form: str
) -> None:
    text = f"msg={CONFLICT}"
    words = FORMS[form](model_urn("3"), text, "VALIDATION", "Unknown tag")
    service.on(
        "POST",
        MANY,
        lambda asked: Answer(422, {"message": words}) if b"3,PROD" in asked.body else TAKEN,
    )
    refused = client.write([proposal(str(n), text=text) for n in range(5)])
    assert [(type(one), one.urn, one.reason) for one in refused] == [
        (AspectRejectedError, model_urn("3"), "Unknown tag")
    ]


def test_an_aspect_is_deleted_before_the_others_of_its_entity(
    service: FakeService, client: CatalogClient
) -> None:
    service.on("DELETE", "/openapi/v3/entity/mlModel/", Answer())
    service.on("POST", MANY, TAKEN)
    gone = Proposal(model_urn("a/b"), "versionProperties", {}, "DELETE", {"If-Version-Match": "3"})
    assert client.write([gone, proposal("a/b"), proposal("c"), replace(gone)]) == []
    first, last, batch = service.asked
    assert first.method == last.method == "DELETE"
    assert first.path == (
        "/openapi/v3/entity/mlModel/urn%3Ali%3AmlModel%3A%28urn%3Ali%3AdataPlatform%3Amlflow%2Ca%2Fb%2CPROD%29/versionProperties"
    )
    assert [one["entityUrn"] for one in batch.json()["proposals"]] == [
        model_urn("a/b"),
        model_urn("c"),
    ]


@pytest.mark.parametrize(
    ("status", "words", "reason"),
    [
        *((status, "no", "no") for status in (400, 404, 405)),
        (403, "urn:li:corpuser:u is unauthorized to DELETE it.", "urn:li:corpuser:u lacks Delete"),
    ],
)
def test_an_aspect_that_cannot_be_deleted_keeps_its_entity_as_it_is(
    service: FakeService, client: CatalogClient, status: int, words: str, reason: str
) -> None:
    service.on("DELETE", "/openapi/", Answer(status, {"error": words, "status": status}))
    service.on("POST", MANY, TAKEN)
    gone = Proposal(model_urn("a"), "versionProperties", {}, "DELETE")
    refused = client.write([gone, proposal("a"), proposal("b")])
    assert [(one.urn, one.aspect, one.status, one.reason) for one in refused] == [
        (model_urn("a"), aspect, status, f"an aspect cannot be deleted: {reason}")
        for aspect in ("versionProperties", "mlModelProperties")
    ]
    [batch] = service.to("/aspects")
    assert [one["entityUrn"] for one in batch.json()["proposals"]] == [model_urn("b")]


def test_a_service_that_fails_to_delete_is_not_available(
    service: FakeService, client: CatalogClient
) -> None:
    service.on("DELETE", "/openapi/", Answer(500, {"message": "boom"}))
    with pytest.raises(CatalogUnavailableError, match="deleting versionProperties"):
        client.write([Proposal(model_urn("a"), "versionProperties", {}, "DELETE")])


def test_what_has_no_json_form_is_refused_alone(
    service: FakeService, client: CatalogClient
) -> None:
    service.on("POST", MANY, TAKEN)
    nan = Proposal(model_urn("nan"), "mlModelProperties", {"x": float("nan")})
    no_urn = Proposal("nonsense", "mlModelProperties", {})
    rejected = client.write([nan, proposal("good"), no_urn])
    assert [(one.urn, one.status) for one in rejected] == [(model_urn("nan"), 0), ("nonsense", 0)]
    assert "not sent: no faithful JSON form: nan" in rejected[0].reason
    [asked] = service.to("/aspects")
    assert len(asked.json()["proposals"]) == 1
    with pytest.raises(CodecError):
        client.emit(nan)


def test_a_single_refusal_names_everything(service: FakeService, client: CatalogClient) -> None:
    words = {"error": "Validation Error", "message": "no made-up-token-8d1f"}
    service.on("POST", ONE, Answer(422, words))
    with pytest.raises(AspectRejectedError) as caught:
        client.emit(proposal())
    assert caught.value.context == {
        "urn": model_urn("m"),
        "aspect": "mlModelProperties",
        "status": 422,
        "reason": "Validation Error: no ***",
    }


@pytest.mark.parametrize(
    ("status", "kind", "sentence"),
    [
        (401, AuthenticationError, "the token came from the environment (MLCAT_TOKEN)"),
        (404, ProtocolMismatchError, "append /gms"),
        (405, ProtocolMismatchError, "append /gms"),
        (502, CatalogUnavailableError, "refused 2 proposals with 502: the words"),
        (503, CatalogUnavailableError, "503"),
    ],
)
def test_other_refusals_end_the_write(
    service: FakeService, client: CatalogClient, status: int, kind: type[MlcatError], sentence: str
) -> None:
    service.on("POST", MANY, Answer(status, {"message": "the words"}))
    with pytest.raises(kind) as caught:
        client.write([proposal("a"), proposal("b")])
    assert sentence in str(caught.value)
    assert "made-up-token" not in str(caught.value)
    assert len(service.to("/aspects")) == 1


def test_a_record_that_sets_off_a_fault_stands_alone(
    service: FakeService, client: CatalogClient
) -> None:
    bad = {model_urn(name) for name in ("m0", "m1", "m41")}
    service.on(
        "POST", MANY, refusing(lambda sent: any(one["entityUrn"] in bad for one in sent), 500)
    )
    rejected = client.write([proposal(f"m{number}") for number in range(50)])
    assert {(one.urn, one.status, one.reason) for one in rejected} == {
        (urn, 500, "not liked") for urn in bad
    }


@pytest.mark.parametrize("count", [2, 200])
def test_a_service_that_takes_nothing_has_failed_itself(
    service: FakeService, client: CatalogClient, count: int
) -> None:
    service.on("POST", MANY, Answer(500, {"message": "boom"}))
    with pytest.raises(CatalogUnavailableError, match=r"with 500: boom"):
        client.write([proposal(f"m{number}") for number in range(count)])
    assert len(service.asked) <= 11


def test_a_service_that_goes_on_failing_has_failed_itself(
    service: FakeService, client: CatalogClient
) -> None:
    service.on("POST", MANY, Answer(500, {"message": "boom"}))
    blamed = [client.write([proposal(f"m{number}")]) for number in range(8)]
    assert [len(each) for each in blamed] == [1] * 8
    with pytest.raises(CatalogUnavailableError, match=r"with 500: boom"):
        client.write([proposal("m8")])


# --- permissions ---------------------------------------------------------------------------------


def denying(denied: Callable[[str], bool], *, named: bool) -> Callable[[Asked], Answer]:
    """Answer as `AspectResource` of DataHub: one denied URN refuses a request."""

    def answer(asked: Asked) -> Answer:
        urns = [one["entityUrn"] for one in asked.json()["proposals"]]
        found = [urn for urn in urns if denied(urn)]
        if not found:
            return Answer(body={"value": "success"})
        words = ", ".join(f"HttpStatus: 403 Urn: {urn}" for urn in found) if named else "some"
        message = f"User urn:li:corpuser:u is unauthorized to modify entity: {words}"
        return Answer(403, {"message": message, "status": 403})

    return answer


@pytest.mark.parametrize(("named", "most"), [(True, 2), (False, 1 + 2 * 3 * 8)])
def test_denied_urns_are_refused_alone(
    service: FakeService, client: CatalogClient, most: int, *, named: bool
) -> None:
    # The URN of one is the beginning of that of another.
    bad = {"urn:li:tag:17", "urn:li:tag:a, b", model_urn("0")}
    names = [model_urn("0"), *(f"urn:li:tag:{n}" for n in ("1", "17", "a", "a, b", "177"))]
    names += [f"urn:li:tag:more{n}" for n in range(194)]
    service.on("POST", MANY, denying(bad.__contains__, named=named))
    rejected = client.write([Proposal(urn, "status", {"removed": False}) for urn in names])
    assert {(one.urn, one.status) for one in rejected} == {(urn, 403) for urn in bad}
    lacks = "urn:li:corpuser:u lacks Edit Entity"
    assert {one.reason for one in rejected} == {lacks}
    written = [
        one["entityUrn"]
        for asked in service.to("/aspects")
        for one in asked.json()["proposals"]
        if not bad & {each["entityUrn"] for each in asked.json()["proposals"]}
    ]
    assert written == [urn for urn in names if urn not in bad]
    assert len(service.to("/aspects")) <= most


@pytest.mark.parametrize("named", [True, False])
def test_where_everything_is_denied_the_client_gives_up_soon(
    service: FakeService, client: CatalogClient, *, named: bool
) -> None:
    service.on("POST", MANY, denying(lambda _: True, named=named))

    def write() -> None:
        for _ in range(100):
            client.write([proposal(str(n)) for n in range(200)])

    with pytest.raises(NotAuthorizedError, match="lacks Edit Entity"):
        write()
    assert len(service.to("/aspects")) <= 17


def test_where_something_was_taken_nothing_is_given_up(
    service: FakeService, client: CatalogClient
) -> None:
    service.on("POST", MANY, denying(lambda urn: urn != model_urn("first"), named=True))
    assert client.write([proposal("first")]) == []
    for _ in range(20):
        assert len(client.write([proposal(str(n)) for n in range(200)])) == 200
    assert len(service.to("/aspects")) == 21


def test_one_that_is_denied_names_its_urn(service: FakeService, client: CatalogClient) -> None:
    service.on("POST", "/aspects", Answer(403, b"no"))
    with pytest.raises(NotAuthorizedError) as caught:
        client.emit(proposal("a"))
    assert caught.value.context["urn"] == model_urn("a")
    [refused] = client.write([proposal("a")])
    assert (refused.urn, refused.status) == (model_urn("a"), 403)
    assert refused.hint == "grant the token the missing permission"


# --- refusals that may pass, and those that never do ----------------------------------------------

COMPUTED = "IsLatest should not be specified, this is a computed field."


def version(name: str, **more: Any) -> Proposal:
    return Proposal(model_urn(name), "versionProperties", {"sortId": "1", **more})


def in_turn(*answers: Answer) -> Callable[[Asked], Answer]:
    """Give `answers` in turn, and then a success."""
    left = list(answers)
    return lambda _: left.pop(0) if left else Answer(body={"value": "success"})


@pytest.mark.parametrize("form", sorted(FORMS))
def test_a_computed_field_that_was_not_sent_is_sent_again(
    service: FakeService, client: CatalogClient, form: str
) -> None:
    words = {"message": FORMS[form](model_urn("a"), "", "VALIDATION", COMPUTED)}
    service.on("POST", MANY, in_turn(Answer(422, words), Answer(422, words)))
    assert client.write([version("a"), version("b")]) == []
    bodies = [asked.body for asked in service.to("/aspects")]
    assert bodies == [bodies[0]] * 3


@pytest.mark.parametrize(("sent", "times"), [({}, 3), ({"isLatest": True}, 1)])
def test_a_computed_field_is_sent_again_so_often_only_and_not_if_it_was_sent(
    service: FakeService, client: CatalogClient, sent: dict[str, bool], times: int
) -> None:
    service.on("POST", MANY, Answer(422, {"message": COMPUTED}))
    assert [one.reason for one in client.write([version("a", **sent)])] == [COMPUTED]
    assert len(service.to("/aspects")) == times


def test_a_batch_is_sent_again_whole_after_a_fault(
    service: FakeService, client: CatalogClient
) -> None:
    service.on("POST", MANY, in_turn(Answer(500, {"message": "Failed to add after 3 retries"})))
    assert client.write([proposal(str(n)) for n in range(50)]) == []
    assert [len(asked.json()["proposals"]) for asked in service.to("/aspects")] == [50, 50]


AWAY = (
    "com.datahub.util.exception.RetryLimitReached: Failed to add after 3 retries",
    "com.datahub.util.exception.ESQueryException: Search query failed:",
)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock.installed(monkeypatch)


@pytest.fixture
def patient(service: FakeService, clock: Clock) -> Iterator[CatalogClient]:
    options = HttpOptions(retry_for_s=300.0)
    with CatalogClient(service.server, "", options=options) as made:
        yield made
    assert clock.now_s < 1_400  # once for a batch, and not for its parts


@pytest.mark.parametrize("words", AWAY)
def test_a_write_waits_while_the_database_or_the_index_is_away(
    service: FakeService, patient: CatalogClient, clock: Clock, words: str
) -> None:
    def answer(_: Asked) -> Answer:
        return Answer(500, {"message": words}) if clock.now_s < 1_200 else TAKEN

    service.on("POST", MANY, answer)
    sent = [proposal(str(n)) for n in range(50)]
    assert patient.write(sent) == []
    assert {len(asked.json()["proposals"]) for asked in service.to("/aspects")} == {50}
    assert 1_200 <= clock.now_s < 1_220


def test_a_database_that_stays_away_is_no_records_fault(
    service: FakeService, patient: CatalogClient
) -> None:
    service.on("POST", MANY, Answer(500, {"message": AWAY[0]}))
    with pytest.raises(CatalogUnavailableError, match=r"500: .*RetryLimitReached"):
        patient.write([proposal(str(n)) for n in range(50)])


def test_a_record_that_the_database_never_takes_is_refused_alone(
    service: FakeService, patient: CatalogClient
) -> None:
    def answer(asked: Asked) -> Answer:
        return (
            Answer(500, {"message": AWAY[0]})
            if b'"entityUrn":"urn:li:mlModel:(urn:li:dataPlatform:mlflow,7,' in asked.body
            else TAKEN
        )

    service.on("POST", MANY, answer)
    assert [one.urn for one in patient.write([proposal(str(n)) for n in range(50)])] == [
        model_urn("7")
    ]


def test_a_read_that_fails_is_tried_again(
    service: FakeService, patient: CatalogClient, clock: Clock
) -> None:
    path = "/openapi/v3/entity/mlModel/batchGet"
    service.on("POST", path, lambda _: Answer(500) if clock.now_s < 1_100 else Answer(body=[]))
    assert patient.read_many([model_urn("a")], ["status"]) == {}
    assert 1_100 <= clock.now_s < 1_120


PLACE = f"urn={model_urn('b')}, aspect=ownership"
SIZES = (
    f"Size validation failed at PRE_DB_PATCH: 90 bytes exceeds threshold of 40 bytes for {PLACE}",
    "Aspect size validation failed at POST_DB_PATCH: 90 bytes exceeds threshold of 40 bytes",
    "String value length (20051112) exceeds the maximum allowed (16000000, from `Stream`)",
    "String length (20051112) exceeds the maximum length (16000000)",
)


@pytest.mark.parametrize("status", [400, 422, 500])
@pytest.mark.parametrize("words", SIZES)
def test_an_aspect_that_is_too_large_is_never_sent_again_unchanged(
    service: FakeService, client: CatalogClient, words: str, status: int
) -> None:
    service.on(
        "POST",
        MANY,
        lambda asked: Answer(status, {"message": words}) if b"large" in asked.body else TAKEN,
    )
    sent = [proposal("a"), proposal("b", "ownership", "large" * 20), proposal("b"), proposal("c")]
    refused = client.write(sent)
    assert [(type(one), one.urn, one.aspect) for one in refused] == [
        (AspectTooLargeError, model_urn("b"), "ownership"),
        (AspectRejectedError, model_urn("b"), "mlModelProperties"),
    ]
    bodies = [asked.body for asked in service.to("/aspects")]
    assert len(set(bodies)) == len(bodies)


# Each of the others is three bytes, and six characters of the text that is sent.
@pytest.mark.parametrize("long", ["odd" * 50, "odd" + "模" * 15])
def test_a_text_that_the_service_cannot_read_is_too_large_if_it_is_long(
    service: FakeService, client: CatalogClient, monkeypatch: pytest.MonkeyPatch, long: str
) -> None:
    monkeypatch.setattr("mlcat_ingest.client.rest.emitter.MAX_TEXT_CHARS", 100)
    unreadable = Answer(400, {"message": "Cannot parse request entity", "status": 400})
    service.on("POST", MANY, lambda asked: unreadable if b"odd" in asked.body else TAKEN)
    sent = [proposal("a"), proposal("b", text=long), proposal("c", text="odd")]
    refused = client.write(sent)
    assert [(type(one), one.urn) for one in refused] == [
        (AspectTooLargeError, model_urn("b")),
        (AspectRejectedError, model_urn("c")),
    ]
    bodies = [asked.body for asked in service.to("/aspects")]
    assert len(set(bodies)) == len(bodies)


UNKNOWN = [b"", b"  ", b"OK", b'{"val', {}, [], "success", {"status": "ok"}]


@pytest.mark.parametrize("body", UNKNOWN)
@pytest.mark.parametrize("path", [ONE, MANY])
def test_what_the_interface_does_not_answer_is_no_acknowledgement(
    service: FakeService, patient: CatalogClient, path: str, body: object
) -> None:
    def write() -> None:
        if path == ONE:
            patient.emit(proposal())
        else:
            assert patient.write([proposal()]) == []

    answers = [Answer(body=body), TAKEN]
    service.on("POST", path, lambda _: answers.pop(0))
    write()
    # It is sent again as after a lost answer.
    assert answers == []
    answers[:] = [Answer(body=body)] * 100
    with pytest.raises(CatalogUnavailableError, match="did not acknowledge"):
        write()


@pytest.mark.parametrize("status", sorted(TIMEOUTS))
def test_a_batch_that_a_proxy_ended_is_not_sent_again(
    service: FakeService, patient: CatalogClient, status: int
) -> None:
    service.on("POST", MANY, Answer(status, b"gateway time-out"))
    with pytest.raises(CatalogUnavailableError) as caught:
        patient.write([proposal("a"), proposal("b")])
    assert caught.value.context["status"] == status
    assert len(service.to("/aspects")) == 1


@pytest.mark.parametrize(
    "answer",
    [
        Answer(504, b"gateway time-out"),
        Answer(body=b"<html>Sorry", headers={"Content-Type": "text/html"}),
    ],
    ids=["a gateway that timed out", "a web page"],
)
def test_one_entity_is_sent_again_after_the_answer_of_a_proxy(
    service: FakeService, patient: CatalogClient, answer: Answer
) -> None:
    service.on("POST", MANY, in_turn(answer))
    assert patient.write([proposal()]) == []
    assert len(service.to("/aspects")) == 2


def test_a_patch_of_what_somebody_has_deleted_is_a_conflict(
    service: FakeService, client: CatalogClient
) -> None:
    words = (
        "java.lang.UnsupportedOperationException: Patch not supported for aspect with name "
        "versionProperties. Default aspect is required because no aspect currently exists for urn "
        f"{model_urn('m')}."
    )
    service.on("POST", MANY, Answer(500, {"message": words, "status": 500}))
    refused = client.write([proposal("m"), proposal("n")])
    assert {type(one) for one in refused} == {AspectChangedError}
    assert len(service.to(MANY)) == 1


@pytest.mark.parametrize("suffix", ["", "/", "/gms", "/gms/", "/api/gms"])
def test_base_addresses_are_kept_as_they_are(service: FakeService, suffix: str) -> None:
    service.on("POST", suffix.rstrip("/") + ONE, TAKEN)
    with CatalogClient(service.server + suffix, "", options=HttpOptions(retries=0)) as client:
        client.emit(proposal())
        assert client.server == service.server + suffix.rstrip("/")
    assert [asked.path for asked in service.asked] == [suffix.rstrip("/") + ONE]
