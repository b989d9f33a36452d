"""The check of a recipe: sources, sink, state and URNs that overlap with other writers'.

Each side is looked at by itself and within a bounded time.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final, Literal, TypeVar

from mlcat_ingest.client.base import Catalog
from mlcat_ingest.core.findings import Finding
from mlcat_ingest.core.resources import start_thread
from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import MlcatError, RecipeError, SkippableError
from mlcat_ingest.metadata.aspects import STATUS
from mlcat_ingest.metadata.identity import Writer, other_writer_note
from mlcat_ingest.metadata.proposal import Aspect, Entity, custom_properties
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS, SOURCE_KEY
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.merge.applied import NOTHING, applied_key, bases_by_writer, writer_id_of
from mlcat_ingest.pipeline.merge.provenance import is_removed, stored_properties, with_all_sources
from mlcat_ingest.pipeline.merge.rules import BORROWED, properties_aspect
from mlcat_ingest.pipeline.read.feature_tables import PrimaryKeys, refuse_equal_identities
from mlcat_ingest.pipeline.state.inspection import dead_letter_finding, state_findings
from mlcat_ingest.pipeline.state.session import known_writer_ids
from mlcat_ingest.recipe.metadata_test_files import read_test_files
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.sources.base import Finished, ReadRequest, Source
from mlcat_ingest.workflows.resolve import ResolvedRecipe, ResolvedSink, ResolvedSource

PATIENCE_S: Final = 60.0
"""Seconds that one side has for all of its findings."""

_OVERLAP: Final = "overlap"
_OVERLAPPING: Final = "overlapping URNs"
_NO_SINK: Final = "none configured: a run writes to ./mlcat-catalog.db; with --no-input it fails"
_STATE: Final = "state"
_NO_ID: Final = "-"
"""The id of a recipe that has none yet: what its state will make is no other's."""
_MOST: Final = {
    "retries": 0,
    "retry_for_s": 0.0,
    "timeout_s": 15.0,
    "connect_timeout_s": 5.0,
    "page_size": 100,
    "connections": 1,
}
"""Options of sources and sinks that make them wait, and the most that a check allows them."""

SideT = TypeVar("SideT", ResolvedSource, ResolvedSink)


def _test_files(files: Sequence[Path]) -> Finding:
    what = "metadata test files"
    try:
        tests = read_test_files(files)
    except RecipeError as error:
        return Finding(what, "failed", str(error), error.hint, "recipe")
    return Finding(what, "ok", plural(len(tests), "test"), side="recipe")


def examine(
    resolved: ResolvedRecipe, *, write: bool = False, patience_s: float = PATIENCE_S
) -> Iterator[Finding]:
    """Yield the findings about each side of a recipe; an error of one side hides no other's.

    All sides are checked at once. Nothing is changed; with `write`, a test entity is written to the
    catalog and deleted.
    """
    recipe = resolved.recipe
    yield Finding("recipe", "ok", f"{recipe.name}: valid", side="recipe")
    if recipe.evaluate.test_files:
        yield _test_files(recipe.evaluate.test_files)
    sources = _named(resolved.sources)
    watches = [
        _Watch(name, _findings(_cap(source)), patience_s) for name, source in sources.items()
    ]
    sink, state = resolved.sink, None
    if sink is None:
        watches.append(_Watch("sink", [Finding("sink", "warning", _NO_SINK)], patience_s))
    else:
        findings = _findings(_cap(sink), write=write)
        watches.append(_Watch(f"sink {sink.type}", findings, patience_s))
        state = _Watch(_STATE, _state_findings(recipe, sink), patience_s)
    failed: dict[str, None] = {}
    for watch in watches:
        for finding in watch.findings():
            if finding.outcome == "failed":
                failed[watch.side] = None
            yield finding
    if sink is not None:
        yield from _overlaps(sources, sink, recipe, patience_s, failed)
    if state is not None:
        yield from state.findings()


