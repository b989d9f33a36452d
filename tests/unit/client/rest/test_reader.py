import threading
from typing import Any
from urllib.parse import unquote

import pytest

from mlcat_ingest.client.base import StoredAspect
from mlcat_ingest.client.rest.client import CatalogClient
from mlcat_ingest.errors import (
    CatalogRequestError,
    CatalogUnavailableError,
    InvalidUrnError,
    MlcatError,
    NotAuthorizedError,
    ProtocolMismatchError,
)
from support.fake_service import Answer, Asked, FakeService
from support.fakes import group_urn, model_urn

pytestmark = pytest.mark.process

HOSTILE = "urn:li:mlModel:(urn:li:dataPlatform:mlflow,a/b c+ü?#%2C,PROD)"
MODELS = "/openapi/v3/entity/mlModel/batchGet"


def test_one_aspect_on_the_wire(service: FakeService, client: CatalogClient) -> None:
    value = {"description": "x", "unknownField": [1]}
    record = {"com.linkedin.ml.metadata.MLModelProperties": value}
    service.on("GET", "/aspects/", Answer(body={"version": 0, "aspect": record}))
    assert client.get_aspect(HOSTILE, "mlModelProperties") == value
    assert client.get_aspect(HOSTILE, "mlModelProperties", 3) == value
    encoded = (
        "urn%3Ali%3AmlModel%3A%28urn%3Ali%3AdataPlatform%3Amlflow%2C"
        "a%2Fb%20c%2B%C3%BC%3F%23%252C%2CPROD%29"
    )
    assert [asked.path for asked in service.asked] == [
        f"/aspects/{encoded}?aspect=mlModelProperties&version=0",
        f"/aspects/{encoded}?aspect=mlModelProperties&version=3",
    ]


def test_an_absent_aspect_is_none(service: FakeService, client: CatalogClient) -> None:
    service.on("GET", "/aspects/", Answer(404, b"anything at all"))
    assert client.get_aspect(model_urn("m"), "mlModelProperties") is None


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Answer(400, {"message": "bad urn"}), CatalogRequestError),
        (Answer(403, {"message": "no"}), NotAuthorizedError),
        (Answer(500, {"message": "oops"}), CatalogUnavailableError),
        (Answer(200, []), ProtocolMismatchError),
        (Answer(200, {"aspect": {}}), ProtocolMismatchError),
        (Answer(200, {"aspect": {"a.B": 5}}), ProtocolMismatchError),
        (Answer(200, b"text"), ProtocolMismatchError),
    ],
)
def test_a_read_that_fails_is_no_absence(
    service: FakeService, client: CatalogClient, answer: Answer, kind: type[MlcatError]
) -> None:
    service.on("GET", "/aspects/", answer)
    with pytest.raises(kind):
        client.get_aspect(model_urn("m"), "mlModelProperties")


def test_stamps_on_the_wire(service: FakeService, client: CatalogClient) -> None:
    ours = {"version": "4", "runId": "run", "lastObserved": 7}
    modified = {"version": "2", "aspectModified": {"time": 9, "actor": "urn:li:corpuser:a"}}
    stored = {
        "urn": model_urn("a"),
        "mlModelKey": {"systemMetadata": {"version": "1"}},
        "mlModelProperties": {"value": {"name": "A"}, "systemMetadata": ours},
        "ownership": {"systemMetadata": modified},
        "status": {},
    }
    service.on("POST", MODELS, Answer(body=[stored, {"urn": model_urn("c")}]))
    names = ["mlModelKey", "mlModelProperties", "ownership", "status", "globalTags"]
    assert client.read_stamps([model_urn("a"), model_urn("c")], names) == {
        model_urn("a"): {
            "mlModelKey": None,
            "mlModelProperties": "4 7 run",
            "ownership": "2 9",
            "status": None,
        }
    }
    [asked] = service.asked
    assert asked.path == f"{MODELS}?systemMetadata=true&values=false"


