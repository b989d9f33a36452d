"""Records that are odd, and must neither crash nor lose what they say."""

import math

import pytest

from mlcat_ingest.errors import InvalidUrnError, RecordError
from mlcat_ingest.metadata.proposal import Note
from mlcat_ingest.sources.mlflow.mapping import map_record
from mlcat_ingest.sources.mlflow.mapping.metrics import (
    free_name,
    hyper_params,
    model_metrics,
    training_metrics,
)
from mlcat_ingest.sources.mlflow.mapping.properties import PropertiesBuilder
from mlcat_ingest.sources.mlflow.mapping.text import Truncator
from mlcat_ingest.sources.mlflow.values.joined import (
    JoinedExperiment,
    JoinedRecord,
    JoinedRegisteredModel,
    JoinedRun,
    JoinedVersion,
    WorkspaceScope,
)
from mlcat_ingest.sources.mlflow.values.records import (
    Experiment,
    LoggedModel,
    Metric,
    ModelOutput,
    ModelVersion,
    RegisteredModel,
    Run,
    number_of,
)
from support.mlflow_records import a_run, a_scope, an_experiment

SCOPE = a_scope()


@pytest.mark.parametrize(
    "record",
    [
        JoinedRun(SCOPE, a_run(""), None),
        JoinedExperiment(SCOPE, Experiment("", "")),
        JoinedRegisteredModel(SCOPE, RegisteredModel("")),
        JoinedVersion(SCOPE, ModelVersion("m", "")),
        JoinedVersion(SCOPE, ModelVersion("", "1")),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_record_without_identity_is_refused_by_name(record: JoinedRecord) -> None:
    with pytest.raises(RecordError):
        map_record(record)


@pytest.mark.parametrize(("ended_ms", "duration"), [(1_500, "500"), (1_000, "0"), (400, None)])
def test_an_end_before_the_start_gives_no_duration(ended_ms: int, duration: str | None) -> None:
    run = Run("r1", "1", start_time_ms=1_000, end_time_ms=ended_ms)
    [entity] = map_record(JoinedRun(SCOPE, run, Experiment("1", "e")))[-1:]
    custom = entity.aspects["mlModelProperties"]["customProperties"]
    assert custom.get("mlflow.duration_ms") == duration


def test_a_run_id_that_fits_in_no_urn_is_refused() -> None:
    with pytest.raises(InvalidUrnError):
        map_record(JoinedRun(SCOPE, a_run("\ud83d"), None))


@pytest.mark.parametrize("history", ["not json", "{}", "[1]", "[]", "[" * 100_000])
def test_an_unreadable_model_history_is_kept_as_it_is(history: str) -> None:
    run = a_run(tags={"mlflow.log-model.history": history})
    [entity] = map_record(JoinedRun(SCOPE, run, an_experiment()))
    custom = entity.aspects["mlModelProperties"]["customProperties"]
    assert custom["mlflow.log-model.history"].startswith(history[:100])
    assert Note("unreadable_tag", "mlflow.log-model.history") in entity.notes


def test_a_model_history_without_names_adds_nothing() -> None:
    run = a_run(tags={"mlflow.log-model.history": '[{"flavors": 5, "model_uuid": 1}]'})
    [entity] = map_record(JoinedRun(SCOPE, run, an_experiment()))
    custom = entity.aspects["mlModelProperties"]["customProperties"]
    assert sorted(custom) == ["mlcat.source", "mlflow.experiment_id", "mlflow.run_id"]


def test_an_alias_too_long_for_a_tag_is_left_out_and_noted() -> None:
    scope = a_scope(options={"alias_tags": True})
    version = ModelVersion("m", "1", aliases=("é" * 200, "short"))
    tag, model = map_record(JoinedVersion(scope, version))
    assert tag.urn == "urn:li:tag:mlflow_alias_short"
    assert model.aspects["globalTags"] == {"tags": [{"tag": tag.urn}]}
    assert [note.kind for note in model.notes] == ["tag_left_out"]


def metrics_of(run: Run, *models: LoggedModel, scope: WorkspaceScope = SCOPE) -> dict[str, str]:
    known = {model.model_id: model for model in models}
    record = JoinedRun(scope, run, None, models=known)
    found = training_metrics(record, PropertiesBuilder(Truncator(scope.limits)))
    names = [entry["name"] for entry in found]
    assert names == sorted(set(names))
    return {entry["name"]: entry["value"] for entry in found}


def test_a_metric_name_that_looks_like_that_of_a_model_hides_none() -> None:
    models = [
        LoggedModel(f"m-{n}", "1", name, "READY", metrics=(Metric("acc", n),))
        for n, name in enumerate("ab")
    ]
    outputs = (ModelOutput("m-0"), ModelOutput("m-1"))
    run = a_run(metrics=(Metric("a/acc", 9), Metric("a/acc (m-0)", 8)), model_outputs=outputs)
    assert metrics_of(run, *models) == {
        "a/acc": "9",
        "a/acc (m-0)": "8",
        "a/acc (m-0) (2)": "0",
        "b/acc": "1",
    }


def test_a_metric_listed_twice_is_reported_once_with_its_last_value() -> None:
    run = a_run(metrics=(Metric("acc", 1.0, 5), Metric("acc", 2.0, 9), Metric("acc", 3.0, 7)))
    assert metrics_of(run) == {"acc": "2.0"}


def test_metrics_of_models_that_are_not_listed_go_by_id() -> None:
    run = a_run(metrics=(Metric("acc", 1.0, model_id="m-1"), Metric("acc", 2.0, model_id="m-2")))
    assert metrics_of(run) == {"acc": "2.0", "m-1/acc": "1.0", "m-2/acc": "2.0"}


RUN_ID, OTHER = "a" * 32, "b" * 32
LAST = Metric("acc", 0.85, 10, 9)


@pytest.mark.parametrize(
    ("of_model", "found"),
    [
        (Metric("acc", 0.61, 20, 0, run_id=RUN_ID), {"acc": "0.85"}),
        (Metric("acc", 0.61, 20, 0), {"acc": "0.85"}),
        (Metric("acc", 0.61, 20, 99, run_id=OTHER), {"acc": "0.85", "a/acc": "0.61"}),
        (Metric("acc", 0.61, 5, 9, run_id=RUN_ID), {"acc": "0.85", "a/acc": "0.61"}),
        (Metric("acc", 0.85, 10, 9, dataset_name="d", run_id=RUN_ID), {"acc": "0.85"}),
        (Metric("f1", 0.61, 20, 0, run_id=OTHER), {"acc": "0.85", "f1": "0.61"}),
    ],
)
def test_a_runs_own_metric_has_the_value_that_the_run_has(
    of_model: Metric, found: dict[str, str]
) -> None:
    model = LoggedModel("m-1", "1", "a", "READY", metrics=(of_model,))
    run = a_run(RUN_ID, metrics=(LAST,), model_outputs=(ModelOutput("m-1"),))
    assert metrics_of(run, model) == found


@pytest.mark.parametrize(
    ("of_model", "name", "text"),
    [
        (Metric("f1", 0.6, 20, 2, run_id=RUN_ID), "f1", "step 2"),
        (Metric("f1", 0.6, 20, 2, run_id=OTHER), "f1", "step 2, logged model m-1"),
        (Metric("f1", 0.6, run_id=OTHER, dataset_name="d"), "f1", "logged model m-1, dataset d"),
        (Metric("f1", 0.6, run_id=OTHER), "f1", "logged model m-1"),
        (Metric("acc", 0.6, 5, 9, run_id=RUN_ID), "a/acc", "step 9, logged model m-1"),
        (LAST._replace(run_id=RUN_ID, dataset_name="d"), "acc", "step 9, dataset d"),
    ],
)
def test_a_metric_without_a_curve_in_its_run_names_the_logged_model(
    of_model: Metric, name: str, text: str
) -> None:
    model = LoggedModel("m-1", "1", "a", "READY", metrics=(of_model,), source_run_id=RUN_ID)
    run = a_run(RUN_ID, metrics=(LAST,), model_outputs=(ModelOutput("m-1"),))
    record = JoinedRun(SCOPE, run, None, models={"m-1": model})
    found = training_metrics(record, PropertiesBuilder(Truncator()))
    assert [entry["description"] for entry in found if entry["name"] == name] == [text]
    [of_version] = model_metrics(model, PropertiesBuilder(Truncator()))
    assert ("logged model m-1" in of_version["description"]) == (of_model.run_id == OTHER)


def test_the_last_value_is_that_of_the_greatest_step_then_time_then_value() -> None:
    in_order = [
        Metric("acc", 9.0, 99, -1),
        Metric("acc", 5.0, 2, 0),
        Metric("acc", -0.5, 3, 0),
        Metric("acc", math.nan, 3, 0),
        Metric("acc", 0.5, 3, 0),
        Metric("acc", 0.1, 1, 1),
    ]
    for at, last in enumerate(in_order, 1):
        model = LoggedModel("m-1", "1", "a", "READY", metrics=tuple(in_order[:at][::-1]))
        found = metrics_of(a_run(model_outputs=(ModelOutput("m-1"),)), model)
        assert found == {"acc": "NaN" if math.isnan(last.value) else str(last.value)}


def test_system_metrics_of_models_are_left_out_too() -> None:
    metrics = (Metric("system/gpu", 1.0), Metric("nan", math.nan))
    model = LoggedModel("m-1", "1", "a", "READY", metrics=metrics)
    assert metrics_of(a_run(model_outputs=(ModelOutput("m-1"),)), model) == {"nan": "NaN"}


def test_parameters_whose_names_are_cut_alike_are_both_kept() -> None:
    params = {f"{'p' * 300}{n}": str(n) for n in range(3)}
    custom = PropertiesBuilder(Truncator())
    entries = hyper_params(params, custom)
    assert [entry["value"] for entry in entries] == ["0", "1", "2"]
    assert len({entry["name"] for entry in entries}) == 3
    assert [note.kind for note in custom.truncator.notes] == ["truncated"] * 3


def test_a_free_name_is_the_first_that_is_not_taken() -> None:
    assert free_name("a", ()) == "a"
    assert free_name("a", {"a", "a (2)"}) == "a (3)"


def test_versions_are_ordered_by_number() -> None:
    versions = ["10", "9", "x", "", "²", "2"]
    assert sorted(versions, key=number_of) == ["", "x", "²", "2", "9", "10"]


def test_an_owner_type_of_the_catalogs_users_is_named_by_urn() -> None:
    scope = a_scope(owners={"type": "urn:li:ownershipType:ds"})
    [entity] = map_record(JoinedRun(scope, a_run(user_id="ann"), an_experiment()))
    assert entity.aspects["ownership"]["owners"] == [
        {"owner": "urn:li:corpuser:ann", "type": "CUSTOM", "typeUrn": "urn:li:ownershipType:ds"}
    ]


def test_a_huge_registered_model_is_made_to_fit() -> None:
    scope = a_scope(limits={"aspect_bytes": 2_000})
    model = RegisteredModel("m", description="d" * 3_000, tags={"t": "v" * 3_000})
    group, *_ = map_record(JoinedRegisteredModel(scope, model))
    properties = group.aspects["mlModelGroupProperties"]
    assert properties["customProperties"]["t"].endswith("… [truncated, 3000 characters]")
    assert {note.kind for note in group.notes} == {"truncated"}
