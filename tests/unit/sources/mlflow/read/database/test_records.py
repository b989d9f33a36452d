"""What rows become: the edges that no client of MLflow would write, but a database can hold."""

import math
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.sources.mlflow.read.database import rows
from mlcat_ingest.sources.mlflow.read.database.access import IDS_A_PAGE
from mlcat_ingest.sources.mlflow.read.database.schema import ASSETS
from mlcat_ingest.sources.mlflow.read.listing import ENTRIES_A_SLICE, FIRST_SLICE
from mlcat_ingest.sources.mlflow.read.reader import MlflowObject
from mlcat_ingest.sources.mlflow.values.assets import SKILL
from mlcat_ingest.sources.mlflow.values.records import (
    DatasetInput,
    Experiment,
    LoggedModel,
    Metric,
    ModelOutput,
    RegisteredModel,
    Run,
    name_of,
)
from support.mlflow_tables import (
    BEFORE_LOGGED_MODELS,
    BEFORE_WORKSPACES,
    insert,
    make_database,
    reader_of,
)

RUN = {"run_uuid": "r", "experiment_id": 1, "start_time": 5, "status": "RUNNING"}


def one_run(path: Path, **tables: Any) -> Run:
    reader = reader_of(make_database(path / "m.db", **{"runs": [RUN], **tables}))
    ((run,),) = reader.runs(["1"])
    return run


def test_a_bare_run(tmp_path: Path) -> None:
    assert one_run(tmp_path) == Run("r", "1", status="RUNNING", start_time_ms=5)


