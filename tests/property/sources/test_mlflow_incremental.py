"""Reading what changed gives what reading everything gives, over random histories of a server."""

import tempfile
from collections.abc import Collection, Iterator
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from mlcat_ingest.errors import SourceUnavailableError
from mlcat_ingest.metadata.proposal import Aspect
from mlcat_ingest.metadata.reserved import RENAMED_TO
from mlcat_ingest.sources.mlflow.values.records import RegisteredModel
from support.examples import examples
from support.fake_mlflow import FakeReader
from support.fakes import group_urn, model_urn
from support.mlflow_history import REPORTED, Recipe, Server, fast_folder

ABANDONING: dict[str, Any] = {"runs": {"stale_running_after": "2h"}}
"""An abandoned run is not looked at in every pass any more: the price of that option."""

LEFT_ALONE = {"end_long_ago_what_was_open", "resume", "resume_ended"}
"""What nobody notices of an abandoned run."""

UNSELECTING = {"vanish", "end_by_a_slow_clock", "end_long_ago_what_was_open"}
"""Changes by which a filter leaves a run out that it took: a full pass ends its children's link."""

READS_ALL: list[dict[str, Any]] = [
    {"incremental": {"enabled": False}},
    {"runs": {"children": "collapse"}},
]
"""Each pass lists everything, so each proves what is gone; without state nothing is proved."""

Steps = list[list[tuple[str, int]]]
changes = st.tuples(st.sampled_from(REPORTED), st.integers(0, 11))
histories: st.SearchStrategy[Steps] = st.lists(
    st.lists(changes, max_size=6), min_size=1, max_size=7
)
configs: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {},
        {"runs": {"select": "registered"}},
        {"runs": {"select": "with_model"}},
        {"experiments": {"deny": ["new"]}},
        {"runs": {"statuses": ["FINISHED", "RUNNING"]}},
        {"runs": {"since": "2025-09-20"}},
        ABANDONING,
        *READS_ALL,
    ]
)


@settings(max_examples=examples(25))
@given(history=histories, config=configs)
@example(
    history=[
        [("delete_experiment", 8)],
        [("restore_experiment", 8), ("move_stage", 1)],
        [],
    ],
    config={},
)
@example(
    history=[[("delete_experiment", 2)], [("restore_experiment", 8)]],
    config={"incremental": {"enabled": False}},
)
@example(
    # A parent is selected after its child was read, which is not selected.
    history=[[("start_child", 6)], [("wait", 11)], [("wait", 11)], [("log_model", 6)]],
    config={"runs": {"select": "with_model"}},
)
@example(
    # Models that are logged to a run which ended long ago come late in their listing.
    history=[[("log_model", 0), ("log_model", 0)]],
    config={"incremental": {"enabled": False}},
)
@example(
    # No group of the new name is made, as the experiment is deleted; the old one has none.
    history=[[("rename", 0), ("delete_experiment", 0)]],
    config={},
)
def test_what_changed_is_as_good_as_everything(history: Steps, config: dict[str, Any]) -> None:
    compare(history, config, "default")


@settings(max_examples=examples(10))
@given(history=histories, config=configs)
def test_what_changed_in_another_workspace_is_as_good_as_everything(
    history: Steps, config: dict[str, Any]
) -> None:
    compare(history, config, "team-a")


def test_a_second_pass_over_another_workspace_lists_what_changed_alone() -> None:
    server = Server.in_use()
    with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
        recipe = Recipe(server, f"sqlite:///{folder}/state.db", workspace="team-a")
        first = recipe.ingest()
        server.start(0)
        second = recipe.ingest()
    assert first.records > second.records
    assert [one.full for one in second.passes] == [False, False]


def test_a_renaming_that_a_failed_pass_began_reaches_the_runs_with_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_: FakeReader) -> Iterator[list[RegisteredModel]]:
        raise SourceUnavailableError("gone")

    server = Server.in_use()
    with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
        recipe = Recipe(server, f"sqlite:///{folder}/state.db")
        recipe.ingest()
        server.rename(1)
        with monkeypatch.context() as patch:
            patch.setattr(FakeReader, "registered_models", fail)
            assert recipe.report().exit_code == 1
        report = recipe.ingest()
    assert not any(one.full for one in report.passes)
    everything = Recipe(server)
    everything.ingest()
    assert message_of(recipe, without=renamed(recipe)) == message_of(everything)


