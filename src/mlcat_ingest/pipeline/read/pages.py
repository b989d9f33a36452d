"""From records to chunks: pages are read in a thread, mapped one record at a time, and grouped.

Entities are enriched by the rules of a recipe before they are merged.
"""

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final, NamedTuple

from mlcat_ingest.core.redaction import redact_tree
from mlcat_ingest.errors import RecipeError, RecordError, SkippableError
from mlcat_ingest.metadata.aspects.assets import TAG_PROPERTIES
from mlcat_ingest.metadata.aspects.governance import (
    DOMAINS,
    GLOBAL_TAGS,
    GLOSSARY_TERMS,
    OWNERSHIP,
    STRUCTURED_PROPERTIES,
)
from mlcat_ingest.metadata.codec import text_of
from mlcat_ingest.metadata.proposal import Aspect, Entity, Note
from mlcat_ingest.metadata.registry import ASPECTS, allows
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS
from mlcat_ingest.metadata.urn import parse
from mlcat_ingest.pipeline.context import RunContext
from mlcat_ingest.pipeline.evaluate.evaluator import Evaluator
from mlcat_ingest.pipeline.flow import Channel
from mlcat_ingest.pipeline.merge.aspects import fold, merge_aspect
from mlcat_ingest.pipeline.merge.limits import HEAVIEST, weight_of
from mlcat_ingest.pipeline.merge.rules import UNION, properties_aspect, version_set_of
from mlcat_ingest.pipeline.read.feature_tables import PrimaryKeys
from mlcat_ingest.pipeline.read.links import Linker, datasets_of
from mlcat_ingest.pipeline.state.tracker import TrackedRecord
from mlcat_ingest.recipe.model import EnrichRule, Match, OwnerRule
from mlcat_ingest.sources.base import (
    Capability,
    FeaturesOnly,
    Finished,
    Page,
    ReadRequest,
    ReadScope,
    Runs,
    RunState,
    Source,
)

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
            if entity.only_if_absent or properties_aspect(entity_type) not in entity.aspects:
                yield entity
            else:
                yield from self._enrich(entity, entity_type)

    def _enrich(self, entity: Entity, entity_type: str) -> Iterator[Entity]:
        empty, rules = self._types.get(entity_type) or self._rules_of(entity_type)
        aspects = {**empty, **entity.aspects}
        notes, adds_only = entity.notes, entity.adds_only
        for holds, additions, unfit in rules:
            if not holds((entity_type, entity)):
                continue
            notes += unfit
            for entry in additions.get(GLOBAL_TAGS, {}).get("tags", ()):
                (name,) = parse(entry["tag"]).parts
                yield Entity(entry["tag"], {TAG_PROPERTIES: {"name": name}}, only_if_absent=True)
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
        empty = {
            name: value for name, value in _ONLY_FROM_RULES.items() if allows(entity_type, name)
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
    return entity.aspects[properties_aspect(entity_type) or ""]


def _name(entity_type: str, entity: Entity) -> str:
    named = _properties(entity_type, entity).get("name")
    if named:
        return str(named)
    parts = parse(entity.urn).parts
    return parts[0] if len(parts) == 1 else parts[1]


log = logging.getLogger(__name__)

REMEMBERED_REFERENCES: Final = 20_000
"""Entities merely referred to that are not looked up again in the same run."""

# Not feature tables: they come among their features, so that each chunk would have only a few.
_WRITTEN_EARLY: Final = "mlModelGroup"
_NAMING_FIELDS: Final = ("run_id", "model_id", "experiment_id", "name", "urn", "id")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Entities of one type, each URN once, that are read, merged and written together."""

    entity_type: str
    entities: dict[str, Entity]

    @property
    def version_sets(self) -> dict[str, str]:
        """The version sets of those entities that are versions, by URN, in their order."""
        sets = ((urn, version_set_of(entity)) for urn, entity in self.entities.items())
        return {urn: version_set for urn, version_set in sets if version_set}


def request_for(source: Source[Any], scope: ReadScope, state: RunState) -> ReadRequest:
    """Return what a run over `scope` reads of `source`.

    Of a feature store, a run over named runs reads only what they are linked to: without its index
    the same run would get other links than a scheduled one gives it.

    Raises:
        RecipeError: the source does not declare that it can read that.
    """
    if isinstance(scope, Runs) and Capability.FEATURES in source.capabilities:
        scope = FeaturesOnly()
    if scope.needs is not None and scope.needs not in source.capabilities:
        raise RecipeError(
            f"{type(source).__name__} cannot read {type(scope).__name__}",
            hint=f"add it to `capabilities`: Capability.{scope.needs.name}",
        )
    return ReadRequest(scope, state)


def read_pages(
    source: Source[Any], request: ReadRequest, pages: Channel[Page[Any] | Finished]
) -> None:
    """Put all that `source` yields into `pages`, and close it at the end."""
    for page in source.read(request):
        pages.put(page)
    pages.close()


class PageMapper:
    """Maps the pages of a source: map, enrich, fit, link, and leave out what did not change."""

    def __init__(
        self,
        context: RunContext,
        enricher: Enricher,
        keys: PrimaryKeys,
        linker: Linker,
        evaluator: Evaluator,
    ) -> None:
        """Map with these; `evaluator` takes the URNs of unchanged entities."""
        self._context = context
        self._enricher = enricher
        self._keys = keys
        self._linker = linker
        self._evaluator = evaluator

    def entities(self, source: Source[Any], page: Page[Any]) -> Iterator[Entity]:
        """Yield the entities of each record of `page` that changed since it was acknowledged.

        A record that cannot be mapped is counted. No address in an aspect has credentials: what
        the catalog holds, its readers may read.

        Cost: memory for the entities of a batch of records, whose features are looked up together.
        """
        ledger = self._context.ledger
        changed, unchanged = ledger.page(page, self._context.sink.read_stamps)
        self._evaluator.add_unchanged(unchanged)
        for start in range(0, len(changed), MAX_REQUEST_ITEMS):
            mapped = [
                (tracked, entities)
                for record, tracked in changed[start : start + MAX_REQUEST_ITEMS]
                if (entities := self._map(source, record, tracked)) is not None
            ]
            linked = self._linker.link([entities for _, entities in mapped])
            for (tracked, _), (entities, links) in zip(mapped, linked, strict=True):
                # Features for the links, and datasets for the report.
                looked_up = bool(links) or any(map(datasets_of, entities))
                to_merge, same = ledger.mapped(tracked, entities, links, looked_up=looked_up)
                self._evaluator.add_unchanged(same)
                yield from to_merge

    def _map(
        self, source: Source[Any], record: Any, tracked: TrackedRecord | None
    ) -> Sequence[Entity] | None:
        try:
            entities = [
                _without_credentials(entity) for entity in self._enricher.apply(source.map(record))
            ]
        except SkippableError as error:
            reference = error.record_ref if isinstance(error, RecordError) else name_of(record)
            failed = (reference, str(error))
        except Exception as error:  # one record must not end the run
            log.debug("mapping %s failed", name_of(record), exc_info=True)
            failed = (name_of(record), f"{type(error).__name__}: {error}")
        else:
            return self._keys.fit(entities)
        self._context.ledger.unusable(tracked, *failed)
        return None


def _without_credentials(entity: Entity) -> Entity:
    aspects = redact_tree(entity.aspects, text_of)
    return entity if aspects is entity.aspects else replace(entity, aspects=aspects)


def name_of(record: object) -> str:
    """Return a short name of `record` for messages: its class and its first naming field."""
    kind = type(record).__name__
    for field in _NAMING_FIELDS:
        value = getattr(record, field, None)
        if value:
            return f"{kind} {value}"
    return kind


class Chunker:
    """Groups entities by type into chunks of at most one request, each URN once a chunk.

    A chunk ends sooner with an entity that makes it weigh `HEAVIEST`.
    """

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._buffers: dict[str, dict[str, Entity]] = {}
        self._weights: Counter[str] = Counter()
        self._references: dict[str, None] = {}

    def chunks(self, entities: Iterable[Entity]) -> Iterator[Chunk]:
        """Yield the chunks that `entities` fill; the rest stays for the next call or `rest`."""
        for entity in entities:
            if entity.only_if_absent and self._is_repeated(entity.urn):
                continue
            entity_type = entity.entity_type
            buffer = self._buffers.setdefault(entity_type, {})
            earlier = buffer.get(entity.urn)
            buffer[entity.urn] = entity if earlier is None else fold(earlier, entity)
            if earlier is not None and not (earlier.only_if_absent or entity.only_if_absent):
                self._context.ledger.folded(entity.urn)
            self._weights[entity_type] += weight_of(entity)
            if len(buffer) >= MAX_REQUEST_ITEMS or self._weights[entity_type] >= HEAVIEST:
                yield from self._containers()
                if entity_type in self._buffers:
                    yield self._cut(entity_type)

    def rest(self) -> Iterator[Chunk]:
        """Yield what is left, containers first."""
        yield from self._containers()
        for entity_type in list(self._buffers):
            yield self._cut(entity_type)

    def _containers(self) -> Iterator[Chunk]:
        # A run that breaks off should not leave members without their group.
        if _WRITTEN_EARLY in self._buffers:
            yield self._cut(_WRITTEN_EARLY)

    def _cut(self, entity_type: str) -> Chunk:
        del self._weights[entity_type]
        return Chunk(entity_type, self._buffers.pop(entity_type))

    def _is_repeated(self, urn: str) -> bool:
        if urn in self._references:
            return True
        self._references[urn] = None
        if len(self._references) > REMEMBERED_REFERENCES:
            # Delete the older half at once: a dict walks over the holes of single deletions.
            for old in list(islice(self._references, REMEMBERED_REFERENCES // 2)):
                del self._references[old]
        return False