def test_of_runs_with_thousands_of_params_fewer_are_read_at_a_time(tmp_path: Path) -> None:
    ids = [f"r{number:03}" for number in range(IDS_A_PAGE + 20)]
    params = [
        {"run_uuid": one, "key": f"p{at}", "value": "1"}
        for one in ids
        for at in range(ENTRIES_A_SLICE // 5)
    ]
    runs = [{**RUN, "run_uuid": one} for one in ids]
    reader = reader_of(make_database(tmp_path / "m.db", runs=runs, params=params))
    pages = list(reader.runs(["1"]))
    assert [run.run_id for page in pages for run in page] == ids
    assert [len(page) for page in pages] == [FIRST_SLICE, *[5] * ((len(ids) - FIRST_SLICE) // 5)]


def test_a_run_without_a_name_has_that_of_its_tag(tmp_path: Path) -> None:
    tags = [{"run_uuid": "r", "key": "mlflow.runName", "value": "by tag"}]
    assert name_of(one_run(tmp_path, tags=tags)) == "by tag"


def test_a_tag_without_a_value_is_empty(tmp_path: Path) -> None:
    assert one_run(tmp_path, tags=[{"run_uuid": "r", "key": "k"}]).tags == {"k": ""}


@pytest.mark.parametrize("odd", [[], [{"run_uuid": "s", "key": "raw", "value": b"\xff"}]])
def test_texts_are_those_of_the_table_also_beside_one_that_is_none(
    tmp_path: Path, odd: list[dict[str, object]]
) -> None:
    texts = ["", "a\0b", "\x01\x7f\x85", "\u2028\U0001f600", '"q\\', "12345678901234567890", "é/"]
    rows = [{"run_uuid": "r", "key": text, "value": text} for text in texts]
    uri = make_database(
        tmp_path / "m.db", runs=[RUN, {**RUN, "run_uuid": "s"}], params=[*rows, *odd], tags=rows
    )
    reader = reader_of(uri)
    ((run, *others),) = reader.runs(["1"])
    assert run.params == run.tags == {text: text for text in texts}
    assert [one.run_id for one in others] == ([] if odd else ["s"])
    assert reader.refusals.count == len(odd)


def test_metrics_are_sorted_and_those_that_are_no_numbers_reported(tmp_path: Path) -> None:
    at = {"run_uuid": "r", "timestamp": 7, "step": 2}
    run = one_run(
        tmp_path,
        latest_metrics=[
            {**at, "key": "z", "value": 0.5, "is_nan": 0},
            {**at, "key": "a", "value": 0.0, "is_nan": 1},
            {"run_uuid": "r", "key": "B", "value": 1.5, "is_nan": 0},
        ],
    )
    upper, nan, last = run.metrics
    assert (upper, last) == (Metric("B", 1.5, None, 0), Metric("z", 0.5, 7, 2))
    assert math.isnan(nan.value)
    assert nan[2:4] == (7, 2)


def test_datasets_are_shared_and_sorted_and_their_tags_are_of_one_run(tmp_path: Path) -> None:
    def used(run: str, dataset: str) -> dict[str, str]:
        return {
            "input_uuid": run + dataset,
            "source_type": "DATASET",
            "source_id": dataset,
            "destination_type": "RUN",
            "destination_id": run,
        }

    text = {"dataset_source_type": "local", "dataset_source": "{}"}
    uri = make_database(
        tmp_path / "m.db",
        runs=[RUN, {**RUN, "run_uuid": "s", "start_time": 6}],
        datasets=[
            {"dataset_uuid": "1", "name": "b", "digest": "d", **text, "dataset_schema": ""},
            {"dataset_uuid": "2", "name": "a", "digest": "e", **text, "dataset_profile": "{}"},
        ],
        inputs=[used("r", "1"), used("r", "2"), used("s", "1"), used("s", "gone")],
        input_tags=[{"input_uuid": "r1", "name": "mlflow.data.context", "value": "training"}],
    )
    reader = reader_of(uri)
    ((first, second),) = reader.runs(["1"])
    assert first.datasets == (
        DatasetInput("a", "e", "local", "{}", None, "{}"),
        DatasetInput("b", "d", "local", "{}", tags={"mlflow.data.context": "training"}),
    )
    assert second.datasets == (DatasetInput("b", "d", "local", "{}"),)


def test_models_that_a_run_made_come_by_step_and_those_it_took_in_are_left_out(
    tmp_path: Path,
) -> None:
    made = {"source_type": "RUN_OUTPUT", "source_id": "r", "destination_type": "MODEL_OUTPUT"}
    taken = {"source_type": "RUN_INPUT", "source_id": "r", "destination_type": "MODEL_INPUT"}
    inputs = [
        {**made, "destination_id": "m-2", "step": 3},
        {**made, "destination_id": "m-1", "step": 1},
        {**taken, "destination_id": "m-3", "step": 0},
    ]
    run = one_run(tmp_path, inputs=inputs)
    assert run.model_outputs == (ModelOutput("m-1", 1), ModelOutput("m-2", 3))
    assert run.model_inputs == ()


def test_logged_models(tmp_path: Path) -> None:
    model = {"experiment_id": 1, "name": "n", "status": 3, "lifecycle_stage": "active"}
    metric = {"model_id": "m-1", "metric_name": "f1", "metric_step": 1}
    uri = make_database(
        tmp_path / "m.db",
        logged_models=[
            {**model, "model_id": "m-2", "creation_timestamp_ms": 9, "status": 7},
            {**model, "model_id": "m-1", "creation_timestamp_ms": 8, "source_run_id": "r"},
            {**model, "model_id": "m-3", "lifecycle_stage": "deleted"},
            {**model, "model_id": "m-4", "experiment_id": 2},
        ],
        logged_model_params=[{"model_id": "m-1", "param_key": "p", "param_value": "1"}],
        logged_model_tags=[{"model_id": "m-1", "tag_key": "t", "tag_value": None}],
        logged_model_metrics=[
            {**metric, "metric_value": 0.5, "metric_timestamp_ms": 2, "dataset_name": "d"},
            {**metric, "metric_value": None, "metric_timestamp_ms": 3},
            {**metric, "metric_value": 0.25, "metric_timestamp_ms": 2},
        ],
    )
    reader = reader_of(uri)
    ((first, second),) = reader.logged_models(["1"])
    assert first == LoggedModel(
        model_id="m-1",
        experiment_id="1",
        name="n",
        status="FAILED",
        source_run_id="r",
        created_at_ms=8,
        params={"p": "1"},
        tags={"t": ""},
        metrics=(
            Metric("f1", 0.25, 2, 1, "m-1"),
            Metric("f1", 0.0, 3, 1, "m-1"),
            Metric("f1", 0.5, 2, 1, "m-1", "d"),
        ),
    )
    assert (second.model_id, second.status) == ("m-2", "UNSPECIFIED")


def test_there_are_no_logged_models_before_mlflow_3(tmp_path: Path) -> None:
    reader = reader_of(make_database(tmp_path / "m.db", BEFORE_LOGGED_MODELS, runs=[RUN]))
    assert list(reader.logged_models(["1"])) == []
    ((run,),) = reader.runs(["1"])
    assert run.run_id == "r"


PROMPT = {"key": "mlflow.prompt.is_prompt", "value": "true"}


def test_registered_models_without_prompts(tmp_path: Path) -> None:
    uri = make_database(
        tmp_path / "m.db",
        registered_models=[{"name": "b", "creation_time": 3}, {"name": "a"}, {"name": "prompt"}],
        registered_model_tags=[{"name": "b", "key": "k"}, {"name": "prompt", **PROMPT}],
        registered_model_aliases=[{"name": "b", "alias": "champion", "version": 2}],
    )
    reader = reader_of(uri)
    assert list(reader.registered_models()) == [
        [
            RegisteredModel("a"),
            RegisteredModel("b", created_at_ms=3, tags={"k": ""}, aliases={"champion": "2"}),
        ]
    ]
    before = reader.connection.requests_made()
    assert len(list(reader.registered_models())) == 1
    assert reader.connection.requests_made() == before


@pytest.mark.parametrize("page", [1, 2, 3, 100])
def test_versions_come_by_name_and_number_over_pages(
    page: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "VERSIONS_A_PAGE", page)
    named = [("b", 1), ("a", 2), ("a", 10), ("b", 3), ("p", 1), ("q", 1), ("q", 2)]
    versions = [{"name": name, "version": v, "current_stage": "None"} for name, v in named]
    gone = {"name": "a", "version": 11, "current_stage": "Deleted_Internal"}
    uri = make_database(
        tmp_path / "m.db",
        registered_models=[{"name": name} for name in "abpq"],
        registered_model_tags=[{"name": "p", **PROMPT}],
        registered_model_aliases=[{"name": "a", "alias": "x", "version": 10}],
        model_versions=[*versions, gone],
        # One prompt among its versions makes a name that of prompts.
        model_version_tags=[
            {"name": "a", "version": 2, "key": "k", "value": "v"},
            {"name": "b", "version": 1, "key": PROMPT["key"], "value": "false"},
            {"name": "q", "version": 2, **PROMPT},
        ],
    )
    reader = reader_of(uri)
    found = [one for part in reader.model_versions() for one in part]
    assert [(one.name, one.version) for one in found] == [
        ("a", "2"),
        ("a", "10"),
        ("b", "1"),
        ("b", "3"),
    ]
    assert [one.aliases for one in found] == [(), ("x",), (), ()]
    assert found[0].tags == {"k": "v"}
    assert {one.stage for one in found} == {None}


def test_refused_skills_of_one_name_are_named_with_their_organizations(tmp_path: Path) -> None:
    uri = make_database(tmp_path / "m.db")
    with closing(sqlite3.connect(tmp_path / "m.db")) as connection:
        for table, columns in ASSETS[SKILL].items():
            names = columns.replace(" ", ", ").replace("key", '"key"')
            connection.execute(f"CREATE TABLE {table} ({names})")
    skills = [{"organization": of, "name": "s", "workspace": "default"} for of in ("a", "b", "")]
    insert(tmp_path / "m.db", "skills", skills)
    insert(tmp_path / "m.db", "skill_versions", [{**one, "version": None} for one in skills])
    reader = reader_of(uri)
    assert reader.assets(SKILL) == []
    assert [one.ids for one in reader.refusals.take()] == [("s",), ("@a/s",), ("@b/s",)]


def test_without_registered_models_no_version_is_asked_for(tmp_path: Path) -> None:
    reader = reader_of(make_database(tmp_path / "m.db"))
    assert list(reader.model_versions()) == []


def test_workspaces_are_read_apart(tmp_path: Path) -> None:
    other = {"workspace": "team-a"}
    uri = make_database(
        tmp_path / "m.db",
        workspaces=[{"name": "team-b"}, {"name": "default"}],
        experiments=[
            {"experiment_id": 0, "name": "Default", "creation_time": 77},
            {"experiment_id": 1, "name": "theirs", **other},
        ],
        experiment_tags=[{"experiment_id": 1, "key": "k", "value": "v"}],
        registered_models=[{"name": "m"}, {"name": "m", **other}],
        registered_model_tags=[{"name": "m", "key": "whose", "value": "theirs", **other}],
        model_versions=[
            {"name": "m", "version": 1, "current_stage": "None"},
            {"name": "m", "version": 1, "current_stage": "Production", **other},
        ],
    )
    reader = reader_of(uri)
    _, theirs, last = reader.workspaces()
    assert [theirs.workspace, last.workspace] == ["team-a", "team-b"]
    assert list(theirs.experiments()) == [[Experiment("1", "theirs", tags={"k": "v"})]]
    assert [[one.tags for one in page] for page in theirs.registered_models()] == [
        [{"whose": "theirs"}]
    ]
    assert [[one.stage for one in page] for page in theirs.model_versions()] == [["Production"]]
    assert [[one.stage for one in page] for page in reader.model_versions()] == [[None]]
    assert [[one.name for one in page] for page in reader.experiments()] == [["Default"]]
    assert theirs.server_id() == reader.server_id()
    assert theirs.connection.requests_made() == reader.connection.requests_made()


OF_TEAM = {"workspace": "team-a"}
IN_WORKSPACES: dict[str, Any] = {
    "workspaces": [{"name": "default"}],
    "experiments": [
        {"experiment_id": 1, "name": "here"},
        {"experiment_id": 2, "name": "moved", **OF_TEAM},
    ],
    "runs": [RUN, {**RUN, "run_uuid": "s", "experiment_id": 2}],
    "logged_models": [
        {"model_id": "m-1", "experiment_id": 1, "lifecycle_stage": "active"},
        {"model_id": "m-2", "experiment_id": 2, "lifecycle_stage": "active"},
    ],
}


def test_runs_and_logged_models_are_in_the_workspace_of_their_experiment(tmp_path: Path) -> None:
    reader = reader_of(make_database(tmp_path / "m.db", **IN_WORKSPACES))
    objects = [
        MlflowObject("run", "r"),
        MlflowObject("run", "s"),
        MlflowObject("logged_model", "m-1"),
        MlflowObject("logged_model", "m-2"),
    ]
    gone = {one.workspace: list(map(one.is_gone, objects)) for one in reader.workspaces()}
    assert gone == {"default": [False, True] * 2, "team-a": [True, False] * 2}


def test_a_workspace_with_registered_models_only_is_there(tmp_path: Path) -> None:
    models = [{"name": "m", "workspace": "team-b"}]
    uri = make_database(tmp_path / "m.db", **IN_WORKSPACES, registered_models=models)
    reader = reader_of(uri)
    names = ["default", "team-a", "team-b"]
    assert [one.workspace for one in reader.workspaces()] == names
    asked = [MlflowObject("workspace", name) for name in (*names, "team-c")]
    assert list(map(reader.is_gone, asked)) == [False, False, False, True]


def test_no_workspace_is_gone_of_a_schema_that_has_none(tmp_path: Path) -> None:
    reader = reader_of(make_database(tmp_path / "m.db", BEFORE_WORKSPACES))
    assert not reader.is_gone(MlflowObject("workspace", "team-a"))


def test_there_is_one_workspace_before_mlflow_3_10(tmp_path: Path) -> None:
    reader = reader_of(make_database(tmp_path / "m.db", BEFORE_WORKSPACES))
    assert reader.workspaces() == (reader,)
    assert reader.workspace == "default"


def test_the_identity_is_that_of_experiment_0(tmp_path: Path) -> None:
    made = [{"experiment_id": 0, "name": "Default", "creation_time": 1_700_000_000_000}]
    uri = make_database(tmp_path / "m.db", experiments=made)
    reader = reader_of(uri)
    assert reader.server_id() == "bc99b4bf100a"
    mine = reader_of(uri, server_id="mine")
    assert mine.server_id() == "mine"
    # Without it only the address is left.
    empty = reader_of(make_database(tmp_path / "e.db"))
    assert len(empty.server_id()) == 12
    assert empty.server_id() != "bc99b4bf100a"
