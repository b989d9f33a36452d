"""The summaries of incidents on their entities, which follow each write of an incident."""

from typing import Any

import pytest

from mlcat_ingest.catalog.schema.values import Write
from mlcat_ingest.catalog.store.store import Store
from support.catalog_store import feature, group, model

INCIDENT = "urn:li:incident:drift"
STAMP = {"time": 5, "actor": "urn:li:corpuser:ann"}


def incident(*entities: str, state: str = "ACTIVE", **more: Any) -> Write:
    status = {"state": state, "lastUpdated": {**STAMP, "time": 7}}
    info = {"type": "CUSTOM", "customType": "drift", "entities": list(entities), "status": status}
    return Write(INCIDENT, "incidentInfo", {**info, "created": STAMP, **more})


def summary(store: Store, urn: str) -> list[list[Any]]:
    """Return the details of active incidents, and of resolved ones."""
    stored = store.get_many([urn]).get(urn, {})
    if "incidentsSummary" not in stored:
        return []
    value = stored["incidentsSummary"].value
    assert not value["activeIncidents"] + value["resolvedIncidents"]
    return [value["activeIncidentDetails"], value["resolvedIncidentDetails"]]


@pytest.fixture
def two(store: Store) -> Store:
    store.write(
        [
            Write(model("a"), "mlModelProperties", {}),
            Write(group("g"), "mlModelGroupProperties", {}),
        ]
    )
    store.write([Write(feature("t", "f"), "mlFeatureProperties", {})])
    return store


def test_the_summary_follows_state_entities_and_end_of_an_incident(two: Store) -> None:
    a, f = model("a"), feature("t", "f")
    details = {"urn": INCIDENT, "type": "drift", "createdAt": 5}
    two.write([incident(a, priority=1)])
    assert summary(two, a) == [[{**details, "priority": 1}], []]
    two.write([incident(a, f, state="RESOLVED")])
    resolved = [[], [{**details, "resolvedAt": 7}]]
    assert summary(two, a) == summary(two, f) == resolved
    two.write([incident(f)])
    assert (summary(two, a), summary(two, f)) == ([[], []], [[details], []])
    two.write([Write(INCIDENT, "incidentKey", change="DELETE")])
    assert summary(two, f) == [[], []]


def test_an_incident_makes_no_entity_and_none_in_its_own_batch_is_missed(two: Store) -> None:
    two.write([incident(model("absent"))])
    assert not two.get_many([model("absent")])
    two.write([Write(model("new"), "mlModelProperties", {}), incident(model("new"))])
    assert len(summary(two, model("new"))[0]) == 1


@pytest.mark.parametrize("name", ["type", "entities", "status", "created"])
def test_an_incident_without_a_required_field_is_stored_and_in_no_summary(
    two: Store, name: str
) -> None:
    whole = incident(model("a"))
    without = {key: value for key, value in whole.value.items() if key != name}
    for value in (without, {**without, name: None}):
        two.write([whole])
        assert len(summary(two, model("a"))[0]) == 1
        two.write([whole._replace(value=value)])
        assert summary(two, model("a")) == [[], []]