def test_many_on_the_wire(service: FakeService, client: CatalogClient) -> None:
    stored = {
        "urn": model_urn("a"),
        "mlModelKey": {"value": {"name": "a"}},
        "mlModelProperties": {"value": {"name": "A"}, "systemMetadata": {"version": "4"}},
        "status": {"value": {"removed": False}},
    }
    bare = {"urn": model_urn("c")}
    service.on("POST", MODELS, Answer(body=[stored, bare]))
    service.on("POST", "/openapi/v3/entity/mlModelGroup/batchGet", Answer(body=[]))
    urns = [model_urn("a"), group_urn("g"), model_urn("b"), model_urn("a"), model_urn("c")]
    assert client.read_many(urns, ["mlModelProperties", "status", "ownership"]) == {
        model_urn("a"): {
            "mlModelProperties": StoredAspect({"name": "A"}, "4"),
            "status": StoredAspect({"removed": False}, None),
        }
    }
    assert [asked.path for asked in service.asked] == [
        f"{MODELS}?systemMetadata=true",
        "/openapi/v3/entity/mlModelGroup/batchGet?systemMetadata=true",
    ]
    assert (
        service.asked[0]
        .body.decode()
        .startswith(
            '[{"urn":"urn:li:mlModel:(urn:li:dataPlatform:mlflow,a,PROD)",'
            '"mlModelProperties":{},"status":{},"ownership":{}},'
        )
    )
    assert len(service.asked[0].json()) == 3


def test_reading_takes_one_request_for_200(service: FakeService, client: CatalogClient) -> None:
    service.on("POST", MODELS, Answer(body=[]))
    assert client.read_many([model_urn(str(n)) for n in range(401)], {"status"}) == {}
    assert [len(asked.json()) for asked in service.asked] == [200, 200, 1]
    assert client.traffic.requests_made() == 3
    assert client.reads_in_batches


def test_nothing_to_read_asks_nothing(service: FakeService, client: CatalogClient) -> None:
    assert client.read_many([], ["status"]) == {}
    assert client.read_many([model_urn("a")], []) == {}
    assert service.asked == []


def test_what_is_no_urn_is_refused_before_asking(
    service: FakeService, client: CatalogClient
) -> None:
    with pytest.raises(InvalidUrnError):
        client.read_many([model_urn("a"), "nonsense"], ["status"])
    assert service.asked == []


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Answer(400, {"error": "bad urn"}), CatalogRequestError),
        (Answer(500, {"error": "oops"}), CatalogUnavailableError),
        (Answer(200, {"entities": []}), ProtocolMismatchError),
        (Answer(200, ["urn"]), ProtocolMismatchError),
        (Answer(200, [{"urn": 5}]), ProtocolMismatchError),
        (
            Answer(200, [{"urn": model_urn("a"), "status": {"removed": True}}]),
            ProtocolMismatchError,
        ),
        (Answer(200, [{"urn": model_urn("a"), "status": 7}]), ProtocolMismatchError),
    ],
)
def test_a_batch_read_that_fails_is_no_absence(
    service: FakeService, client: CatalogClient, answer: Answer, kind: type[MlcatError]
) -> None:
    service.on("POST", MODELS, answer)
    with pytest.raises(kind) as caught:
        client.read_many([model_urn("a")], ["status"])
    if kind is CatalogRequestError:
        assert caught.value.context["urn"] == model_urn("a")


def stored_one_by_one(asked: Asked) -> Answer:
    urn = unquote(asked.path.split("/")[2].split("?")[0])
    if "gone" in urn:
        return Answer(404)
    key = {"mlModelKey": {"name": "mlModelKey", "value": {"name": "made up"}}}
    if "absent" in urn:
        return Answer(body={"urn": urn, "entityName": "mlModel", "aspects": key})
    status = {"name": "status", "version": 0, "value": {"removed": False}}
    aspects = {**key, "status": {**status, "systemMetadata": {"version": "2"}}}
    return Answer(body={"urn": urn, "entityName": "mlModel", "aspects": aspects})


def test_a_type_that_the_service_does_not_know_says_nothing_of_the_batch_read(
    service: FakeService, client: CatalogClient
) -> None:
    words = {"error": "Not Found", "message": "'mlmodelgroup' is not an entity type"}
    service.on("POST", "/openapi/v3/entity/mlModelGroup", Answer(404, words))
    service.on("POST", MODELS, Answer(200, []))
    with pytest.raises(CatalogRequestError, match="is not an entity type"):
        client.read_many([group_urn("g")], ["status"])
    assert client.reads_in_batches
    assert client.read_many([model_urn("m")], ["status"]) == {}


