"""The greatest version of a set is written first, and all below it with everything else."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from mlcat_ingest.client.base import CatalogFacts
from mlcat_ingest.metadata.proposal import Entity, Proposal
from mlcat_ingest.pipeline.merge.limits import HEAVIEST
from mlcat_ingest.pipeline.report.report import Report
from mlcat_ingest.pipeline.run import PipelineRun, RunOptions
from mlcat_ingest.pipeline.write.version_sets import MOST_WAITING
from support.fakes import FakeSink, FakeSource, model_urn
from support.recipes import a_recipe
from support.versioning import VERSION, VersioningSink, WatchingSink, version_of

PAGE = 150
WORKERS = CatalogFacts().connections


def plain(count: int) -> list[Entity]:
    return [Entity(model_urn(f"r{n}"), {"mlModelProperties": {"name": "r"}}) for n in range(count)]


def pages(entities: Sequence[Entity]) -> list[Sequence[Entity]]:
    return [entities[start : start + PAGE] for start in range(0, len(entities), PAGE)]


def run(entities: Sequence[Entity], sink: FakeSink) -> Report:
    options = RunOptions(a_recipe("test", evaluate={"enabled": False}))
    report = PipelineRun([FakeSource(pages(entities))], sink, options).execute()
    report.raise_for_failure()
    return report


def shuffled(*lists: Sequence[Entity]) -> list[Entity]:
    entities = [entity for one in lists for entity in one]
    random.Random(3).shuffle(entities)
    return entities


def test_at_each_moment_a_search_finds_the_greatest_version_alone() -> None:
    sink = WatchingSink(slow=True)
    sets = [[version_of(f"m{name}", n) for n in range(1, 180)] for name in range(4)]
    report = run(shuffled(*sets, plain(300)), sink)
    assert report.entities["mlModel"].created == 4 * 179 + 300
    sink.look()
    assert sink.wrong == []
    proposals = 4 * 179 * 2 + 300
    assert len(sink.writes) <= proposals / 200 * 3, "not a request for each version"


@pytest.mark.parametrize(("sets", "versions", "most"), [(1, 1_000, 30), (400, 3, 14)])
def test_ascending_versions_and_many_sets_of_few_fill_their_batches(
    sets: int, versions: int, most: int
) -> None:
    sink = WatchingSink()
    run([version_of(f"m{name}", n) for n in range(versions) for name in range(sets)], sink)
    sink.look()
    assert sink.wrong == []
    assert len(sink.writes) <= most


def test_versions_that_did_not_change_cost_no_write_and_hold_none_up() -> None:
    sink = WatchingSink(slow=True)
    entities = [version_of("m", n) for n in range(900)]
    run(entities, sink)
    sink.writes.clear()
    run(entities, sink)
    assert sink.writes == []
    described = [
        version_of("m", n, description="new") if n % 2 else one for n, one in enumerate(entities)
    ]
    run(described, sink)
    assert len(sink.writes) == 450 // 200 + 1, "their properties change nothing of the set"


def test_versions_below_the_latest_change_together() -> None:
    sink = WatchingSink()
    entities = [version_of("m", n) for n in range(900)]
    run(entities, sink)
    sink.writes.clear()
    renamed = [
        Entity(one.urn, {**one.aspects, VERSION: {**one.aspects[VERSION], "comment": "new"}})
        for one in entities
    ]
    run(renamed, sink)
    sink.look()
    assert sink.wrong == []
    assert len(sink.writes) <= 2 * 900 // 200 + 2
    assert all(sink.stored[one.urn][VERSION]["comment"] == "new" for one in entities)


@pytest.mark.parametrize(
    ("versions", "entries", "most"),
    # What waits, what is written once that ends, and what all workers had read by then.
    [
        (1_200, 0, 2 * MOST_WAITING + WORKERS * 200 + 1),
        (75, HEAVIEST // 10, 2 * 10 + WORKERS * 10 + 1),
    ],
    ids=["narrow", "wide"],
)
def test_what_waits_for_its_turn_is_bounded(versions: int, entries: int, most: int) -> None:
    held: list[int] = []

    def look(proposals: Sequence[Proposal]) -> None:
        del proposals
        held.append(sum(map(len, sink.reads)) - len(sink.stored))

    sink = WatchingSink(before_write=look)
    properties = {str(n): "" for n in range(entries)}
    run([version_of("m", n, customProperties=properties) for n in range(versions)], sink)
    assert max(held) <= most


def test_a_version_of_a_set_that_is_not_read_waits_for_nothing() -> None:
    sink = FakeSink()
    aliases = {VERSION: {"aliases": [{"versionTag": "best"}]}}
    run([Entity(model_urn(f"m{n}"), aliases) for n in range(3)], sink)
    assert len(sink.writes) == 1


@pytest.mark.parametrize("refused", [1, 2, 3])
def test_a_version_that_is_refused_lets_the_others_pass(refused: int) -> None:
    sink = WatchingSink(refuse={(model_urn(f"m_{refused}"), VERSION)})
    report = run([version_of("m", n) for n in (1, 2, 3)], sink)
    assert report.exit_code == 4
    stored = {n for n in (1, 2, 3) if VERSION in sink.stored[model_urn(f"m_{n}")]}
    assert stored == {1, 2, 3} - {refused}
    assert sink.stored[model_urn(f"m_{refused}")]["mlModelProperties"]["name"] == f"m_{refused}"
    sink.look()
    assert sink.wrong == []


def test_an_entity_read_again_while_it_waits_is_written_once_more() -> None:
    sink = WatchingSink(slow=True)
    first = [version_of("m", n) for n in range(1, 60)]
    again = [version_of("m", n, description="with its run") for n in range(20, 60)]
    run([*first, *again], sink)
    stored = [sink.stored[one.urn]["mlModelProperties"].get("description") for one in first]
    assert stored == [None] * 19 + ["with its run"] * 40
    sink.look()
    assert sink.wrong == []


def test_a_pass_that_was_cut_off_behind_the_greatest_goes_on_below_it() -> None:
    sink = WatchingSink()
    run([version_of("m", 9)], sink)
    run([version_of("m", n) for n in range(9)], sink)
    sink.look()
    assert sink.wrong == []
    assert all(sink.stored[model_urn(f"m_{n}")][VERSION]["isLatest"] is False for n in range(9))


def test_versions_that_others_wrote_meanwhile_keep_their_changes() -> None:
    sink = WatchingSink()

    def another(proposals: Sequence[Proposal]) -> None:
        """Write a lower version, as the new versions below the greatest come in."""
        if any(one.change_type == "CREATE_ENTITY" for one in proposals):
            sink.before_write = lambda _: None
            theirs = {**version_of("m", 2).aspects[VERSION], "comment": "of another tool"}
            sink.put(model_urn("m_2"), VERSION, {**theirs, "isLatest": False})

    sink.before_write = another
    run([version_of("m", n) for n in range(1, 5)], sink)
    sink.look()
    assert sink.wrong == []
    assert sink.stored[model_urn("m_2")][VERSION]["comment"] == "of another tool"
    created = [one for batch in sink.writes for one in batch if one.change_type == "CREATE_ENTITY"]
    assert {model_urn("m_1"), model_urn("m_3")} <= {one.entity_urn for one in created}


@dataclass
class StrictSink(WatchingSink):
    """Refuses `isLatest` also where an entity is created; a patch may hold it."""

    def _problem(self, urn: str, entity: Sequence[Proposal]) -> str | None:
        if any("isLatest" in one.aspect for one in entity if one.change_type == "CREATE_ENTITY"):
            return "IsLatest should not be specified, this is a computed field."
        return super()._problem(urn, entity)


def test_where_the_field_is_refused_the_pass_ends_right_and_goes_on_one_by_one() -> None:
    sink = StrictSink()
    report = run([version_of("m", n) for n in range(1, 300)], sink)
    assert (report.exit_code, report.conflicts) == (0, 0)
    assert report.entities["mlModel"].created == 299
    [(latest, found)] = sink.latest().values()
    assert (latest, found) == (model_urn("m_299"), [latest])
    sent = [one for batch in sink.writes for one in batch if one.change_type == "CREATE_ENTITY"]
    assert len(sent) <= 2 * 2 * MOST_WAITING, "they are not tried again and again"


def test_an_alias_that_moves_to_a_new_version_leaves_one_latest() -> None:
    def version(n: int, champion: int) -> Entity:
        entity = version_of("m", n)
        aliases = [{"versionTag": "champion"}] if n == champion else []
        properties = {**entity.aspects[VERSION], "aliases": aliases}
        return replace(entity, aspects={**entity.aspects, VERSION: properties})

    sink = VersioningSink()
    for champion, count in ((1, 1), (2, 2), (1, 2), (3, 3), (2, 3)):
        report = run([version(n, champion) for n in range(1, count + 1)], sink)
        assert (report.exit_code, report.conflicts) == (0, 0)
        for n in range(1, count + 1):
            stored = sink.stored[model_urn(f"m_{n}")][VERSION]
            assert stored["isLatest"] is (n == count)
            assert bool(stored["aliases"]) == (n == champion)
    sent = [one for batch in sink.writes for one in batch if one.aspect_name == VERSION]
    assert {one.change_type for one in sent} == {"UPSERT", "PATCH"}
    assert not any("isLatest" in one.wire()["aspect"]["value"] for one in sent)


def test_a_version_that_the_service_rewrites_meanwhile_is_no_conflict() -> None:
    sink = VersioningSink()
    run([version_of("m", 1)], sink)
    moved: list[bool] = []

    def make_another_latest(proposals: Sequence[Proposal]) -> None:
        if not moved and any(one.change_type == "PATCH" for one in proposals):
            moved.append(True)
            stored = sink.stored[model_urn("m_1")][VERSION]
            sink.put(model_urn("m_1"), VERSION, {**stored, "isLatest": False})
            second = version_of("m", 2).aspects[VERSION]
            sink.put(model_urn("m_2"), VERSION, {**second, "isLatest": True})

    sink.before_write = make_another_latest
    changed = version_of("m", 1)
    properties = {**changed.aspects[VERSION], "comment": "new"}
    report = run([replace(changed, aspects={VERSION: properties})], sink)
    assert moved
    assert (report.exit_code, report.conflicts) == (0, 0)
    stored = sink.stored[model_urn("m_1")][VERSION]
    assert (stored["comment"], stored["isLatest"]) == ("new", False)
