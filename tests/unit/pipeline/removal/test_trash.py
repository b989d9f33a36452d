"""What is in the trash is soft-deleted where the catalog has it, and left out where it has not."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest

from mlcat_ingest.pipeline.report.render import as_text
from mlcat_ingest.pipeline.report.report import Report
from mlcat_ingest.pipeline.run import PipelineRun, RunOptions
from mlcat_ingest.pipeline.state.session import StateOptions, StateSession
from mlcat_ingest.pipeline.write.searchable import SearchResult
from mlcat_ingest.sources.base import Runs
from mlcat_ingest.sources.mlflow.values.records import (
    EXTERNAL_TAG,
    PARENT_TAG,
    Experiment,
    LoggedModel,
    ModelVersion,
    RegisteredModel,
    Run,
)
from mlcat_ingest.workflows.verify import Verification
from support.fake_mlflow import FakeReader, a_source
from support.fakes import FakeSink, group_urn, model_urn
from support.mlflow_history import Recipe, Server
from support.recipes import a_recipe

LIVE, TRASHED, CHILD, OF_EXPERIMENT = (digit * 32 for digit in "abcd")
IN_TRASH = {*map(model_urn, (TRASHED, OF_EXPERIMENT, "m-1")), group_urn("gone")}
STAYS = {
    *map(model_urn, (LIVE, CHILD, "forest_1")),
    *map(group_urn, ("fraud", "registered:forest")),
}


@pytest.fixture
def server() -> Server:
    server = Server()
    store = server.store
    store.experiments = [
        Experiment("1", "fraud"),
        Experiment("2", "gone", lifecycle_stage="deleted"),
    ]
    store.runs = [
        Run(LIVE, "1", start_time_ms=1),
        Run(TRASHED, "1", start_time_ms=2, lifecycle_stage="deleted"),
        Run(CHILD, "1", start_time_ms=3, tags={PARENT_TAG: TRASHED}),
        Run(OF_EXPERIMENT, "2", start_time_ms=4),
    ]
    store.registered = [RegisteredModel("forest")]
    store.versions = [ModelVersion("forest", "1", TRASHED, stage="Production")]
    store.models = [LoggedModel("m-1", "2", "agent", "READY", tags={EXTERNAL_TAG: "true"})]
    return server


@pytest.fixture
def recipe(server: Server, tmp_path: Path) -> Recipe:
    return Recipe(server, f"sqlite:///{tmp_path}/state.db", max_removed_ratio=1.0)


def own(sink: FakeSink) -> set[str]:
    return {urn for urn in sink.stored if urn.startswith("urn:li:mlModel")}


def left_out(report: Report) -> dict[str, int]:
    return {kind: one.left_out for kind, one in report.entities.items() if one.left_out}


def restore_all(server: Server) -> None:
    for at in range(4):
        server.restore(at)
    server.restore_experiment(1)


def trash_all(server: Server) -> None:
    server.delete(1)
    server.delete_experiment(1)


def check(recipe: Recipe, gone: Collection[str] = ()) -> None:
    assert own(recipe.sink) == STAYS | set(gone)
    assert recipe.sink.removed() == set(gone)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("conditions", [True, False])
def test_what_the_catalog_never_had_is_left_out_until_it_is_restored(
    server: Server, recipe: Recipe, *, full: bool, conditions: bool
) -> None:
    recipe.sink.checks_versions = conditions
    report = recipe.ingest()
    check(recipe)
    assert left_out(report) == {"mlModel": 3, "mlModelGroup": 1}
    assert report.entities["mlModel"].created == 3
    assert "mlModel      3 created, 0 updated, 0 unchanged, 3 left out" in as_text(report)
    again = recipe.ingest(full=full)
    check(recipe)
    for one in again.entities.values():
        assert one.read == one.written + one.unchanged + one.left_out
    models = again.entities["mlModel"]
    assert (models.unchanged, models.left_out) == ((3, 3) if full else (1, 0))
    restore_all(server)
    recipe.ingest(full=full)
    assert own(recipe.sink) == STAYS | IN_TRASH
    assert recipe.sink.removed() == set()
    trash_all(server)
    recipe.ingest(full=full)
    check(recipe, IN_TRASH)
    restore_all(server)
    recipe.ingest(full=full)
    assert recipe.sink.removed() == set()


def test_a_first_run_soft_deletes_what_the_catalog_has(server: Server, recipe: Recipe) -> None:
    restore_all(server)
    recipe.ingest()
    trash_all(server)
    with_empty_state = replace(recipe, url=f"{recipe.url}-empty")
    report = with_empty_state.ingest()
    check(recipe, IN_TRASH)
    assert left_out(report) == {}
    assert report.entities["mlModel"].removed == 3


@pytest.mark.parametrize("had", [False, True])
def test_a_hook_for_one_run_does_likewise(server: Server, recipe: Recipe, *, had: bool) -> None:
    if had:
        restore_all(server)
        recipe.ingest()
        trash_all(server)
    run = PipelineRun(
        [a_source(FakeReader({"default": server.store}, page=50))],
        recipe.sink,
        RunOptions(
            a_recipe("r", evaluate={"enabled": False}),
            state=StateSession(recipe.url or "", StateOptions("r")),
            scope=Runs([TRASHED, OF_EXPERIMENT]),
        ),
    )
    run.execute().raise_for_failure()
    gone = {*map(model_urn, (TRASHED, OF_EXPERIMENT)), group_urn("gone")}
    assert recipe.sink.removed() == (gone if had else set())
    assert had or own(recipe.sink).isdisjoint(gone)


def test_a_plan_and_a_verification_count_what_a_run_does(recipe: Recipe) -> None:
    with recipe.plan(full=True) as plan:
        planned = {one.urn: one.action for one in plan.entities() if one.urn in STAYS | IN_TRASH}
        assert planned == dict.fromkeys(STAYS, "create")
        assert left_out(plan.report) == {"mlModel": 3, "mlModelGroup": 1}
    recipe.ingest()
    with recipe.plan(full=True) as plan, Verification(plan, SearchResult()) as found:
        assert (found.missing, found.stale, found.to_be_removed, found.left_out) == (0, 0, 0, 4)
        assert found.compared == len(recipe.sink.stored)
        assert found.exit_code == 0
        lines = "\n".join(line.text for line in found.lines(details=True))
        assert "0 to be removed, 4 left out" in lines


def test_nothing_is_made_for_what_is_left_out(recipe: Recipe) -> None:
    recipe.config = {"lineage": {"process_instances": True}, "compat": "datahub"}
    recipe.ingest()
    for urn, aspects in recipe.sink.stored.items():
        assert TRASHED not in urn
        assert OF_EXPERIMENT not in urn
        assert not aspects.get("status", {}).get("removed")
    containers = [urn for urn in recipe.sink.stored if urn.startswith("urn:li:container:")]
    assert len(containers) == 1


def test_what_is_in_the_trash_stays_removed_where_each_pass_reads_everything(
    server: Server, recipe: Recipe
) -> None:
    recipe.config = {"incremental": {"enabled": False}}
    recipe.ingest()
    server.store.runs[0] = replace(server.store.runs[0], lifecycle_stage="deleted")
    for _ in range(3):
        report = recipe.ingest()
        assert model_urn(LIVE) in recipe.sink.removed()
        assert "removed_by_others" not in report.notes
