"""A simulated world: a server, a catalog, people and processes that run recipes, from one seed.

The invariant: once the faults have ceased, one clean full run of each recipe leaves the catalog as
a fresh ingest makes it, and beside that all that people wrote and nobody of them took away.
"""

import random
import shutil
import sqlite3
from collections.abc import Collection, Sequence
from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Final

from mlcat_ingest.errors import LimitError, MlcatError
from mlcat_ingest.metadata.aspects import ML_MODEL_GROUP_PROPERTIES
from mlcat_ingest.metadata.proposal import Aspect
from mlcat_ingest.metadata.reserved import RENAMED_TO
from mlcat_ingest.pipeline.flow import StoppedError
from mlcat_ingest.pipeline.removal import soft_delete
from mlcat_ingest.pipeline.run import PipelineRun, RunOptions
from mlcat_ingest.pipeline.state.session import StateOptions, StateSession
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.source import MlflowSource
from mlcat_ingest.sources.mlflow.values.records import Experiment
from simulation.catalog import Client, Faults, Reader, Snapshot, Storage
from simulation.people import Ledger, People
from simulation.scheduler import MAX_STEPS, Process, Scheduler
from support.fake_mlflow import FakeStore
from support.fakes import group_urn, model_urn
from support.mlflow_history import OF_GROUPS, REPORTED, Server
from support.recipes import a_recipe

PURGES: Final = (
    *("purge_run", "purge_experiment", "purge_model", "vanish", "tag_late", "give_id_again"),
    "move_experiment",
)
SOURCE: Final = "0123456789ab"
COPY: Final = "copy"
"""The recipe that reads a copy of the source."""
REMOVED_RATIO: Final = 0.5


class WrongError(AssertionError):
    """The world does not end as the invariant says."""


@cache
def recipe_of(name: str, tags: tuple[str, ...], ratio: float) -> Recipe:
    """Return a recipe that adds `tags` to all that it writes."""
    rules = [{"add_tags": list(tags), "add_terms": [f"term-{one}" for one in tags]}]
    return a_recipe(
        name,
        evaluate={"enabled": False},
        enrich=rules if tags else [],
        limits={"max_removed_ratio": ratio},
    )


def _records(state: Path | None) -> int:
    """Return how many records a state remembers: more than a restored catalog holds."""
    if state is None or not state.exists():
        return 0
    with closing(sqlite3.connect(f"file:{state}?mode=ro", uri=True)) as database:
        return int(database.execute("SELECT count(*) FROM state_record").fetchone()[0])


@cache
def _config() -> MlflowConfig:
    return MlflowConfig.model_validate({"tracking_uri": "http://mlflow:5000"})


@dataclass(eq=False)
class Host:
    """A host that runs a recipe again and again, with a state of its own."""

    recipe: str
    state: Path | None
    tags: tuple[str, ...] = ()
    writer_id: str = "one"
    server: Server | None = None
    """The server of another team, which has the same address; None for that of the world."""
    process: Process | None = None
    run: PipelineRun | None = None
    states: list[Path] = field(default_factory=list)
    """Copies of its state, which may be restored."""


