"""Versions of one set are written one after another, in ascending order; all else is as before."""

import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

import pytest

from mlcat_ingest.client.base import CatalogFacts
from mlcat_ingest.errors import AspectRejectedError
from mlcat_ingest.metadata.proposal import Entity, Proposal
from mlcat_ingest.pipeline.merge.limits import HEAVIEST
from mlcat_ingest.pipeline.report.report import Report
from mlcat_ingest.pipeline.run import PipelineRun, RunOptions
from mlcat_ingest.pipeline.write.batches import MOST_WAITING
from support.fakes import FakeSink, FakeSource, model_urn
from support.recipes import a_recipe

PAGE = 150
WORKERS = CatalogFacts().connections


def version(name: str, number: int, **properties: object) -> Entity:
    return Entity(
        model_urn(f"{name}_{number}"),
        {
            "versionProperties": {
                "versionSet": f"urn:li:versionSet:({name},mlModel)",
                "version": {"versionTag": str(number)},
                "sortId": f"{number:010}",
                "versioningScheme": "LEXICOGRAPHIC_STRING",
                "aliases": [],
            },
            "mlModelProperties": {"name": f"{name}_{number}", **properties},
        },
    )


def plain(count: int) -> list[Entity]:
    return [Entity(model_urn(f"r{n}"), {"mlModelProperties": {"name": "r"}}) for n in range(count)]


def pages(entities: Sequence[Entity]) -> list[Sequence[Entity]]:
    return [entities[start : start + PAGE] for start in range(0, len(entities), PAGE)]


@dataclass
class WatchingSink(FakeSink):
    """Notes the versions of each set in the order of their writes, and any that meet another."""

    slow: bool = True
    order: dict[str, list[str]] = field(default_factory=dict)
    together: list[str] = field(default_factory=list)
    waiting_s: random.Random = field(default_factory=lambda: random.Random(7))
    _in_flight: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def write(self, proposals: Sequence[Proposal]) -> Sequence[AspectRejectedError]:
        versions = [
            (one.aspect["versionSet"], one.aspect["sortId"])
            for one in proposals
            if one.aspect_name == "versionProperties"
        ]
        with self._lock:
            for version_set, sort_id in versions:
                self.order.setdefault(version_set, []).append(sort_id)
                self._in_flight[version_set] += 1
                if self._in_flight[version_set] > 1:
                    self.together.append(version_set)
        if self.slow:
            time.sleep(self.waiting_s.uniform(0, 0.002))
        try:
            return super().write(proposals)
        finally:
            with self._lock:
                self._in_flight.subtract(version_set for version_set, _ in versions)


def run(entities: Sequence[Entity], sink: FakeSink) -> Report:
    options = RunOptions(a_recipe("test", evaluate={"enabled": False}))
    report = PipelineRun([FakeSource(pages(entities))], sink, options).execute()
    report.raise_for_failure()
    return report


def interleaved(*lists: Sequence[Entity]) -> list[Entity]:
    """Return entities of all lists at random, each list in its order."""
    chosen = random.Random(3)
    turns = [at for at, one in enumerate(lists) for _ in one]
    chosen.shuffle(turns)
    left = [iter(one) for one in lists]
    return [next(left[at]) for at in turns]


def test_versions_are_written_ascending_and_one_at_a_time() -> None:
    sink = WatchingSink()
    sets = [[version(f"m{name}", n) for n in range(1, 180)] for name in range(4)]
    report = run(interleaved(*sets, plain(300)), sink)
    assert report.entities["mlModel"].created == 4 * 179 + 300
    assert sink.together == []
    assert [*sink.order.values()] == [[f"{n:010}" for n in range(1, 180)]] * 4


def test_many_sets_of_few_versions_fill_their_batches() -> None:
    sink = WatchingSink(slow=False)
    entities = [version(f"m{name}", n) for n in (1, 2, 3) for name in range(400)]
    run(entities, sink)
    assert sink.together == []
    assert len(sink.writes) <= 2 + 3 * 400 * 2 // 200


def test_a_set_of_many_versions_holds_nothing_else_up() -> None:
    sink = WatchingSink()
    run(interleaved([version("m", n) for n in range(100)], plain(2_000)), sink)
    written = [one.entity_urn for batch in sink.writes for one in batch]
    last_plain = max(written.index(one.urn) for one in plain(2_000))
    assert last_plain < 2_000 + 2 * 100 - 100, "most versions wait until the rest is written"


def test_versions_that_did_not_change_cost_no_write_and_hold_none_up() -> None:
    sink = WatchingSink()
    entities = [version("m", n) for n in range(900)]
    run(entities, sink)
    sink.writes.clear()
    run(entities, sink)
    assert sink.writes == []
    described = [
        version("m", n, description="new") if n % 2 else one for n, one in enumerate(entities)
    ]
    run(described, sink)
    assert len(sink.writes) == 450 // 200 + 1, "their properties change nothing of the set"


