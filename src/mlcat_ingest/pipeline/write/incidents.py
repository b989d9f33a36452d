"""Incidents of metadata tests: one for an entity and a test, opened and resolved by the verdict.

An incident keeps the recipes for which the test fails, its claims: in `created.message`, which
DataHub's own changes of an incident leave alone. Without claims the last verdict was that the test
passes. So a state that people gave it meanwhile is known, and stays as long as the verdict does.
"""

import hashlib
import time
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from typing import Any, Final, Literal

from mlcat_ingest.client.base import CANNOT_ANSWER, StoredEntity
from mlcat_ingest.errors import CodecError
from mlcat_ingest.metadata.aspects import INCIDENT_INFO, INCIDENTS_SUMMARY
from mlcat_ingest.metadata.codec import dumps, loads
from mlcat_ingest.metadata.proposal import Aspect, Entity
from mlcat_ingest.metadata.reserved import CLAIMS, INCIDENT_PREFIX
from mlcat_ingest.metadata.urn import PREFIX
from mlcat_ingest.pipeline.context import RunContext
from mlcat_ingest.pipeline.merge.applied import NOTHING
from mlcat_ingest.pipeline.merge.entity import MergedEntity
from mlcat_ingest.pipeline.merge.proposals import propose
from mlcat_ingest.pipeline.write.conflicts import PermittedReads
from mlcat_ingest.pipeline.write.delivery import MakeDelivery

OURS: Final = f"{PREFIX}incident:{INCIDENT_PREFIX}"
_ACTOR: Final = f"{PREFIX}corpuser:unknown"

State = Literal["absent", "open", "resolved by a person", "resolved", "opened by a person"]
Event = Literal["fails", "passes", "dropped"]
"""What a recipe has to say: how the test went, or that it does not follow the test any more."""

Action = Literal["keep", "open", "claim", "resolve", "clear", "drop"]

ACTIONS: Final[Mapping[State, Mapping[Event, Action]]] = {
    "absent": {"fails": "open", "passes": "keep", "dropped": "keep"},
    "open": {"fails": "claim", "passes": "resolve", "dropped": "drop"},
    "resolved by a person": {"fails": "claim", "passes": "clear", "dropped": "drop"},
    "resolved": {"fails": "open", "passes": "keep", "dropped": "keep"},
    "opened by a person": {"fails": "claim", "passes": "keep", "dropped": "keep"},
}
"""`claim` adds the recipe and `clear` deletes all claims, both whatever the state; `drop` deletes
that of the recipe, and resolves what is open if it was the last."""


def incident_of(entity: str, test: str) -> str:
    """Return the URN of the incident of an entity and a metadata test."""
    return OURS + hashlib.sha256(f"{entity} {test}".encode()).hexdigest()[:32]


def _state_of(info: Aspect | None) -> State:
    """Return the state of an incident with this `incidentInfo`, None for none."""
    if info is None:
        return "absent"
    fails = bool(_claims_of(info))
    if _is_active(info):
        return "open" if fails else "opened by a person"
    return "resolved by a person" if fails else "resolved"


def _claims_of(info: Aspect) -> frozenset[str]:
    """Return the recipes for which the test of an incident fails."""
    word, _, text = (info["created"].get("message") or "").partition(" ")
    try:
        recipes = loads(text) if word == CLAIMS and text else ()
    except CodecError:
        recipes = ()  # somebody edited it
    return frozenset(map(str, recipes)) if isinstance(recipes, list) else frozenset()


def after(info: Aspect | None, event: Event, recipe: str, fresh: Aspect) -> Aspect | None:
    """Return an incident after an event that `recipe` saw; what it was if that changes nothing.

    `fresh` is a new one. Of one that is there only state, stage and claims change.
    """
    action = ACTIONS[_state_of(info)][event]
    if action == "keep":
        return info
    before = fresh if info is None else info
    held = _claims_of(before)
    claims: Collection[str] = {
        "open": {recipe},
        "claim": held | {recipe},
        "drop": held - {recipe},
    }.get(action, ())
    is_active = _is_active(before)
    to_open = action == "open"
    if to_open or action == "resolve" or (action == "drop" and not claims):
        is_active = to_open
    status = before["status"]
    if is_active != _is_active(before):
        state, stage = ("ACTIVE", "TRIAGE") if is_active else ("RESOLVED", "FIXED")
        status = {**status, "state": state, "stage": stage, "lastUpdated": _stamp()}
    message = f"{CLAIMS} {dumps(sorted(claims)).decode()}"
    return {**before, "status": status, "created": {**before["created"], "message": message}}


