"""Random histories of aliases, and whether what the catalog says of them is true.

    python tests/simulation/aliases.py --seeds 100000

The world is a registered model with two aliases, the hook and webhooks, passes, and drains. Events
are lost or late, calls overlap, writes come late and in another order, runs are killed, the state
is lost, the catalog is restored from a backup, and people overwrite the properties, with aliases
that never were. Other recipes write the group and carry on what is there. The catalog keeps its
newest versions, and the record of sightings is lost. The code under test is all that a sighting
passes: the listing, the merge, the versions that are kept, and the answer.
"""

import argparse
import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mlcat_ingest.metadata.aliases import (
    AliasEvidence,
    Sighting,
    answer,
    decode,
    encode,
    listing,
    with_sightings,
)
from mlcat_ingest.metadata.mlflow_keys import ALIASES
from mlcat_ingest.metadata.passport import KeptVersion
from mlcat_ingest.metadata.proposal import CUSTOM
from mlcat_ingest.metadata.reserved import ALIAS_LOG
from mlcat_ingest.sources.mlflow.values.records import PropertyKey
from mlcat_ingest.workflows.when import in_versions

NAMES: Final = ("champion", "next")
DAY_MS: Final = 86_400_000
BEGIN_MS: Final = 1_000 * DAY_MS
REGISTERED: Final[dict[str, str]] = {PropertyKey.REGISTERED_MODEL: "churn"}
BREAKS: Final = (
    *("webhook is exact", "write is the window", "former until now", "absent is none"),
    *("version is when it was read", "anybody's version counts", "the oldest version is new"),
    "any properties have all aliases",
)
"""Rules that can be broken on purpose: each makes some answer wrong."""


@dataclass
class Reading:
    """What a pass or a drain has read and not yet written."""

    aliases: Mapping[str, str]
    window: tuple[int, int]
    former: list[Sighting]
    events: list[Sighting] | None


