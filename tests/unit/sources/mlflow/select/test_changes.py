"""What a pass over changes asks MLflow for: short listings, bounded, and all of it if it must."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from mlcat_ingest.errors import ProtocolMismatchError
from mlcat_ingest.sources.base import (
    Changes,
    NamedGroup,
    Page,
    Partition,
    PartitionState,
    ReadRequest,
    RecordVersion,
)
from mlcat_ingest.sources.mlflow.read.reader import RunFilter
from mlcat_ingest.sources.mlflow.select import changes as changes_module
from mlcat_ingest.sources.mlflow.select import workspace as workspace_module
from mlcat_ingest.sources.mlflow.source import MlflowSource
from mlcat_ingest.sources.mlflow.values.joined import (
    JoinedLoggedModel,
    JoinedRecord,
    JoinedRegisteredModel,
    JoinedRun,
    JoinedVersion,
)
from mlcat_ingest.sources.mlflow.values.records import (
    EXTERNAL_TAG,
    LoggedModel,
    ModelOutput,
    ModelVersion,
    RegisteredModel,
    Run,
)
from support.fake_mlflow import FakeReader, FakeStore, a_source
from support.mlflow_records import a_run, an_experiment

NOW_MS = 1_760_000_000_000
HOUR_MS = 3_600_000
LONG_AGO_MS = NOW_MS - 1_000 * HOUR_MS


@dataclass
class Remembered(PartitionState):
    """A memory that believes all it was told, as if the catalog took everything."""

    checkpoint: Mapping[str, Any] | None = None
    versions: dict[tuple[str, str], RecordVersion] = field(default_factory=dict)
    refused: Sequence[str] = ()
    refused_kind: str = "run"
    finished: list[tuple[Mapping[str, Any], bool]] = field(default_factory=list)
    groups: Sequence[NamedGroup] = ()
    """Those of the last pass."""

    def unread_keys(self) -> Sequence[str]:
        return ()

    def partition(self, partition: Partition) -> PartitionState:
        assert partition.key == "mlflow:0123456789ab:default"
        return self

    def fingerprints(self, kind: str) -> Mapping[str, str]:
        return {
            one: version.fingerprint
            for (of, one), version in self.versions.items()
            if of == kind and version.fingerprint
        }

    def joined_fingerprints(self, kind: str) -> Mapping[str, str]:
        return {
            one: version.joined_fingerprint
            for (of, one), version in self.versions.items()
            if of == kind and version.joined_fingerprint
        }

    def dirty(self, kind: str) -> Sequence[str]:
        return self.refused if kind == self.refused_kind else ()

    def pass_over(self, source: MlflowSource) -> list[JoinedRecord]:
        records: list[JoinedRecord] = []
        for page in source.read(ReadRequest(Changes(), self)):
            assert page.partition is self
            if isinstance(page, Page):
                records.extend(page.records)
            elif page.checkpoint is not None:
                self.checkpoint = page.checkpoint
                self.finished.append((page.checkpoint, page.complete))
                self.groups = page.groups
        for record in records:
            version = record.record_version
            if version is not None:
                self.versions[version.kind, version.id] = version
        return records


@dataclass
class World:
    store: FakeStore
    memory: Remembered = field(default_factory=Remembered)
    config: dict[str, Any] = field(default_factory=dict)
    is_database: bool = False
    reader: FakeReader = field(init=False)

    def read(self, at_ms: int = NOW_MS) -> list[JoinedRecord]:
        stores = {"default": self.store}
        self.reader = FakeReader(stores, page=1_000, now_ms=at_ms, lists_parents=self.is_database)
        return self.memory.pass_over(a_source(self.reader, **self.config))

    def runs(self, at_ms: int = NOW_MS) -> list[str]:
        return [one.run.run_id for one in self.read(at_ms) if isinstance(one, JoinedRun)]


def ended(name: str, **more: Any) -> Run:
    return a_run(
        name,
        **{
            "status": "FINISHED",
            "start_time_ms": LONG_AGO_MS,
            "end_time_ms": LONG_AGO_MS + 1,
            **more,
        },
    )


def running(name: str, start_ms: int = LONG_AGO_MS) -> Run:
    return a_run(name, status="RUNNING", start_time_ms=start_ms)


@pytest.fixture
def world() -> World:
    return World(FakeStore(experiments=[an_experiment()], runs=[ended("a"), ended("b")]))


def test_a_second_pass_reads_no_run_in_six_short_listings(world: World) -> None:
    assert world.runs() == ["a", "b"]

    def known(at_ms: int) -> dict[str, object]:
        aliases = [at_ms - 2_000, at_ms + 2_000, {}]
        return {"runs": {"1": 2}, "runs_from_ms": None, "parents": [], "aliases": aliases}

    since_ms = NOW_MS - HOUR_MS
    assert world.memory.finished == [({"before_ms": since_ms, **known(NOW_MS)}, True)]
    assert world.runs(NOW_MS + HOUR_MS) == []
    assert [name for _, name in world.reader.calls] == [
        *("experiments", "registered_models", "model_versions", "logged_models 1"),
        *("runs", "runs", "runs", "runs", "runs"),
    ]
    assert world.reader.filters == [
        RunFilter(deleted=True, limit=changes_module.TRASHED_RUNS),
        RunFilter(before_ms=since_ms, skip=1, limit=2),
        RunFilter(since_ms=since_ms),
        RunFilter(ended_since_ms=since_ms, before_ms=since_ms),
        RunFilter(statuses=("RUNNING",), ended_since_ms=changes_module.ANY_END_MS),
    ]
    assert world.memory.finished[1:] == [({"before_ms": NOW_MS, **known(NOW_MS + HOUR_MS)}, False)]


@pytest.mark.parametrize("start_ms", [-(10**12), -1, 0, 1, None])
def test_a_run_of_any_start_is_read_and_counted(world: World, start_ms: int | None) -> None:
    world.store.runs.append(a_run("odd", status="FINISHED", start_time_ms=start_ms))
    assert sorted(world.runs()) == ["a", "b", "odd"]
    ((checkpoint, _),) = world.memory.finished
    assert checkpoint["runs"] == {"1": 3}
    assert world.runs(NOW_MS + HOUR_MS) == []


def test_the_overlap_can_be_set_and_since_stays_a_bound(world: World) -> None:
    world.config = {
        "incremental": {"overlap": "5h"},
        "runs": {"since": "2026-01-01", "statuses": ["FINISHED"]},
    }
    world.read()
    world.read()
    trash, counted, started, ended = world.reader.filters
    assert started.since_ms == 1_767_225_600_000
    assert (ended.since_ms, ended.ended_since_ms) == (1_767_225_600_000, NOW_MS - 5 * HOUR_MS)
    assert {one.statuses for one in (trash, ended)} == {("FINISHED",)}
    assert {one.statuses for one in (counted, started)} == {()}, "a count of one status changes"
    assert [of["runs_from_ms"] for of, _ in world.memory.finished] == [1_767_225_600_000] * 2


def test_runs_are_counted_from_the_since_of_the_full_pass_as_an_age_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.config = {"runs": {"since": "2h"}}
    for at_ms in (NOW_MS, NOW_MS + HOUR_MS):
        monkeypatch.setattr("time.time", lambda at_ms=at_ms: at_ms / 1000)
        world.read(at_ms)
    assert [of["runs_from_ms"] for of, _ in world.memory.finished] == [NOW_MS - 2 * HOUR_MS] * 2
    assert world.reader.filters[1].since_ms == NOW_MS - 2 * HOUR_MS


def test_a_database_lists_only_runs_of_the_statuses_asked_for(world: World) -> None:
    world.is_database, world.config = True, {"runs": {"statuses": ["FINISHED"]}}
    world.read()
    world.read()
    assert {one.statuses for one in world.reader.filters} == {("FINISHED",)}


def test_runs_that_are_listed_to_be_counted_are_not_read_in_other_statuses(world: World) -> None:
    world.config = {"runs": {"statuses": ["FINISHED"]}}
    world.store.runs.append(ended("c", status="FAILED"))
    assert world.runs() == ["a", "b"]
    world.store.runs.append(ended("d", status="FAILED", start_time_ms=NOW_MS))
    assert world.runs() == []


@pytest.mark.parametrize(("before_ms", "counted"), [(0, 0), (1, 1)])
def test_a_run_without_a_start_counts_as_one_of_1970(
    world: World, before_ms: int, counted: int
) -> None:
    world.store.runs.append(a_run("odd", status="FINISHED"))
    world.read(HOUR_MS + before_ms)
    ((checkpoint, _),) = world.memory.finished
    assert checkpoint["runs"] == {"1": counted}


def test_of_no_run_none_is_skipped(world: World) -> None:
    world.store.runs.clear()
    world.read()
    world.read()
    assert world.reader.filters[1] == RunFilter(before_ms=NOW_MS - HOUR_MS, limit=2)


@pytest.mark.parametrize(
    ("requests", "changed", "whole", "counts"),
    [
        (40, [5], [5], 5),
        (40, [0], [0], 7),
        (40, [0, 7], [0, 7], 9),
        (40, [], [], 1),
        (3, [5], [4, 5, 6, 7], 3),
        (1, [5], [0, 1, 2, 3, 4, 5, 6, 7], 1),
    ],
)
def test_experiments_with_another_number_of_runs_are_found_by_halving(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    requests: int,
    changed: list[int],
    whole: list[int],
    counts: int,
) -> None:
    monkeypatch.setattr(changes_module, "COUNTS_A_LISTING", requests)
    world.store.experiments = [an_experiment(str(n), f"e{n}") for n in range(8)]
    world.store.runs = [ended(f"r{n}", experiment_id=str(n)) for n in range(8)]
    world.read()
    world.store.runs += [ended(f"new{n}", experiment_id=str(n)) for n in changed]
    assert [one for one in world.runs() if "r" in one] == [f"r{n}" for n in whole]
    assert sum(one.limit == 2 for one in world.reader.filters) == counts


def test_a_run_that_was_restored_is_read_again_alone(world: World) -> None:
    world.store.runs[0] = ended("a", lifecycle_stage="deleted")
    world.read()
    world.store.runs[0] = ended("a")
    assert world.runs() == ["a"]
    assert world.runs() == []


@pytest.mark.parametrize(
    "config",
    [
        {"incremental": {"enabled": False}},
        {"runs": {"children": "collapse"}},
        {"limit": 10},
    ],
    ids=str,
)
def test_some_recipes_list_everything_each_time(world: World, config: dict[str, Any]) -> None:
    world.config = config
    world.read()
    assert world.runs() == ["a", "b"]
    assert all(complete for _, complete in world.memory.finished)
    assert len(world.memory.finished) == (0 if "limit" in config else 2)


MANY = 250
"""Experiments, with a run each."""


@pytest.fixture(params=[False, True], ids=["api", "database"])
def large(request: pytest.FixtureRequest) -> World:
    experiments = [an_experiment(str(n), f"e{n}") for n in range(MANY)]
    runs = [ended(f"r{n}", experiment_id=str(n)) for n in range(MANY)]
    return World(FakeStore(experiments=experiments, runs=runs), is_database=request.param)


IMPORTS: dict[str, dict[str, Any]] = {
    "old": {"start_time_ms": LONG_AGO_MS - 2, "end_time_ms": LONG_AGO_MS - 1},
    "the same": {},
    "not ended": {"status": "RUNNING", "end_time_ms": None},
    "in the trash": {"lifecycle_stage": "deleted"},
    "in the future": {"start_time_ms": 2 * NOW_MS, "end_time_ms": 2 * NOW_MS + 1},
}


@pytest.mark.parametrize("dates", IMPORTS.values(), ids=IMPORTS)
@pytest.mark.parametrize(
    "runs", [{}, {"statuses": ["FINISHED", "RUNNING"]}, {"since": "2020-01-01"}], ids=str
)
def test_new_runs_with_any_dates_are_read_by_the_next_pass(
    large: World, runs: dict[str, Any], dates: dict[str, Any]
) -> None:
    large.config = {"runs": runs}
    large.read()
    assert large.runs(NOW_MS + HOUR_MS) == []
    large.store.runs += [ended(f"new{n}", experiment_id=str(n), **dates) for n in (3, 200)]
    assert {"new3", "new200"} <= set(large.runs(NOW_MS + 2 * HOUR_MS))
    large.read(NOW_MS + 3 * HOUR_MS)
    assert len(large.reader.filters) <= 6, "the next pass finds no other number"


def test_new_runs_without_dates_are_read_by_the_next_pass(large: World) -> None:
    large.read()
    large.store.runs.insert(0, ended("new", experiment_id="7", start_time_ms=None))
    assert "new" in large.runs(NOW_MS + HOUR_MS)
    assert large.runs(NOW_MS + 2 * HOUR_MS) == []


def test_new_runs_in_many_experiments_take_a_bounded_number_of_requests(large: World) -> None:
    large.read()
    large.store.runs += [ended(f"new{n}", experiment_id=str(n)) for n in range(0, MANY, 3)]
    found = large.runs(NOW_MS + HOUR_MS)
    assert {f"new{n}" for n in range(0, MANY, 3)} <= set(found)
    assert len(large.reader.filters) <= 6 + changes_module.COUNTS_A_LISTING


@pytest.mark.parametrize("purged", ["from the trash", "unseen"])
def test_an_import_is_read_though_as_many_runs_were_deleted_for_good(
    large: World, purged: str
) -> None:
    seen = purged == "from the trash"
    if seen:
        large.store.runs[5] = replace(large.store.runs[5], lifecycle_stage="deleted")
    large.read()
    large.read(NOW_MS + HOUR_MS)
    for at in (2, 3):
        large.store.runs[5] = ended(f"new{at}", experiment_id="7")
        # Over the API only a purge of runs that a pass saw in the trash is known.
        expected = [f"new{at}"] if seen or large.is_database else []
        assert [name for name in large.runs(NOW_MS + at * HOUR_MS) if "new" in name] == expected
        seen = False


def test_a_server_that_cannot_count_reads_new_runs_with_old_dates_in_full_passes(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world.read()
    list_runs = FakeReader.runs

    def runs(self: FakeReader, ids: Sequence[str], *, only: RunFilter) -> Iterator[list[Run]]:
        if only.skip:
            raise ProtocolMismatchError("refused to list runs with 400: no such token")
        return list_runs(self, ids, only=only)

    monkeypatch.setattr(FakeReader, "runs", runs)
    world.store.runs += [ended("old"), ended("new", start_time_ms=NOW_MS)]
    with caplog.at_level(logging.INFO):
        assert world.runs(NOW_MS + 1) == ["new"]
    assert "cannot count runs; the next full pass reads new ones with old dates" in caplog.text


@pytest.mark.parametrize("status", ["FINISHED", "KILLED", "FAILED", "SCHEDULED"])
def test_a_run_that_was_resumed_is_read_again_until_it_ends(world: World, status: str) -> None:
    world.store.runs[0] = ended("a", status=status)
    world.read()
    world.store.runs[0] = replace(world.store.runs[0], status="RUNNING")
    assert world.runs(NOW_MS + HOUR_MS) == ["a"]
    assert world.runs(NOW_MS + 2 * HOUR_MS) == ["a"]
    world.store.runs[0] = replace(world.store.runs[0], status="FINISHED")
    assert world.runs(NOW_MS + 3 * HOUR_MS) == ["a"]
    assert world.runs(NOW_MS + 4 * HOUR_MS) == []


def test_a_run_that_was_resumed_between_two_passes_is_read_again(world: World) -> None:
    world.read()
    world.store.runs[0] = replace(world.store.runs[0], end_time_ms=NOW_MS + 1)
    assert world.runs(NOW_MS + HOUR_MS) == ["a"]


def test_a_resumed_run_is_abandoned_only_after_its_former_end(world: World) -> None:
    world.config = {"runs": {"stale_running_after": "3h"}}
    world.store.runs = [ended("a", status="RUNNING", end_time_ms=NOW_MS - HOUR_MS)]
    [young] = (one for one in world.read() if isinstance(one, JoinedRun))
    [old] = (one for one in world.read(NOW_MS + 9 * HOUR_MS) if isinstance(one, JoinedRun))
    assert (young.abandoned, old.abandoned) == (False, True)


@pytest.mark.parametrize("statuses", [["FINISHED"], ["FINISHED", "RUNNING"]], ids=str)
def test_resumed_runs_are_asked_for_if_the_recipe_wants_running_ones(
    world: World, statuses: list[str]
) -> None:
    world.config = {"runs": {"statuses": statuses}}
    world.read()
    world.store.runs[0] = replace(world.store.runs[0], status="RUNNING")
    assert world.runs() == (["a"] if "RUNNING" in statuses else [])


def test_open_runs_are_asked_for_until_they_end(world: World) -> None:
    world.store.runs.append(running("c"))
    world.read()
    assert world.runs() == ["c"]
    world.store.runs[2] = replace(world.store.runs[2], status="KILLED", end_time_ms=LONG_AGO_MS)
    assert world.runs() == ["c"]
    assert world.runs() == []


def test_only_the_latest_of_many_open_runs_are_asked_for(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(changes_module, "OPEN_RUNS", 2)
    world.store.runs += [running(f"o{n}", LONG_AGO_MS + n) for n in range(5)]
    world.read()
    with caplog.at_level(logging.INFO):
        assert world.runs() == ["o3", "o4"]
    assert "5 runs unfinished; reading the latest 2" in caplog.text
    monkeypatch.setattr(changes_module, "OPEN_RUNS", 5)
    caplog.clear()
    with caplog.at_level(logging.INFO):
        assert len(world.runs()) == 5
    assert "unfinished" not in caplog.text


def test_abandoned_runs_are_reported_to_be_and_not_asked_for(world: World) -> None:
    world.config = {"runs": {"stale_running_after": "3h"}}
    world.store.runs = [running("old"), running("young", NOW_MS - HOUR_MS)]
    found = {one.run.run_id: one.abandoned for one in world.read() if isinstance(one, JoinedRun)}
    assert found == {"old": True, "young": False}
    assert world.runs(NOW_MS + HOUR_MS) == ["young"]
    later = [one for one in world.read(NOW_MS + 9 * HOUR_MS) if isinstance(one, JoinedRun)]
    assert [(one.run.run_id, one.abandoned) for one in later] == [("young", True)]
    assert world.runs(NOW_MS + 20 * HOUR_MS) == []


def test_ids_are_asked_for_in_pieces_that_mlflow_can_parse(world: World) -> None:
    world.store.runs += [running(f"o{n:03}") for n in range(250)]
    world.read()
    assert len(world.runs()) == 250
    asked = [len(one.run_ids) for one in world.reader.filters if one.run_ids is not None]
    assert asked == [100, 100, 50]


def test_what_is_too_much_to_ask_for_by_id_is_listed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes_module, "RUNS_BY_ID", 1)
    world.store.runs += [running("c"), running("d")]
    world.read()
    assert world.runs() == ["a", "b", "c", "d"]
    assert not any(one.run_ids for one in world.reader.filters)
    monkeypatch.setattr(changes_module, "RUNS_BY_ID", 2)
    assert world.runs() == ["c", "d"]


def test_an_id_that_is_no_id_of_mlflow_is_never_put_into_a_filter(world: World) -> None:
    world.memory.refused = ["a", "x' OR '1'='1", "b\n"]
    world.read()
    assert world.runs() == ["a"]
    assert [one.run_ids for one in world.reader.filters if one.run_ids] == [("a",)]


def test_a_full_trash_is_listed_in_part_and_nobody_taken_for_restored(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes_module, "TRASHED_RUNS", 2)
    world.store.runs = [
        ended(name, lifecycle_stage="deleted", start_time_ms=LONG_AGO_MS - at)
        for at, name in enumerate("abc")
    ]
    world.read()
    world.store.runs[2] = replace(world.store.runs[2], lifecycle_stage="active")
    assert world.runs() == ["a", "b"]
    monkeypatch.setattr(changes_module, "TRASHED_RUNS", 3)
    assert world.runs() == ["a", "b", "c"]


def test_versions_of_runs_elsewhere_are_looked_for_when_they_are_new(world: World) -> None:
    world.store.registered = [RegisteredModel("m")]
    old = ModelVersion("m", "1", "elsewhere", created_at_ms=LONG_AGO_MS)
    world.store.versions = [old]
    world.config = {"experiments": {"allow": ["fraud"]}}
    world.store.experiments.append(an_experiment("2", "other"))
    world.read()
    world.store.versions.append(ModelVersion("m", "2", "a", created_at_ms=NOW_MS))
    assert numbers(world.read()) == ["1", "2"], "the model is that of a run asked for from now on"
    assert numbers(world.read()) == []
    assert [one for one in world.reader.filters if one.run_ids] == []
    world.store.versions.append(replace(old, version="3", created_at_ms=NOW_MS))
    assert numbers(world.read(NOW_MS + HOUR_MS)) == ["3"]
    assert [one.run_ids for one in world.reader.filters if one.run_ids] == [("elsewhere",)]


def registered(records: Sequence[JoinedRecord]) -> list[str]:
    return [one.model.name for one in records if isinstance(one, JoinedRegisteredModel)]


def test_parents_of_before_are_not_asked_for_by_their_ids(world: World) -> None:
    child = ended("child", tags={"mlflow.parentRunId": "a"})
    world.store.runs.append(child)
    assert world.runs()[:3] == ["a", "b", "child"]
    assert world.runs(NOW_MS + HOUR_MS) == []
    world.store.runs.remove(child)
    del world.store.runs[0]
    world.memory.checkpoint = None
    assert world.runs(NOW_MS + 2 * HOUR_MS) == ["b"]
    assert not any(one.run_ids for one in world.reader.filters)


def test_a_child_whose_parent_is_taken_from_now_on_is_read_again(world: World) -> None:
    world.config = {"runs": {"statuses": ["FINISHED"]}}
    tags = {"mlflow.parentRunId": "p"}
    world.store.runs = [running("p"), ended("child", tags=tags), ended("other")]
    assert world.runs() == ["child", "other"]
    world.store.runs[0] = ended("p", end_time_ms=NOW_MS - 1)
    records = world.read(NOW_MS + HOUR_MS)
    parents = {one.run_id: one.parent_id for one in records if isinstance(one, JoinedRun)}
    assert parents == {"p": None, "child": "p"}
    assert world.runs(NOW_MS + 3 * HOUR_MS) == []


def test_registered_models_are_read_in_each_pass_with_or_without_versions(world: World) -> None:
    world.store.registered = [RegisteredModel("m"), RegisteredModel("bare")]
    world.store.versions = [ModelVersion("m", "1", "gone")]
    for _ in range(2):
        assert registered(world.read()) == ["m", "bare"]


def test_of_some_experiments_the_models_of_runs_that_were_read_are_read_again(
    world: World,
) -> None:
    world.config = {"experiments": {"allow": ["fraud"]}}
    world.store.experiments.append(an_experiment("2", "other"))
    world.store.registered = [RegisteredModel("m"), RegisteredModel("elsewhere")]
    world.store.versions = [ModelVersion("m", "1", "a"), ModelVersion("elsewhere", "1", "c")]
    for _ in range(2):
        assert registered(world.read()) == ["m"]


def test_models_that_lost_a_version_or_are_gone_are_named(world: World) -> None:
    names = ["my model", "a/b", "whole"]
    world.store.registered = [RegisteredModel(name) for name in names]
    world.store.versions = [ModelVersion(name, n, "a") for name in names for n in "12"]
    world.read()
    world.read()
    assert world.memory.groups == []
    del world.store.registered[1], world.store.versions[1:4]
    world.read()
    found = {one.urn.rpartition("registered:")[2]: len(one.listed) for one in world.memory.groups}
    assert found == {"my model,PROD)": 2, "a/b,PROD)": 0}


def numbers(records: Sequence[JoinedRecord]) -> list[str]:
    return sorted(one.version.version for one in records if isinstance(one, JoinedVersion))


def test_versions_are_read_once_and_when_they_change(world: World) -> None:
    world.store.registered = [RegisteredModel("m")]
    world.store.versions = [
        ModelVersion("m", "1", created_at_ms=LONG_AGO_MS),
        ModelVersion("m", "2", "gone", created_at_ms=LONG_AGO_MS),
        ModelVersion("m", "3", "b", created_at_ms=LONG_AGO_MS),
    ]
    assert numbers(world.read()) == ["1", "2", "3"]
    assert numbers(world.read()) == []
    world.store.versions[1] = replace(world.store.versions[1], stage="Production")
    world.store.versions.append(ModelVersion("m", "4", "gone", created_at_ms=NOW_MS))
    world.store.versions.append(ModelVersion("m", "5", "a", created_at_ms=NOW_MS))
    records = world.read()
    assert numbers(records) == ["2", "4", "5"]
    assert [one.run.run_id for one in records if isinstance(one, JoinedRun)] == ["a"]


def test_an_alias_that_moves_leads_to_both_versions_and_their_runs(world: World) -> None:
    world.store.versions = [ModelVersion("m", "1", "a"), ModelVersion("m", "2", "b")]
    world.store.registered = [RegisteredModel("m", aliases={"champion": "1"})]
    world.read()
    world.store.registered = [RegisteredModel("m", aliases={"champion": "2"})]
    records = world.read()
    assert numbers(records) == ["1", "2"]
    runs = [one.run.run.run_id for one in records if isinstance(one, JoinedVersion) and one.run]
    assert runs == ["a", "b"]
    [model] = (one for one in records if isinstance(one, JoinedRegisteredModel))
    assert [one.version for one in model.sightings] == ["", "1", "", "2"], "the last listing's, too"


def test_a_run_that_changed_brings_its_versions(world: World) -> None:
    world.store.registered = [RegisteredModel("m")]
    world.store.versions = [ModelVersion("m", n, run) for n, run in (("1", "b"), ("2", "a"))]
    world.store.runs[0] = running("a")
    world.read()
    assert numbers(world.read()) == ["2"]


def test_a_version_that_was_refused_is_asked_for_again_with_its_run(world: World) -> None:
    world.store.registered = [RegisteredModel("my model")]
    world.store.versions = [ModelVersion("my model", "1", "a")]
    world.read()
    world.memory.refused, world.memory.refused_kind = ["my model/1"], "version"
    [version] = [one for one in world.read() if isinstance(one, JoinedVersion)]
    assert version.run is not None
    assert version.run.run_id == "a"


def test_a_version_that_is_deleted_leads_to_its_run(world: World) -> None:
    world.store.registered = [RegisteredModel("m")]
    world.store.versions = [ModelVersion("m", n, "a") for n in "12"]
    world.read()
    del world.store.versions[1]
    [run] = [one for one in world.read() if isinstance(one, JoinedRun)]
    assert [one.version for one in run.versions] == ["1"]
    world.store.versions.clear()
    assert world.runs() == ["a"]
    assert world.runs() == []


def test_a_version_of_a_logged_model_leads_to_its_run(world: World) -> None:
    world.store.registered = [RegisteredModel("m")]
    world.store.models = [LoggedModel("m-1", "1", "forest", "READY", "a")]
    world.store.runs[0] = replace(world.store.runs[0], model_outputs=(ModelOutput("m-1"),))
    world.read()
    world.store.versions = [
        ModelVersion("m", "1", model_id="m-1", created_at_ms=NOW_MS),
        ModelVersion("m", "2", model_id="m-none", created_at_ms=NOW_MS),
    ]
    records = world.read(NOW_MS + 1)
    first, second = (one for one in records if isinstance(one, JoinedVersion))
    assert first.run is not None
    assert (first.version.version, first.run.run_id) == ("1", "a")
    assert first.model == world.store.models[0]
    assert (second.version.version, second.run, second.model) == ("2", None, None)
    later = world.read(NOW_MS + 2 * HOUR_MS)
    assert not [one for one in later if isinstance(one, JoinedRun | JoinedVersion)]


def test_a_logged_model_that_changed_leads_to_its_run_and_its_version(world: World) -> None:
    world.store.registered = [RegisteredModel("m")]
    world.store.versions = [ModelVersion("m", "1", model_id="m-1", created_at_ms=LONG_AGO_MS)]
    world.store.models = [
        LoggedModel("m-1", "1", "lonely", "PENDING"),
        LoggedModel("m-2", "1", "of a", "PENDING", "a"),
    ]
    assert numbers(world.read()) == ["1"]
    world.store.models = [replace(one, last_updated_at_ms=NOW_MS) for one in world.store.models]
    records = world.read()
    [version] = [one for one in records if isinstance(one, JoinedVersion)]
    assert version.model == world.store.models[0]
    assert [one.run.run_id for one in records if isinstance(one, JoinedRun)] == ["a"]


def external(world: World, at_ms: int) -> list[str]:
    records = world.read(at_ms)
    return [one.model.name for one in records if isinstance(one, JoinedLoggedModel)]


def test_external_models_are_read_again_that_changed_or_are_the_newest(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace_module, "EXTERNAL_MODELS", 1)
    world.store.models = [
        LoggedModel(
            f"m-{n}", "1", f"agent {n}", "READY", created_at_ms=n, tags={EXTERNAL_TAG: "true"}
        )
        for n in range(4)
    ]
    assert len(external(world, NOW_MS)) == 4
    assert external(world, NOW_MS + HOUR_MS) == ["agent 3"]
    finished = replace(world.store.models[1], last_updated_at_ms=NOW_MS + HOUR_MS)
    world.store.models[1] = finished
    assert external(world, NOW_MS + 2 * HOUR_MS) == ["agent 1", "agent 3"]
    newest = replace(world.store.models[3], last_updated_at_ms=NOW_MS + 2 * HOUR_MS)
    world.store.models[3] = newest
    assert external(world, NOW_MS + 3 * HOUR_MS) == ["agent 1", "agent 3"], "each once"
    world.memory.refused, world.memory.refused_kind = ("m-0",), "logged model"
    world.read(NOW_MS + 50 * HOUR_MS)
    assert external(world, NOW_MS + 90 * HOUR_MS) == ["agent 0", "agent 3"]


def test_external_models_of_a_renamed_experiment_are_read_again(world: World) -> None:
    world.store.models = [
        LoggedModel("m-1", "1", "agent", "READY"),
        LoggedModel("m-2", "1", "", "READY", "a"),
    ]
    world.read()
    assert external(world, NOW_MS + HOUR_MS) == []
    world.store.experiments = [an_experiment(name="renamed")]
    assert external(world, NOW_MS + 2 * HOUR_MS) == ["agent"]


def test_logged_models_of_changed_versions_are_asked_for_in_bulk(world: World) -> None:
    world.store.registered = [RegisteredModel("m")]
    world.read()
    world.store.versions = [
        ModelVersion("m", str(n), model_id=f"m-{n}", created_at_ms=NOW_MS) for n in range(250)
    ]
    world.store.models = [LoggedModel(f"m-{n}", "1", "m", "READY") for n in range(250)]
    records = world.read(NOW_MS + HOUR_MS)
    assert all(one.model for one in records if isinstance(one, JoinedVersion))
    # Those that changed, the runs of 100, and as many for the versions.
    assert [name for _, name in world.reader.calls].count("logged_models 1") == 1 + 3 + 3


def test_the_logged_model_of_a_version_is_asked_for_with_its_run(world: World) -> None:
    world.store.registered = [RegisteredModel("m")]
    world.store.models = [LoggedModel("m-1", "1", "forest", "READY", "a")]
    world.store.runs[0] = ended("a", model_outputs=(ModelOutput("m-1"),))
    world.read()
    world.store.versions = [ModelVersion("m", "1", "a", model_id="m-1")]
    [version] = [one for one in world.read() if isinstance(one, JoinedVersion)]
    assert version.model == world.store.models[0]
    assert [name for _, name in world.reader.calls].count("logged_models 1") == 2


@dataclass
class Stubborn(FakeReader):
    """A server that takes no filter by end."""

    def runs(
        self,
        experiment_ids: Sequence[str],
        *,
        only: RunFilter = RunFilter(),  # noqa: B008
    ) -> Iterator[list[Run]]:
        if only.ended_since_ms is not None:
            raise ProtocolMismatchError("refused to list runs with 400: no such attribute")
        return super().runs(experiment_ids, only=only)


def test_a_server_that_cannot_list_changes_is_read_whole(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.read()
    reader = Stubborn({"default": world.store}, page=10, now_ms=NOW_MS)
    records = world.memory.pass_over(a_source(reader))
    assert [one.run.run_id for one in records if isinstance(one, JoinedRun)] == ["a", "b"]
    assert "cannot list changes; reading everything" in caplog.text
    assert world.memory.finished[-1][1] is True
