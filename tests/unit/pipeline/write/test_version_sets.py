"""The latest version of a set is the live one with the greatest sort id, whatever happens."""

from collections.abc import Sequence

import pytest

from mlcat_ingest.errors import CatalogRequestError
from mlcat_ingest.metadata.proposal import Entity, Proposal
from mlcat_ingest.pipeline.report.report import Report
from mlcat_ingest.pipeline.run import PipelineRun, RunOptions
from support.fakes import FakeSource, group_urn, model_urn
from support.recipes import a_recipe
from support.versioning import VERSION, VERSION_SET, VersioningSink, version_of

SET = "urn:li:versionSet:(m,mlModel)"
GROUP = group_urn("registered:m")


def version(number: int, *, removed: bool = False) -> Entity:
    one = version_of("m", number, groups=[GROUP])
    return Entity(one.urn, {"status": {"removed": removed}, **one.aspects})


def urn(number: int) -> str:
    return model_urn(f"m_{number}")


def gone(number: int) -> Entity:
    """What a removal says of an entity."""
    return Entity(urn(number), {"status": {"removed": True}})


def run(sink: VersioningSink, *entities: Entity, expected: int = 0) -> Report:
    options = RunOptions(a_recipe("test", evaluate={"enabled": False}))
    sink.writes.clear()
    sink.reads.clear()
    report = PipelineRun([FakeSource([list(entities)])], sink, options).execute()
    assert report.exit_code == expected, report
    return report


def a_sink(*numbers: int) -> VersioningSink:
    sink = VersioningSink()
    run(sink, *map(version, numbers))
    assert latest(sink) == max(numbers)
    return sink


def latest(sink: VersioningSink) -> int:
    """Return the latest version, which searches find and no other."""
    [(name, found)] = sink.latest().values()
    assert found == [name]
    return next(n for n in range(1, 20) if urn(n) == name)


def moves(sink: VersioningSink) -> list[str]:
    """Return the versions that `latest` entered, each in a write of its own, and conditionally."""
    found = [
        (len([each for each in batch if each.entity_urn == SET]), one)
        for batch in sink.writes
        for one in batch
        if one.aspect_name == VERSION_SET
    ]
    assert all(count == 1 and one.headers for count, one in found)
    return [str(one.aspect["latest"]) for _, one in found]


def test_a_first_pass_moves_nothing_and_reads_no_version_again() -> None:
    sink = VersioningSink()
    run(sink, *map(version, (1, 2, 3)))
    assert (latest(sink), moves(sink)) == (3, [])
    merged, learnt, settled, read_back = sink.reads
    assert (learnt, settled, merged) == ([SET], [SET], sorted(read_back))


def test_a_pass_that_changes_nothing_asks_nothing_of_sets() -> None:
    sink = a_sink(1, 2, 3)
    run(sink, *map(version, (1, 2, 3)))
    assert sink.reads == [[urn(1), urn(2), urn(3)]]


@pytest.mark.parametrize("removed", [[3], [2, 3], [1]])
def test_after_a_removal_the_latest_is_the_greatest_that_is_left(removed: list[int]) -> None:
    sink = a_sink(1, 2, 3)
    run(sink, *(version(n, removed=n in removed) for n in (1, 2, 3)))
    left = max({1, 2, 3} - {*removed})
    assert (latest(sink), moves(sink)) == (left, [] if left == 3 else [urn(left)])
    run(sink, *(version(n) for n in (1, 2, 3) if n not in removed))
    assert sink.writes == []


def test_a_removal_that_says_nothing_of_versions_finds_those_of_the_group() -> None:
    sink = a_sink(1, 2, 3)
    run(sink, gone(3))
    assert (latest(sink), moves(sink)) == (2, [urn(2)])
    run(sink, gone(2))
    assert latest(sink) == 1


def test_a_version_that_comes_back_is_the_latest_again() -> None:
    sink = a_sink(1, 2, 3)
    run(sink, gone(3))
    run(sink, gone(2))
    run(sink, *map(version, (1, 2)))
    assert (latest(sink), moves(sink)) == (2, [urn(2)])
    run(sink, version(3))
    assert (latest(sink), moves(sink)) == (3, [urn(3)])


def test_a_new_version_after_a_removed_greater_one_is_the_latest() -> None:
    sink = a_sink(1, 5)
    run(sink, gone(5), gone(1))
    run(sink, version(2))
    assert (latest(sink), moves(sink)) == (2, [urn(2)])


def test_a_new_version_is_left_to_the_service() -> None:
    sink = a_sink(1, 2)
    run(sink, *map(version, (1, 2, 3)))
    assert (latest(sink), moves(sink)) == (3, [])
    run(sink, version(4))
    assert (latest(sink), moves(sink)) == (4, [])


