"""Lineage of models: links to features by their evidence, and the check of links to datasets.

The evidence for features is resolved by rules, and verified in the catalog. A dataset whose name no
other connector writes makes a link to nowhere, which looks like lineage. It is not created: it is
reported, with the nearest names.
"""

import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import islice
from typing import Final, TypeVar

from mlcat_ingest.client.base import CANNOT_ANSWER, Catalog
from mlcat_ingest.core.text import printable
from mlcat_ingest.errors import InvalidUrnError, MlcatError
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
from mlcat_ingest.metadata.aspects.common import STATUS
from mlcat_ingest.metadata.aspects.ml import (
    ML_MODEL_EVALUATION_DATA,
    ML_MODEL_PROPERTIES,
    ML_MODEL_TRAINING_DATA,
)
from mlcat_ingest.metadata.proposal import Entity, Note
from mlcat_ingest.metadata.registry import key_aspect_name
from mlcat_ingest.metadata.reserved import (
    FEATURES_APPROXIMATE,
    FEATURES_RESOLVED_BY,
    FEATURES_UNRESOLVED,
    MAX_REQUEST_ITEMS,
)
from mlcat_ingest.metadata.urn import PREFIX, entity_type_of, raw_parts
from mlcat_ingest.pipeline.context import RunContext
from mlcat_ingest.pipeline.merge.provenance import is_removed, marks_removed
from mlcat_ingest.pipeline.report.report import DanglingDataset, LineageSummary
from mlcat_ingest.recipe.model import LineageSpec

MOST: Final = 20_000
"""Datasets that are looked up in one run at most; each is looked up once."""

EXAMPLES: Final = 10
"""Dangling datasets that are named in the report, and searched for."""

NEAREST: Final = 3
"""Names that are reported of each of them at most."""

_REFERENCES: Final = {
    ML_MODEL_TRAINING_DATA: "trainingData",
    ML_MODEL_EVALUATION_DATA: "evaluationData",
}
_DATASET: Final = "dataset"
_PREFIX: Final = f"{PREFIX}{_DATASET}:"
_WORD: Final = re.compile(r"\w+")


class LineageCheck:
    """Takes note of datasets while entities pass, and looks them up at the end of a run."""

    def __init__(self, context: RunContext, spec: LineageSpec) -> None:
        """Look up in the catalog; nothing is kept or asked where `spec` switches it off."""
        self._context = context
        self._enabled = spec.check
        self._models: dict[str, int] = {}
        self._beyond = False

    def watch(self, entities: Iterable[Entity]) -> Iterator[Entity]:
        """Yield `entities`, taking note of the datasets that they refer to.

        Cost: memory for 20,000 URNs at most.
        """
        for entity in entities:
            if self._enabled and not marks_removed(entity):
                for urn in datasets_of(entity):
                    self._note(urn)
            yield entity

    def _note(self, urn: str) -> None:
        if urn in self._models or len(self._models) < MOST:
            self._models[urn] = self._models.get(urn, 0) + 1
        else:
            self._beyond = True

    def finish(self) -> LineageSummary:
        """Look up the noted datasets. A look-up that fails does not fail the run.

        Cost: one request for each batch of datasets, and one search where some are not there.
        """
        if not self._enabled:
            return LineageSummary(not_checked="switched off in the recipe")
        if not self._models or not self._context.sink.facts.keeps:
            return LineageSummary()
        return self._summary()

    def _summary(self) -> LineageSummary:
        urns = list(self._models)
        try:
            missing = self._missing(urns)
        except MlcatError as error:
            log.warning("datasets of models could not be looked up: %s", error)
            return LineageSummary(not_checked=error.message)
        missing.sort(key=lambda urn: -self._models[urn])
        return LineageSummary(
            datasets=len(urns),
            in_catalog=len(urns) - len(missing),
            dangling=tuple(self._dangling(missing[:EXAMPLES])),
            beyond=self._beyond,
        )

    def _missing(self, urns: Sequence[str]) -> list[str]:
        missing: list[str] = []
        for start in range(0, len(urns), MAX_REQUEST_ITEMS):
            self._context.cancellation.check()
            batch = urns[start : start + MAX_REQUEST_ITEMS]
            present = set(existing(self._context.sink, batch))
            missing.extend(urn for urn in batch if urn not in present)
        return missing

    def _dangling(self, urns: Sequence[str]) -> Iterator[DanglingDataset]:
        similar: Sequence[Sequence[str]] = ()
        if urns:
            try:
                similar = self._context.sink.search.datasets_like([_words(urn) for urn in urns])
            except MlcatError as error:
                log.info("the catalog finds no similar datasets: %s", error)
        for at, urn in enumerate(urns):
            nearest = _nearest(urn, similar[at]) if at < len(similar) else ()
            yield DanglingDataset(urn, self._models[urn], nearest)


def datasets_of(entity: Entity) -> Collection[str]:
    """Return the datasets that an entity refers to."""
    if entity.aspects.keys().isdisjoint(_REFERENCES):
        return ()
    # What is no reference at all is for the catalog to refuse.
    return dict.fromkeys(
        urn
        for aspect, field in _REFERENCES.items()
        if aspect in entity.aspects
        for entry in entity.aspects[aspect].get(field) or ()
        if isinstance(entry, Mapping)
        and isinstance(urn := entry.get("dataset"), str)
        and urn.startswith(_PREFIX)
    )


def _name(urn: str) -> str:
    try:
        return raw_parts(urn)[1].lower()
    except (InvalidUrnError, IndexError):
        return urn.lower()


def _words(urn: str) -> str:
    """Return what to search for: the last part of a dataset's name, without a file's suffix."""
    name = _name(urn)
    last = name.rpartition("/")[2] if "/" in name else name.rpartition(".")[2]
    stem = last.partition(".")[0] or last
    return " ".join(_WORD.findall(stem)) or stem


def _nearest(urn: str, similar: Sequence[str]) -> tuple[str, ...]:
    name = _name(urn)
    ranked = sorted(similar, key=lambda other: -SequenceMatcher(None, name, _name(other)).ratio())
    return tuple(other for other in ranked if other != urn)[:NEAREST]


def existing(sink: Catalog, urns: Sequence[str]) -> Iterator[str]:
    """Yield those of `urns`, all of one type, that exist in the catalog and are not removed.

    Cost: one request for each batch.
    """
    for start in range(0, len(urns), MAX_REQUEST_ITEMS):
        batch = urns[start : start + MAX_REQUEST_ITEMS]
        key = key_aspect_name(entity_type_of(batch[0]))
        stored = sink.read_many(batch, [key, STATUS])
        for urn in batch:
            entity = stored.get(urn, {})
            if key in entity and not is_removed(entity):
                yield urn


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
            links = [
                results[entity.evidence, entity.options]
                for entity in entities
                if isinstance(entity, UnlinkedModel)
            ]
            found = iter(links)
            yield (
                [
                    self._with_links(entity, next(found))
                    if isinstance(entity, UnlinkedModel)
                    else entity
                    for entity in entities
                ]
                if links
                else entities,
                [one for one, _ in links],
            )

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
        _shrink(self._results, SAME)
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
            _shrink(self._known, KNOWN)
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


def _shrink(known: dict[_KeyT, _ValueT], most: int) -> None:
    """Delete the older half where there are more than `most`."""
    if len(known) > most:
        for old in list(islice(known, len(known) - most // 2)):
            del known[old]