def _named(sources: Sequence[ResolvedSource]) -> dict[str, ResolvedSource]:
    """Return the sources by a name: their type, and their place where several have it."""
    types = Counter(source.type for source in sources)
    return {
        f"source {one.type} ({one.place})" if types[one.type] > 1 else f"source {one.type}": one
        for one in sources
    }


def _overlaps(
    sources: Mapping[str, ResolvedSource],
    sink: ResolvedSink,
    recipe: Recipe,
    patience_s: float,
    failed: Iterable[str],
) -> Iterator[Finding]:
    if failed:
        why = f"not checked, because of: {', '.join(failed)}"
        yield Finding(_OVERLAPPING, "warning", why, side=_OVERLAP)
        return
    if len(sources) > 1:
        findings = _identity_findings(sources.values())
        yield from _Watch(_OVERLAP, findings, patience_s, "sources", "warning").findings()
    for name, source in sources.items():
        findings = _overlap_findings(source, sink, recipe)
        # A large store may need longer for its listings; that is no failure.
        for finding in _Watch(_OVERLAP, findings, patience_s, late="warning").findings():
            what = finding.what if len(sources) == 1 else f"{finding.what} of {name}"
            yield replace(finding, what=what)


def _cap(side: SideT) -> SideT:
    """Return a side that gives up soon, and asks for little at a time."""
    options = {name: getattr(side.config, name, None) for name in _MOST}
    # A source may use a name for something else: only numbers are capped.
    update = {
        name: min(number, _MOST[name])
        for name, number in options.items()
        if isinstance(number, int | float)
    }
    return replace(side, config=side.config.model_copy(update=update))


def _findings(side: ResolvedSource | ResolvedSink, **options: bool) -> Iterator[Finding]:
    with closing(side.build()) as built:
        yield from built.check(**options)


def _identity_findings(sources: Iterable[ResolvedSource]) -> Iterator[Finding]:
    with ExitStack() as stack:
        refuse_equal_identities(
            [stack.enter_context(closing(_cap(source).build())) for source in sources]
        )
    yield from ()


def _overlap_findings(
    source: ResolvedSource, sink: ResolvedSink, recipe: Recipe
) -> Iterator[Finding]:
    ids = [*(recipe.writer_ids or ()), *known_writer_ids(recipe.state.url, recipe.name), _NO_ID]
    writer = Writer(recipe.name, ids[0], frozenset(ids[1:]))
    yield from overlap(_cap(source).build(), _cap(sink).build(), writer)


def _state_findings(recipe: Recipe, sink: ResolvedSink) -> Iterator[Finding]:
    with closing(sink.build()) as built:
        remembers = built.facts.keeps
    if remembers:
        yield from state_findings(recipe.state.url, recipe.name)
    yield dead_letter_finding(recipe.dead_letter_file)


class _Watch:
    """The findings of one side, made in a thread so that the wait for them is bounded."""

    def __init__(
        self,
        side: str,
        findings: Iterable[Finding],
        patience_s: float,
        what: str | None = None,
        late: Literal["warning", "failed"] = "failed",
    ) -> None:
        self.side = side
        self._what = side if what is None else what
        self._findings = findings
        self._patience_s = patience_s
        self._late: Literal["warning", "failed"] = late
        self._ends_s = time.monotonic() + patience_s
        self._queue: SimpleQueue[Finding | None] = SimpleQueue()
        self._work = start_thread(self._look, f"check {side}")

    def _look(self) -> None:
        try:
            for finding in self._findings:
                self._queue.put(finding)
        except MlcatError as error:
            self._queue.put(Finding(self._what, "failed", error.message, error.hint))
        finally:
            self._queue.put(None)

    def findings(self) -> Iterator[Finding]:
        """Yield the findings as they come, and one more if they do not come in time."""
        while True:
            try:
                finding = self._queue.get(timeout=max(0.0, self._ends_s - time.monotonic()))
            except Empty:
                late = f"not done within {self._patience_s:.0f} s"
                hint = "the side is too slow, or does not answer"
                yield Finding(self._what, self._late, late, hint, self.side)
                return
            if finding is None:
                break
            yield replace(finding, side=self.side)
        self._work.result()


