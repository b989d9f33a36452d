"""A plan, or dry run: what a run would write, found by the run's own stages and kept in a file.

Nothing is written to the catalog; the temporary file is gone with the process. The impact of a plan
is the models that use the features which it removes.
"""

import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final, NamedTuple

from mlcat_ingest.client.base import (
    Catalog,
    CatalogFacts,
    Searches,
    StoredAspect,
    StoredEntity,
    chunks,
)
from mlcat_ingest.core.findings import Finding, RequestSide
from mlcat_ingest.core.resources import Closing
from mlcat_ingest.errors import AspectRejectedError, CodecError
from mlcat_ingest.metadata.aspects.common import STATUS, VERSION_PROPERTIES
from mlcat_ingest.metadata.aspects.governance import GLOBAL_TAGS
from mlcat_ingest.metadata.codec import dumps, loads
from mlcat_ingest.metadata.proposal import Aspect, Proposal
from mlcat_ingest.metadata.registry import key_aspect_name
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.evaluate.quality_gate import QualityGateOptions
from mlcat_ingest.pipeline.merge.applied import NOTHING
from mlcat_ingest.pipeline.merge.entity import MergedEntity
from mlcat_ingest.pipeline.merge.provenance import custom_properties, is_removed, stored_properties
from mlcat_ingest.pipeline.merge.rules import properties_aspect
from mlcat_ingest.pipeline.outcome import Outcome, Refusal
from mlcat_ingest.pipeline.report.progress import OnProgress
from mlcat_ingest.pipeline.report.render import label_of, label_of_merged
from mlcat_ingest.pipeline.report.report import (
    EXIT_OK,
    EXIT_PARTIAL,
    EXIT_PENDING,
    EXIT_TESTS,
    Report,
)
from mlcat_ingest.pipeline.run import PipelineRun, RunOptions
from mlcat_ingest.pipeline.state.session import StateSession
from mlcat_ingest.recipe.model import EvaluateSpec, Recipe
from mlcat_ingest.sources.base import Source
from mlcat_ingest.workflows.plan_diff import Action, EntityDiff, diff_entity, values_of

