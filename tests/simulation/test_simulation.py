"""The simulation holds for seeds, tells the same history each time, and finds rules that broke."""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from mlcat_ingest.errors import AspectRejectedError, CatalogUnavailableError
from mlcat_ingest.metadata.identity import Writer
from mlcat_ingest.metadata.proposal import Aspect
from mlcat_ingest.pipeline.ledger import Ledger
from mlcat_ingest.pipeline.merge import entity as merging
from mlcat_ingest.pipeline.merge.applied import NOTHING, Bases, read_bases
from mlcat_ingest.pipeline.merge.entity import MergedEntity
from mlcat_ingest.pipeline.outcome import Outcome
from mlcat_ingest.pipeline.removal.soft_delete import Removal
from mlcat_ingest.pipeline.removal.unlisted import UnlistedEntities
from mlcat_ingest.pipeline.state import tracker
from mlcat_ingest.pipeline.state.entities import KnownEntities
from mlcat_ingest.pipeline.state.tracker import TrackedRecord, Tracker
from mlcat_ingest.pipeline.write import conflicts, delivery
from mlcat_ingest.pipeline.write.conflicts import ConflictGuard
from mlcat_ingest.pipeline.write.delivery import Delivery
from mlcat_ingest.pipeline.write.searchable import IndexRepair
from mlcat_ingest.pipeline.write.version_sets import LatestVersions
from mlcat_ingest.sources.base import Unlisted
from mlcat_ingest.sources.mlflow.select import missing
from mlcat_ingest.sources.mlflow.values import joined
from simulation.history import FailedSeedError, run_seed, simulation
from simulation.invariant import differences
from support.fakes import model_urn

SEEDS = 15
WITHIN = 3_000

Patch = pytest.MonkeyPatch


@pytest.fixture(autouse=True)
def _simulated() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    with simulation():
        yield
    logging.disable(logging.NOTSET)


def run_seeds(seeds: Iterable[int]) -> None:
    for seed in seeds:
        run_seed(seed)


def test_the_catalog_ends_as_a_fresh_ingest_and_people_make_it() -> None:
    run_seeds(range(SEEDS))


def test_a_seed_has_one_history() -> None:
    assert [run_seed(seed) for seed in (3, 11)] == [run_seed(seed) for seed in (3, 11)]


def test_an_entity_made_again_by_a_rewrite_has_its_key_and_is_as_a_fresh_one() -> None:
    urn, properties = model_urn("a"), {"mlModelProperties": {"name": "a"}}
    stored = {urn: {**properties, "mlModelKey": {"name": "a"}}}
    assert list(differences(stored, {urn: properties}, {})) == []


def test_a_version_that_nobody_can_tell_from_one_of_others_stays_the_latest() -> None:
    def version(*, latest: bool) -> dict[str, Aspect]:
        return {"versionProperties": {"versionSet": "urn:li:versionSet:a", "isLatest": latest}}

    one, two = model_urn("a_1"), model_urn("a_2")
    stored = {one: version(latest=False), two: version(latest=True)}
    fresh = {one: version(latest=True)}
    assert list(differences(stored, fresh, {}, {two})) == []
    assert list(differences(stored, fresh, {})) == [
        f"{one} versionProperties.isLatest: False instead of True",
        f"{two} is live, and its source has it no more",
    ]


def conflict_guard_off(patch: Patch) -> None:
    def without(_: object, proposals: Sequence[Any]) -> list[Any]:
        return [replace(one, headers=None) for one in proposals]

    patch.setattr(ConflictGuard, "learn", lambda *_: None)
    patch.setattr(ConflictGuard, "with_conditions", without)
    patch.setattr(ConflictGuard, "lost_updates", lambda *_: [])


def base_not_kept(patch: Patch) -> None:
    def without(_: object, value: Aspect, writer: Writer) -> Aspect:
        del writer
        return value

    patch.setattr(merging._Merge, "_with_base", without)


def checkpoint_before_acknowledgement(patch: Patch) -> None:
    track = Tracker.track

    def at_once(tracker: Tracker, record: TrackedRecord | None, entities: Any, **more: Any) -> bool:
        wanted = track(tracker, record, entities, **more)
        tracker.settle([Outcome(MergedEntity(one, {}, "unchanged")) for one in entities])
        return wanted

    patch.setattr(Tracker, "track", at_once)