SAMPLE: Final = MAX_REQUEST_ITEMS
"""Entities that are looked up; groups come first, whose names most easily meet."""


def overlap(source: Source[Any], sink: Catalog, writer: Writer) -> Iterator[Finding]:
    """Yield the other writers of the first entities that `source` would write; close both.

    Cost: the source's first pages, and a read of the catalog for each entity type among them.
    """
    warnings: list[str] = []
    with closing(sink):
        sink.open(read_only=True)
        with closing(source):
            sample = _sample(source, PrimaryKeys(sink, warnings.append, may_write=False))
        aspects = {name for urn in sample if (name := _main_aspect(urn))}
        stored = sink.read_many(list(sample), {*aspects, STATUS})
    sample_findings = _SampleFindings(writer)
    for urn, entity in sample.items():
        in_catalog = stored.get(urn, NOTHING)
        if (properties := stored_properties(urn, in_catalog)) is not None:
            fresh = entity.aspects.get(_main_aspect(urn), NOTHING)
            sample_findings.add(urn, fresh, properties, removed=is_removed(in_catalog))
    yield from sample_findings.findings(len(sample))
    for text in warnings:
        yield Finding("primary keys", "warning", text)


def _main_aspect(urn: str) -> str:
    return properties_aspect(entity_type_of(urn))


def _sample(source: Source[Any], keys: PrimaryKeys) -> dict[str, Entity]:
    sample: dict[str, Entity] = {}
    for page in source.read(ReadRequest()):
        if isinstance(page, Finished):
            continue
        for record in page.records:
            mapped: list[Entity] = []
            with suppress(SkippableError):  # a run counts it and goes on
                mapped = list(source.map(record))
            for entity in keys.fit(mapped):
                is_linked = entity.only_if_absent or entity.entity_type in BORROWED
                if _main_aspect(entity.urn) and not is_linked:
                    sample.setdefault(entity.urn, entity)
        if len(sample) >= SAMPLE:
            break
    return dict(list(sample.items())[:SAMPLE])


class _SampleFindings:
    """Other writers and servers of the sampled entities that the catalog holds already."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._other_states: Counter[str] = Counter()
        self.conflicts: list[RecipeError] = []
        self.writers: Counter[str] = Counter()
        self.strangers = 0

    def add(self, urn: str, fresh: Aspect, properties: Aspect, *, removed: bool) -> None:
        custom = custom_properties(properties)
        self.strangers += SOURCE_KEY not in custom
        self.writers.update(bases_by_writer(custom).keys() - {self._writer.name})
        base_id = writer_id_of(custom.get(applied_key(self._writer.name)))
        if not self._writer.is_own(base_id):
            self._other_states[other_writer_note(self._writer, base_id).detail] += 1
        try:
            with_all_sources(urn, fresh, custom, removed=removed)
        except RecipeError as error:
            self.conflicts.append(error)

    def findings(self, looked_at: int) -> Iterator[Finding]:
        if self.conflicts:
            first, count = self.conflicts[0], len(self.conflicts)
            sentence = f"{count} of {looked_at} sampled belong to another server: {first.message}"
            yield Finding(_OVERLAPPING, "failed", sentence, first.hint)
            return
        for sentence, count in self._other_states.items():
            yield Finding(_OVERLAPPING, "warning", f"{count} of {looked_at} sampled: {sentence}")
        if self.writers:
            names = ", ".join(f"{name} ({count})" for name, count in self.writers.most_common(5))
            yield Finding(
                _OVERLAPPING,
                "warning",
                f"other recipes write some of {looked_at} sampled: {names}",
                "each recipe removes what only it wrote; retract a recipe that is an earlier name "
                "of this one; where this source is a copy of theirs, set `instance` or `server_id`",
            )
        if self.writers or self._other_states:
            return
        others = f"{plural(self.strangers, 'entity', 'entities')} of others will be merged"
        ending = f"; {others}" if self.strangers else ""
        yield Finding(_OVERLAPPING, "ok", f"none among {looked_at} sampled{ending}")