def test_versions_that_lack_the_computed_field_get_it_in_one_request() -> None:
    sink = a_sink(1, 2, 3)
    for n in (1, 2, 3):
        stored = dict(sink.stored[urn(n)][VERSION])
        del stored["isLatest"]
        sink.put(urn(n), VERSION, stored)
    run(sink, *map(version, (1, 2, 3)))
    assert (latest(sink), moves(sink), len(sink.writes)) == (3, [], 1)
    assert [sink.stored[urn(n)][VERSION]["isLatest"] for n in (1, 2, 3)] == [False, False, True]
    run(sink, *map(version, (1, 2, 3)))
    assert (sink.writes, sink.reads) == ([], [[urn(1), urn(2), urn(3)]])


def test_a_version_whose_field_alone_is_corrected_counts_once_and_as_updated() -> None:
    sink = a_sink(1, 2, 3)
    stored = dict(sink.stored[urn(2)][VERSION])
    del stored["isLatest"]
    sink.put(urn(2), VERSION, stored)
    counts = run(sink, *map(version, (1, 2, 3))).entities["mlModel"]
    assert (counts.read, counts.unchanged, counts.updated) == (3, 2, 1)


def test_an_older_version_that_comes_late_is_not_taken_for_the_latest() -> None:
    sink = a_sink(2, 3)
    run(sink, version(1))
    assert (latest(sink), moves(sink)) == (3, [])


def test_a_set_of_one_version_without_the_field_is_left_alone() -> None:
    sink = a_sink(1)
    stored = dict(sink.stored[urn(1)][VERSION])
    del stored["isLatest"]
    sink.put(urn(1), VERSION, stored)
    run(sink, version(1))
    assert (latest(sink), sink.writes) == (1, [])


def test_a_move_of_another_writer_stays() -> None:
    sink = a_sink(1, 2, 3)

    def another(proposals: Sequence[Proposal]) -> None:
        if any(one.aspect_name == VERSION_SET for one in proposals) and not sink.stored.get(urn(4)):
            sink.before_write = lambda _: None
            writes, sink.writes = sink.writes, []
            sink.write([Proposal(urn(4), VERSION, version(4).aspects[VERSION])])
            sink.writes = writes

    sink.before_write = another
    run(sink, gone(3))
    assert latest(sink) == 4


def test_a_set_that_is_refused_is_a_refused_entity() -> None:
    sink = a_sink(1, 2, 3)
    sink.refuse = {SET}
    report = run(sink, gone(3), expected=4)
    assert report.entities["versionSet"].rejected == 1
    sink.refuse = ()
    run(sink, *map(version, (1, 2)))
    assert latest(sink) == 2, "the next pass over all versions moves it"


def test_a_version_that_is_refused_is_no_candidate() -> None:
    sink = a_sink(1, 2)
    sink.refuse = {urn(3)}
    run(sink, version(3), gone(2), expected=4)
    assert latest(sink) == 1


def test_a_version_that_leaves_its_set_leaves_a_latest_behind() -> None:
    sink = a_sink(1, 2, 3)
    none = dict.fromkeys(version(3).aspects[VERSION])
    run(sink, Entity(urn(3), {VERSION: none, "mlModelProperties": {"name": "m_3"}}))
    assert VERSION not in sink.stored[urn(3)]
    assert (latest(sink), moves(sink)) == (2, [urn(2)])


def test_a_catalog_without_a_search_moves_to_what_the_pass_saw() -> None:
    sink = a_sink(1, 2, 3)
    sink.search_error = CatalogRequestError("no search", status=400)
    run(sink, version(1), gone(3))
    assert latest(sink) == 1
    run(sink, *map(version, (1, 2)))
    assert latest(sink) == 2


def test_a_set_without_live_versions_is_left_alone() -> None:
    sink = a_sink(1, 2)
    run(sink, gone(1), gone(2))
    assert moves(sink) == []


def test_a_service_that_computes_nothing_is_written_nothing() -> None:
    class Plain(VersioningSink):
        def _compare(self, *_: object) -> None:
            pass

    sink = Plain()
    run(sink, *map(version, (1, 2)))
    run(sink, gone(2))
    assert moves(sink) == []


def test_sets_are_settled_in_batches() -> None:
    sink = VersioningSink()
    names = [f"m{n}" for n in range(150)]
    versions = [version_of(name, n) for name in names for n in (1, 2)]
    run(sink, *versions)
    for one in versions:
        sink.put(one.urn, VERSION, one.aspects[VERSION])
    run(sink, *versions)
    assert {one for one, _ in sink.latest().values()} == {model_urn(f"{name}_2") for name in names}
    assert [len(batch) for batch in sink.writes] == [200, 100]


def test_a_version_that_is_deleted_before_its_patch_is_written_whole() -> None:
    sink = a_sink(1, 2)
    sink.checks_versions = False

    def delete(proposals: Sequence[Proposal]) -> None:
        if any(one.change_type == "PATCH" for one in proposals):
            del sink.stored[urn(1)]
            sink.before_write = lambda _: None

    sink.before_write = delete
    changed = version(1)
    renamed = {**changed.aspects[VERSION], "version": {"versionTag": "one"}}
    run(sink, Entity(urn(1), {**changed.aspects, VERSION: renamed}))
    assert sink.stored[urn(1)][VERSION]["version"] == {"versionTag": "one"}
    assert sink.stored[urn(1)]["mlModelProperties"]["name"] == "m_1"
