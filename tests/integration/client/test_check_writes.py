"""`check --write`: the test entity comes, shows what the catalog does, and goes."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mlcat_ingest.client.config import EmbeddedSinkConfig, RestSinkConfig
from mlcat_ingest.client.embedded import EmbeddedCatalog
from mlcat_ingest.client.rest import checks
from mlcat_ingest.client.rest.catalog import RestCatalog
from mlcat_ingest.core.findings import Finding
from support.catalog_server import RunningCatalog, running_catalog
from support.fake_service import Answer, Asked, FakeService, fake_service

WRITE = "catalog permission: write"
DELETE = "catalog permission: delete"
CONDITION = "catalog conditional writes"
TIME = "catalog write time"


def checked(server: str, *, write: bool = True, token: str = "") -> dict[str, Finding]:
    config = RestSinkConfig.model_validate({"server": server, "token": token, "retries": 0})
    sink = RestCatalog(config)
    try:
        return {one.what: one for one in sink.check(write=write)}
    finally:
        sink.close()


def test_a_real_catalog_is_as_before(catalog: RunningCatalog) -> None:
    found = checked(catalog.url)
    assert [one for one in found.values() if one.outcome != "ok" and one.what != TIME] == []
    assert found[CONDITION].detail == "If-Version-Match is enforced"
    assert "hard-deleted" in found[DELETE].detail
    assert list(catalog.store.list_urns("mlModel").urns) == []


@pytest.mark.parametrize(("aspect_ms", "outcome"), [(20, "ok"), (21, "warning")])
def test_a_service_that_takes_long_for_an_aspect_is_named(
    catalog: RunningCatalog, aspect_ms: int, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A request takes 50 ms, and so much more for each of six aspects.
    one_s, all_s = 0.05 + aspect_ms / 1000, 0.05 + 6 * aspect_ms / 1000
    readings = iter([0, one_s, 1, 1 + all_s, 2, 3, 4, 5])
    monkeypatch.setattr(checks, "time", SimpleNamespace(perf_counter=lambda: next(readings)))
    found = checked(catalog.url)[TIME]
    assert (found.outcome, f"{aspect_ms} ms an aspect" in found.detail) == (outcome, True)
    assert ("LOGGING_LEVEL_COM_LINKEDIN=INFO" in (found.hint or "")) is (outcome == "warning")


def test_without_write_nothing_is_written(catalog: RunningCatalog) -> None:
    assert checked(catalog.url, write=False)[WRITE].detail.startswith("not tried: ")


def test_a_token_for_reading_only_passes_until_a_write_is_tried(tmp_path: Path) -> None:
    with running_catalog(tmp_path / "c.db", token="whole", read_token="reading") as catalog:
        read = checked(catalog.url, write=False, token="reading")
        found = checked(catalog.url, token="reading")
        assert list(catalog.store.list_urns("mlModel").urns) == []
    assert [one for one in read.values() if one.outcome == "failed"] == []
    assert "--write" in read[WRITE].detail
    assert found[WRITE].outcome == "failed"
    assert DELETE not in found


def test_an_embedded_catalog_is_as_before(tmp_path: Path) -> None:
    db = f"sqlite:///{tmp_path}/c.db"
    with running_catalog(tmp_path / "c.db"):
        pass
    sink = EmbeddedCatalog(EmbeddedSinkConfig(db=db))
    try:
        found = {one.what: one.outcome for one in sink.check(write=True)}
        assert found[WRITE] == found[DELETE] == "ok"
    finally:
        sink.close()


class Lenient:
    """A service that takes what it is given; a test takes verbs away from it."""

    def __init__(self, service: FakeService) -> None:
        self.service = service
        self.stored: dict[str, dict[str, Any]] = {}
        service.on("POST", "/aspects", self.write)
        service.on("POST", "/openapi/v3/entity/mlModel/batchGet", self.read)
        service.on("POST", "/entities", self.delete)

    def write(self, asked: Asked) -> Answer:
        for one in asked.json()["proposals"]:
            entity = self.stored.setdefault(one["entityUrn"], {})
            entity[one["aspectName"]] = json.loads(one["aspect"]["value"])
        return Answer(body={"value": "success"})

    def read(self, asked: Asked) -> Answer:
        return Answer(
            body=[
                {"urn": one["urn"], **{k: {"value": v} for k, v in self.stored[one["urn"]].items()}}
                for one in asked.json()
                if one["urn"] in self.stored
            ]
        )

    def delete(self, asked: Asked) -> Answer:
        self.stored.pop(asked.json()["urn"], None)
        return Answer(body={"value": {}})


@pytest.fixture
def lenient() -> Iterator[Lenient]:
    with fake_service() as service:
        yield Lenient(service)


def test_conditions_that_are_not_enforced(lenient: Lenient) -> None:
    found = checked(lenient.service.server)
    assert found[CONDITION].outcome == "warning"
    assert found[DELETE].outcome == "ok"
    assert lenient.stored == {}


def test_a_catalog_that_breaks_at_a_condition(lenient: Lenient) -> None:
    def breaking(asked: Asked) -> Answer:
        return Answer(500) if b"If-Version-Match" in asked.body else lenient.write(asked)

    lenient.service.on("POST", "/aspects", breaking)
    found = checked(lenient.service.server)
    assert (found[CONDITION].outcome, found[DELETE].outcome) == ("failed", "ok")
    assert lenient.stored == {}


def test_a_catalog_to_read_only(lenient: Lenient) -> None:
    lenient.service.on("POST", "/aspects", Answer(403, {"message": "read-only token"}))
    found = checked(lenient.service.server)
    assert found[WRITE].outcome == "failed"
    assert "read-only token" in found[WRITE].detail
    assert found["catalog permission: read aspects"].outcome == "ok"
    assert DELETE not in found
    assert lenient.service.to("/entities?action=delete") == []


def test_a_write_without_an_answer_is_taken_back_all_the_same(lenient: Lenient) -> None:
    def written_and_lost(asked: Asked) -> Answer:
        lenient.write(asked)
        return Answer(500)

    lenient.service.on("POST", "/aspects", written_and_lost)
    found = checked(lenient.service.server)
    assert (found[WRITE].outcome, found[DELETE].outcome) == ("failed", "ok")
    assert lenient.stored == {}


def test_a_test_entity_that_may_not_be_deleted_is_hidden_and_named(lenient: Lenient) -> None:
    lenient.service.on("POST", "/entities", Answer(403, {"message": "no deleting"}))
    found = checked(lenient.service.server)
    [(urn, aspects)] = lenient.stored.items()
    assert aspects["status"] == {"removed": True}
    assert found[DELETE].outcome == "warning"
    assert f"{urn} is soft-deleted" in found[DELETE].detail
    assert found[DELETE].hint == f'delete it by hand: datahub delete --urn "{urn}" --hard'


BATCH_GET = "/openapi/v3/entity/mlModel/batchGet"
READ_BACK = "catalog read after write"


@pytest.mark.parametrize(
    ("path", "answer", "finding", "outcome", "words"),
    [
        (BATCH_GET, Answer(403), DELETE, "warning", "was deleted; reading it back failed"),
        ("/entities", Answer(body={"value": {}}), DELETE, "failed", "still exists"),
        ("/aspects", Answer(body={"value": "success"}), READ_BACK, "failed", "is missing"),
    ],
    ids=["may not be read", "is not deleted", "is written later on"],
)
def test_a_test_entity_that_is_not_as_it_was_acknowledged(
    lenient: Lenient, path: str, answer: Answer, finding: str, outcome: str, words: str
) -> None:
    lenient.service.on("POST", path, answer)
    found = checked(lenient.service.server)[finding]
    assert found.outcome == outcome
    assert words in found.detail
    assert bool(lenient.stored) == (path == "/entities"), "it is not made anew"
