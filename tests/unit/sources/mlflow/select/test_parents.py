"""Parents of runs: both readers tell the same of them, at the cost of few requests."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.sources.base import ReadRequest, Remainder, Runs, Shards
from mlcat_ingest.sources.mlflow.select import joins
from mlcat_ingest.sources.mlflow.values.joined import JoinedRun
from mlcat_ingest.sources.mlflow.values.records import ModelVersion, RegisteredModel, Run
from support.fake_mlflow import FakeReader, FakeStore, a_source, read_all
from support.fakes import model_urn
from support.mlflow_history import Recipe, Server
from support.mlflow_records import a_run, an_experiment
from support.reading import ALL


def child(run_id: str, parent: str, **more: Any) -> Run:
    return a_run(run_id, tags={"mlflow.parentRunId": parent}, **more)


def a_family() -> FakeStore:
    """Return a store whose parent is listed two pages before the last of its children."""
    runs = [a_run("top", name="sweep"), *(child(f"c{n}", "top") for n in range(5))]
    return FakeStore([an_experiment()], [*runs, a_run("alone")])


@pytest.fixture(params=[False, True], ids=["rest", "database"])
def lists_parents(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def runs_read(reader: FakeReader, request: ReadRequest = ALL, **config: Any) -> list[JoinedRun]:
    found = read_all(a_source(reader, **config), request)
    return [one for one in found if isinstance(one, JoinedRun)]


def flags(runs: list[JoinedRun]) -> dict[str, bool | None]:
    """Return what was said last of each run."""
    return {one.run_id: one.has_children for one in runs}


def test_a_run_with_children_is_a_parent_and_its_children_name_it(*, lists_parents: bool) -> None:
    reader = FakeReader({"default": a_family()}, page=2, lists_parents=lists_parents)
    found = runs_read(reader)
    assert [one for one, flag in flags(found).items() if flag] == ["top"]
    named = {one.run_id: one.parent_name for one in found}
    assert named == {"top": None, "alone": None, **{f"c{n}": "sweep" for n in range(5)}}


def test_only_a_parent_that_came_before_its_children_is_read_again() -> None:
    store = a_family()
    for page, times in ((1, 2), (2, 1), (50, 1)):
        found = runs_read(FakeReader({"default": store}, page=page))
        assert [one.run_id for one in found].count("top") == times
        assert flags(found)["top"] is True
    known = FakeReader({"default": store}, page=1, lists_parents=True)
    assert len(runs_read(known)) == len(store.runs)


def test_a_parent_that_is_read_again_is_whole() -> None:
    store = a_family()
    store.registered = [RegisteredModel("m")]
    store.versions = [ModelVersion("m", "1", run_id="top")]
    *_, again = (
        one for one in runs_read(FakeReader({"default": store}, page=1)) if one.run_id == "top"
    )
    assert again.has_children is True
    assert [one.version for one in again.versions] == ["1"]


def test_parents_cost_a_request_for_each_hundred() -> None:
    tops = [a_run(f"top{n:03}") for n in range(150)]
    children = [child(f"c{n:03}", f"top{n:03}") for n in range(150)]
    store = FakeStore([an_experiment()], [*tops, *children])
    reader = FakeReader({"default": store}, page=100)
    found = runs_read(reader)
    assert sum(flag is True for flag in flags(found).values()) == 150
    assert reader.calls.count(("default", "runs")) == 3


def test_names_of_parents_that_are_not_held_are_asked_for_once_for_a_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(joins, "RECENT_RUNS", 8)
    runs = [a_run(f"top{n}", name=f"sweep {n}") for n in range(4)]
    runs += [a_run(f"alone{n}") for n in range(16)]
    runs += [child(f"c{n}", f"top{n % 4}") for n in range(8)]
    reader = FakeReader({"default": FakeStore([an_experiment()], runs)}, page=4, lists_parents=True)
    found = {one.run_id: one.parent_name for one in runs_read(reader)}
    assert [found[f"c{n}"] for n in range(8)] == [f"sweep {n % 4}" for n in range(8)]
    named = [only.run_ids for only in reader.filters if only.run_ids]
    assert named == [("top0", "top1", "top2", "top3")]


def test_a_parent_with_a_child_on_each_page_stays_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joins, "RECENT_RUNS", 4)
    runs = [a_run("top", name="sweep"), child("c0", "top")]
    for at in range(1, 6):
        runs += [a_run(f"alone{at}"), child(f"c{at}", "top")]
    reader = FakeReader({"default": FakeStore([an_experiment()], runs)}, page=2, lists_parents=True)
    named = {one.parent_name for one in runs_read(reader) if one.run_id.startswith("c")}
    assert named == {"sweep"}
    assert not any(only.run_ids for only in reader.filters)


def test_a_run_that_was_held_as_a_parent_before_it_is_listed_is_not_dropped_with_its_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(joins, "RECENT_RUNS", 4)
    alone = [a_run(f"alone{at}") for at in range(5)]
    late = [child("p", "q", name="mid"), alone[3], a_run("q", name="top"), alone[4]]
    runs = [child("c", "p"), *alone[:3], *late]
    reader = FakeReader({"default": FakeStore([an_experiment()], runs)}, page=2, lists_parents=True)
    named = {one.run_id: one.parent_name for one in runs_read(reader)}
    assert (named["c"], named["p"]) == ("mid", "top")


def test_a_parent_that_is_gone_or_named_by_nonsense_has_no_name() -> None:
    runs = [child("a", "gone"), child("b", "' OR 1"), child("c", "gone")]
    reader = FakeReader({"default": FakeStore([an_experiment()], runs)}, page=1)
    assert [one.parent_name for one in runs_read(reader)] == [None] * 3
    assert next(only.run_ids for only in reader.filters if only.run_ids) == ("gone",)
    assert not any("' OR 1" in (only.run_ids or ()) for only in reader.filters)
    reader = replace(reader, lists_parents=True, filters=[])
    runs_read(reader)
    assert [only.run_ids for only in reader.filters if only.run_ids] == [("gone",)], "asked once"


@pytest.mark.parametrize("children", ["skip", "collapse"])
def test_a_parent_of_left_out_children_is_a_parent(children: str, *, lists_parents: bool) -> None:
    reader = FakeReader({"default": a_family()}, page=2, lists_parents=lists_parents)
    found = runs_read(reader, runs={"children": children})
    assert flags(found) == {"top": True, "alone": False}


def test_a_limit_reads_no_parent_beyond_it() -> None:
    store = a_family()
    store.runs.reverse()  # with a limit the newest come first
    found = runs_read(FakeReader({"default": store}, page=2), limit=3)
    assert [one.run_id for one in found] == ["alone", "c4", "c3"]


def test_a_run_that_is_asked_for_by_its_id_may_have_children(*, lists_parents: bool) -> None:
    reader = FakeReader({"default": a_family()}, page=2, lists_parents=lists_parents)
    assert flags(runs_read(reader, ReadRequest(Runs(["top"])))) == {"top": None}
    of_child = runs_read(reader, ReadRequest(Runs(["c1"])))
    assert flags(of_child) == {"c1": None, "top": True}


def test_where_some_children_are_not_listed_every_run_may_have_some() -> None:
    reader = FakeReader({"default": a_family()}, page=2)
    found = flags(runs_read(reader, runs={"since": "2020-01-01"}))
    assert found == {}
    store = a_family()
    store.runs = [child("c", "top", status="FAILED"), a_run("top", status="FINISHED")]
    found = flags(runs_read(FakeReader({"default": store}), runs={"statuses": ["FINISHED"]}))
    assert found == {"top": None}


def test_shards_find_the_parents_too(*, lists_parents: bool) -> None:
    reader = FakeReader({"default": a_family()}, page=1, lists_parents=lists_parents)
    [shard] = a_source(reader).shards()
    found = runs_read(reader, ReadRequest(Shards([shard.key])))
    assert [one for one, flag in flags(found).items() if flag] == ["top"]
    rest = runs_read(reader, ReadRequest(Remainder()))
    assert all(one.listed_only for one in rest)
    assert flags(rest)["top"] is True
    assert not any(only.run_ids and "c0" in only.run_ids for only in reader.filters)


def test_parents_of_runs_that_are_only_listed_are_not_asked_for(*, lists_parents: bool) -> None:
    store = a_family()
    store.runs.reverse()
    reader = FakeReader({"default": store}, page=1, lists_parents=lists_parents)
    assert flags(runs_read(reader, ReadRequest(Remainder())))["top"] is True
    assert not any(only.run_ids for only in reader.filters)


LOST: dict[str, list[Run]] = {
    "a parent that does not exist": [child("r", "gone")],
    "a parent of an experiment that is not read": [a_run("p", experiment_id="2"), child("r", "p")],
    "its own parent": [child("r", "r")],
    "two parents of each other": [child("r", "s"), child("s", "r")],
    "three in a cycle": [child("r", "s"), child("s", "t"), child("t", "r")],
    "a parent in the trash": [a_run("p", lifecycle_stage="deleted"), child("r", "p")],
    "a parent in the trash that has a parent": [
        a_run("q"),
        child("p", "q", lifecycle_stage="deleted"),
        child("r", "p"),
    ],
    "a parent in another status": [a_run("p", status="KILLED"), child("r", "p")],
    "a parent that started too early": [
        a_run("p", start_time_ms=1_000, end_time_ms=1_001),
        child("r", "p"),
    ],
}
"""Runs whose parent cannot stand for them: the last is `r`, or in a cycle with it."""


@pytest.mark.parametrize("children", ["include", "skip", "collapse"])
@pytest.mark.parametrize("runs", LOST.values(), ids=LOST)
@pytest.mark.parametrize("backwards", [False, True], ids=["in order", "children first"])
def test_a_child_without_a_parent_that_is_read_is_a_top_level_run(
    children: str, runs: list[Run], *, backwards: bool, lists_parents: bool
) -> None:
    listed = [
        replace(one, status=one.status or "FINISHED", start_time_ms=one.start_time_ms or 2**40)
        for one in (*runs, child("below", "r"), child("deeper", "below"))
    ]
    store = FakeStore(
        [an_experiment(), an_experiment("2", "other")], listed[::-1] if backwards else listed
    )
    reader = FakeReader({"default": store}, page=1, lists_parents=lists_parents)
    found = runs_read(
        reader,
        experiments={"deny": ["other"]},
        runs={"children": children, "statuses": ["FINISHED"], "since": "1990-01-01"},
    )
    last = {one.run_id: one for one in found}
    top = {run.run_id for run in runs if run.experiment_id == "1"} & last.keys() | {"r"}
    assert last.keys() == top | ({"below", "deeper"} if children == "include" else set())
    is_removed = last["p"].is_removed if "p" in last else False
    assert last["r"].parent_id == ("p" if is_removed else None), "the catalog has what was removed"
    if children == "include":
        assert [last[name].parent_id for name in ("below", "deeper")] == ["r", "below"]
    elif children == "collapse":
        assert sum(one.children or 0 for one in last.values()) == 2


def test_a_child_whose_parent_is_in_the_trash_with_it_is_no_top_level_run() -> None:
    runs = [a_run("p", lifecycle_stage="deleted"), child("r", "p", lifecycle_stage="deleted")]
    reader = FakeReader({"default": FakeStore([an_experiment()], runs)})
    assert [one.run_id for one in runs_read(reader, runs={"children": "skip"})] == ["p"]


def test_a_child_whose_parent_is_selected_later_is_read_again(
    server: Server, tmp_path: Path
) -> None:
    """The parent ends, and so is selected, after its child."""
    changed = recipe(server, tmp_path, config={"runs": {"statuses": ["FINISHED"]}})
    server.end(1)
    changed.ingest()
    assert "mlflow.parent_run" not in custom_of(changed, 1)
    server.now_ms += 50 * 3_600_000
    server.end(0)
    changed.ingest()
    assert custom_of(changed, 1)["mlflow.parent_run"] == model_urn(server.store.runs[0].run_id)


def test_a_parent_that_is_selected_after_its_child_was_read_is_a_parent(
    server: Server, tmp_path: Path, *, lists_parents: bool
) -> None:
    config = {"runs": {"select": "with_model"}}
    changed = recipe(server, tmp_path, config=config, lists_parents=lists_parents)
    for _ in range(2):
        changed.ingest()
        server.now_ms += 50 * 3_600_000
    server.log_model(0)
    changed.ingest()
    assert kinds(changed) == {model_urn(server.store.runs[0].run_id): ["Parent Run"]}


# --- passes over the history of a server ----------------------------------------------------------


@pytest.fixture
def server() -> Server:
    made = Server()
    made.start(1)
    made.run(0, name="sweep")
    made.now_ms += 60_000
    for _ in range(3):
        made.start_child(0)
    made.start(1)
    return made


def recipe(server: Server, folder: Path, **more: Any) -> Recipe:
    return Recipe(server, f"sqlite:///{folder}/state.db", page=1, **more)


def kinds(recipe: Recipe) -> dict[str, list[str]]:
    """Return the subtypes of models in the catalog, where there are any."""
    return {
        urn: aspects["subTypes"]["typeNames"]
        for urn, aspects in recipe.sink.stored.items()
        if urn.startswith("urn:li:mlModel:") and aspects.get("subTypes", {}).get("typeNames")
    }


def custom_of(recipe: Recipe, at: int) -> Mapping[str, str]:
    urn = model_urn(recipe.server.store.runs[at].run_id)
    found: Mapping[str, str] = recipe.sink.stored[urn]["mlModelProperties"]["customProperties"]
    return found


def test_both_readers_end_in_the_same_catalog(server: Server, tmp_path: Path) -> None:
    for name in ("rest", "database"):
        (tmp_path / name).mkdir()
    rest = recipe(server, tmp_path / "rest")
    database = recipe(server, tmp_path / "database", lists_parents=True)
    for change in ("none", "end", "start_child", "wait", "delete", "start_child", "restore"):
        if change != "none":
            getattr(server, change)(4 if change == "start_child" else 1)
        for full in (False, True):
            rest.ingest(full=full)
            database.ingest(full=full)
            assert rest.sink.stored == database.sink.stored
    assert len(kinds(rest)) == 2


def test_the_next_pass_knows_the_parents_at_once(server: Server, tmp_path: Path) -> None:
    changed = recipe(server, tmp_path)
    first = changed.ingest()
    assert first.records == len(server.store.runs) + 2 + 1
    again = changed.ingest(full=True)
    assert again.records == len(server.store.runs) + 2
    assert again.proposals_sent == 0
    server.now_ms += 50 * 3_600_000
    server.run(0, status="FINISHED", end_time_ms=server.now_ms)
    changed.ingest()
    assert list(kinds(changed).values()) == [["Parent Run"]]


def test_a_new_child_of_an_old_run_makes_it_a_parent(server: Server, tmp_path: Path) -> None:
    changed = recipe(server, tmp_path)
    for at in range(5):
        server.end(at)
    changed.ingest()
    server.now_ms += 50 * 3_600_000
    server.start_child(4)
    report = changed.ingest()
    assert not any(one.full for one in report.passes)
    assert kinds(changed)[model_urn(server.store.runs[4].run_id)] == ["Parent Run"]
    assert custom_of(changed, 5)["mlflow.parent_run_name"] == "run 1"
    assert changed.ingest().proposals_sent == 0


def test_a_renamed_parent_reaches_its_children_with_the_next_full_pass(
    server: Server, tmp_path: Path
) -> None:
    changed = recipe(server, tmp_path)
    changed.ingest()
    server.run(0, name="sweep 2")
    changed.ingest(full=True)
    assert {custom_of(changed, at)["mlflow.parent_run_name"] for at in (1, 2, 3)} == {"sweep 2"}


def test_a_run_whose_children_are_gone_for_good_is_no_parent(
    server: Server, tmp_path: Path, *, lists_parents: bool
) -> None:
    changed = recipe(server, tmp_path, lists_parents=lists_parents)
    changed.ingest()
    for at in (1, 2, 3):
        server.delete(at)
    changed.ingest(full=True)
    assert len(kinds(changed)) == 1, "a run in the trash can be restored"
    for _ in range(3):
        server.purge_run(1)
    changed.ingest(full=True)
    assert kinds(changed) == {}
    assert changed.ingest(full=True).proposals_sent == 0


def test_a_parent_in_the_trash_is_one_when_it_comes_back(
    server: Server, tmp_path: Path, *, lists_parents: bool
) -> None:
    changed = recipe(server, tmp_path, lists_parents=lists_parents)
    server.delete(0)
    changed.ingest()
    server.restore(0)
    changed.ingest()
    assert list(kinds(changed).values()) == [["Parent Run"]]
