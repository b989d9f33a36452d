"""The state machine of incidents: its table, and histories of recipes and a person."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, get_args

import pytest

from mlcat_ingest.metadata.proposal import Aspect
from mlcat_ingest.metadata.validate import validate_aspect
from mlcat_ingest.pipeline.write import incidents
from mlcat_ingest.pipeline.write.incidents import (
    ACTIONS,
    Action,
    Event,
    State,
    _claims_of,
    _state_of,
    after,
    incident_of,
    new_incident,
)
from support.fakes import model_urn

MODEL, TEST = model_urn("m"), "urn:li:test:owned"
NEW: Final = new_incident(MODEL, TEST, "Owned", "")


def incident(state: State) -> Aspect | None:
    """Return an incident in this state, for the recipe `one`."""
    opened = after(None, "fails", "one", NEW)
    assert opened is not None
    person = {"message": "known", "lastUpdated": {"time": 1, "actor": "urn:li:corpuser:ann"}}
    match state:
        case "absent":
            return None
        case "open":
            return opened
        case "resolved by a person":
            return {**opened, "status": {**person, "state": "RESOLVED"}}
        case "resolved":
            return after(opened, "passes", "one", NEW)
        case "opened by a person":
            resolved = after(opened, "passes", "one", NEW)
            assert resolved is not None
            return {**resolved, "status": {**person, "state": "ACTIVE"}}


THEN: Final[Mapping[State, Mapping[Event, State]]] = {
    "absent": {"fails": "open", "passes": "absent", "dropped": "absent"},
    "open": {"fails": "open", "passes": "resolved", "dropped": "resolved"},
    "resolved by a person": {
        "fails": "resolved by a person",
        "passes": "resolved",
        "dropped": "resolved",
    },
    "resolved": {"fails": "open", "passes": "resolved", "dropped": "resolved"},
    "opened by a person": {
        "fails": "open",
        "passes": "opened by a person",
        "dropped": "opened by a person",
    },
}


@pytest.mark.parametrize("event", get_args(Event))
@pytest.mark.parametrize("state", THEN)
def test_each_state_and_event(state: State, event: Event) -> None:
    before = incident(state)
    now = after(before, event, "one", NEW)
    assert (_state_of(before), _state_of(now)) == (state, THEN[state][event])
    if now is not None:
        assert not validate_aspect("incident", "incidentInfo", now)
        assert after(now, event, "one", NEW) == now
    if before is not None and now is not None:
        assert {k: v for k, v in now.items() if k not in {"status", "created"}} == {
            k: v for k, v in before.items() if k not in {"status", "created"}
        }
        assert now["status"].get("message") == before["status"].get("message")


def test_the_table_is_whole_and_an_incident_is_one_for_entity_and_test() -> None:
    assert {(state, event) for state in ACTIONS for event in ACTIONS[state]} == {
        (state, event) for state in get_args(State) for event in get_args(Event)
    }
    assert incident_of(MODEL, TEST) == incident_of(MODEL, TEST) != incident_of(TEST, MODEL)


@pytest.mark.parametrize("message", ["mlcat.failing", "mlcat.failing x", "mlcat.failing 3", "x []"])
def test_a_message_that_is_no_list_of_recipes_claims_nothing(message: str) -> None:
    assert not _claims_of({**NEW, "created": {**NEW["created"], "message": message}})


@dataclass
class World:
    """An incident in a catalog, and what it has to be by what recipes and a person did.

    `fails` are the recipes that saw the test fail last; `chosen` is what the person set since the
    verdict of all of them changed.
    """

    info: Aspect | None = None
    fails: set[str] = field(default_factory=set)
    chosen: str | None = None
    notes: dict[str, Any] = field(default_factory=dict)

    def event(self, recipe: str, event: Event) -> None:
        self.info = after(self.info, event, recipe, NEW)
        failed = bool(self.fails)
        if event == "fails":
            self.fails.add(recipe)
        elif event == "passes":
            self.fails.clear()
        else:
            self.fails.discard(recipe)
        if bool(self.fails) != failed:
            self.chosen = None

    def person(self, step: random.Random) -> None:
        if self.info is None:
            return
        self.chosen = step.choice(["ACTIVE", "RESOLVED"])
        self.notes = {"assignees": [{"actor": f"urn:li:corpuser:{step.random()}"}]}
        status = {**self.info["status"], "state": self.chosen, "message": str(step.random())}
        self.info = {**self.info, **self.notes, "status": status}

    def check(self) -> None:
        if self.info is None:
            assert not self.fails
            return
        expected = self.chosen or ("ACTIVE" if self.fails else "RESOLVED")
        assert self.info["status"]["state"] == expected
        assert _claims_of(self.info) == self.fails
        assert self.notes.items() <= self.info.items()


def history(seed: int) -> None:
    """Let two recipes and a person do what they like in two catalogs."""
    step = random.Random(seed)
    worlds = [World(), World()]
    for _ in range(25):
        world = step.choice(worlds)
        if step.random() < 0.3:
            world.person(step)
        else:
            world.event(step.choice(["one", "two"]), step.choice(get_args(Event)))
        for one in worlds:
            one.check()


def histories() -> None:
    for seed in range(300):
        history(seed)


def test_a_person_is_never_overruled_while_the_verdict_stays() -> None:
    histories()


BROKEN: Final[Mapping[State, Mapping[Event, Action]]] = {
    "absent": {"fails": "keep", "passes": "open", "dropped": "open"},
    "open": {"fails": "keep", "passes": "drop", "dropped": "resolve"},
    "resolved by a person": {"fails": "open", "passes": "keep", "dropped": "clear"},
    "resolved": {"fails": "claim", "passes": "open", "dropped": "open"},
    "opened by a person": {"fails": "keep", "passes": "resolve", "dropped": "resolve"},
}


@pytest.mark.parametrize("event", get_args(Event))
@pytest.mark.parametrize("state", BROKEN)
def test_histories_find_a_broken_rule(
    state: State, event: Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = {**ACTIONS, state: {**ACTIONS[state], event: BROKEN[state][event]}}
    monkeypatch.setattr(incidents, "ACTIONS", broken)
    with pytest.raises(AssertionError):
        histories()
