"""Verdicts that are seen: a metadata test that an entity fails becomes a tag, or an incident.

The tag is an entry of the recipe by the merge, see `Entity.verdicts`.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import product
from typing import Final

from mlcat_ingest.client.base import CANNOT_ANSWER, Evaluation, StoredEntity
from mlcat_ingest.errors import DefinitionError, MissingExtraError
from mlcat_ingest.metadata.aspects import (
    GLOBAL_TAGS,
    INCIDENT_INFO,
    INCIDENTS_SUMMARY,
    TAG_PROPERTIES,
    TEST_INFO,
)
from mlcat_ingest.metadata.codec import content_hash
from mlcat_ingest.metadata.proposal import Aspect, Entity
from mlcat_ingest.metadata.urn import build, encoded_bytes, entity_type_of
from mlcat_ingest.pipeline.context import RunContext
from mlcat_ingest.pipeline.merge.applied import NOTHING, verdict_tags
from mlcat_ingest.pipeline.merge.entity import Merge, MergedEntity
from mlcat_ingest.pipeline.merge.provenance import custom_of
from mlcat_ingest.pipeline.outcome import Outcome
from mlcat_ingest.pipeline.write.conflicts import PermittedReads
from mlcat_ingest.pipeline.write.delivery import DeliveryTarget, MakeDelivery
from mlcat_ingest.pipeline.write.incidents import Event, Incidents, incident_of, new_incident
from mlcat_ingest.recipe.model import Recipe

_TEST: Final = "urn:li:test:"

_NAME_BYTES: Final = 280
"""The longest name of a test that is in the URN of its tag; of a longer one its hash is."""


def _tag_of(test: str) -> str:
    """Return the URN of the tag of what fails a metadata test."""
    name = test.removeprefix(_TEST)
    short = name if encoded_bytes(name) <= _NAME_BYTES else content_hash(name)
    return build("tag", f"fails.{short}")


class Verdicts:
    """Shows the verdicts of metadata tests on entities. Safe to use from several threads."""

    def __init__(
        self,
        context: RunContext,
        recipe: Recipe,
        make: MakeDelivery,
        merge: Merge,
        delivery: DeliveryTarget,
    ) -> None:
        """Show those that `recipe` names; `merge` merges entities, and `delivery` takes them."""
        self._context = context
        self._recipe = recipe.name
        self._spec = recipe.evaluate.verdicts
        self._test_urns = frozenset(recipe.evaluate.test_urns)
        self._incidents = Incidents(context, make, recipe.name)
        self._merge = merge
        self._delivery = delivery
        self._reads = PermittedReads(context.sink, context.state)
        self._infos: dict[str, Aspect] = {}
        self._made: set[str] = set()
        self._noted: set[str] = set()

    def show(
        self, evaluation: Evaluation, infos: Mapping[str, Aspect], left: Collection[str]
    ) -> set[str]:
        """Show what `evaluation` found, and return the entities where that was refused.

        A test that it says nothing of on an entity does not apply; one that could not be evaluated
        leaves what is shown. `infos` are `testInfo` of tests that the catalog may lack. The
        entities that are `left` to other recipes have lost the tags already, and now the claims.
        A refusal is in the report.

        Cost: one read for each batch of entities of a type, and one for new tests; the writes of
        what changes.
        """
        self._infos.update(infos)
        self._read_tests(test for one in evaluation.outcomes.values() for test in one.failing)
        stored, refused = self._read(evaluation.outcomes)
        refused |= self._show_tags(evaluation, stored) | self._show_incidents(evaluation, stored)
        self._incidents.show({}, self._read(left)[0], lambda _: "dropped")
        return evaluation.outcomes.keys() & refused

    def _read_tests(self, urns: Iterable[str]) -> None:
        asked = sorted(set(urns) - self._infos.keys())
        stored: Mapping[str, StoredEntity] = {}
        try:
            stored = self._context.sink.read_many(asked, [TEST_INFO])
        except CANNOT_ANSWER as error:
            self._note("", f"the names of tests cannot be read: {error.message}")
        for urn in asked:
            aspect = stored.get(urn, {}).get(TEST_INFO)
            self._infos[urn] = NOTHING if aspect is None else aspect.value

    def _name(self, test: str) -> str:
        return self._infos[test].get("name") or test.removeprefix(_TEST)

    def _named(self, tests: Iterable[str], patterns: Collection[str]) -> list[str]:
        """Return those of `tests` that a recipe names."""
        texts = {test: (test.removeprefix(_TEST), self._name(test)) for test in tests}
        return [
            test
            for test in texts
            if test in patterns or any(re.match(*to) for to in product(patterns, texts[test]))
        ]

    def _note(self, about: str, detail: str) -> None:
        """Note what is not shown, once for each test or entity that it is about."""
        if about not in self._noted:
            self._noted.add(about)
            self._context.ledger.note("verdict_not_shown", f"{about}: {detail}".lstrip(": "))

    def _show_tags(self, evaluation: Evaluation, stored: Mapping[str, StoredEntity]) -> set[str]:
        unknown = set(map(_tag_of, evaluation.unevaluated))
        merged: list[MergedEntity] = []
        tests: set[str] = set()
        changes: dict[str, Counter[str]] = {}
        for urn, entity in stored.items():
            custom = custom_of(urn, entity)
            given = set(verdict_tags(custom, self._recipe))
            named = self._named(evaluation.outcomes[urn].failing, self._spec.tag)
            failing = [test for test in named if not self._reads_tags(test)]
            tags = {*map(_tag_of, failing), *unknown.intersection(given)}
            fresh = Entity(urn, {GLOBAL_TAGS: NOTHING}, verdicts=tuple(sorted(tags)))
            one = self._merge(fresh, entity)
            if one.proposals:
                merged.append(one)
                tests.update(failing)
                counts = {"tags added": len(tags - given), "tags removed": len(given - tags)}
                changes[urn] = Counter(counts)
        return self._write([*self._new_tags(tests), *merged], changes)

    def _reads_tags(self, test: str) -> bool:
        """Return whether a tag of its verdict may turn the outcome of a test."""
        from mlcat_ingest.metadata_tests.evaluate import read_test

        info = self._infos[test]
        try:
            read = read_test(test, info)
            paths: Iterable[str] = () if read is None else read.definition.paths()
        except (DefinitionError, MissingExtraError):
            paths = str(info.get("definition")).split('"')
        if any(GLOBAL_TAGS in path.split(".") for path in paths):
            self._note(
                test, f"it refers to {GLOBAL_TAGS}, which the tag of its verdict would change"
            )
            return True
        return False

    def _read(self, urns: Iterable[str]) -> tuple[dict[str, StoredEntity], set[str]]:
        """Return the entities that the catalog has, and those that may not be read, with a note."""
        by_type: dict[str, list[Entity]] = {}
        for urn in urns:
            entity = Entity(urn, {GLOBAL_TAGS: NOTHING})
            if entity.entity_type in self._incidents.entity_types:
                entity = Entity(urn, {GLOBAL_TAGS: NOTHING, INCIDENTS_SUMMARY: NOTHING})
            by_type.setdefault(entity.entity_type, []).append(entity)
        found: dict[str, StoredEntity] = {}
        denied: list[Outcome] = []
        for entities in by_type.values():
            stored, refused = self._reads.read(entities)
            found |= stored
            denied += refused
        return found, self._refused(denied)

    def _new_tags(self, tests: set[str]) -> Iterator[MergedEntity]:
        tags = []
        for test in sorted(tests - self._made):
            shown = {"name": f"fails: {self._name(test)}", "colorHex": f"#{content_hash(test)[:6]}"}
            if text := self._infos[test].get("description"):
                shown["description"] = text
            tags.append(Entity(_tag_of(test), {TAG_PROPERTIES: shown}, only_if_absent=True))
        self._made |= tests
        stored = self._reads.read(tags)[0] if tags else NOTHING
        merged = (self._merge(one, stored.get(one.urn)) for one in tags)
        yield from (one for one in merged if one.proposals)

    def _write(self, merged: list[MergedEntity], changes: Mapping[str, Counter[str]]) -> set[str]:
        """Write entities, count their changes, and return the refused ones, each with a note."""
        outcomes = self._delivery.deliver(merged) if merged else ()
        self._context.ledger.shown(outcomes)
        refused = self._refused(outcomes)
        shown = (counts for urn, counts in changes.items() if urn not in refused)
        for what, number in sum(shown, Counter[str]()).items():
            self._context.ledger.count(what, verdicts_shown=number)
        return refused

    def _refused(self, outcomes: Iterable[Outcome]) -> set[str]:
        """Return the entities of which something was refused, each with a note."""
        refused = {one.urn: str(one.refusals[0]) for one in outcomes if one.refusals}
        for urn, reason in refused.items():
            self._note(urn, reason)
        return set(refused)

    def _show_incidents(
        self, evaluation: Evaluation, stored: Mapping[str, StoredEntity]
    ) -> set[str]:
        failing: dict[str, Entity] = {}
        for urn in stored:
            named = self._named(evaluation.outcomes[urn].failing, self._spec.incident)
            kind = entity_type_of(urn)
            if named and kind not in self._incidents.entity_types:
                self._note(kind, "the catalog keeps no incidents of this entity type")
                continue
            for test in named:
                text = self._infos[test].get("description", "")
                info = new_incident(urn, test, self._name(test), text)
                incident = incident_of(urn, test)
                failing[incident] = Entity(incident, {INCIDENT_INFO: info})

        def event_of(test: str) -> Event | None:
            if test in evaluation.unevaluated:
                return None
            if self._test_urns and test not in self._test_urns:
                return "dropped"  # this recipe does not evaluate it: others do
            self._read_tests([test])
            return "passes" if self._named([test], self._spec.incident) else "dropped"

        return self._incidents.show(failing, stored, event_of)
