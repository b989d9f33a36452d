"""The history that a seed decides: rounds of runs under faults, and the end without them."""

import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Final

from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.merge.applied import applied_key
from mlcat_ingest.pipeline.removal import soft_delete
from mlcat_ingest.sources.mlflow.values.records import Experiment
from simulation.catalog import Faults, Storage
from simulation.invariant import Contents, differences, left_behind
from simulation.people import OWN_TYPES, People
from simulation.scheduler import scheduled, simulated_threads
from simulation.world import COPY, Host, World, WrongError
from support.mlflow_history import MINUTE_MS, Server, fast_folder

AGAIN: Final = 0.35
"""How often a second end follows the first one: it shows whether the bases are right, too."""

TAGS: Final = ((), ("a",), ("a", "b"), ("b",))


class FailedSeedError(AssertionError):
    """A seed against the invariant: what was wrong, and the history."""

    def __init__(self, seed: int, wrong: Sequence[str], trace: Sequence[str]) -> None:
        super().__init__(
            "\n".join(
                [
                    f"seed {seed}:",
                    *wrong,
                    f"replay: python tests/simulation/run.py --seed {seed} --trace",
                ]
            )
        )
        self.seed = seed
        self.wrong = wrong
        self.trace = trace


@contextmanager
def simulation() -> Iterator[None]:
    """Let the product run simulated inside the block, with a floor for removals that fits it."""
    floor = soft_delete.FLOOR
    soft_delete.FLOOR = 2  # type: ignore[misc]
    try:
        with simulated_threads():
            yield
    finally:
        soft_delete.FLOOR = floor  # type: ignore[misc]


def run_seed(seed: int) -> list[str]:
    """Live through the history of a seed; return its steps.

    Raises:
        FailedSeedError: it ends against the invariant, or comes to no end.
    """
    with (
        scheduled(seed) as scheduler,
        tempfile.TemporaryDirectory(prefix="mlcat-", dir=fast_folder()) as folder,
    ):
        chance = scheduler.chance
        storage = Storage(checks_versions=chance.random() < 0.6)
        world = World(
            scheduler,
            Path(folder),
            storage,
            People(storage, chance, prefer_groups=seed % 4 == 0),
            Faults.drawn(chance),
            gentle=chance.random() < 0.5,
            training=random.Random(f"training {seed}"),
        )
        try:
            _fill(world)
            for _ in range(chance.choice((1, 1, 2, 2, 3))):
                _round(world)
            _end(world)
        except Exception as error:
            wrong = error.args[0] if isinstance(error, WrongError) else repr(error)
            raise FailedSeedError(seed, [str(wrong)], scheduler.trace) from error
        finally:
            world.close()
        return scheduler.trace


def _fill(world: World) -> None:
    """Make a small server, and the hosts of one or two recipes."""
    server, chance = world.server, world.scheduler.chance
    server.now_ms = int(world.scheduler.now_s * 1000)
    for at in range(4):
        server.start(at)
        server.now_ms += MINUTE_MS
    server.end(0)
    server.end(1)
    server.register(1)
    server.register(2)
    server.log_model(chance.randrange(4))
    world.scheduler.now_s = server.now_ms / 1000 + 3600
    world.hosts.append(Host("one", world.folder / "one.db", chance.choice(TAGS)))
    if chance.random() < 0.5:
        world.hosts.append(Host("two", world.folder / "two.db", chance.choice(TAGS)))
    # Of three writers without version checks one can lose a base, and so whose an entry was.
    may_be_two = world.storage.checks_versions or len(world.hosts) == 1
    if not world.gentle and chance.random() < 0.4 and may_be_two:
        world.hosts.append(Host("one", world.folder / "else.db", world.hosts[0].tags))
    if not world.gentle and world.storage.checks_versions and chance.random() < 0.3:
        world.hosts.append(_another_team(world))
    kinds = {"change_source": 3, "edit": 4, "kill": 1, "refuse": 1, "start": 2}
    chosen = [kind for kind in kinds if chance.random() < 0.7] or ["kill"]
    if not world.storage.checks_versions:
        chosen = _without_checks(world, chosen)
    world.event_kinds = [kind for kind in chosen for _ in range(kinds[kind])]
    hosts = ", ".join(f"{host.recipe} adds {host.tags}" for host in world.hosts)
    world.scheduler.log(f"{world.storage.checks_versions=} {world.gentle=} {hosts}; {world.faults}")


def _another_team(world: World) -> Host:
    """Return a host of another team.

    Its recipe has the same name, and its server is the same or has the same address; or it has a
    name of its own, and reads a copy of the server.
    """
    state, chance = world.folder / "team.db", world.scheduler.chance.random()
    if chance < 0.3:
        return Host("one", state, writer_id="another")
    if chance < 0.6:
        copy = replace(deepcopy(world.server), made=0xA00)
        return Host(COPY, state, writer_id="another", server=copy)
    server = Server(now_ms=world.server.now_ms, made=0xA00)
    server.store.experiments = [
        Experiment(str(900 + n), f"of another team {n}", created_at_ms=n) for n in range(3)
    ]
    for at in range(6):
        server.start(at)
    return Host("one", state, writer_id="another", server=server)


