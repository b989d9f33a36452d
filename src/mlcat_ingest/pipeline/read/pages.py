"""Pages of a source: read in a thread, and mapped one record at a time."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from mlcat_ingest.core.paging import chunks
from mlcat_ingest.core.redaction import redact_tree
from mlcat_ingest.errors import RecipeError, RecordError, SkippableError
from mlcat_ingest.metadata.codec import text_of
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS
from mlcat_ingest.pipeline.context import RunContext
from mlcat_ingest.pipeline.evaluate.evaluator import Evaluator
from mlcat_ingest.pipeline.read.enrich import Enricher
from mlcat_ingest.pipeline.read.feature_tables import PrimaryKeys
from mlcat_ingest.pipeline.read.lineage import LineageCheck, datasets_of
from mlcat_ingest.pipeline.read.links import Linker
from mlcat_ingest.pipeline.state.tracker import TrackedRecord
from mlcat_ingest.sources.base import (
    Capability,
    FeaturesOnly,
    Page,
    ReadRequest,
    ReadScope,
    Runs,
    RunState,
    Source,
)

log = logging.getLogger(__name__)

_NAMING_FIELDS: Final = ("run_id", "model_id", "experiment_id", "name", "urn", "id")


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


class PageMapper:
    """Maps the pages of a source: map, enrich, fit, link, and leave out what did not change."""

    def __init__(
        self,
        context: RunContext,
        enricher: Enricher,
        keys: PrimaryKeys,
        linker: Linker,
        lineage: LineageCheck,
        evaluator: Evaluator,
    ) -> None:
        """Map with these; `evaluator` takes the URNs of unchanged entities."""
        self._context = context
        self._enricher = enricher
        self._keys = keys
        self._linker = linker
        self._lineage = lineage
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
        for batch in chunks(changed, MAX_REQUEST_ITEMS):
            mapped = [
                found
                for record, tracked in batch
                if (found := self._map(source, record, tracked)) is not None
            ]
            linked = self._linker.link([entities for _, entities in mapped])
            for (tracked, _), (entities, links) in zip(mapped, linked, strict=True):
                # Features for the links, and datasets for the report.
                looked_up = bool(links) or any(map(datasets_of, entities))
                to_merge, same = ledger.mapped(tracked, entities, links, looked_up=looked_up)
                self._evaluator.add_unchanged(same)
                is_full = tracked is not None and tracked.part.full is not None
                self._lineage.watch(entities if is_full else to_merge)
                yield from to_merge
        ledger.page_mapped(page)

    def _map(
        self, source: Source[Any], record: Any, tracked: TrackedRecord | None
    ) -> tuple[TrackedRecord | None, Sequence[Entity]] | None:
        """Return the entities of a record; one that the catalog has no types for is not tracked."""
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
            known = [entity for entity in entities if self._keys.has_type(entity.urn)]
            for entity in entities if len(known) < len(entities) else ():
                if entity not in known:
                    detail = f"the catalog has no entities of type {entity.entity_type}"
                    self._context.ledger.note("type_left_out", detail)
            fitting = self._keys.fit(known)
            return tracked if len(known) == len(entities) else None, fitting
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
