"""Models get their features: what they say of them is looked up in the stores and the catalog."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, TypeVar

from mlcat_ingest.client.base import CANNOT_ANSWER, Catalog
from mlcat_ingest.core.text import printable
from mlcat_ingest.links.evidence import Evidence, Evidenced, LinkOptions
from mlcat_ingest.links.features import Features
from mlcat_ingest.links.index import FeatureIndex
from mlcat_ingest.links.ladder import Exists, Links, climb, settle
from mlcat_ingest.links.rules import Claim
from mlcat_ingest.metadata.aspects.ml import ML_MODEL_PROPERTIES
from mlcat_ingest.metadata.proposal import Entity, Note
from mlcat_ingest.metadata.reserved import (
    FEATURES_APPROXIMATE,
    FEATURES_RESOLVED_BY,
    FEATURES_UNRESOLVED,
)
from mlcat_ingest.pipeline.flow.queues import Gate
from mlcat_ingest.pipeline.read.presence import present
from mlcat_ingest.pipeline.report.tally import Tally

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
_Climbed = tuple[Claim, list[str]]
_Found = tuple[Links, list[str]]


class Linker:
    """Links models to the features that they were trained on.

    Every feature is looked up in the catalog, once, since a link to nowhere looks like one that
    leads somewhere; also if a store of this run has it, for the catalog may have refused it. A sink
    that holds nothing cannot be asked: for it, what the stores have is what there is.
    """

    def __init__(self, sink: Catalog, tally: Tally, gate: Gate) -> None:
        """Look up in `sink`; nothing is asked before a model has evidence."""
        self._sink = sink
        self._tally = tally
        self._gate = gate
        self._indexes: list[FeatureIndex] = []
        self._features = Features()
        self._known: dict[str, bool] = {}
        self._found: dict[_Case, _Found] = {}
        self._cannot_tell: str | None = None

    def add(self, index: FeatureIndex) -> None:
        """Look up in the index of one more store, which was read."""
        self._indexes.append(index)
        self._features = Features(self._indexes)
        self._found.clear()

    def link(self, records: Sequence[Sequence[Entity]]) -> list[Sequence[Entity]]:
        """Return the entities of some records, models with their features.

        Cost: one request for each batch of features that were not asked for lately; none where no
        model has evidence.
        """
        models = [one for entities in records for one in entities if isinstance(one, Evidenced)]
        if not models:
            return list(records)
        found = self._find(dict.fromkeys((one.evidence, one.options) for one in models))
        return [
            [
                self._linked(one, found[one.evidence, one.options])
                if isinstance(one, Evidenced)
                else one
                for one in entities
            ]
            for entities in records
        ]

    def _find(self, cases: Iterable[_Case]) -> dict[_Case, _Found]:
        """Return what follows from each of `cases`, all of them looked up together."""
        result: dict[_Case, _Found] = {}
        claims: dict[_Case, _Climbed] = {}
        for case in cases:
            known = self._found.get(case)
            if known is None:
                claims[case] = climb(case[0], self._features, case[1])
            else:
                result[case] = known
        exists = self._existing(claim for claim, _ in claims.values())
        for case, (claim, problems) in claims.items():
            links = settle(claim, exists(claim), dangling=case[1].dangling)
            result[case] = links, problems
        self._found.update((case, result[case]) for case in claims)
        _forget(self._found, SAME)
        return result

    def _existing(self, claims: Iterable[Claim]) -> Callable[[Claim], Exists]:
        if not self._sink.keeps:
            return _held
        asked = dict.fromkeys(
            one.urn for claim in claims for one in claim.wanted if one.urn is not None
        )
        answers = {urn: self._known[urn] for urn in asked if urn in self._known}
        new = [urn for urn in asked if urn not in answers]
        if new and self._cannot_tell is None:
            self._gate.check()
            answers.update(self._asked(new))
            self._known.update(answers)
            _forget(self._known, KNOWN)
        return lambda _: answers.get

    def _asked(self, urns: Sequence[str]) -> Mapping[str, bool]:
        try:
            there = set(present(self._sink, urns))
        except CANNOT_ANSWER as error:
            log.warning("features cannot be looked up, so links stay as they are: %s", error)
            self._cannot_tell = error.message
            return {}
        return {urn: urn in there for urn in urns}

    def _linked(self, model: Evidenced, found: _Found) -> Entity:
        links, problems = found
        self._tally.features(links)
        notes = [*model.notes, *(Note("feature_file_unreadable", one) for one in problems)]
        notes += [Note("feature_unknown", text) for text in links.unknown]
        notes += [Note("feature_ambiguous", text) for text in links.ambiguous]
        if links.approximate:
            notes.append(Note("features_approximate", links.approximate))
        if not links.complete:
            notes.append(Note("features_not_looked_up", self._cannot_tell or links.rule))
        properties = dict(model.aspects[ML_MODEL_PROPERTIES])
        properties["customProperties"] = {**properties["customProperties"], **_told(links)}
        if links.complete:
            properties["mlFeatures"] = list(links.urns)
        aspects = {**model.aspects, ML_MODEL_PROPERTIES: properties}
        return Entity(model.urn, aspects, model.only_if_absent, tuple(notes), model.adds_only)


def _held(claim: Claim) -> Exists:
    held = {one.urn for one in claim.wanted if one.state == "held"}
    return held.__contains__


def _told(links: Links) -> dict[str, str]:
    """Return the custom properties that say how the features of a model were found."""
    told: dict[str, str] = {}
    if links.rule:
        told[FEATURES_RESOLVED_BY] = links.rule
    if links.approximate:
        told[FEATURES_APPROXIMATE] = printable(links.approximate)
    lacking = [*links.unknown, *links.ambiguous]
    if lacking:
        shown = [printable(text[:_SHOWN_CHARS]) for text in lacking[:SHOWN]]
        more = len(lacking) - len(shown)
        told[FEATURES_UNRESOLVED] = ", ".join([*shown, f"… and {more} more"] if more else shown)
    return told


def _forget(known: dict[_KeyT, _ValueT], most: int) -> None:
    """Let go of the older half where there are more than `most`."""
    if len(known) > most:
        for old in list(islice(known, len(known) - most // 2)):
            del known[old]