def _without_checks(world: World, kinds: list[str]) -> list[str]:
    """Return the events that a catalog without a check of versions can be expected to survive.

    A writer restores what it went over once it has looked. One that is stopped before that cannot.
    """
    world.is_alone = world.scheduler.chance.random() < 0.5
    if world.is_alone:
        left = [kind for kind in kinds if kind not in {"edit", "start"}]
    else:
        left = [kind for kind in kinds if kind not in {"kill", "refuse"}]
        world.faults.clear(but_replies=True)
    return left or ["change_source"]


def _round(world: World) -> None:
    """Let the source change, and recipes run while all kinds of things happen."""
    scheduler, chance = world.scheduler, world.scheduler.chance
    for _ in range(chance.randrange(4)):
        world.change_source()
    if world.training.random() < 0.3:
        world.register_several()
    for _ in range(chance.randrange(3)):
        world.edit()
    for host in world.hosts:
        if host.server is not None and chance.random() < 0.5:
            getattr(host.server, chance.choice(("start", "purge_run", "purge_experiment")))(1)
    if chance.random() < 0.3:
        _change_tags(world)
    world.is_source_empty = not world.gentle and chance.random() < 0.2
    scheduler.events = world.event
    rates = (0.03, 0.06, 0.1) if world.people.prefer_groups else (0.0, 0.01, 0.03, 0.1)
    scheduler.event_rate = chance.choice(rates)
    scheduler.switching = chance.choice((0.05, 0.3, 1.0))
    world.start()
    if chance.random() < 0.4 and not world.is_alone:
        world.start()
    scheduler.run()
    scheduler.events, scheduler.event_rate, scheduler.switching = None, 0.0, 0.0
    world.is_source_empty = False
    for host in world.hosts:
        host.process = None
    world.keep_copies()
    if not world.gentle and chance.random() < 0.3:
        chance.choice((world.restore_catalog, world.restore_state, world.restore_source))()


def _change_tags(world: World) -> None:
    """Let somebody edit a recipe; every host has its new text."""
    tags = world.scheduler.chance.choice(TAGS)
    name = world.scheduler.chance.choice(world.hosts).recipe
    for host in world.hosts:
        if host.recipe == name:
            host.tags = tags
    world.scheduler.log(f"EVENT the recipe {name} adds {tags}")


def _end(world: World) -> None:
    """Let the faults cease, run once more, and look at what there is; do so after more changes."""
    world.scheduler.log("EVENT the faults cease")
    world.faults.clear()
    fresh = world.fresh()
    if world.gentle:
        _run_and_compare(world, fresh, full=False)
    _run_and_compare(world, fresh, full=True)
    if world.scheduler.chance.random() < AGAIN:
        for _ in range(3):
            world.change_source()
        _change_tags(world)
        _run_and_compare(world, world.fresh(), full=True)


def _run_and_compare(world: World, fresh: Contents, *, full: bool) -> None:
    """Run each recipe once, and compare; a second time where the first could not know enough.

    A recipe may have taken away what another one gives again. And what is gone, and in no search,
    is found and removed only once another recipe whose state knows it has written to it. A group
    that another recipe marked as the new name stays until that has read the former one again.
    """
    unfound = {urn for urn, _ in world.storage.lost_changes}
    unknown = world.people.without_base | (unfound - fresh.keys())
    unknown |= world.new_names(world.storage.stored)
    _run_each(world, full=full)
    wrong = _wrong(world, fresh, full=full)
    several = len(world.recipes()) > 1
    shares = _shares_a_name(world)
    if wrong and several and (shares or all(any(urn in line for urn in unknown) for line in wrong)):
        _run_each(world, full=full)
        wrong = _wrong(world, fresh, full=full)
    if wrong:
        raise WrongError("\n".join(wrong[:20]))


def _hidden_names(world: World, fresh: Contents) -> set[str]:
    """Return former names that were acknowledged, and that no search finds.

    A recipe whose state does not know one either cannot remove it.
    """
    lost = {urn for urn, _ in world.storage.lost_changes}
    return (lost & world.storage.unqueued) - fresh.keys()


def _shares_a_name(world: World) -> bool:
    return any(host.writer_id == "another" and host.server is None for host in world.hosts)


def _run_each(world: World, *, full: bool) -> None:
    recipes = world.own_recipes()
    world.scheduler.chance.shuffle(recipes)
    for host in recipes:
        world.clean_run(host, full=full)


def _wrong(world: World, fresh: Contents, *, full: bool) -> list[str]:
    more = world.people.without_base | world.versions_of_gone_runs()
    more |= world.groups_of_models_without_source()
    more |= world.copies_of_groups_without_base()
    if _shares_a_name(world):
        more |= fresh.keys()  # what a state wrote is nobody's once another one has written its base
    # What a copy of the source holds, too, is not gone with the source.
    more |= {urn for urn, held in world.storage.stored.items() if applied_key(COPY) in str(held)}
    more |= _hidden_names(world, fresh)
    wrong = [
        f"{urn} is stored, and its {aspect} is not found"
        for urn, aspect in sorted(world.storage.lost_changes)
        if full and urn in fresh and entity_type_of(urn) in OWN_TYPES
    ]
    wrong += list(differences(world.storage.stored, fresh, world.people.ledger, more, whole=full))
    if full:
        wrong += world.on_namesakes()
        # A copy may have its own group under a name that the source's group had before.
        groups = world.living_groups() if len(world.own_recipes()) == len(world.recipes()) else {}
        wrong += left_behind(world.storage.stored, world.people, groups)
    return wrong