@pytest.mark.parametrize("status", [404, 405, 501])
def test_without_a_batch_read_entities_are_read_one_by_one(
    service: FakeService, client: CatalogClient, status: int
) -> None:
    service.on("POST", "/openapi", Answer(status, b"No endpoint"))
    service.on("GET", "/entitiesV2/", stored_one_by_one)
    urns = [model_urn("a"), model_urn("gone"), model_urn("absent"), group_urn("g")]
    for _ in range(2):
        assert client.read_many(urns, ["status"]) == {
            model_urn("a"): {"status": StoredAspect({"removed": False}, "2")},
            group_urn("g"): {"status": StoredAspect({"removed": False}, "2")},
        }
    assert len(service.to("/openapi")) == 1
    assert len(service.to("/entitiesV2")) == 8
    assert service.to("/entitiesV2")[0].path.endswith("%29?aspects=List(status)")
    assert not client.reads_in_batches


def test_a_made_up_key_is_no_proof_of_an_entity(
    service: FakeService, client: CatalogClient
) -> None:
    def only_key(asked: Asked) -> Answer:
        del asked
        return Answer(body={"aspects": {"tagKey": {"value": {"name": "t"}}}})

    def key(asked: Asked) -> Answer:
        here = "there" in asked.path
        return Answer(body={"aspect": {"com.TagKey": {"name": "t"}}}) if here else Answer(404)

    service.on("GET", "/entitiesV2/", only_key)
    service.on("GET", "/aspects/", key)
    urns = ["urn:li:tag:absent", "urn:li:tag:there"]
    for names in (["tagKey", "tagProperties"], ["tagKey"]):
        found = client.read_many(urns, names)
        assert found == {"urn:li:tag:there": {"tagKey": StoredAspect({"name": "t"}, None)}}
    assert (len(service.to("/entitiesV2")), len(service.to("/aspects"))) == (2, 4)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Answer(400, {"message": "bad urn"}), CatalogRequestError),
        (Answer(200, []), ProtocolMismatchError),
        (Answer(200, {"urn": "x"}), ProtocolMismatchError),
    ],
)
def test_a_single_read_that_fails_is_no_absence(
    service: FakeService, client: CatalogClient, answer: Answer, kind: type[MlcatError]
) -> None:
    service.on("GET", "/entitiesV2/", answer)
    with pytest.raises(kind):
        client.read_many([model_urn("a"), model_urn("b")], ["status"])


def test_one_by_one_reads_overlap(service: FakeService, client: CatalogClient) -> None:
    together = threading.Barrier(4, timeout=20)

    def wait_for_others(asked: Asked) -> Answer:
        together.wait()
        return stored_one_by_one(asked)

    service.on("GET", "/entitiesV2/", wait_for_others)
    urns = [model_urn(str(n)) for n in range(8)]
    assert list(client.read_many(urns, ["status"])) == urns


@pytest.mark.parametrize("fits", [1, 2, 7])
def test_a_batch_that_a_proxy_finds_too_large_is_read_in_parts(
    service: FakeService, client: CatalogClient, fits: int
) -> None:
    def limited(asked: Asked) -> Answer:
        if len(asked.json()) > fits:
            return Answer(413, b"<html>413 Request Entity Too Large</html>")
        value: dict[str, Any] = {"mlModelProperties": {"value": {}}}
        return Answer(body=[{"urn": item["urn"], **value} for item in asked.json()])

    service.on("POST", MODELS, limited)
    urns = [model_urn(f"m{number}") for number in range(29)]
    found = client.read_many(urns, ["mlModelProperties"])
    assert sorted(found) == sorted(urns)


def test_an_entity_that_is_too_large_to_ask_for_is_named_with_the_cure(
    service: FakeService, client: CatalogClient
) -> None:
    def limited(asked: Asked) -> Answer:
        too_large = any("m2" in item["urn"] for item in asked.json())
        return Answer(413, b"too large") if too_large else Answer(body=[])

    service.on("POST", MODELS, limited)
    with pytest.raises(CatalogRequestError) as caught:
        client.read_many([model_urn(f"m{number}") for number in range(4)], ["status"])
    assert f"of {model_urn('m2')} with 413: too large" in str(caught.value)
    assert "client_max_body_size" in str(caught.value)