@pytest.mark.parametrize(
    ("versions", "entries", "most"),
    # What waits, and what all workers had read when it was too much.
    [(1_200, 0, MOST_WAITING + WORKERS * 200 + 1), (75, HEAVIEST // 10, 10 + WORKERS * 10 + 1)],
    ids=["narrow", "wide"],
)
def test_what_waits_for_its_turn_is_bounded(versions: int, entries: int, most: int) -> None:
    held: list[int] = []

    def look(proposals: Sequence[Proposal]) -> None:
        del proposals
        held.append(sum(map(len, sink.reads)) - len(sink.stored))

    sink = WatchingSink(before_write=look, slow=False)
    properties = {str(n): "" for n in range(entries)}
    run([version("m", n, customProperties=properties) for n in range(versions)], sink)
    assert max(held) <= most


def test_a_version_of_a_set_that_is_not_read_waits_for_nothing() -> None:
    sink = FakeSink()
    aliases = {"versionProperties": {"aliases": [{"versionTag": "best"}]}}
    run([Entity(model_urn(f"m{n}"), aliases) for n in range(3)], sink)
    assert len(sink.writes) == 1


def test_a_version_that_is_refused_lets_the_next_ones_pass() -> None:
    sink = WatchingSink(refuse={(model_urn("m_2"), "versionProperties")}, slow=False)
    report = run([version("m", n) for n in (1, 2, 3)], sink)
    assert report.exit_code == 4
    assert "versionProperties" in sink.stored[model_urn("m_3")]
    assert sink.stored[model_urn("m_2")]["mlModelProperties"]["name"] == "m_2"


def test_an_entity_read_again_while_it_waits_is_written_once_more() -> None:
    sink = WatchingSink()
    first = [version("m", n) for n in range(1, 60)]
    again = [version("m", n, description="with its run") for n in range(20, 60)]
    run([*first, *again], sink)
    assert sink.together == []
    stored = [sink.stored[one.urn]["mlModelProperties"].get("description") for one in first]
    assert stored == [None] * 19 + ["with its run"] * 40
    assert [key for key, _ in groupby(sink.order["urn:li:versionSet:(m,mlModel)"])] == [
        f"{n:010}" for n in range(1, 60)
    ]


@dataclass
class ComputingSink(FakeSink):
    """Computes `isLatest` as DataHub's VersionPropertiesSideEffect does, and checks versions."""

    place: str | None = "fake://catalog"

    def write(self, proposals: Sequence[Proposal]) -> Sequence[AspectRejectedError]:
        refused = super().write(proposals)
        refused_urns = {one.urn for one in refused}
        for one in proposals:
            if one.aspect_name == "versionProperties" and one.entity_urn not in refused_urns:
                self._compute(one.entity_urn)
        return refused

    def _compute(self, urn: str) -> None:
        mine = self.stored[urn]["versionProperties"]
        latest = [
            other
            for other, aspects in self.stored.items()
            if aspects.get("versionProperties", {}).get("isLatest")
            and aspects["versionProperties"]["versionSet"] == mine["versionSet"]
        ]
        if latest == [urn]:
            return
        former = [self.stored[one]["versionProperties"] for one in latest]
        if any(one["sortId"] >= mine["sortId"] for one in former):
            return
        self.put(urn, "versionProperties", {**mine, "isLatest": True})
        for one in latest:
            self.put(one, "versionProperties", {**self.stored[one]["versionProperties"]} | NOT)


NOT = {"isLatest": False}


def test_an_alias_that_moves_to_a_new_version_leaves_one_latest() -> None:
    def versions(champion: int, count: int) -> list[Entity]:
        found = []
        for n in range(1, count + 1):
            entity = version("m", n)
            aliases = [{"versionTag": "champion"}] if n == champion else []
            properties = {**entity.aspects["versionProperties"], "aliases": aliases}
            found.append(
                replace(entity, aspects={**entity.aspects, "versionProperties": properties})
            )
        return found

    sink = ComputingSink()
    for champion, count in ((1, 1), (2, 2), (1, 2), (3, 3), (2, 3)):
        report = run(versions(champion, count), sink)
        assert report.exit_code == 0
        assert report.conflicts == 0
        for n in range(1, count + 1):
            stored = sink.stored[model_urn(f"m_{n}")]["versionProperties"]
            assert stored["isLatest"] is (n == count)
            assert bool(stored["aliases"]) == (n == champion)
    sent = [one for batch in sink.writes for one in batch if one.aspect_name == "versionProperties"]
    assert {one.change_type for one in sent} == {"UPSERT", "PATCH"}
    assert not any("isLatest" in one.wire()["aspect"]["value"] for one in sent)


def test_a_version_that_the_service_rewrites_meanwhile_is_no_conflict() -> None:
    sink = ComputingSink()
    run([version("m", 1)], sink)
    moved: list[bool] = []

    def make_another_latest(proposals: Sequence[Proposal]) -> None:
        if not moved and any(one.change_type == "PATCH" for one in proposals):
            moved.append(True)
            stored = sink.stored[model_urn("m_1")]["versionProperties"]
            sink.put(model_urn("m_1"), "versionProperties", {**stored, **NOT})
            second = version("m", 2).aspects["versionProperties"]
            sink.put(model_urn("m_2"), "versionProperties", {**second, "isLatest": True})

    sink.before_write = make_another_latest
    changed = version("m", 1)
    properties = {**changed.aspects["versionProperties"], "comment": "new"}
    report = run([replace(changed, aspects={"versionProperties": properties})], sink)
    assert moved
    assert (report.exit_code, report.conflicts) == (0, 0)
    stored = sink.stored[model_urn("m_1")]["versionProperties"]
    assert (stored["comment"], stored["isLatest"]) == ("new", False)
