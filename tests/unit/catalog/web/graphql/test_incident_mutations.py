"""Incidents that people open and resolve over GraphQL, as DataHub's pages do it."""

from typing import Any

import pytest

from mlcat_ingest.catalog.store.store import Store
from support.catalog_graphql import ask, read, refused
from support.catalog_store import model, put

RAISE = "mutation ($i: RaiseIncidentInput!) { raiseIncident(input: $i) }"
UPDATE = """mutation ($u: String!, $i: IncidentStatusInput!) {
  updateIncidentStatus(urn: $u, input: $i) }"""
INCIDENTS = (
    "... on MLModel { incidents { total incidents { urn incidentStatus { state message } } } }"
)
MINIMAL = {"type": "OPERATIONAL", "resourceUrn": model("m")}


def info_of(store: Store, urn: str) -> dict[str, Any]:
    return dict(store.get_many([urn])[urn]["incidentInfo"].value)


def test_an_incident_is_opened_resolved_and_opened_again(store: Store) -> None:
    put(store, model("m"), mlModelProperties={})
    urn = ask(store, RAISE, i={**MINIMAL, "title": "bad", "description": "it fails"})[
        "raiseIncident"
    ]
    opened = info_of(store, urn)
    listed = read(store, model("m"), INCIDENTS)["incidents"]
    assert listed == {
        "total": 1,
        "incidents": [{"urn": urn, "incidentStatus": {"state": "ACTIVE", "message": None}}],
    }
    for state, more in (("RESOLVED", {"message": "done", "stage": "FIXED"}), ("ACTIVE", {})):
        status = {"state": state, "message": None, **more}
        assert ask(store, UPDATE, u=urn, i=status) == {"updateIncidentStatus": True}
        now = info_of(store, urn)
        assert now.pop("status").keys() == {"state", "lastUpdated", *more}
        assert now == {name: value for name, value in opened.items() if name != "status"}
        (one,) = read(store, model("m"), INCIDENTS)["incidents"]["incidents"]
        assert one["incidentStatus"] == {"state": state, "message": more.get("message")}


def test_an_incident_has_what_its_input_has(store: Store) -> None:
    for name in "mn":
        put(store, model(name), mlModelProperties={})
    entities, ann = [model("m"), model("n")], "urn:li:corpuser:ann"
    more = {"priority": "HIGH", "assigneeUrns": [ann], "startedAt": 5}
    status = {"state": "RESOLVED", "stage": "FIXED"}
    given = {"type": "CUSTOM", "customType": "drift", "resourceUrns": entities, "status": status}
    info = info_of(store, ask(store, RAISE, i={**given, **more})["raiseIncident"])
    stamp = info["created"]
    assert info == {
        "type": "CUSTOM",
        "customType": "drift",
        "entities": entities,
        "priority": 1,
        "assignees": [{"actor": ann, "assignedAt": stamp}],
        "startedAt": 5,
        "status": {**status, "lastUpdated": stamp},
        "source": {"type": "MANUAL"},
        "created": stamp,
    }
    for entity in entities:
        assert read(store, entity, INCIDENTS)["incidents"]["total"] == 1


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"type": "OPERATIONAL"}, "At least 1 resource urn"),
        ({"type": "OPERATIONAL", "resourceUrns": []}, "At least 1 resource urn"),
        ({**MINIMAL, "type": "CUSTOM"}, "customType is required"),
        ({**MINIMAL, "resourceUrn": "m"}, "m"),
        ({**MINIMAL, "resourceUrn": model("absent")}, "Entity does not exist"),
        ({**MINIMAL, "resourceUrn": "urn:li:tag:x"}, "tag"),
        ({**MINIMAL, "type": "NOPE"}, "NOPE"),
    ],
)
def test_an_incident_that_cannot_be_is_refused(
    store: Store, inputs: dict[str, Any], words: str
) -> None:
    assert words in refused(store, RAISE, i=inputs)["message"]
    assert not store.list_urns("incident").urns


def test_an_incident_that_is_not_there_is_not_made(store: Store) -> None:
    error = refused(store, UPDATE, u="urn:li:incident:none", i={"state": "RESOLVED"})
    assert error["message"] == "Failed to update incident. Incident does not exist."
    put(store, model("m"), mlModelProperties={})
    refused(store, UPDATE, u=model("m"), i={"state": "RESOLVED"})
    assert not store.list_urns("incident").urns
