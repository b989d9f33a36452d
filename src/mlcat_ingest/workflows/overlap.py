"""Who else holds what a recipe would write: a sample of its URNs, looked up in the catalog."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

from mlcat_ingest.client.base import Catalog, StoredEntity
from mlcat_ingest.core.findings import Finding
from mlcat_ingest.errors import RecipeError, SkippableError
from mlcat_ingest.metadata.aspects.common import STATUS
from mlcat_ingest.metadata.proposal import Aspect, Entity
from mlcat_ingest.metadata.reserved import APPLIED_PREFIX, MAX_REQUEST_ITEMS, SOURCE_KEY
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.merge.base import NOTHING
from mlcat_ingest.pipeline.merge.shape import properties_aspect
from mlcat_ingest.pipeline.merge.sources import custom_properties, is_removed, with_all_sources
from mlcat_ingest.pipeline.read.primary_keys import PrimaryKeys
from mlcat_ingest.sources.base import Finished, ReadRequest, Source

SAMPLE: Final = MAX_REQUEST_ITEMS
"""Entities that are looked up; groups come first, whose names most easily meet."""

_WHAT: Final = "overlapping URNs"


def overlap(source: Source[Any], sink: Catalog, writer: str) -> Iterator[Finding]:
    """Yield who else holds the first entities that `source` would write; closes both.

    Cost: the source's first pages, and a read of the catalog for each entity type among them.
    """
    told: list[str] = []
    with closing(sink):
        sink.open(read_only=True)
        with closing(source):
            sample = _sample(source, PrimaryKeys(sink, told.append, may_write=False))
        homes = {home for urn in sample if (home := _home(urn))}
        stored = sink.read_many(list(sample), {*homes, STATUS})
    met = _Met()
    for urn, entity in sample.items():
        home, there = _home(urn), stored.get(urn, NOTHING)
        if home in there:
            met.look_at(urn, entity.aspects.get(home, NOTHING), there, home)
    del met.writers[writer]
    yield from met.told(len(sample))
    for text in told:
        yield Finding("primary keys", "warning", text)


def _home(urn: str) -> str:
    return properties_aspect(entity_type_of(urn)) or ""


def _sample(source: Source[Any], keys: PrimaryKeys) -> dict[str, Entity]:
    sample: dict[str, Entity] = {}
    for page in source.read(ReadRequest()):
        if isinstance(page, Finished):
            continue
        for record in page.records:
            for one in keys.fit(_mapped(source, record)):
                if _home(one.urn) and not one.only_if_absent:
                    sample.setdefault(one.urn, one)
        if len(sample) >= SAMPLE:
            break
    return dict(list(sample.items())[:SAMPLE])


def _mapped(source: Source[Any], record: Any) -> list[Entity]:
    try:
        return list(source.map(record))
    except SkippableError:
        return []  # a run counts it and goes on


class _Met:
    """What was met on entities that the catalog holds already."""

    def __init__(self) -> None:
        self.held: list[RecipeError] = []
        self.writers: Counter[str] = Counter()
        self.strangers = 0

    def look_at(self, urn: str, fresh: Aspect, stored: StoredEntity, home: str) -> None:
        custom = custom_properties(stored[home].value)
        self.strangers += SOURCE_KEY not in custom
        keys = (key for key in custom if key.startswith(APPLIED_PREFIX))
        self.writers.update(key.removeprefix(APPLIED_PREFIX) for key in keys)
        try:
            with_all_sources(urn, fresh, custom, removed=is_removed(stored))
        except RecipeError as error:
            self.held.append(error)

    def told(self, looked_at: int) -> Iterator[Finding]:
        if self.held:
            first, count = self.held[0], len(self.held)
            told = f"{count} of {looked_at} sampled are another server's: {first.message}"
            yield Finding(_WHAT, "failed", told, first.hint)
            return
        if self.writers:
            names = ", ".join(f"{name} ({count})" for name, count in self.writers.most_common(5))
            yield Finding(
                _WHAT,
                "warning",
                f"other recipes write some of {looked_at} sampled: {names}",
                "each keeps its own; if one is this recipe's earlier name, retract it",
            )
            return
        others = f"{self.strangers} are there already from others, and are merged"
        met = f"; {others}" if self.strangers else ""
        yield Finding(_WHAT, "ok", f"none among {looked_at} sampled{met}")