_SCHEMA: Final = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
CREATE TABLE entity (
    urn TEXT PRIMARY KEY, type TEXT NOT NULL, existed INTEGER NOT NULL, label TEXT
);
CREATE TABLE aspect (
    urn TEXT NOT NULL, name TEXT NOT NULL, before BLOB, after BLOB, PRIMARY KEY (urn, name)
);
BEGIN;
"""
# What is said of an entity a second time starts from what was said of it first.
_ADD: Final = (
    "INSERT INTO aspect VALUES (?, ?, ?, ?)"
    " ON CONFLICT (urn, name) DO UPDATE SET after = excluded.after"
)
_REMOVED: Final = (
    "SELECT entity.urn, before, after FROM entity JOIN aspect USING (urn)"
    " WHERE aspect.name = ? AND type IN ('mlFeatureTable', 'mlFeature') ORDER BY type DESC, urn"
)
# Containers before what belongs to them, as they are written.
_ALL: Final = (
    "SELECT urn, existed, label FROM entity"
    " ORDER BY type NOT IN ('mlModelGroup', 'mlFeatureTable'), type, urn"
)


class PlanStore:
    """Entities as they are and as they would be. Safe to use from several threads.

    Cost: memory for a bounded number of pages; the rest is in the file.
    """

    def __init__(self) -> None:
        """Make the file; the system takes it away when it is closed."""
        self._db = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        self._db.executescript(_SCHEMA)
        self._lock = threading.Lock()

    def add(self, merged: MergedEntity) -> None:
        """Keep what would be written of an entity.

        Raises:
            CodecError: it could not be sent, since it has no faithful JSON form.
        """
        rows = [
            (merged.urn, proposal.aspect_name, *map(_encode, values_of(merged, proposal)))
            for proposal in merged.proposals
        ]
        entity = (merged.urn, merged.entity_type, bool(merged.stored), label_of_merged(merged))
        with self._lock:
            self._db.execute("INSERT OR IGNORE INTO entity VALUES (?, ?, ?, ?)", entity)
            self._db.executemany(_ADD, rows)

    def over(
        self, stored: Mapping[str, StoredEntity], urns: Sequence[str], aspects: Collection[str]
    ) -> dict[str, StoredEntity]:
        """Return `stored` as it would be once all that was added is written."""
        overlaid = dict(stored)
        for urn in urns:
            planned = self._after(urn)
            if planned is None:
                continue
            entity = {key_aspect_name(entity_type_of(urn)): StoredAspect({})} | dict(
                stored.get(urn, {})
            )
            for name, value in planned.items():
                if value is None:
                    entity.pop(name, None)
                else:
                    version = entity[name].version if name in entity else None
                    entity[name] = StoredAspect(value, version)
            overlaid[urn] = {name: aspect for name, aspect in entity.items() if name in aspects}
        return {urn: entity for urn, entity in overlaid.items() if entity}

    def _after(self, urn: str) -> dict[str, Aspect | None] | None:
        with self._lock:
            if not self._db.execute("SELECT 1 FROM entity WHERE urn = ?", (urn,)).fetchone():
                return None
            rows = self._db.execute("SELECT name, after FROM aspect WHERE urn = ?", (urn,))
            return {name: _decode(after) for name, after in rows.fetchall()}

    def urns(self) -> Iterator[str]:
        """Yield the URNs of all that was added; nothing may be added meanwhile."""
        for urn, *_ in self._db.execute(_ALL):
            yield urn

    def diffs(self) -> Iterator[EntityDiff]:
        """Yield what would happen to each entity, by type and URN; nothing may be added meanwhile.

        An entity that would be as it was, all in all, is left out.
        """
        for entity in self._db.execute(_ALL):
            diff = self._diff(*entity)
            if diff is not None:
                yield diff

    def _diff(self, urn: str, existed: int, label: str | None) -> EntityDiff | None:
        rows = self._db.execute(
            "SELECT name, before, after FROM aspect WHERE urn = ? ORDER BY name", (urn,)
        )
        aspects = {name: (_decode(before), _decode(after)) for name, before, after in rows}
        return diff_entity(urn, existed=bool(existed), aspects=aspects, label=label)

    def removed_features(self) -> Iterator[str]:
        """Yield the feature tables and features that would be removed; nothing may be added."""
        for urn, before, after in self._db.execute(_REMOVED, (STATUS,)):
            was, will = ((_decode(value) or {}).get("removed") is True for value in (before, after))
            if will and not was:
                yield urn

    def close(self) -> None:
        """Delete the file; safe to call twice."""
        self._db.close()


def _encode(value: Aspect | None) -> bytes | None:
    return None if value is None else dumps(value)


def _decode(data: bytes | None) -> Aspect | None:
    return None if data is None else loads(data)


ACTIONS: Final[tuple[Action, ...]] = ("create", "update", "remove", "revive")


class PlannedRemoval(NamedTuple):
    """A feature or feature table that goes: with the run, or if the `next_pass` lacks it, too."""

    urn: str
    next_pass: bool


class Totals:
    """Totals of a plan, counted as its entities pass."""

    def __init__(self, batch_size: int) -> None:
        """Start with none; a write request has up to `batch_size` proposals."""
        self.batch_size = batch_size
        self.actions: dict[str, Counter[Action]] = {}
        self.bookkeeping: Counter[str] = Counter()
        self.proposals = 0

    def add(self, diff: EntityDiff) -> None:
        """Count an entity."""
        kind = diff.entity_type
        counts = self.actions.setdefault(kind, Counter())
        counts[diff.action] += 1
        if diff.action == "update" and not diff.aspects:
            self.bookkeeping[kind] += 1
        self.proposals += diff.proposals

    @property
    def entities(self) -> int:
        """How many entities would be written."""
        return sum(counts.total() for counts in self.actions.values())

    @property
    def write_requests(self) -> int:
        """How many requests writing them would take, if nothing is refused."""
        return -(-self.proposals // self.batch_size)


class Plan(Closing):
    """A dry run's result: the differences by entity; `report` says how the planning went.

    Closing it deletes its temporary file.
    """

    def __init__(
        self,
        report: Report,
        store: PlanStore,
        batch_size: int = MAX_REQUEST_ITEMS,
        next_removals: Sequence[str] = (),
    ) -> None:
        """Take the result of the planning run; a write request has up to `batch_size` proposals.

        `next_removals` go if the next complete pass lacks them, too.
        """
        self.next_removals = next_removals
        self.report = report
        self.totals = Totals(batch_size)
        self._store = store

    def entities(self) -> Iterator[EntityDiff]:
        """Yield what would happen to each entity, by type and URN; `totals` counts them."""
        self.totals = Totals(self.totals.batch_size)
        for diff in self._store.diffs():
            self.totals.add(diff)
            yield diff

    def feature_removals(self) -> Iterator[PlannedRemoval]:
        """Yield the feature tables and features that go with the run, then with the next pass."""
        for urn in self._store.removed_features():
            yield PlannedRemoval(urn, next_pass=False)
        for urn in self.next_removals:
            if entity_type_of(urn) in {"mlFeatureTable", "mlFeature"}:
                yield PlannedRemoval(urn, next_pass=True)

    def exit_code(self, *, tell_pending: bool, affects_models: bool = False) -> int:
        """Return the exit status: that of a run, but for what only writing can tell.

        With `tell_pending` it is 5 where `totals` have something to write, and where that
        `affects_models`.
        """
        if self.report.exit_code not in {EXIT_OK, EXIT_PARTIAL}:
            return self.report.exit_code
        if self.report.gate is not None and not self.report.gate.passed:
            return EXIT_TESTS
        is_pending = affects_models or (tell_pending and self.totals.entities)
        return EXIT_PENDING if is_pending else EXIT_OK

    def close(self) -> None:
        """Delete the file; safe to call twice."""
        self._store.close()


class PlannedDelivery:
    """Stores merged entities in place of writing them."""

    def __init__(self, store: PlanStore) -> None:
        self._store = store

    def deliver(self, batch: Sequence[MergedEntity]) -> Sequence[Outcome]:
        """Store `batch`, and return it as arrived but for what cannot be sent."""
        return [self._plan(merged) for merged in batch]

    def expect_computed(self, computed: Sequence[MergedEntity]) -> None:
        """Store what the service would compute."""
        for merged in computed:
            self._store.add(merged)

    def finish(self) -> None:
        """Do nothing: a plan stores nothing."""

    def _plan(self, merged: MergedEntity) -> Outcome:
        try:
            self._store.add(merged)
        except CodecError as error:
            reason = f"cannot be sent: {error}"
            return Outcome(
                merged, tuple(Refusal(proposal, reason, 1) for proposal in merged.proposals)
            )
        return Outcome(merged)


OnRead = Callable[[Mapping[str, StoredEntity]], None]


class PlannedCatalog(Catalog):
    """A catalog that is only read, and reads as if what is planned were written.

    It evaluates no metadata tests itself, since nothing is written: the client may.
    """

    def __init__(self, catalog: Catalog, store: PlanStore, on_read: OnRead | None = None) -> None:
        """Read from `catalog`; what is planned is in `store`. `on_read` gets what is stored."""
        self._catalog = catalog
        self._store = store
        self._on_read = on_read

    @property
    def facts(self) -> CatalogFacts:
        """The facts of the catalog; planning makes none, and repairs no search index."""
        return replace(self._catalog.facts, exists=True, index=None)

    @property
    def address(self) -> str:
        """The address of the catalog."""
        return self._catalog.address

    @property
    def search(self) -> Searches:
        """The search of the catalog, as it is."""
        return self._catalog.search

    @property
    def traffic(self) -> RequestSide:
        """The requests to the catalog."""
        return self._catalog.traffic

    def open(self, *, read_only: bool = True) -> str:
        """Connect to read, which makes nothing."""
        del read_only
        return self._catalog.open(read_only=True)

    def read_many(
        self, urns: Sequence[str], aspects: Collection[str]
    ) -> Mapping[str, StoredEntity]:
        """Return what is stored, and over it what would be."""
        stored = self._catalog.read_many(urns, aspects)
        if self._on_read is not None:
            self._on_read(stored)
        return self._store.over(stored, urns, aspects)

    def read_stamps(
        self, urns: Sequence[str], aspects: Collection[str]
    ) -> Mapping[str, Mapping[str, str | None]]:
        """Return the stamps of what is stored, as a run would read them."""
        return self._catalog.read_stamps(urns, aspects)

    def get_aspect(self, urn: str, aspect: str, version: int = 0) -> Aspect | None:
        """Return an aspect as it is, or was."""
        return self._catalog.get_aspect(urn, aspect, version)

    def write(self, proposals: Sequence[Proposal]) -> Sequence[AspectRejectedError]:
        """Write nothing: entities are delivered elsewhere, and all else is none of a plan's."""
        del proposals
        return ()

    def check(self, *, write: bool = False) -> Iterator[Finding]:
        """Yield what checking the catalog finds, without writing."""
        del write
        return self._catalog.check()

    def close(self, *, complete: bool = True) -> None:
        """Release connections; nothing is finished, since nothing was begun."""
        del complete
        self._catalog.close(complete=False)


