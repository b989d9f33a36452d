"""The check of lineage: datasets that models refer to, and that no catalog has.

A dataset whose name no other connector writes makes a link to nowhere, which looks like lineage. It
is not created: it is reported, with the nearest names.
"""

import logging
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Final

from mlcat_ingest.client.base import Catalog
from mlcat_ingest.core.paging import chunks
from mlcat_ingest.errors import InvalidUrnError, MlcatError
from mlcat_ingest.metadata.aspects import ML_MODEL_EVALUATION_DATA, ML_MODEL_TRAINING_DATA, STATUS
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.metadata.registry import key_aspect_name
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS
from mlcat_ingest.metadata.urn import PREFIX, entity_type_of, raw_parts
from mlcat_ingest.pipeline.context import RunContext
from mlcat_ingest.pipeline.merge.provenance import is_removed, marks_removed
from mlcat_ingest.pipeline.report.report import DanglingDataset, LineageSummary
from mlcat_ingest.recipe.model import LineageSpec

log = logging.getLogger(__name__)

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

    def watch(self, entities: Iterable[Entity]) -> None:
        """Take note of the datasets that `entities` refer to.

        Cost: memory for 20,000 URNs at most.
        """
        for entity in entities if self._enabled else ():
            for urn in () if marks_removed(entity) else datasets_of(entity):
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
        present: set[str] = set()
        for batch in chunks(urns, MAX_REQUEST_ITEMS):
            self._context.cancellation.check()
            present.update(existing(self._context.sink, batch))
        return [urn for urn in urns if urn not in present]

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
    for batch in chunks(urns, MAX_REQUEST_ITEMS):
        key = key_aspect_name(entity_type_of(batch[0]))
        stored = sink.read_many(batch, [key, STATUS])
        for urn in batch:
            entity = stored.get(urn, {})
            if key in entity and not is_removed(entity):
                yield urn