@dataclass(eq=False)
class World:
    """All that a seed decides about."""

    scheduler: Scheduler
    folder: Path
    storage: Storage
    people: People
    faults: Faults
    server: Server = field(default_factory=Server)
    hosts: list[Host] = field(default_factory=list)
    snapshots: list[tuple[Snapshot, Ledger]] = field(default_factory=list)
    stores: list[tuple[FakeStore, FakeStore]] = field(default_factory=list)
    training: random.Random = field(default_factory=random.Random, repr=False)
    gentle: bool = True
    """True while passes over what changed find everything: they do not after a restore."""
    event_kinds: list[str] = field(default_factory=list)
    files: int = 0
    of_namesakes: list[tuple[Experiment, set[str]]] = field(default_factory=list)
    """Experiments with the id of a former one, and what people had put on that."""
    is_source_empty: bool = False
    is_alone: bool = False
    """True if nobody else writes while a process runs."""

    # The events of a history.

    def change_source(self) -> None:
        reported = OF_GROUPS if self.people.prefer_groups else REPORTED
        names = reported if self.gentle else (*reported, *PURGES)
        name = self.scheduler.chance.choice(names)
        at = self.scheduler.chance.randrange(12)
        self.server.now_ms = int(self.scheduler.now_s * 1000)
        before = list(self.server.store.experiments)
        getattr(self.server, name)(at)
        if name == "give_id_again":
            self._part_from_gone(before)
        if name == "move_experiment":
            left = {one.experiment_id for one in self.server.store.experiments}
            self._part_from({one.experiment_id for one in before} - left)
        self.scheduler.now_s = self.server.now_ms / 1000
        self.scheduler.log(f"EVENT source: {name}({at})")

    def register_several(self) -> None:
        """Let a training register two to nine versions of a model before a pass sees one."""
        first, count = self.training.randrange(12), self.training.randrange(2, 10)
        for at in range(first, first + 2 * count, 2):
            self.server.now_ms = int(self.scheduler.now_s * 1000)
            self.server.register(at)
        self.scheduler.log(f"EVENT source: {count} versions from register({first})")

    def _part_from_gone(self, before: Sequence[Experiment]) -> None:
        """Take note of what people put on an experiment whose id another one has now."""
        now = self.server.store.experiments[-1]
        if now not in before:
            self.of_namesakes.append((now, self._part_from({now.experiment_id})))

    def _part_from(self, ids: Collection[str]) -> set[str]:
        """Forget and return what people put on experiments that are no longer under these ids."""
        groups = self.people.groups
        marks = {mark for mark, one in groups.items() if one in ids}
        self.people.groups = {mark: one for mark, one in groups.items() if mark not in marks}
        return marks

    def edit(self) -> None:
        # Of three writers without version checks one can lose what another one wrote.
        running = sum(host.process is not None for host in self.hosts)
        if running > 1 and not self.storage.checks_versions:
            return
        text = self.people.edit(gently=self.gentle)
        if text:
            self.scheduler.log(f"EVENT a person {text}")

    def close(self) -> None:
        """End what a failed seed has left running."""
        for host in self.hosts:
            if host.process is not None and host.run is not None:
                self.scheduler.kill(host.process)
                host.run._close()

    def kill(self) -> None:
        running = [one for one in self.hosts if one.process is not None]
        if running:
            host = self.scheduler.chance.choice(running)
            assert host.process is not None
            self.scheduler.log(f"EVENT {host.process.name} is killed")
            # What a process has not committed is gone with it; its file is as it left it.
            killed, host.process = host.process, None
            if host.state is not None:
                host.state = self._copy(host.state)
            self.scheduler.kill(killed)
            if host.run is not None:
                host.run._close()  # its locks and files are gone with a process

    def refuse(self) -> None:
        if self.storage.stored and self.scheduler.chance.random() < 0.6:
            urn = self.scheduler.chance.choice(list(self.storage.stored))
            self.faults.refused.add(urn)
            self.scheduler.log(f"EVENT the catalog refuses {urn}")
        else:
            self.faults.refused.clear()
            self.scheduler.log("EVENT the catalog refuses nothing any more")

    def start(self) -> None:
        """Start another run beside those at work, unless each leads to the next without end."""
        idle = [one for one in self.hosts if one.process is None]
        if idle and self.scheduler.steps < MAX_STEPS // 2:
            host = self.scheduler.chance.choice(idle)
            self.run(host, full=self.is_source_empty or self.scheduler.chance.random() < 0.2)

    def event(self) -> None:
        getattr(self, self.scheduler.chance.choice(self.event_kinds))()

    def restore_catalog(self) -> None:
        """Restore the catalog from a copy, with what people had written by then."""
        if self.snapshots:
            snapshot, ledger = self.scheduler.chance.choice(self.snapshots)
            self.storage.restore(snapshot)
            self.storage.lost_changes.clear()  # whoever restores a catalog makes its index anew
            self.people.ledger = {place: set(entries) for place, entries in ledger.items()}
            self.scheduler.log("EVENT the catalog is restored")

    def restore_state(self) -> None:
        host = self.scheduler.chance.choice(self.hosts)
        if host.states:
            host.state = self._copy(self.scheduler.chance.choice(host.states))
            self.storage.lost_changes.clear()  # the marks of writes are lost with the state
            self.scheduler.log(f"EVENT the state of {host.recipe} is restored")

    def restore_source(self) -> None:
        """Restore the source from a copy: what came after it never was."""
        if self.stores:
            kept = deepcopy(self.scheduler.chance.choice(self.stores))
            moved = {one.experiment_id for one in self.server.elsewhere.experiments}
            self.server.store, self.server.elsewhere = kept
            # These are in another workspace now, so that they are not renamed: they are others.
            self._part_from(moved ^ {one.experiment_id for one in kept[1].experiments})
            self.scheduler.log("EVENT the source is restored")

    def keep_copies(self) -> None:
        self.stores.append(deepcopy((self.server.store, self.server.elsewhere)))
        self.snapshots.append((self.storage.snapshot(), self.people.copy()))
        for host in self.hosts:
            if host.state is not None and host.state.exists():
                host.states.append(self._copy(host.state))

    def _copy(self, state: Path) -> Path:
        self.files += 1
        copy = self.folder / f"state-{self.files}.db"
        for end in ("", "-wal"):
            there = state.with_name(state.name + end)
            if there.exists():
                shutil.copyfile(there, copy.with_name(copy.name + end))
        return copy

    # Runs.

    def run(self, host: Host, *, full: bool = False, limited: bool = True) -> None:
        """Start a run of a recipe on a host."""
        process = Process(f"{host.recipe}{self.hosts.index(host)}.{self.scheduler.steps}")
        host.process = process
        self.scheduler.log(f"EVENT {process.name} begins, {'full' if full else 'changes'}")
        client = Client(
            self.storage, self.faults, self.scheduler, process, remembers=host in self.own_recipes()
        )
        ratio = REMOVED_RATIO if limited else 1.0
        recipe = recipe_of(host.recipe, host.tags, ratio)

        def work() -> None:
            known = max(len(self.storage.stored), _records(host.state))
            run = self._pipeline(host, client, recipe, full=full)
            run.execute()
            known = max(known, len(self.storage.stored))
            self._judge(run, client, known if limited else None)
            if host.process is process:
                host.process = None

        self.scheduler.spawn(work, "main", process)

    def _pipeline(self, host: Host, client: Client, recipe: Recipe, *, full: bool) -> PipelineRun:
        server = host.server or self.server
        is_empty = self.is_source_empty and host.server is None
        held = {"default": server.store, "elsewhere": server.elsewhere}
        stores = {name: FakeStore() if is_empty else store for name, store in held.items()}
        reader = Reader(stores, page=5, id=SOURCE, scheduler=self.scheduler, faults=self.faults)
        # Another set of tags is another recipe, as the digest of its settings says.
        options = StateOptions(recipe.name, (host.writer_id,), settings=str(host.tags), full=full)
        url = None if host.state is None else f"sqlite:///{host.state}"
        host.run = PipelineRun(
            [MlflowSource(_config(), reader=reader)],
            client,
            RunOptions(recipe, state=StateSession(url, options)),
        )
        return host.run

    def _judge(self, run: PipelineRun, client: Client, known: int | None) -> None:
        """Fail where a run ended with an error of its own, or removed more than it may."""
        cause = run._context.cancellation.cause
        if cause is not None:
            self.scheduler.log(f"ends: {type(cause).__name__}: {str(cause)[:150]}")
        if not isinstance(cause, MlcatError | StoppedError | None):
            raise WrongError(f"a run ended with {cause!r}") from cause
        if known is not None:
            most = max(soft_delete.FLOOR, REMOVED_RATIO * known)
            if len(client.removed) > most:
                raise WrongError(
                    f"a run removed {len(client.removed)} of {known} entities; "
                    f"its limit is {most:g}"
                )
        if isinstance(cause, LimitError) and client.removed:
            raise WrongError(f"a stopped removal removed {sorted(client.removed)}")

    def clean_run(self, host: Host, *, full: bool) -> None:
        """Run without faults, and expect that all goes well."""
        self.run(host, full=full, limited=False)
        self.scheduler.run()

    def fresh(self) -> dict[str, dict[str, Aspect]]:
        """Return what the recipes write into an empty catalog."""
        storage, self.storage = self.storage, Storage()
        try:
            for host in self.own_recipes():
                again = replace(host, state=None)
                self.hosts.append(again)
                self.clean_run(again, full=True)
                self.hosts.remove(again)
            return self.storage.stored
        finally:
            self.storage = storage

    def versions_of_gone_runs(self) -> set[str]:
        """Return models whose run MLflow does not hold: its parameters stay, nobody reads them."""
        runs = {run.run_id for run in self.server.store.runs}
        return {
            model_urn(f"{one.name}_{one.version}")
            for one in self.server.store.versions
            if one.run_id not in runs
        }

    def groups_of_models_without_source(self) -> set[str]:
        """Return groups that stay: a model in them does not say any more that it is ours."""
        held = (self.storage.stored.get(urn, {}) for urn in self.people.without_base)
        return {
            group
            for aspects in held
            for group in aspects.get("mlModelProperties", {}).get("groups") or ()
        }

    def copies_of_groups_without_base(self) -> set[str]:
        """Return groups that got what nobody could tell from the entries of people."""
        copies: set[str] = set()
        left = set(self.people.without_base)
        while left:
            left = self.new_names(left) - copies
            copies |= left
        return copies

    def new_names(self, urns: Collection[str]) -> set[str]:
        """Return the groups that some of `urns` are marked as renamed to."""
        held = (self.storage.stored.get(urn, {}) for urn in urns)
        named = (aspects.get(ML_MODEL_GROUP_PROPERTIES, {}) for aspects in held)
        customs = (properties.get("customProperties") or {} for properties in named)
        return {custom[RENAMED_TO] for custom in customs if RENAMED_TO in custom}

    def on_namesakes(self) -> list[str]:
        """Return what people put on a former experiment, and is on another one with its id.

        Without its time of creation the former one may have been renamed to the other.
        """
        stored = self.storage.stored
        undated = str([stored.get(urn) for urn in self.people.undated])
        return [
            f"{mark} of a person is on {group_urn(one.name)}, which is another experiment"
            for one, marks in self.of_namesakes
            for mark in sorted(marks)
            if f"{mark}'" in str(stored.get(group_urn(one.name), {})) and f"{mark}'" not in undated
        ]

    def living_groups(self) -> dict[str, str]:
        """Return the group of each experiment that is not in the trash, by its id.

        An id that was given again is left out: a run may have written the former one since.
        """
        again = {one.experiment_id for one, _ in self.of_namesakes}
        return {
            one.experiment_id: group_urn(one.name)
            for one in self.server.store.experiments
            if one.lifecycle_stage == "active" and one.experiment_id not in again
        }

    def recipes(self) -> list[Host]:
        """Return a host of each recipe."""
        teams = {(host.recipe, host.writer_id): host for host in reversed(self.hosts)}
        return list(teams.values())

    def own_recipes(self) -> list[Host]:
        """Return those that do not read a copy, which tells of the same entities otherwise."""
        return [host for host in self.recipes() if host.recipe != COPY]
