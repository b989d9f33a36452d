"""Subtypes and browse paths: what kind of thing an entity is, and in which folder it lies."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlcat_ingest.links.rules import LinkOptions
from mlcat_ingest.metadata.proposal import Aspect
from mlcat_ingest.metadata.urn import build, decoded_parts
from mlcat_ingest.sources.mlflow.mapping import map_record
from mlcat_ingest.sources.mlflow.values.joined import (
    JoinedExperiment,
    JoinedRecord,
    JoinedRegisteredModel,
    JoinedRun,
    JoinedVersion,
    WorkspaceScope,
)
from mlcat_ingest.sources.mlflow.values.records import ModelVersion, RegisteredModel
from support.mlflow_records import a_run, a_scope, an_experiment

INSTANCE = "urn:li:dataPlatformInstance:(urn:li:dataPlatform:mlflow,eu)"
EVERYWHERE = a_scope(instance="eu", workspace="team-a")
INDEXED_BYTES = 32_766


def records(scope: WorkspaceScope) -> dict[str, JoinedRecord]:
    return {
        "run": JoinedRun(scope, a_run(), an_experiment(name="fraud")),
        "version": JoinedVersion(scope, ModelVersion("scorer", "2")),
        "experiment": JoinedExperiment(scope, an_experiment(name="fraud")),
        "registered": JoinedRegisteredModel(scope, RegisteredModel("scorer")),
    }


def aspects_of(record: JoinedRecord) -> dict[str, Aspect]:
    return dict(map_record(record)[-1].aspects)


@pytest.mark.parametrize(
    ("what", "kinds"),
    [
        ("run", []),
        ("version", ["Model Version"]),
        ("experiment", ["ML Experiment"]),
        ("registered", ["Registered Model"]),
    ],
)
def test_each_kind_of_entity_names_its_subtype(what: str, kinds: list[str]) -> None:
    assert aspects_of(records(a_scope())[what])["subTypes"] == {"typeNames": kinds}


def test_a_run_with_children_is_a_parent() -> None:
    record = JoinedRun(a_scope(), a_run(), an_experiment(), has_children=True)
    assert aspects_of(record)["subTypes"] == {"typeNames": ["Parent Run"]}


def test_a_run_that_may_have_children_stays_the_parent_that_it_is() -> None:
    for links in (None, LinkOptions()):
        scope = a_scope(options={"links": links})
        [entity] = map_record(JoinedRun(scope, a_run(), an_experiment(), has_children=None))
        assert entity.adds_only == {"subTypes"}


@pytest.mark.parametrize("parent_id", ["b" * 32, None])
def test_a_child_names_the_model_of_its_parent_only_if_there_is_one(parent_id: str | None) -> None:
    run = a_run(tags={"mlflow.parentRunId": "b" * 32})
    record = JoinedRun(a_scope(), run, an_experiment(), parent_id=parent_id)
    custom = aspects_of(record)["mlModelProperties"]["customProperties"]
    parent = parent_id and f"urn:li:mlModel:(urn:li:dataPlatform:mlflow,{parent_id},PROD)"
    assert custom.get("mlflow.parent_run") == parent
    assert custom["mlflow.parent_run_id"] == "b" * 32
    assert "mlflow.parent_run_name" not in custom


@pytest.mark.parametrize(
    ("scope", "steps"),
    [
        ({}, []),
        ({"workspace": "default"}, []),
        ({"workspace": "team-a"}, [{"id": "team-a"}]),
        ({"instance": "eu"}, [{"id": INSTANCE, "urn": INSTANCE}]),
        (
            {"instance": "eu", "workspace": "team-a"},
            [{"id": INSTANCE, "urn": INSTANCE}, {"id": "team-a"}],
        ),
    ],
    ids=["neither", "default workspace", "workspace", "instance", "both"],
)
def test_models_lie_in_their_groups_folder_and_groups_in_the_workspace(
    scope: dict[str, Any], steps: list[dict[str, str]]
) -> None:
    found = {what: aspects_of(one) for what, one in records(a_scope(**scope)).items()}
    assert found["run"]["browsePathsV2"] == {"path": [*steps, {"id": "fraud"}]}
    assert found["version"]["browsePathsV2"] == {"path": [*steps, {"id": "scorer"}]}
    for group in ("experiment", "registered"):
        assert found[group].get("browsePathsV2") == ({"path": steps} if steps else None)


def test_the_step_of_an_instance_is_that_of_datahubs_own_sources() -> None:
    datahub = pytest.importorskip("datahub.ingestion.workunit_processors.auto_browse_path_v2")
    [step] = datahub._prepend_platform_instance([], "mlflow", "eu")
    path = aspects_of(records(EVERYWHERE)["run"])["browsePathsV2"]["path"]
    assert path[0] == step.to_obj()


def test_the_runs_of_an_experiment_share_one_path() -> None:
    of_first, of_second = (
        aspects_of(JoinedRun(EVERYWHERE, a_run(run_id), an_experiment()))["browsePathsV2"]
        for run_id in ("a", "b")
    )
    assert of_first is of_second


def test_an_experiment_without_a_name_is_a_folder_of_its_id() -> None:
    found = aspects_of(JoinedRun(a_scope(), a_run(), an_experiment("7", "")))
    assert found["browsePathsV2"] == {"path": [{"id": "7"}]}


def test_a_run_whose_experiment_is_not_known_stays_where_it_lies() -> None:
    assert "browsePathsV2" not in aspects_of(JoinedRun(a_scope(), a_run(), None))


@given(st.text(st.characters() | st.just("\u241f"), min_size=1) | st.just("ü" * 40_000))
def test_a_server_can_index_the_folder_of_any_name(name: str) -> None:
    record = JoinedRun(EVERYWHERE, a_run(), an_experiment(name=name))
    instance, workspace, folder = aspects_of(record)["browsePathsV2"]["path"]
    assert "\u241f" not in folder["id"]
    steps = "\u241f".join(one["id"] for one in (instance, workspace, folder))
    assert len(steps.encode()) <= INDEXED_BYTES
    assert build("dataPlatformInstance", *decoded_parts(instance["urn"])) == instance["id"]