def _stamp() -> dict[str, Any]:
    return {"time": int(time.time() * 1000), "actor": _ACTOR}


def new_incident(entity: str, test: str, name: str, description: str) -> Aspect:
    """Return the `incidentInfo` of an incident that a metadata test opens now."""
    stamp = _stamp()
    texts = {"title": f"Metadata test fails: {name}", "description": description}
    return {
        "type": "CUSTOM",
        "customType": "METADATA_TEST",
        **{key: text for key, text in texts.items() if text},
        "entities": [entity],
        "status": {"state": "ACTIVE", "stage": "TRIAGE", "lastUpdated": stamp},
        "source": {"type": "MANUAL", "sourceUrn": test},
        "startedAt": stamp["time"],
        "created": stamp,
    }


class Incidents:
    """Opens and resolves incidents of entities. Safe to use from several threads."""

    def __init__(self, context: RunContext, make: MakeDelivery, recipe: str) -> None:
        """Write what `recipe` sees, by a delivery that `make` makes."""
        self._context = context
        self._recipe = recipe
        self._reads = PermittedReads(context.sink, context.state)
        self._events: dict[str, Event] = {}
        self._delivery = make(context, self._merge)

    @cached_property
    def entity_types(self) -> Collection[str]:
        """The entity types that the catalog shows incidents of. Cost: one request."""
        try:
            return self._context.sink.search.with_incidents()
        except CANNOT_ANSWER:
            return ()

    def show(
        self,
        failing: Mapping[str, Entity],
        stored: Mapping[str, StoredEntity],
        event_of: Callable[[str], Event | None],
    ) -> set[str]:
        """Write what becomes of incidents; return the entities where that was refused.

        They are those in `failing`, by URN, and of the others that the `stored` summaries of
        entities list as ours, those for whose test there is an event.

        Cost: one read for 200 incidents, and the writes of what changes.
        """
        asked = {
            one["urn"]: Entity(one["urn"], {INCIDENT_INFO: {"entities": [urn]}})
            for urn, entity in stored.items()
            if INCIDENTS_SUMMARY in entity
            for part in ("activeIncidentDetails", "resolvedIncidentDetails")
            for one in entity[INCIDENTS_SUMMARY].value.get(part) or ()
            if one["urn"].startswith(OURS)
        } | dict(failing)
        found, denied = self._reads.read([*asked.values()]) if asked else ({}, [])
        refused: set[str] = set()
        for one in denied:
            refused.update(asked.pop(one.urn).aspects[INCIDENT_INFO]["entities"])
            self._context.ledger.note("verdict_not_shown", f"{one.urn}: {one.refusals[0]}")
        changed = []
        for urn, entity in asked.items():
            info = found[urn][INCIDENT_INFO].value if INCIDENT_INFO in found.get(urn, ()) else {}
            test = (info.get("source") or {}).get("sourceUrn")
            event = "fails" if urn in failing else test and event_of(test)
            if event:
                self._events[urn] = event
                changed.append(self._merge(entity, found.get(urn)))
        changed = [one for one in changed if one.proposals]
        outcomes = self._delivery.deliver(changed) if changed else ()
        for outcome in outcomes:
            before = outcome.merged.stored.get(INCIDENT_INFO)
            info = outcome.merged.proposals[-1].aspect
            if outcome.refusals:
                refused.update(info["entities"])
                detail = f"{info['entities'][0]}: {outcome.refusals[0]}"
                self._context.ledger.note("verdict_not_shown", detail)
            elif _is_active(None if before is None else before.value) != _is_active(info):
                what = "incidents opened" if _is_active(info) else "incidents resolved"
                self._context.ledger.count(what, verdicts_shown=1)
        for urn in asked:
            self._events.pop(urn, None)
        return refused

    def _merge(self, entity: Entity, stored: StoredEntity | None) -> MergedEntity:
        """Return what to write of an incident after its event; `entity` has a new one."""
        held = stored or NOTHING
        before = held.get(INCIDENT_INFO)
        fresh, info = entity.aspects[INCIDENT_INFO], None if before is None else before.value
        now = after(info, self._events[entity.urn], self._recipe, fresh)
        if now is None or now == info:
            return MergedEntity(entity, held, "unchanged")
        proposal = propose(entity.urn, INCIDENT_INFO, before, now)
        return MergedEntity(entity, held, "updated" if held else "created", (proposal,))


def _is_active(info: Aspect | None) -> bool:
    return info is not None and info["status"]["state"] == "ACTIVE"