def removal_limit_off(patch: Patch) -> None:
    gone = Removal._gone

    def all_of_them(removal: Removal, *args: Any) -> Sequence[Any] | None:
        removal._max_ratio = 2**63
        return gone(removal, *args)

    patch.setattr(Removal, "_gone", all_of_them)


def lost_reply_not_retried(patch: Patch) -> None:
    write = Delivery._write

    def believing(
        delivery: Delivery, part: Sequence[MergedEntity]
    ) -> dict[str, list[AspectRejectedError]]:
        try:
            return write(delivery, part)
        except CatalogUnavailableError:
            return {}

    patch.setattr(Delivery, "_write", believing)


def entries_of_others_retracted(patch: Patch) -> None:
    def ours_alone(
        properties: Mapping[str, object],
        writer: Writer | None,
        remembered: Callable[[], str | None],
    ) -> Bases:
        return Bases(read_bases(properties, writer, remembered).ours, NOTHING)

    patch.setattr(merging, "read_bases", ours_alone)


def probe_of_one_aspect(patch: Patch) -> None:
    probe = conflicts._probe

    def first(batch: Sequence[MergedEntity]) -> Sequence[Any]:
        return probe(batch)[:1]

    patch.setattr(conflicts, "_probe", first)


def refused_counts_as_written(patch: Patch) -> None:
    settle = Ledger.settle

    def deaf(ledger: Ledger, outcomes: Sequence[Outcome]) -> None:
        settle(ledger, [one._replace(refusals=()) for one in outcomes])

    patch.setattr(Ledger, "settle", deaf)


def version_sets_not_settled(patch: Patch) -> None:
    patch.setattr(LatestVersions, "settle", lambda _: None)


def writes_under_way_are_forgotten(patch: Patch) -> None:
    begin = KnownEntities.begin

    def without(entities: KnownEntities, urns: Collection[str], rows: Any = ()) -> set[str]:
        begin(entities, (), rows)
        return set(urns)

    patch.setattr(KnownEntities, "begin", without)


def what_met_itself_is_not_written_again(patch: Patch) -> None:
    patch.setattr(delivery, "write_again", lambda one: one)


def removed_groups_are_forgotten(patch: Patch) -> None:
    unlisted = UnlistedEntities._unlisted

    def live(*about: Any) -> Iterator[Unlisted]:
        return (one for one in unlisted(*about) if not one.removed)

    patch.setattr(UnlistedEntities, "_unlisted", live)


def stamps_not_compared(patch: Patch) -> None:
    patch.setattr(tracker, "without_old_stamps", lambda rows, _: rows)


def digests_not_compared(patch: Patch) -> None:
    patch.setattr(joined, "record_hash", lambda *_: "0" * 32)


def what_no_search_finds_is_left(patch: Patch) -> None:
    patch.setattr(IndexRepair, "repair", lambda *_: None)


def another_team_is_the_same_writer(patch: Patch) -> None:
    patch.setattr(Writer, "may_remove", lambda *_: True)


def an_id_is_an_object(patch: Patch) -> None:
    patch.setattr(missing, "is_another", lambda *_: False)


BROKEN: Mapping[Callable[[Patch], None], int] = {
    conflict_guard_off: 28,
    base_not_kept: 7,
    checkpoint_before_acknowledgement: 2_564,
    removal_limit_off: 31,
    lost_reply_not_retried: 14,
    entries_of_others_retracted: 1,
    probe_of_one_aspect: 639,
    refused_counts_as_written: 13,
    version_sets_not_settled: 141,
    writes_under_way_are_forgotten: 33,
    what_met_itself_is_not_written_again: 90,
    removed_groups_are_forgotten: 536,
    stamps_not_compared: 80,
    what_no_search_finds_is_left: 10,
    digests_not_compared: 5,
    another_team_is_the_same_writer: 10,
    an_id_is_an_object: 306,
}
"""Rules that are broken on purpose, and the seed that is tried first."""


@pytest.mark.parametrize(
    ("break_it", "first"), BROKEN.items(), ids=[one.__name__ for one in BROKEN]
)
def test_a_broken_rule_fails_some_seed(
    break_it: Callable[[Patch], None], first: int, monkeypatch: Patch
) -> None:
    break_it(monkeypatch)
    found = r"replay: python tests/simulation/run\.py --seed"
    with pytest.raises(FailedSeedError, match=found) as failed:
        run_seeds([*range(first, WITHIN), *range(first)])
    assert "TypeError" not in str(failed.value), "what breaks the rule does not fit the code"
