"""Links of models to features: the evidence is resolved by rules, and verified in the catalog."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, TypeVar

from mlcat_ingest.client.base import CANNOT_ANSWER
from mlcat_ingest.core.text import printable
from mlcat_ingest.links.index import FeatureIndex, Features
from mlcat_ingest.links.rules import (
    Candidate,
    Evidence,
    Exists,
    LinkOptions,
    Links,
    UnlinkedModel,
    resolve,
    verify,
)
from mlcat_ingest.metadata.aspects import ML_MODEL_PROPERTIES
from mlcat_ingest.metadata.proposal import Entity, Note
from mlcat_ingest.metadata.reserved import (
    FEATURES_APPROXIMATE,
    FEATURES_RESOLVED_BY,
    FEATURES_UNRESOLVED,
)
from mlcat_ingest.pipeline.context import RunContext
from mlcat_ingest.pipeline.read.lineage import existing

log = logging.getLogger(__name__)

KNOWN: Final = 50_000
"""Features of which it is kept whether the catalog has them."""
SAME: Final = 256
"""Models whose evidence is the same as that of one of so many before are looked up once."""
SHOWN: Final = 20
"""References without a feature that a model names."""

_SHOWN_CHARS: Final = 200
_KeyT = TypeVar("_KeyT")
_ValueT = TypeVar("_ValueT")
_Case = tuple[Evidence, LinkOptions]
_Resolution = tuple[Candidate, list[str]]
_LinkResult = tuple[Links, list[str]]


class Linker:
    """Links models to the features that they were trained on.

    Every feature is looked up in the catalog, once, since a link to nowhere looks like one that
    leads somewhere; also if a store of this run has it, for the catalog may have refused it. A sink
    that holds nothing cannot be asked: for it, what the stores have is what there is.
    """

    def __init__(self, context: RunContext) -> None:
        """Look up in the catalog; nothing is asked before a model has evidence."""
        self._context = context
        self._indexes: list[FeatureIndex] = []
        self._features = Features()
        self._known: dict[str, bool] = {}
        self._results: dict[_Case, _LinkResult] = {}
        self._cannot_tell: str | None = None

    def add(self, index: FeatureIndex) -> None:
        """Look up in the index of one more store, which was read."""
        self._indexes.append(index)
        self._features = Features(self._indexes)
        self._results.clear()

    def link(
        self, records: Sequence[Sequence[Entity]]
    ) -> Iterator[tuple[Sequence[Entity], Sequence[Links]]]:
        """Yield the entities of some records, models with their features, and these links.

        Cost: one request for each batch of features that were not asked for lately; none where no
        model has evidence.
        """
        results = self._resolve(
            dict.fromkeys(
                (entity.evidence, entity.options)
                for entities in records
                for entity in entities
                if isinstance(entity, UnlinkedModel)
            )
        )
        for entities in records:
            linked: list[Entity] = []
            links: list[Links] = []
            for entity in entities:
                if isinstance(entity, UnlinkedModel):
                    result = results[entity.evidence, entity.options]
                    links.append(result[0])
                    linked.append(self._with_links(entity, result))
                else:
                    linked.append(entity)
            yield linked, links

    def _resolve(self, cases: Iterable[_Case]) -> dict[_Case, _LinkResult]:
        """Return what follows from each of `cases`, all of them looked up together."""
        results: dict[_Case, _LinkResult] = {}
        candidates: dict[_Case, _Resolution] = {}
        for case in cases:
            cached = self._results.get(case)
            if cached is None:
                candidates[case] = resolve(case[0], self._features, case[1])
            else:
                results[case] = cached
        exists = self._existence(candidate for candidate, _ in candidates.values())
        for case, (candidate, problems) in candidates.items():
            links = verify(candidate, exists(candidate), dangling=case[1].dangling)
            results[case] = links, problems
        self._results.update((case, results[case]) for case in candidates)
        shrink(self._results, SAME)
        return results

    def _existence(self, candidates: Iterable[Candidate]) -> Callable[[Candidate], Exists]:
        if not self._context.sink.facts.keeps:
            return _in_stores
        urns = dict.fromkeys(
            match.urn
            for candidate in candidates
            for match in candidate.matches
            if match.urn is not None and match.state != "made"
        )
        answers = {urn: self._known[urn] for urn in urns if urn in self._known}
        new = [urn for urn in urns if urn not in answers]
        if new and self._cannot_tell is None:
            self._context.cancellation.check()
            answers.update(self._look_up(new))
            self._known.update(answers)
            shrink(self._known, KNOWN)
        return lambda _: answers.get

    def _look_up(self, urns: Sequence[str]) -> Mapping[str, bool]:
        try:
            existing_urns = set(existing(self._context.sink, urns))
        except CANNOT_ANSWER as error:
            log.warning("features cannot be looked up, so links do not change: %s", error)
            self._cannot_tell = error.message
            return {}
        return {urn: urn in existing_urns for urn in urns}

    def _with_links(self, model: UnlinkedModel, result: _LinkResult) -> Entity:
        links, problems = result
        notes = [*model.notes, *(Note("feature_file_unreadable", problem) for problem in problems)]
        notes += [Note("feature_unknown", text) for text in links.unknown]
        notes += [Note("feature_ambiguous", text) for text in links.ambiguous]
        if links.approximate:
            notes.append(Note("features_approximate", links.approximate))
        if not links.complete:
            notes.append(Note("features_not_looked_up", self._cannot_tell or links.rule))
        properties = dict(model.aspects[ML_MODEL_PROPERTIES])
        properties["customProperties"] = {**properties["customProperties"], **_properties_of(links)}
        if links.complete:
            properties["mlFeatures"] = list(links.urns)
        aspects = {**model.aspects, ML_MODEL_PROPERTIES: properties}
        return Entity(model.urn, aspects, model.only_if_absent, tuple(notes), model.adds_only)


def _in_stores(candidate: Candidate) -> Exists:
    urns = {match.urn for match in candidate.matches if match.state == "held"}
    return urns.__contains__


def _properties_of(links: Links) -> dict[str, str]:
    """Return the custom properties about how the features of a model were found."""
    properties: dict[str, str] = {}
    if links.rule:
        properties[FEATURES_RESOLVED_BY] = links.rule
    if links.approximate:
        properties[FEATURES_APPROXIMATE] = printable(links.approximate)
    lacking = [*links.unknown, *links.ambiguous]
    if lacking:
        shown = [printable(text[:_SHOWN_CHARS]) for text in lacking[:SHOWN]]
        more = len(lacking) - len(shown)
        properties[FEATURES_UNRESOLVED] = ", ".join(
            [*shown, f"… and {more} more"] if more else shown
        )
    return properties


def shrink(known: dict[_KeyT, _ValueT], most: int) -> None:
    """Delete the older half where there are more than `most`."""
    if len(known) > most:
        for old in list(islice(known, len(known) - most // 2)):
            del known[old]