def make_plan(
    recipe: Recipe,
    sources: Sequence[Source[Any]],
    sink: Catalog,
    state: StateSession,
    *,
    progress: OnProgress | None = None,
    gate: QualityGateOptions | None = None,
    on_read: OnRead | None = None,
    adopt_since_ms: int | None = None,
) -> Plan:
    """Run the stages of a run and write nothing to `sink`; the caller closes the plan.

    The client evaluates the metadata tests of `gate` on the planned entities. `on_read` gets what
    the catalog holds of each batch of entities.
    """
    evaluate = EvaluateSpec(enabled=False)
    if gate is not None:
        evaluate = recipe.evaluate.model_copy(
            update={"where": "client", "should_push": False, "write_back": False}
        )
    options = RunOptions(
        recipe.model_copy(update={"evaluate": evaluate}),
        quality_gate=gate,
        state=state,
        adopt_since_ms=adopt_since_ms,
        doing="comparing with",
    )
    store = PlanStore()
    delivery = PlannedDelivery(store)
    planned = PlannedCatalog(sink, store, on_read)
    run = PipelineRun(sources, planned, options, lambda *_: delivery)
    return Plan(run.execute(progress), store, sink.facts.batch_size, run.next_removals)


MODELS_NAMED: Final = 5
"""Models that an impact names, those in Production first."""

