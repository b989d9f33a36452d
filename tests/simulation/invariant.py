"""The invariant: the catalog holds what a fresh ingest makes, and what people wrote beside it."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypeAlias

from mlcat_ingest.metadata.proposal import Aspect
from mlcat_ingest.metadata.registry import ASPECTS, KEY_ASPECTS
from mlcat_ingest.metadata.reserved import OWN_PREFIX
from mlcat_ingest.metadata.urn import entity_type_of
from simulation.people import MARK, OWN_TYPES, Ledger, People, is_persons

Contents: TypeAlias = Mapping[str, Mapping[str, Aspect]]
Facts: TypeAlias = dict[tuple[str, str], Any]
"""Aspect and field to its value; lists as sorted texts."""

_IS_LATEST = ("versionProperties", "isLatest")
_VERSION_SET = ("versionProperties", "versionSet")


def is_live(aspects: Mapping[str, Aspect]) -> bool:
    return not aspects.get("status", {}).get("removed")


def facts_of(aspects: Mapping[str, Aspect]) -> Facts:
    """Return what stands on an entity, without bases, what people wrote, and what is empty."""
    found: Facts = {}
    for name, aspect in aspects.items():
        if name == "status" or name in KEY_ASPECTS:
            continue
        unowned = ASPECTS[name].unowned
        for field, value in aspect.items():
            fact = _without_people(value)
            if field not in unowned and fact not in ([], {}, None, ""):
                found[name, field] = fact
    return found


def _without_people(value: object) -> object:
    if isinstance(value, list):
        return sorted(str(one) for one in value if not is_persons(one))
    if isinstance(value, dict):
        return {
            key: one
            for key, one in value.items()
            if not key.startswith(OWN_PREFIX) and not is_persons(key)
        }
    return None if is_text_of_person(value) else value


def is_text_of_person(value: object) -> bool:
    return isinstance(value, str) and value.startswith(MARK)


def differences(
    stored: Contents,
    fresh: Contents,
    ledger: Ledger,
    more: Collection[str] = (),
    *,
    whole: bool = True,
) -> Iterator[str]:
    """Yield what of `stored` is against the invariant. There may be `more` on some entities.

    Passes over what changed do not find all that is gone: then it is not the `whole`.
    """
    kept_sets = {
        aspects.get("versionProperties", {}).get("versionSet")
        for urn, aspects in stored.items()
        if urn in more and is_live(aspects) and not (urn in fresh and is_live(fresh[urn]))
    }
    for urn, aspects in fresh.items():
        if not is_live(aspects):
            continue
        held = stored.get(urn)
        if held is None or not is_live(held):
            yield f"{urn} is {'missing' if held is None else 'removed'}"
            continue
        if entity_type_of(urn) not in OWN_TYPES:
            continue
        facts, wanted = facts_of(held), facts_of(aspects)
        is_undecided = not whole or wanted.get(_VERSION_SET) in kept_sets
        if is_undecided or (_IS_LATEST not in facts and wanted.get(_IS_LATEST)):
            # A version that stays may be the latest; and so is one without the field to searches.
            facts.pop(_IS_LATEST, None)
            wanted.pop(_IS_LATEST, None)
        yield from _field_differences(urn, facts, wanted, has_more=urn in more)
    if whole:
        for urn, aspects in stored.items():
            is_ours = entity_type_of(urn) in OWN_TYPES
            gone = urn not in fresh or not is_live(fresh[urn])
            if is_ours and gone and is_live(aspects) and urn not in more:
                yield f"{urn} is live, and its source has it no more"
    yield from _lost(stored, ledger)


def _field_differences(urn: str, held: Facts, fresh: Facts, *, has_more: bool) -> Iterator[str]:
    for key in sorted(held.keys() | fresh.keys()):
        left, right = held.get(key), fresh.get(key)
        if left == right:
            continue
        if has_more and _contains(left, right):
            continue
        yield f"{urn} {'.'.join(key)}: {left!r} instead of {right!r}"


def _contains(more: Any, less: Any) -> bool:
    if isinstance(more, list):
        return set(more) >= set(less or ())
    if isinstance(more, dict):
        return all(more.get(key) == value for key, value in (less or {}).items())
    return less is None


def left_behind(stored: Contents, people: People, groups: Mapping[str, str]) -> list[str]:
    """Return what people put on a group, and is not on the one that its experiment has now."""
    return [
        f"{mark} of a person is lost from {name} of {groups[experiment]}"
        for (_, name, listed), marks in people.ledger.items()
        for mark in sorted(marks)
        if (experiment := people.groups.get(mark, "")) in groups
        and f"{mark}'" not in str(stored.get(groups[experiment], {}).get(name, {}).get(listed, ""))
    ]


def _lost(stored: Contents, ledger: Ledger) -> Iterator[str]:
    """Yield what people wrote and is not there."""
    for (urn, name, field), entries in ledger.items():
        held = str(stored.get(urn, {}).get(name, {}).get(field, ""))
        for mark in entries:
            if f"{mark}'" not in held:
                yield f"{mark} of a person is lost from {name} of {urn}"