def compare(history: Steps, config: dict[str, Any], workspace: str) -> None:
    """Compare passes over changes with passes over everything, step by step."""
    server = Server.in_use()
    skipped = LEFT_ALONE if config == ABANDONING else set()
    if "runs" in config and any(change in UNSELECTING for step in history for change, _ in step):
        skipped = skipped | {"start_child"}
    with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
        url = f"sqlite:///{folder}/state.db"
        changed = Recipe(server, url, config=config, workspace=workspace, page=3)
        # This one is told all parents at once, as from a database.
        everything = Recipe(server, config=config, workspace=workspace, lists_parents=True)
        for step in [[], *history]:
            for change, at in step:
                if change not in skipped:
                    getattr(server, change)(at)
            changed.ingest()
            # Without a state more than ten are not removed at once.
            assume("removal_without_state" not in everything.ingest().notes)
            assert message_of(changed) == message_of(everything, without=renamed(changed))
            expected = removed(everything) | renamed(changed)
            assert removed(changed) >= expected
            proved = removed(changed) - expected - left_behind(changed, server)
            assert not proved or config in READS_ALL
            assert not proved or proved.isdisjoint(made_afresh(server, config))
        assert not any(one.full for one in changed.ingest().passes)


@settings(max_examples=examples(10))
@given(history=histories, late=st.integers(0, 11))
def test_late_edits_are_found_by_the_full_pass(history: Steps, late: int) -> None:
    server = Server.in_use()
    with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
        changed = Recipe(server, f"sqlite:///{folder}/state.db")
        everything = Recipe(server)
        for step in [[], *history]:
            for change, at in [*step, ("tag_late", late)]:
                getattr(server, change)(at)
            changed.ingest()
            everything.ingest()
        changed.ingest(full=True)
        assert message_of(changed) == message_of(everything, without=renamed(changed))


def renamed(recipe: Recipe) -> set[str]:
    """Return the groups that a renamed experiment left: who remembers nothing leaves them alone."""
    return {
        urn
        for urn, aspects in recipe.sink.stored.items()
        if RENAMED_TO in aspects.get("mlModelGroupProperties", {}).get("customProperties", ())
    }


def left_behind(recipe: Recipe, server: Server) -> set[str]:
    """Return the groups and versions that MLflow has no more: each pass lists all of these."""
    store = server.store
    names = {
        name
        for of in ("", "team-a.")
        for name in (
            *(group_urn(f"{of}{one.name}") for one in store.experiments),
            *(model_urn(f"{of}{one.name}_{one.version}") for one in store.versions),
        )
    }
    kinds = {"ML Experiment", "Model Version"}
    return {
        urn
        for urn, aspects in recipe.sink.stored.items()
        if not kinds.isdisjoint(aspects.get("subTypes", {}).get("typeNames", ()))
        and urn not in names
    }


def removed(recipe: Recipe) -> set[str]:
    stored = recipe.sink.stored
    return {urn for urn, aspects in stored.items() if aspects.get("status", {}).get("removed")}


def message_of(
    recipe: Recipe, without: Collection[str] | None = None
) -> dict[str, dict[str, Aspect]]:
    """Return what stands on each entity, whether it is removed or not."""
    left = renamed(recipe) if without is None else without
    return {
        urn: {name: aspect for name, aspect in aspects.items() if name != "status"}
        for urn, aspects in recipe.sink.stored.items()
        if urn not in left
    }


def made_afresh(server: Server, config: dict[str, Any]) -> set[str]:
    """Return what a first ingest into an empty catalog writes, but for what it says is removed."""
    recipe = Recipe(server, config=config)
    recipe.ingest()
    return recipe.sink.stored.keys() - removed(recipe)