PRODUCTION: Final = frozenset({"production", "prod", "champion"})
"""Stages and aliases of models in Production, in lower case."""

_STAGE_KEYS: Final = ("stage", "environment", "env")
"""Custom properties that say where a model is."""


@dataclass(frozen=True, slots=True)
class Impact:
    """The models that use a feature, or any feature of a table, that goes.

    A model is in Production as the catalog says it: by a tag, by an alias of its version, or by a
    custom property. `names` are those of the first few.
    """

    removal: PlannedRemoval
    models: int
    production: int
    names: tuple[str, ...]


class _Model(NamedTuple):
    """A model that is not removed."""

    name: str
    production: bool


def find_impacts(catalog: Catalog, removals: Iterable[PlannedRemoval]) -> Iterator[Impact]:
    """Yield the impact of each of `removals`, in their order.

    Raises:
        ProtocolMismatchError: the catalog cannot list the models that use a feature.

    Cost: see `Searches.consumers`; one read for each batch of tables, and of models that use them;
    memory for the name of each of these models.
    """
    models: dict[str, _Model | None] = {}
    waiting = list(removals)
    for start in range(0, len(waiting), MAX_REQUEST_ITEMS):
        batch = waiting[start : start + MAX_REQUEST_ITEMS]
        features = _features_of(catalog, [removal.urn for removal in batch])
        users: dict[str, set[str]] = {}
        asked = list(dict.fromkeys(chain.from_iterable(features.values())))
        for feature, page in catalog.search.consumers(asked):
            _read_models(catalog, models, page)
            users.setdefault(feature, set()).update(urn for urn in page if models.get(urn))
        for removal in batch:
            urns = {urn for feature in features[removal.urn] for urn in users.get(feature, ())}
            using = [model for urn in urns if (model := models[urn]) is not None]
            using.sort(key=lambda model: (not model.production, model.name))
            names = tuple(model.name for model in using[:MODELS_NAMED])
            yield Impact(removal, len(using), sum(model.production for model in using), names)


def _features_of(catalog: Catalog, urns: Sequence[str]) -> dict[str, Sequence[str]]:
    """Return the features that each of `urns` stands for: itself, or those of a table."""
    tables = [urn for urn in urns if entity_type_of(urn) == "mlFeatureTable"]
    name = properties_aspect("mlFeatureTable") or ""
    stored = catalog.read_many(tables, [name]) if tables else {}
    features: dict[str, Sequence[str]] = {urn: [urn] for urn in urns}
    for urn in tables:
        properties = stored_properties(urn, stored.get(urn, {})) or NOTHING
        features[urn] = properties.get("mlFeatures") or ()
    return features


def _read_models(catalog: Catalog, models: dict[str, _Model | None], urns: Iterable[str]) -> None:
    """Add those of `urns` that are models and not read yet to `models`; None: it is removed."""
    new = [urn for urn in urns if entity_type_of(urn) == "mlModel" and urn not in models]
    names = (properties_aspect("mlModel") or "", STATUS, GLOBAL_TAGS, VERSION_PROPERTIES)
    for batch in chunks(new, MAX_REQUEST_ITEMS):
        stored = catalog.read_many(batch, names)
        models.update((urn, _model(urn, stored.get(urn, {}))) for urn in batch)


def _model(urn: str, stored: StoredEntity) -> _Model | None:
    if is_removed(stored):
        return None
    stages = (stage.lower() for stage in _stages(urn, stored))
    name = label_of(urn, stored_properties(urn, stored)) or urn
    return _Model(name, not PRODUCTION.isdisjoint(stages))


def _stages(urn: str, stored: StoredEntity) -> Iterator[str]:
    """Yield each stage, alias and tag that may say where a model is."""
    tags = stored[GLOBAL_TAGS].value if GLOBAL_TAGS in stored else NOTHING
    for association in tags.get("tags") or ():
        # As this package writes the stage of a version, and its aliases where that is asked for.
        name = str(association.get("tag")).rpartition(":")[2]
        yield name.removeprefix("mlflow_").removeprefix("alias_")
    version = stored[VERSION_PROPERTIES].value if VERSION_PROPERTIES in stored else NOTHING
    for alias in version.get("aliases") or ():
        yield str(alias.get("versionTag"))
    custom = custom_properties(stored_properties(urn, stored) or NOTHING)
    for key in _STAGE_KEYS:
        yield str(custom.get(key))
