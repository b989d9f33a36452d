"""Enrichment: entities get owners, tags, terms and properties by the rules of a recipe."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from mlcat_ingest.metadata.aspects import (
    DOMAINS,
    GLOBAL_TAGS,
    GLOSSARY_TERMS,
    OWNERSHIP,
    STRUCTURED_PROPERTIES,
    TAG_PROPERTIES,
)
from mlcat_ingest.metadata.card_sections import EMPTY_CARD, card_aspects
from mlcat_ingest.metadata.proposal import Aspect, Entity, Note
from mlcat_ingest.metadata.registry import ASPECTS, allows
from mlcat_ingest.metadata.urn import decoded_parts
from mlcat_ingest.pipeline.merge.aspects import merge_aspect
from mlcat_ingest.pipeline.merge.rules import BORROWED, UNION, properties_aspect
from mlcat_ingest.recipe.model import EnrichRule, Match, OwnerRule

Facts = tuple[str, Entity]
"""An entity and its type."""

# The record demands a stamp. A time of its own for every run would be a change in every run.
_NO_TIME: Final = {"time": 0, "actor": "urn:li:corpuser:unknown"}

_ONLY_FROM_RULES: Final[Mapping[str, Aspect]] = {
    name: {ASPECTS[name].curated or "": []}
    for name in (GLOSSARY_TERMS, DOMAINS, STRUCTURED_PROPERTIES)
}
"""Aspects that only rules write: without a rule for them they are empty."""


_KEYS: Final[Mapping[str, str]] = {
    GLOBAL_TAGS: "add_tags",
    GLOSSARY_TERMS: "add_terms",
    DOMAINS: "set_domain",
    OWNERSHIP: "add_owners",
    STRUCTURED_PROPERTIES: "structured_properties",
    **dict.fromkeys(EMPTY_CARD, "model_card"),
}
"""Recipe key of a rule, by the aspect that it adds to."""


class _TypeRule(NamedTuple):
    """One rule as it is for one type of entity; `notes` name what that type cannot have."""

    holds: Callable[[Facts], bool]
    additions: Mapping[str, Aspect]
    notes: tuple[Note, ...]


class _TypeRules(NamedTuple):
    """The rules as they are for one type of entity."""

    empty: Mapping[str, Aspect]
    rules: Sequence[_TypeRule]


class Enricher:
    """Applies rules, in their order, to every entity that they match."""

    def __init__(self, rules: Sequence[EnrichRule]) -> None:
        self._rules = [(_condition(rule.match), _additions(rule)) for rule in rules]
        self._types: dict[str, _TypeRules] = {}

    def apply(self, entities: Iterable[Entity]) -> Iterator[Entity]:
        """Yield `entities` with what the rules add, each with the tags before it that it got.

        An aspect that no rule adds to any more is empty, so that the merge takes it back. An entity
        that is merely referred to, or that has only a status, gets nothing. A note names an aspect
        that the entity's type cannot have, unless it can have none that rules add.
        """
        for entity in entities:
            entity_type = entity.entity_type
            unruled = entity.only_if_absent or entity_type in BORROWED
            if unruled or properties_aspect(entity_type) not in entity.aspects:
                yield entity
                continue
            empty, rules = self._types.get(entity_type) or self._rules_of(entity_type)
            aspects = {**empty, **entity.aspects}
            notes, adds_only = entity.notes, entity.adds_only
            for holds, additions, unfit in rules:
                if not holds((entity_type, entity)):
                    continue
                notes += unfit
                for tag in additions.get(GLOBAL_TAGS, {}).get("tags", ()):
                    (name,) = decoded_parts(tag["tag"])
                    yield Entity(tag["tag"], {TAG_PROPERTIES: {"name": name}}, only_if_absent=True)
                # What the source did not read is not known to be empty.
                adds_only |= additions.keys() - aspects.keys()
                for name, added in additions.items():
                    united = merge_aspect(name, aspects.get(name), added, UNION).value
                    aspects[name] = added if united is None else united
            yield replace(entity, aspects=aspects, notes=notes, adds_only=adds_only)

    def _rules_of(self, entity_type: str) -> _TypeRules:
        """Return what the rules come to for a type, and remember it."""
        ruled = any(allows(entity_type, name) for name in _KEYS)
        rules = [
            _TypeRule(
                holds,
                {name: value for name, value in added.items() if allows(entity_type, name)},
                tuple(
                    Note(
                        "rule_does_not_fit",
                        f"enrich[{i}].{_KEYS[name]}: {entity_type} has no such aspect",
                    )
                    for name in added
                    if not allows(entity_type, name)
                ),
            )
            for i, (holds, added) in enumerate(self._rules)
            if ruled
        ]
        cards = EMPTY_CARD if any(added.keys() & EMPTY_CARD for _, added in self._rules) else {}
        empty = {
            name: value
            for name, value in {**_ONLY_FROM_RULES, **cards}.items()
            if allows(entity_type, name)
        }
        fitted = self._types[entity_type] = _TypeRules(empty, rules)
        return fitted


def _condition(match: Match) -> Callable[[Facts], bool]:
    """Return the test of one `match`, its patterns compiled."""
    types = frozenset(match.entity)
    name, urn = (pattern and re.compile(pattern) for pattern in (match.name, match.urn))
    properties = {key: re.compile(pattern) for key, pattern in match.properties.items()}

    def holds(facts: Facts) -> bool:
        entity_type, entity = facts
        if types and entity_type not in types:
            return False
        if urn and not urn.match(entity.urn):
            return False
        if name and not name.match(_name(entity_type, entity)):
            return False
        custom = _properties(entity_type, entity).get("customProperties") or {}
        return all(
            key in custom and pattern.match(custom[key]) for key, pattern in properties.items()
        )

    return holds


def _additions(rule: EnrichRule) -> Mapping[str, Aspect]:
    """Return the aspects that one rule adds, by name."""
    added: dict[str, Aspect] = {}
    if rule.add_tags:
        added[GLOBAL_TAGS] = {"tags": [{"tag": tag} for tag in rule.add_tags]}
    if rule.add_terms:
        added[GLOSSARY_TERMS] = {
            "terms": [{"urn": urn} for urn in rule.add_terms],
            "auditStamp": _NO_TIME,
        }
    if rule.model_card:
        card = card_aspects(rule.model_card).aspects
        added |= {name: value for name, value in card.items() if value != EMPTY_CARD[name]}
    if rule.set_domain:
        added[DOMAINS] = {"domains": [rule.set_domain]}
    if rule.add_owners:
        added[OWNERSHIP] = {"owners": [_owner(owner) for owner in rule.add_owners]}
    if rule.structured_properties:
        added[STRUCTURED_PROPERTIES] = {
            "properties": [
                {"propertyUrn": urn, "values": [_value(value) for value in values]}
                for urn, values in rule.structured_properties.items()
            ]
        }
    return added


def _owner(rule: OwnerRule) -> dict[str, str]:
    if rule.type.startswith("urn:"):
        return {"owner": rule.owner, "type": "CUSTOM", "typeUrn": rule.type}
    return {"owner": rule.owner, "type": rule.type}


def _value(value: float | str) -> dict[str, Any]:
    return {"string": value} if isinstance(value, str) else {"double": value}


def _properties(entity_type: str, entity: Entity) -> Aspect:
    return entity.aspects[properties_aspect(entity_type)]


def _name(entity_type: str, entity: Entity) -> str:
    named = _properties(entity_type, entity).get("name")
    if named:
        return str(named)
    parts = decoded_parts(entity.urn)
    return parts[0] if len(parts) == 1 else parts[1]