@dataclass
class World:
    """One history; `lossless` has each event at once, one call at a time and no disturbance."""

    seed: int
    lossless: bool = False
    broken: str = ""
    now_ms: int = BEGIN_MS
    aliases: dict[str, str] = field(default_factory=dict)
    versions: list[str] = field(default_factory=lambda: ["1"])
    truth: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    stored: dict[str, Any] = field(default_factory=dict)
    backups: list[tuple[dict[str, Any], list[KeptVersion]]] = field(default_factory=list)
    kept: list[KeptVersion] = field(default_factory=list)
    spool: list[Sighting] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    checkpoint: tuple[int, int, Mapping[str, str]] | None = None
    claimed: set[Sighting] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        # Some have been at a version for ever: that they are at none would be wrong of any time.
        first = ("",) if self.lossless else ("", "1")
        self.truth = {name: [(0, self.random.choice(first))] for name in NAMES}
        self.aliases = {name: held for name, [(_, held)] in self.truth.items() if held}

    def run(self) -> None:
        steps = [self.move] * 4 + [self.read_and_write] * 3
        if not self.lossless:
            steps += [self.read, self.write, self.write, self.disturb, self.delete_version]
        for _ in range(self.random.randint(3, 30)):
            self.wait(self.random.choice((50, 5_000, 3_600_000, DAY_MS)))
            self.random.choice(steps)()
        if self.lossless:
            self.read(drains=True)
            self.write()

    def wait(self, most_ms: int) -> int:
        self.now_ms += self.random.randint(0, most_ms)
        return self.now_ms

    def put(self, alias: str, version: str) -> None:
        if version:
            self.aliases[alias] = version
        else:
            self.aliases.pop(alias, None)
        self.truth[alias].append((self.now_ms, version))

    def move(self) -> None:
        """Move aliases by one call, or by two that overlap."""
        calls = []
        for _ in range(1 if self.lossless else self.random.randint(1, 2)):
            version = self.random.choice(["", *self.versions])
            if self.random.random() < 0.3:
                self.versions.append(version := str(int(self.versions[-1]) + 1))
            calls.append((self.random.choice(NAMES), version, self.wait(3)))
        for alias, version, _ in calls:
            self.wait(3)
            self.put(alias, version)
        self.random.shuffle(calls)
        for alias, version, since_ms in calls:
            at_ms = self.wait(3) + 1
            self.report(alias, version, since_ms, at_ms)

    def report(self, alias: str, version: str, since_ms: int, at_ms: int) -> None:
        how = 0.0 if self.lossless else self.random.random()
        if how < 0.5:
            self.spool.append(Sighting(alias, version, since_ms, at_ms, "event"))
        elif how < 0.8:
            late_ms = self.random.choice((0, 0, 300_000)) * self.random.random()
            signed_ms = int(at_ms + late_ms) // 1000 * 1000 + 999
            begin_ms = signed_ms - 999 if self.broken == "webhook is exact" else 0
            self.spool.append(Sighting(alias, version, begin_ms, signed_ms, "webhook"))

    def delete_version(self) -> None:
        if len(self.versions) > 1:
            gone = self.versions.pop(self.random.randrange(len(self.versions) - 1))
            for alias in [name for name, version in self.aliases.items() if version == gone]:
                self.put(alias, "")

    def read(self, *, drains: bool | None = None) -> None:
        drains = self.random.random() < 0.4 if drains is None else drains
        begin_ms = self.now_ms // 1000 * 1000 - 2_000
        self.wait(2_000)
        aliases = dict(self.aliases)
        self.wait(2_000)
        window = begin_ms, self.now_ms // 1000 * 1000 + 2_000
        former: list[Sighting] = []
        if not drains and self.checkpoint is not None and self.random.random() < 0.7:
            since_ms, until_ms, before = self.checkpoint
            if self.broken == "former until now":
                since_ms, until_ms = window[0] - 1_000, window[0]
            former = listing(before, since_ms, until_ms)
        self.readings.append(Reading(aliases, window, former, [*self.spool] if drains else None))

    def write(self) -> None:
        """Write something that was read, whichever; the run may be killed before or after."""
        if not self.readings:
            return
        one = self.readings.pop(0 if self.lossless else self.random.randrange(len(self.readings)))
        killed = 1.0 if self.lossless else self.random.random()
        if killed < 0.1:
            return
        window = (self.now_ms,) * 2 if self.broken == "write is the window" else one.window
        seen = [*(one.events or ()), *one.former, *listing(one.aliases, *window)]
        if self.broken == "absent is none":
            seen.append(Sighting(NAMES[0], "", *window))
        fresh = {**REGISTERED, ALIAS_LOG: encode(seen)}
        if one.aliases:
            fresh[ALIASES] = json.dumps(one.aliases)
        fresh = dict(with_sightings(fresh, self.stored))
        kept = {ALIAS_LOG: self.stored[ALIAS_LOG]} if ALIAS_LOG in self.stored else {}
        self.store({**kept, **fresh}, "recipe r")
        self.claimed.update(decode(self.stored.get(ALIAS_LOG)))
        if killed < 0.2:
            return
        if one.events is None:
            # A model without aliases is not in the checkpoint.
            self.checkpoint = (*one.window, one.aliases) if one.aliases else None
        else:
            self.spool = [event for event in self.spool if event not in one.events]

    def store(self, custom: dict[str, Any], writer: str) -> None:
        """Write the group's properties, of which the catalog keeps the newest versions."""
        self.backups.append((self.stored, [*self.kept]))
        self.stored = custom
        number = self.kept[0].number + 1 if self.kept else 1
        value = {CUSTOM: custom}
        self.kept = [KeptVersion(number, value, self.now_ms, writer), *self.kept[: self.seed % 4]]

    def read_and_write(self) -> None:
        self.read()
        self.write()

    def disturb(self) -> None:
        match self.random.randrange(7):
            case 0:
                self.checkpoint = None
            case 1 if self.backups:
                self.stored, self.kept = self.random.choice(self.backups)
            case 2:
                # Who retracts recipe r writes as it, and has another property left.
                self.store({}, self.random.choice(("user ada", "recipe other", "recipe r")))
            case 3:
                lie = json.dumps({self.random.choice(NAMES): "999"})
                self.store({**self.stored, ALIASES: lie}, self.random.choice(("user ada", "")))
            case 4:
                self.store({**self.stored, "k": "v"}, "recipe other")
            case 5:
                self.stored = {key: self.stored[key] for key in self.stored if key != ALIAS_LOG}
            case _:
                self.spool = self.random.sample(self.spool, k=len(self.spool) // 2)

    def held(self, one: Sighting) -> bool:
        """Return whether the alias was at the version at a moment of the window."""
        moves = self.truth[one.alias]
        ends = [moment for moment, _ in moves[1:]] + [2**63]
        return any(
            version == one.version and begin <= one.end_ms and one.begin_ms < max(end, begin + 1)
            for (begin, version), end in zip(moves, ends, strict=True)
        )

    def holder(self, alias: str, at_ms: int) -> str:
        return [version for begin, version in self.truth[alias] if begin <= at_ms][-1]

    def wrong(self) -> Iterator[object]:
        """Yield each answer that is not true."""
        yield from (one for one in self.claimed if not self.held(one))
        log = decode(self.stored.get(ALIAS_LOG))
        seen = [*log, *self.seen_in_versions()]
        for alias in NAMES:
            for _ in range(4):
                begin_ms = self.random.randint(BEGIN_MS - 10_000, self.now_ms + 10_000)
                end_ms = begin_ms + self.random.choice((0, DAY_MS - 1))
                for known in (log, seen):
                    found = answer(known, alias, begin_ms, end_ms)
                    if not self.is_true(found, begin_ms, end_ms):
                        yield alias, begin_ms, end_ms, found
                if self.lossless and (last := self.last(log, alias, begin_ms)) is not None:
                    yield alias, begin_ms, last

    def seen_in_versions(self) -> list[Sighting]:
        kept = self.kept
        if self.broken == "any properties have all aliases":
            kept = [one._replace(value={CUSTOM: REGISTERED | one.value[CUSTOM]}) for one in kept]
        if self.broken == "anybody's version counts":
            kept = [one._replace(writer="recipe r") for one in kept]
        if self.broken == "the oldest version is new":
            kept = [one._replace(number=len(kept) - at) for at, one in enumerate(kept)]
        found = list(in_versions(kept))
        if self.broken == "version is when it was read":
            found = [one._replace(begin_ms=one.end_ms) for one in found]
        return found

    def is_true(self, found: AliasEvidence, begin_ms: int, end_ms: int) -> bool:
        within = all(begin_ms <= one.begin_ms <= one.end_ms <= end_ms for one in found.within)
        before = found.before is None or found.before.end_ms < begin_ms
        late = found.after
        after = late is None or (late.begin_ms or late.end_ms) > end_ms
        named = (found.before, found.after, *found.within, *found.across)
        return within and before and after and all(one is None or self.held(one) for one in named)

    def last(self, log: list[Sighting], alias: str, at_ms: int) -> AliasEvidence | None:
        """Return the answer for a moment if its last event is not the truth."""
        events = [one for one in log if one.by == "event"]
        found = answer(events, alias, at_ms, at_ms)
        if found.across or found.within:
            return None  # in the middle of a call
        version = "" if found.before is None else found.before.version
        return None if version == self.holder(alias, at_ms) else found


def failures(seeds: range, broken: str = "") -> Iterator[tuple[int, object]]:
    """Yield the seeds with a wrong answer, and the first one of each."""
    for seed in seeds:
        world = World(seed, lossless=seed % 4 == 0 and not broken, broken=broken)
        world.run()
        for one in world.wrong():
            yield seed, one
            break


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100_000)
    parser.add_argument("--break", dest="broken", default="", choices=("", *BREAKS))
    given = parser.parse_args()
    wrong = list(failures(range(given.seeds), given.broken))
    print(f"{given.seeds:,} histories, {len(wrong):,} with a wrong answer", *wrong[:5], sep="\n")
    raise SystemExit(1 if wrong else 0)
